/** What the sweep finds when a process died at any point between a submission and the release of its dependents. */
import { describe, expect, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { writeEdges } from "../../../../../runtime/jobs/dependencies/edges.ts"
import { release } from "../../../../../runtime/jobs/dependencies/release.ts"
import { Sweep } from "../../../../../runtime/jobs/dependencies/sweep.ts"
import { onEveryBoard } from "../../../../scenarios/boards.ts"
import { HOUR, openBench } from "./bench.ts"

onEveryBoard((newBoard) => {
  const setUp = () => openBench(newBoard())

  describe("a worker that died between the outcome and the release", () => {
    test("of a success: those that wait for it are queued, and their edges gone", async () => {
      await using bench = await setUp()
      const parent = await bench.submit("parent")
      const child = await bench.submit("child", { after: parent.id })
      const other = await bench.submit("other")
      const later = await bench.submit("later", { after: [parent.id, other.id], delay: 60 })
      await bench.end("succeeded")
      expect(await bench.stateOf(child)).toBe("deferred")

      await bench.look()
      expect(await bench.record(child)).toMatchObject({ state: "queued", after: { ids: [parent.id] } })
      expect((await bench.record(child)).after?.waiting).toBeUndefined()
      expect(await bench.record(later)).toMatchObject({ state: "deferred", after: { waiting: [other.id] } })
      expect(await bench.edges()).toEqual([{ parent: other.id, child: later.id }])

      await bench.end("succeeded")
      await bench.look()
      expect(await bench.stateOf(later)).toBe("scheduled")
      expect(await bench.edges()).toEqual([])
      // Once, however often it is looked at.
      await bench.look()
      expect(await bench.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([child.id, later.id])
    })

    test("of a failure: only those to which that is the same; the others wait for another run", async () => {
      await using bench = await setUp()
      const parent = await bench.submit("parent")
      const strict = await bench.submit("strict", { after: parent.id })
      const lenient = await bench.submit("lenient", { after: { ids: parent.id, allowFailure: true } })
      await bench.end("failed")
      await bench.look()
      await bench.look()
      expect([await bench.stateOf(strict), await bench.stateOf(lenient)]).toEqual(["deferred", "queued"])
      expect(await bench.edges()).toEqual([{ parent: parent.id, child: strict.id }])
    })

    test("of a job whose outcome is not kept: a success counts, a failure leaves nothing to wait for", async () => {
      await using bench = await setUp()
      const succeeds = await bench.submit("succeeds")
      const after = await bench.submit("after", { after: succeeds.id })
      await bench.end("succeeded", { keepMs: 0 })
      const fails = await bench.submit("fails")
      const strict = await bench.submit("strict", { after: fails.id })
      const lenient = await bench.submit("lenient", { after: { ids: fails.id, allowFailure: true } })
      await bench.end("failed", { keepMs: 0 })
      await bench.look()
      expect(await bench.stateOf(after)).toBe("queued")
      expect(await bench.record(strict)).toMatchObject({
        state: "failed",
        dead: "dependency-gone",
        error: { name: "DependencyGone", message: expect.stringContaining(fails.id) },
      })
      expect(await bench.stateOf(lenient)).toBe("queued")
      expect(await bench.edges()).toEqual([])
    })
  })

  test("jobs that are being submitted while it looks are not taken for gone", async () => {
    await using bench = await setUp()
    const { store } = bench.connection
    const other = await bench.submit("other")
    const [middle, last] = [generateId(), generateId()]
    const after = { ids: [middle], allowFailure: true }
    const edges = [
      { parent: other.id, child: middle },
      { parent: middle, child: last },
    ]
    await writeEdges(store, edges, Date.now())
    const submit = () =>
      bench.client.submitMany([
        { task: "step.run", id: middle, after: other.id },
        { task: "step.run", id: last, after },
      ])
    let submitted: Promise<unknown> | undefined
    const jobs = Object.assign(Object.create(bench.connection.jobs), {
      // What it finds first is as it was before the records were stored.
      find: async (id: string) => {
        const there = await bench.connection.jobs.find(id)
        submitted ??= submit()
        await submitted
        return there
      },
    })
    await new Sweep({ ...bench.connection, jobs }).look(Date.now())
    expect(submitted).toBeDefined()
    expect([await bench.stateOf({ id: middle }), await bench.stateOf({ id: last })]).toEqual(["deferred", "deferred"])
    expect(await bench.edges()).toEqual(expect.arrayContaining(edges))
  })

  describe("a submitter that died", () => {
    test("after the edges has submitted nothing; they are kept for an hour, in case it only takes long", async () => {
      await using bench = await setUp()
      const parent = await bench.submit("parent")
      const orphan = { parent: parent.id, child: generateId() }
      await writeEdges(bench.connection.store, [orphan], Date.now())
      await bench.look()
      await bench.end("succeeded")
      await bench.look(Date.now() + HOUR - 10_000)
      expect(await bench.edges()).toEqual([orphan])
      await bench.look(Date.now() + HOUR + 10_000)
      expect(await bench.edges()).toEqual([])
    })

    test("after the record, when what it waits for had ended already: it starts", async () => {
      await using bench = await setUp()
      const parent = await bench.submit("parent")
      const child = await bench.submit("child", { after: parent.id })
      const edges = await bench.edges()
      // The edges of one that waits stay, however old they are.
      await bench.look(Date.now() + 2 * HOUR)
      expect(await bench.edges()).toEqual(edges)
      await bench.end("succeeded")
      await bench.look(Date.now() + 2 * HOUR)
      expect(await bench.stateOf(child)).toBe("queued")
    })
  })

  test("who was cancelled satisfies nobody, and who died before it removed the edges of a cancelled job leaves no trace", async () => {
    await using bench = await setUp()
    const parent = await bench.submit("parent")
    const strict = await bench.submit("strict", { after: parent.id })
    const lenient = await bench.submit("lenient", { after: { ids: parent.id, allowFailure: true } })
    const edges = await bench.edges()
    await parent.cancel()
    await bench.look()
    expect([await bench.stateOf(strict), await bench.stateOf(lenient)]).toEqual(["deferred", "deferred"])
    await strict.cancel()
    await writeEdges(bench.connection.store, edges, Date.now())
    await bench.look()
    expect(await bench.edges()).toEqual([{ parent: parent.id, child: lenient.id }])
  })

  test("a deferred job past its time is expired, also where nobody asks; who waits for it need not, if that is the same", async () => {
    await using bench = await setUp()
    const parent = await bench.submit("parent")
    const before = Date.now()
    const child = await bench.submit("child", { after: parent.id, expires: 60 })
    const strict = await bench.submit("strict", { after: child.id })
    const lenient = await bench.submit("lenient", { after: { ids: child.id, allowFailure: true } })
    await bench.look(before + 59_000)
    expect(await bench.stateOf(child)).toBe("deferred")
    await bench.look(Date.now() + 62_000)
    expect(await bench.stateOf(child)).toBe("expired")
    expect([await bench.stateOf(strict), await bench.stateOf(lenient)]).toEqual(["deferred", "queued"])
    expect(await bench.edges()).toEqual([{ parent: child.id, child: strict.id }])
    await bench.end("succeeded")
    await bench.look()
    expect(await bench.stateOf(child)).toBe("expired")
  })

  test("one that fails because what it waited for is gone is a failure to those that wait for it", async () => {
    await using bench = await setUp()
    const parent = await bench.submit("parent")
    const child = await bench.submit("child", { after: parent.id })
    const strict = await bench.submit("strict", { after: child.id })
    const lenient = await bench.submit("lenient", { after: { ids: child.id, allowFailure: true } })
    await bench.end("failed", { keepMs: 0 })
    await bench.look()
    expect(await bench.stateOf(child)).toBe("failed")
    expect([await bench.stateOf(strict), await bench.stateOf(lenient)]).toEqual(["deferred", "queued"])
    // What is a failure now may be a success later.
    expect(await bench.edges()).toEqual([{ parent: child.id, child: strict.id }])
  })

  test("several may look at the same time, and many may end what one job waits for: it is posted once", async () => {
    await using bench = await setUp()
    const parents = await Promise.all(Array.from({ length: 16 }, () => bench.submit("parent")))
    const child = await bench.submit("child", { after: parents.map(({ id }) => id) })
    for (const _parent of parents) await bench.end("succeeded")
    const releases = parents.map(({ id }) => release(bench.connection, new Map([[id, "succeeded"]])))
    const looks = Array.from({ length: 4 }, () => bench.look())
    // After too many conflicts the rest is left to the sweeps of other workers.
    await Promise.allSettled([...releases, ...looks])
    await bench.look()
    expect(await bench.stateOf(child)).toBe("queued")
    expect(await bench.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([child.id])
    expect(await bench.edges()).toEqual([])
    expect((await bench.record(child)).timeline).toHaveLength(2)
  })

  test("more edges than one look goes through are seen in turn", async () => {
    await using bench = await setUp()
    const parent = await bench.submit("parent")
    const ids = Array.from({ length: 450 }, () => generateId())
    await bench.client.submitMany(
      ids.map((id) => ({ task: "step.run", id, input: { name: "child" }, after: parent.id })),
    )
    await bench.end("succeeded")
    const sweep = new Sweep(bench.connection)
    const left: Array<number> = []
    for (let look = 0; look < 3; look++) {
      await sweep.look(Date.now())
      left.push((await bench.edges()).length)
    }
    expect(left).toEqual([250, 50, 0])
    const page = await bench.client.jobs({ states: ["deferred"], limit: 1_000 })
    expect(page.jobs).toEqual([])
  })
})
