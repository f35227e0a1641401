/** Acceptance scenarios of retrying and repeating, on every transport. Each test names its number. */
import { actor, type Client, type JobView, Retry } from "callboard"
import { describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { isOverdue } from "../../runtime/jobs/tracking/finding.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 60 } as const

/** What happened, in order: `ran` is the id of each run. */
const makeActor = (ran: Array<string>) =>
  actor("scene", {
    methods: {
      fails: (_input: unknown, job) => {
        ran.push(job.id)
        throw new Error(`run ${ran.length} fails`)
      },
      failsOnce: (_input: unknown, job) => {
        ran.push(job.id)
        if (job.retries === 0) throw new Error("not the first time")
      },
      works: (_input: unknown, job) => {
        ran.push(job.id)
        return job.run
      },
    },
  })

/** State and retries after each attempt, from the job's own story. */
const story = (job: JobView): ReadonlyArray<string> =>
  job.transitions.filter(({ state }) => state !== "started").map(({ state }) => state)

/** The intervals that the tests use, in seconds: far enough from each other to tell which one a job has waited. */
const INTERVALS = [0.2, 1, 10, 30] as const

/**
 * Which interval each wait of a job is nearest to. A due time goes by the clock of the transport, as the worker
 * estimates it, and the other time by the worker's own, so that on a busy machine they differ by a part of a second.
 */
const waits = (job: JobView): ReadonlyArray<number> =>
  job.transitions.flatMap(({ at, due }) => {
    if (due === undefined) return []
    const seconds = (Date.parse(due) - Date.parse(at)) / 1_000
    return INTERVALS.toSorted((a, b) => Math.abs(a - seconds) - Math.abs(b - seconds)).slice(0, 1)
  })

const failed = (client: Client) => client.jobs({ states: ["failed"] })

onEveryBoard((newBoard, transport) => {
  test("S131 Retry(max 2): three runs, queued between, failed at the end only", async () => {
    const ran: Array<string> = []
    const failures: Array<readonly [boolean, number]> = []
    const { client } = await start([makeActor(ran)], {
      transport: newBoard(),
      onFailure: [async ({ willRetry }) => void failures.push([willRetry, (await failed(client)).jobs.length])],
    })
    const job = await client.submit("scene.fails", { retry: { max: 2, interval: 0 } })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { message: "run 3 fails" } })
    const view = await job.find()
    expect(view).toMatchObject({ attempts: 3, retries: 2 })
    expect(story(view)).toEqual(["queued", "queued", "queued", "failed"])
    await eventually(() => failures.length === 3, { message: "each failure is told" })
    expect(failures.map(([willRetry]) => willRetry)).toEqual([true, true, false])
    expect(failures[2]?.[1]).toBe(1)
    expect((await failed(client)).jobs.map(({ id }) => id)).toEqual([job.id])
    expect(ran).toHaveLength(3)
  })

  // Decided against RQ: the last interval, not the first, is used from there on.
  test("S132 retry intervals [10, 30]: due after 10, 30, 30 seconds, scheduled between, then failed", async () => {
    const ran: Array<string> = []
    const { client } = await start([makeActor(ran)], { transport: newBoard() })
    // The order is what is asked, with intervals that a test can wait for.
    const job = await client.submit("scene.fails", { retry: { max: 3, interval: [0.2, "1 second"] } })
    await job.outcome(WAIT)
    const view = await job.find()
    expect(story(view)).toEqual(["queued", "scheduled", "scheduled", "scheduled", "failed"])
    expect(waits(view)).toEqual([0.2, 1, 1])
    expect(view).toMatchObject({ attempts: 4, retries: 3 })
    const far = await client.submit("scene.fails", { retry: { max: 1, interval: [10, 30] } })
    await eventually(async () => (await far.find()).state === "scheduled", { message: "it waits for its time" })
    expect(waits(await far.find())).toEqual([10])
  })

  test("S134 retry at the front: before what was submitted earlier", async () => {
    const ran: Array<string> = []
    const options = { transport: newBoard(), concurrency: 1, prefetch: 1 }
    const { client } = await start([], options)
    const first = await client.submit("scene.failsOnce", { retry: { max: 1, interval: 0, front: true } })
    const second = await client.submit("scene.works")
    await start([makeActor(ran)], options)
    await second.outcome(WAIT)
    expect(ran).toEqual([first.id, first.id, second.id])
    expect(await first.find()).toMatchObject({ state: "succeeded", attempts: 2 })
  })

  describe("S136 repeat", () => {
    test("a job that succeeds runs twice, then stays succeeded", async () => {
      const ran: Array<string> = []
      const { client } = await start([makeActor(ran)], { transport: newBoard() })
      const job = await client.submit("scene.works", {
        repeat: { times: 1 },
        callbacks: [{ task: "scene.works", immutable: true }],
      })
      expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded", result: 2 })
      const view = await job.find()
      expect(story(view)).toEqual(["queued", "succeeded", "queued", "succeeded"])
      expect(view).toMatchObject({ run: 2, attempts: 2, retries: 0 })
      // What follows from the job follows once: from its last run.
      await eventually(() => ran.length === 3, { message: "the callback runs" })
      expect(ran.slice(0, 2)).toEqual([job.id, job.id])
      expect((await client.jobs({ parentId: job.id })).jobs).toHaveLength(1)
    })

    test("one that fails runs once", async () => {
      const ran: Array<string> = []
      const { client } = await start([makeActor(ran)], { transport: newBoard() })
      const job = await client.submit("scene.fails", { repeat: { times: 1 } })
      expect(await job.outcome(WAIT)).toMatchObject({ state: "failed" })
      expect(await job.find()).toMatchObject({ run: 1, attempts: 1 })
      expect(ran).toHaveLength(1)
    })

    test("intervals are waited for in their order, the last one from there on", async () => {
      const ran: Array<string> = []
      const { client } = await start([makeActor(ran)], { transport: newBoard() })
      const job = await client.submit("scene.works", { repeat: { times: 3, interval: [0.2, 1] } })
      expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded", result: 4 })
      expect(waits(await job.find())).toEqual([0.2, 1, 1])
    })

    test("one that is cancelled between two runs does not run again", async () => {
      const ran: Array<string> = []
      const { client } = await start([makeActor(ran)], { transport: newBoard() })
      const job = await client.submit("scene.works", { repeat: { times: 1, interval: 1 } })
      await eventually(async () => (await job.find()).state === "scheduled", { message: "its first run is over" })
      await job.cancel()
      // Another job of the same wait comes after it.
      await (await client.submit("scene.works", { delay: 1.2 })).outcome(WAIT)
      expect(ran.filter((id) => id === job.id)).toHaveLength(1)
      expect(await job.find()).toMatchObject({ state: "cancelled" })
    })
  })

  test("repeat: the time by which the first run must start says nothing about the next", async () => {
    const ran: Array<string> = []
    const { client } = await start([makeActor(ran)], { transport: newBoard() })
    const job = await client.submit("scene.works", { expires: 30, repeat: { times: 1, interval: 60 } })
    await eventually(async () => (await job.find()).state === "scheduled", { message: "its first run is over" })
    expect((await job.find()).times.expires).toBeUndefined()
    // Later than that time, and than the margin that a worker with the task has.
    const late = Date.now() + 45_000
    const found = await client.connection.jobs.find(job.id)
    expect(found && isOverdue(found.record, late)).toBe(false)
  })

  test("a retry at the front is one for itself: the next run waits its turn, by repeat and by hand", async () => {
    const ran: Array<string> = []
    const options = { transport: newBoard(), concurrency: 1, prefetch: 1 }
    const front = { max: 1, interval: 0, front: true } as const
    const worker = await start([makeActor(ran)], options)
    const { client } = worker
    const repeats = await client.submit("scene.failsOnce", { retry: front, repeat: { times: 1, interval: 60 } })
    await eventually(async () => (await repeats.find()).run === 2, { message: "its second run is planned" })
    expect(await repeats.find()).not.toHaveProperty("front")
    const repeated = await client.connection.jobs.find(repeats.id)
    expect(repeated?.record.followUps?.map(({ level }) => level) ?? [4]).toEqual([4])
    const again = await client.submit("scene.fails", { retry: front })
    expect(await again.outcome(WAIT)).toMatchObject({ state: "failed" })
    await worker.stop()
    const other = await start([], options)
    const before = await other.client.submit("scene.works")
    await other.client.job(again.id).retry()
    expect(await other.client.job(again.id).find()).not.toHaveProperty("front")
    ran.length = 0
    await start([makeActor(ran)], options)
    await eventually(() => ran.includes(again.id), { message: "it runs again" })
    expect(ran[0]).toBe(before.id)
  })

  test("a job that is run again by hand is waited for to the end of that run, however soon that is", async () => {
    const ran: Array<string> = []
    const { client } = await start([makeActor(ran)], { transport: newBoard() })
    const ended = (run: number) => ({ state: "failed", error: { message: `run ${run} fails` } })
    for (let n = 0; n < 10; n++) {
      const job = await client.submit("scene.fails")
      expect(await job.outcome(WAIT)).toMatchObject(ended(3 * n + 1))
      for (const again of [2, 3]) {
        await job.retry()
        expect(await job.outcome(WAIT)).toMatchObject(ended(3 * n + again))
      }
    }
    expect(ran).toHaveLength(30)
  })

  test("a retry of a task that names no priority keeps the usual one", async () => {
    const ran: Array<string> = []
    const options = { transport: newBoard(), concurrency: 1, prefetch: 1 }
    const { client } = await start([], options)
    const id = generateId()
    const headers = { task: "scene.failsOnce", id, callboard: { retry: { max: 1, intervalsMs: [0] } } }
    const properties = { content_type: "application/json", content_encoding: "utf-8" }
    const message = { headers, properties, body: new TextEncoder().encode("[[],{},null]") }
    await client.connection.jobs.publish([{ id, run: 1, retries: 0, queue: "default", level: 4, message }])
    const low = await client.submit("scene.works", { priority: 0 })
    await start([makeActor(ran)], options)
    await low.outcome(WAIT)
    expect(ran).toEqual([id, id, low.id])
  })

  // What follows no transport can change.
  if (transport !== "memory") return

  test("a handler that asks for a retry after nonsense has failed, saying so", async () => {
    const hasty = actor("hasty", {
      methods: {
        run: () => {
          throw new Retry({ after: -5 })
        },
      },
    })
    const { client } = await start([hasty], { transport: newBoard() })
    expect(await (await client.submit("hasty")).outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { message: expect.stringMatching(/^after: .*negative/) },
    })
  })

  test.each([
    [{ retry: { max: 0 } }, "retry.max"],
    [{ retry: { max: 1, interval: -5 } }, "retry.interval"],
    [{ retry: { max: 1, interval: [1, -5] } }, "retry.interval[1]"],
    [{ repeat: { times: 0 } }, "repeat.times"],
    [{ repeat: { times: 1, interval: -5 } }, "repeat.interval"],
    [{ repeat: { times: 1, interval: "x" } }, "repeat.interval"],
  ])("S138 arguments: %j is refused, naming %s", async (fields, field) => {
    const { client } = await start([makeActor([])], { transport: newBoard() })
    // As hurried users send it: over HTTP nothing is typed.
    await expect(client.prepare([{ task: "scene.works", ...fields }])).rejects.toMatchObject({
      code: "invalid-input",
      details: { field },
    })
    expect((await client.jobs()).jobs).toEqual([])
  })

  test("`retry: false` is no retry, whatever the method says", async () => {
    const ran: Array<string> = []
    const stubborn = actor("stubborn", {
      methods: {
        run: {
          retry: { max: 5, interval: 0 },
          run: (_input: unknown, job) => {
            ran.push(job.id)
            throw new Error("always")
          },
        },
      },
    })
    const { client } = await start([stubborn], { transport: newBoard() })
    await (await client.submit("stubborn", { retry: false })).outcome(WAIT)
    expect(ran).toHaveLength(1)
  })
})
