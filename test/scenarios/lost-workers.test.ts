/**
 * Acceptance scenarios of workers that die, on memory, which dies with its process: a worker dies there by losing its
 * board. On sqlite and nats real processes are killed (`test/e2e/crash.test.ts`, `test/chaos/`).
 */
import { actor, type FailureHandler } from "callboard"
import { describe, expect, type TestContext, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { mortal } from "./mortal.ts"

/** A worker is taken for dead when it was not seen for a while: two rounds of maintenance at most. */
const DEATH_SECONDS = 60

/** A board, workers on it that tell what they do, and a client that outlives them. */
const begin = async ({ onTestFinished }: TestContext) => {
  const name = generateId()
  const started: Array<string> = []
  const heard: Array<string> = []
  const failures: Array<string> = []
  const gate = Promise.withResolvers<void>()
  /** A worker by a name of its own, and how to kill it. */
  const hire = async (worker: string) => {
    const run = async () => {
      started.push(worker)
      await gate.promise
      return worker
    }
    const told: FailureHandler = ({ job, error }) => {
      failures.push(`${worker} ${job.id} ${error.name}`)
      if (job.meta?.["upset"] === true) throw new Error("a handler that fails")
    }
    const scene = actor("scene", {
      methods: {
        run,
        once: { onLost: "fail", run },
        early: { acks: { when: "early" }, run },
        heard: (_input: unknown, job) => {
          heard.push(job.parentId ?? "")
        },
      },
    })
    const { transports, die } = mortal()
    const transport = `mortal://${name}?lease=1`
    await start([scene], { transport, transports, name: worker, onFailure: [told] }, onTestFinished)
    return die
  }
  const { client } = await start([], { transport: `memory://${name}?lease=1` }, onTestFinished)
  return { client, hire, started, heard, failures, open: gate.resolve }
}

const errbacks = [{ task: "scene.heard", immutable: true }]

describe.concurrent("on memory", () => {
  test("S175 the worker dies: with onLost fail the job has failed for it, once, unless a retry is left", async (context) => {
    const { client, hire, started, heard, failures, open } = await begin(context)
    const die = await hire("first")
    const job = await client.submit("scene.once", { errbacks })
    const retried = await client.submit("scene.once", { retry: { max: 1, interval: 0 } })
    await eventually(() => started.length === 2, { message: "both jobs start" })
    die()
    open()
    await hire("second")
    expect(await job.outcome({ timeout: 60 })).toMatchObject({
      state: "failed",
      error: { name: "WorkerLost", reason: "worker-lost", message: "its worker died while it ran" },
    })
    expect(await job.find()).toMatchObject({ dead: "worker-lost", attempts: 1 })
    expect(await retried.result({ timeout: 60 })).toBe("second")
    expect(await retried.find()).toMatchObject({ attempts: 2, retries: 1 })
    await eventually(() => heard.length === 1, { message: "the errback runs" })
    expect(heard).toEqual([job.id])
    await eventually(() => failures.length === 2, { message: "both deaths are told" })
    expect(new Set(failures)).toEqual(new Set([job, retried].map(({ id }) => `second ${id} WorkerLost`)))
    expect(started).toEqual(["first", "first", "second"])
  })

  test("a job that kills its worker beside others ends alone: the others run one at a time after that, and succeed", async ({
    onTestFinished,
  }) => {
    const transport = `mortal://${generateId()}?lease=1`
    const deaths: Array<string> = []
    const nap = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
    const over = new AbortController()
    onTestFinished(() => over.abort())
    /** Starts a worker, and another one when it has died. */
    const supervise = async (number = 1): Promise<void> => {
      if (over.signal.aborted) return
      const { transports, die } = mortal()
      const poison = async () => {
        await nap(1_000)
        deaths.push(`worker ${number}`)
        die()
        void supervise(number + 1)
        await nap(60_000)
      }
      const scene = actor("scene", { methods: { poison, innocent: () => nap(1_500) } })
      const options = { transport, transports, name: `worker ${number}`, concurrency: 4, grace: 0 }
      await start([scene], options, onTestFinished)
    }
    const { client } = await start([], { transport: transport.replace("mortal", "memory") }, onTestFinished)
    const poison = await client.submit("scene.poison")
    const innocents = await Promise.all(Array.from({ length: 3 }, () => client.submit("scene.innocent")))
    await supervise()
    for (const innocent of innocents) {
      expect(await innocent.outcome({ timeout: 60 })).toMatchObject({ state: "succeeded" })
      expect((await innocent.find()).attempts).toBeLessThanOrEqual(2)
    }
    expect(await poison.outcome({ timeout: 60 })).toMatchObject({ state: "failed", error: { reason: "worker-lost" } })
    expect(await poison.find()).toMatchObject({ dead: "worker-lost" })
    // Its first run lasted long enough to be noted, and counts.
    expect(deaths).toHaveLength(3)
  }, 120_000)

  test("S182, S184 jobs whose worker dies have failed for it, once each, with their errbacks, whoever looks, and whatever a failure handler throws", async (context) => {
    const { client, hire, started, heard, failures, open } = await begin(context)
    const die = await hire("first")
    const early = (meta: object = {}) => client.submit("scene.early", { errbacks, meta: { ...meta } })
    const job = await early({ upset: true })
    const others = await Promise.all([early(), early()])
    await eventually(() => started.length === 3, { message: "all early jobs start" })
    const redelivered = await client.submit("scene.run")
    await eventually(() => started.length === 4, { message: "the other job starts" })
    die()
    await Promise.all([hire("second"), hire("third")])
    // Its lease has lapsed, and it runs again; the early ones have none.
    await eventually(() => started.length === 5, { message: "the other job starts again" })
    expect(await job.find()).toMatchObject({ state: "started" })
    open()
    expect(await redelivered.result({ timeout: 60 })).not.toBe("first")
    for (const lost of [job, ...others])
      expect(await lost.outcome({ timeout: DEATH_SECONDS })).toMatchObject({
        state: "failed",
        error: { name: "WorkerLost", reason: "worker-lost" },
      })
    await eventually(() => heard.length === 3, { message: "all errbacks run" })
    const ids = [job, ...others].map(({ id }) => id)
    expect(new Set(heard)).toEqual(new Set(ids))
    const view = await job.find()
    expect(view).toMatchObject({ dead: "worker-lost", attempts: 1 })
    expect(view.transitions.map(({ state }) => state)).toEqual(["queued", "started", "failed"])
    await eventually(() => failures.length === 3, { message: "all are told" })
    expect(new Set(failures.map((line) => line.replace(/^(second|third) /, "")))).toEqual(
      new Set(ids.map((id) => `${id} WorkerLost`)),
    )
    expect(started.slice(0, 4)).toEqual(Array(4).fill("first"))
    expect(started).toHaveLength(5)
    // Redriven by hand, it runs.
    await job.retry()
    expect(await job.result({ timeout: 60 })).not.toBe("first")
    expect(await job.find()).toMatchObject({ attempts: 2 })
    expect(failures).toHaveLength(3)
  }, 120_000)
})
