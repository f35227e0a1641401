/** Jobs that a handler has called end with its job, unless that succeeds. */
import { actor, type Job, type JobHandle } from "callboard"
import { expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 30 }

onEveryBoard((newBoard) => {
  const startWith = (run: (input: never, job: Job) => unknown) =>
    start(
      [
        actor("caller", { methods: { run } }),
        actor("child", {
          methods: {
            // A job with a job of its own.
            run: (_input: unknown, job) => job.call("grandchild", "child.waits"),
            waits: (_input: unknown, job) => job.waitFor("never"),
            runs: (_input: unknown, job) => new Promise((resolve) => job.signal.addEventListener("abort", resolve)),
            fails: () => {
              throw new RangeError("no")
            },
          },
        }),
      ],
      { transport: newBoard() },
    )

  type Scene = Awaited<ReturnType<typeof startWith>>

  /** The job that a job waits for, once it waits. */
  const calledBy = async ({ client }: Scene, job: JobHandle): Promise<JobHandle> =>
    client.job((await eventually(async () => (await job.find()).waits?.jobs?.[0])) ?? "")

  const endOf = async (job: JobHandle) => (await job.outcome(WAIT)).state

  const both = async (_input: unknown, job: Job) => {
    await Promise.all([job.call("long", "child"), job.call("runs", "child.runs")])
  }

  test("a suspended job that is cancelled cancels them, and those that they have called", async () => {
    const scene = await startWith(both)
    const job = await scene.client.submit("caller")
    const child = await calledBy(scene, job)
    const grandchild = await calledBy(scene, child)
    const jobs = (await job.find()).waits?.jobs?.map((id) => scene.client.job(id)) ?? []
    expect(jobs).toHaveLength(2)
    await eventually(async () => (await jobs[1]?.find())?.state === "started")
    await job.cancel()
    for (const each of [job, ...jobs, grandchild]) expect(await endOf(each)).toBe("cancelled")
  })

  test.each(["purged", "deleted"])("a suspended job that is %s cancels them", async (how) => {
    const scene = await startWith(both)
    const job = await scene.client.submit("caller")
    const child = await calledBy(scene, job)
    const grandchild = await calledBy(scene, child)
    await (how === "deleted" ? job.delete() : scene.client.purge("default"))
    for (const each of [child, grandchild]) expect(await endOf(each)).toBe("cancelled")
  })

  test.each([false, true])("a running job that is cancelled cancels them, terminate: %s", async (terminate) => {
    const scene = await startWith(async (_input, job) => {
      void job.call("child", "child.waits").catch(() => undefined)
      await job.step("works", ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve)))
    })
    const job = await scene.client.submit("caller")
    const child = await eventually(async () => (await scene.client.jobs({ task: "child.waits" })).jobs[0], {
      message: "the job is called",
    })
    await eventually(async () => (await scene.client.steps(job.id)).steps.some(({ state }) => state === "waiting"))
    await job.cancel({ terminate })
    expect(await endOf(scene.client.job(child?.id ?? ""))).toBe("cancelled")
  })

  test("a job that fails while it waits for them cancels them", async () => {
    const scene = await startWith(async (_input, job) => {
      await Promise.all([job.call("long", "child.waits"), job.call("fails", "child.fails")])
    })
    const job = await scene.client.submit("caller")
    expect(await endOf(job)).toBe("failed")
    const [child] = (await scene.client.jobs({ task: "child.waits" })).jobs
    expect(await endOf(scene.client.job(child?.id ?? ""))).toBe("cancelled")
  })

  test.each(["cancelled", "failed"])("a job that is %s cancels them, and reverts its steps", async (how) => {
    const reverted: Array<string> = []
    const scene = await startWith(async (_input, job) => {
      const book = { revert: () => void reverted.push("book") }
      await job.step("book", () => undefined, book)
      const others = how === "failed" ? [job.waitFor("stop").then(() => Promise.reject(new RangeError("no")))] : []
      // A handler that is called again to revert its steps must not come to this step, as it did not before.
      await Promise.all([job.call("long", "child.waits").catch(() => job.step("other", () => 1, book)), ...others])
    })
    const job = await scene.client.submit("caller")
    const child = await calledBy(scene, job)
    await (how === "failed" ? job.signal("stop") : job.cancel())
    expect(await endOf(job)).toBe(how)
    expect(await endOf(child)).toBe("cancelled")
    expect(reverted).toEqual(["book"])
    expect(await job.find()).toMatchObject({ reverted: true })
  })

  test("a job that succeeds leaves them", async () => {
    const scene = await startWith(async (_input, job) =>
      Promise.race([job.call("long", "child.waits"), job.sleep("patience", 1.5).then(() => "enough")]),
    )
    const job = await scene.client.submit("caller")
    const child = await calledBy(scene, job)
    expect(await job.result(WAIT)).toBe("enough")
    await child.signal("never", "after all")
    expect(await child.result(WAIT)).toBe("after all")
  })

  test("a job that is retried by its policy waits for the same ones again", async () => {
    let fails = true
    const scene = await startWith(async (_input, job) => {
      const called = job.call("long", "child.waits")
      await job.waitFor("go")
      if (fails) {
        fails = false
        throw job.retry({ after: 0 })
      }
      return called
    })
    const job = await scene.client.submit("caller")
    const child = await calledBy(scene, job)
    await job.signal("go")
    await eventually(async () => (await job.find()).retries === 1)
    await child.signal("never", 1)
    expect(await job.result(WAIT)).toBe(1)
  })
})
