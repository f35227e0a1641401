/** Cancelling and deleting jobs for which others wait, with transports that fail in the middle: the same again goes on. */
import { describe, expect, test } from "vitest"
import { cancelJob } from "../../../../../runtime/jobs/commands/cancel.ts"
import { deleteJob } from "../../../../../runtime/jobs/commands/delete.ts"
import { jobView } from "../../../../../runtime/jobs/view.ts"
import { onEveryBoard } from "../../../../scenarios/boards.ts"
import { failing, openBench } from "./bench.ts"

onEveryBoard((newBoard, transport) => {
  // Faults are injected between runtime and transport: one of them is enough where the transport is another.
  const callsOf = (calls: ReadonlyArray<string>) => (transport === "memory" ? calls : ["jobs.decide"])

  const setUp = async () => {
    const bench = await openBench(newBoard())
    const parent = await bench.submit("parent")
    const children = [await bench.submit("a", { after: parent.id }), await bench.submit("b", { after: parent.id })]
    const grandchild = await bench.submit("grandchild", { after: children.map(({ id }) => id) })
    const states = () => Promise.all([...children, grandchild].map((job) => bench.stateOf(job)))
    return { bench, parent, children, grandchild, states }
  }

  describe("cancel with release", () => {
    test("two at the same time release once, and none of them fails", async () => {
      const { bench, parent, states } = await setUp()
      await Promise.all([parent.cancel({ release: true }), parent.cancel({ release: true })])
      expect(await states()).toEqual(["queued", "queued", "deferred"])
      expect(await bench.stateOf(parent)).toBe("cancelled")
      await bench.client.close()
    })

    test.each(callsOf(["store.list", "jobs.decide"]))("that fails at %s can be asked for again", async (call) => {
      const { bench, parent, states } = await setUp()
      bench.faults.before = failing(call, call === "jobs.decide" ? 2 : 1).strike
      await expect(cancelJob(bench.faulty, parent.id, { release: true })).rejects.toMatchObject({
        reason: "unavailable",
      })
      expect(await states()).toEqual(["deferred", "deferred", "deferred"])
      await cancelJob(bench.faulty, parent.id, { release: true })
      expect(await states()).toEqual(["queued", "queued", "deferred"])
      await expect(parent.cancel()).rejects.toMatchObject({ code: "already-terminal" })
      await bench.client.close()
    })

    test("of a job that has ended otherwise, or is gone, is refused", async () => {
      const { bench, parent, states } = await setUp()
      await bench.end("failed")
      await expect(parent.cancel({ release: true })).rejects.toMatchObject({ code: "already-terminal" })
      await expect(bench.client.job("nobody").cancel({ release: true })).rejects.toMatchObject({ code: "not-found" })
      expect(await states()).toEqual(["deferred", "deferred", "deferred"])
      await parent.delete()
      await expect(parent.cancel({ release: true })).rejects.toMatchObject({ code: "gone" })
      await bench.client.close()
    })
  })

  describe("delete with dependents", () => {
    test.each(callsOf(["store.list", "jobs.decide", "jobs.find"]))(
      "that fails at any %s can be asked for again, and nothing of it runs",
      async (call) => {
        for (let nth = 1, hasStruck = true; hasStruck; nth++) {
          const { bench, parent, states } = await setUp()
          const fault = failing(call, nth)
          bench.faults.before = fault.strike
          await deleteJob(bench.faulty, parent.id, { dependents: true }).catch(() => undefined)
          bench.faults.before = () => undefined
          // Gone is what it is once all of it is done.
          await deleteJob(bench.connection, parent.id, { dependents: true }).catch((cause) =>
            expect(cause).toMatchObject({ code: "gone" }),
          )
          await bench.look()
          expect(await states()).toEqual(["cancelled", "cancelled", "cancelled"])
          expect(await bench.edges()).toEqual([])
          expect(await bench.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([])
          await expect(parent.delete()).rejects.toMatchObject({ code: "gone" })
          hasStruck = fault.hasStruck
          await bench.client.close()
        }
      },
    )

    test("leaves alone who has started, and who need not wait any more", async () => {
      const { bench, parent, children, states } = await setUp()
      await bench.end("succeeded")
      await bench.look()
      expect(await states()).toEqual(["queued", "queued", "deferred"])
      await parent.delete({ dependents: true })
      expect(await states()).toEqual(["queued", "queued", "deferred"])
      await children[0]?.delete({ dependents: true })
      expect(await states()).toEqual(["cancelled", "queued", "cancelled"])
      await bench.client.close()
    })
  })

  test("who has ended waits for nobody, and its record does not say so", async () => {
    const { bench, children } = await setUp()
    const [child] = children
    if (child === undefined) throw new Error("there are two")
    expect((await child.find()).after).toHaveProperty("waiting")
    const cancelled = await child.cancel()
    expect(cancelled.after).toEqual({ ids: expect.any(Array) })
    expect(jobView(await bench.record(child)).after).not.toHaveProperty("waiting")
    await bench.client.close()
  })
})
