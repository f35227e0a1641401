/** Acceptance scenarios of workers' lives, and of queues and workers that are held up, on every transport. */
import { hostname } from "node:os"
import { actor, type Client, type Service } from "callboard"
import { describe, expect, test } from "vitest"
import { VERSION } from "../../runtime/version.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 60 } as const

interface Stage {
  readonly ran: Array<string>
  /** Lets `hold` go on. */
  readonly release: () => void
  readonly actor: ReturnType<typeof makeActor>
}

const makeActor = (ran: Array<string>, held: Promise<void>) =>
  actor("scene", {
    methods: {
      run: (_input: unknown, job) => {
        ran.push(job.id)
        return "done"
      },
      fails: () => {
        throw new Error("no")
      },
      hold: async (_input: unknown, job) => {
        ran.push(job.id)
        await Promise.race([held, new Promise((resolve) => job.signal.addEventListener("abort", resolve))])
        return "held"
      },
      sleep: async ({ ms }: { ms: number }, job) => {
        ran.push(job.id)
        await new Promise((resolve) => setTimeout(resolve, ms))
        return job.attempt
      },
      /** Submits another job of its kind, `left` times in all. */
      breed: async ({ left }: { left: number }, job) => {
        ran.push(job.id)
        if (left > 0) await job.submit("scene.breed", { input: { left: left - 1 } })
      },
    },
  })

const stage = (): Stage => {
  const ran: Array<string> = []
  const { promise, resolve } = Promise.withResolvers<void>()
  return { ran, release: resolve, actor: makeActor(ran, promise) }
}

const only = async ({ client }: Service) => {
  const workers = await client.workers()
  expect(workers).toHaveLength(1)
  return workers[0]
}

onEveryBoard((newBoard, kind) => {
  test("S165 registration: a worker shows itself; its name is its own while it lives, and free at once after a clean end", async () => {
    const transport = newBoard()
    const { actor } = stage()
    const service = await start([actor], { transport, name: "w1", queues: ["high", "low"] })
    await eventually(async () => (await only(service))?.state === "idle", { message: "it says that it is idle" })
    const worker = await only(service)
    expect(worker).toMatchObject({
      name: "w1",
      queues: ["high", "low"],
      pid: process.pid,
      host: hostname(),
      version: VERSION,
      state: "idle",
      actors: ["scene"],
    })
    expect(Date.now() - Date.parse(worker?.startedAt ?? "")).toBeLessThan(10_000)
    expect(Date.now() - Date.parse(worker?.heartbeatAt ?? "")).toBeLessThan(10_000)
    await expect(start([actor], { transport, name: "w1" })).rejects.toMatchObject({
      code: "invalid-input",
      details: { field: "name" },
      message: expect.stringContaining("w1"),
    })
    const other = await start([], { transport })
    await service.stop()
    expect(await other.client.workers()).toEqual([])
    await start([actor], { transport, name: "w1" })
    expect((await other.client.workers()).map(({ name }) => name)).toEqual(["w1"])
  })

  test("S168 graceful stop, busy: the running job finishes, the other stays queued, the worker is gone", async () => {
    const transport = newBoard()
    const { actor, ran, release } = stage()
    const other = await start([], { transport })
    const service = await start([actor], { transport, concurrency: 1 })
    const running = await other.client.submit("scene.hold")
    await eventually(() => ran.length === 1, { message: "the first job runs" })
    const waiting = await other.client.submit("scene.run")
    const stopped = service.stop()
    await eventually(async () => (await other.client.workers())[0]?.stopAskedAt !== undefined, {
      message: "the request to stop is on record",
    })
    expect((await other.client.workers())[0]?.state).toBe("stopping")
    release()
    expect(await stopped).toMatchObject({ finished: 1, stuck: 0 })
    expect(await running.outcome(WAIT)).toMatchObject({ state: "succeeded", result: "held" })
    expect(await waiting.find()).toMatchObject({ state: "queued", attempts: 0 })
    expect(await other.client.workers()).toEqual([])
  })

  test("S177 heartbeats: a job that outlasts its lease several times keeps it, and finishes once", async () => {
    // A lease of three seconds is extended once a second, the interval that the scenario names.
    const transport = newBoard({ lease: 3 })
    const { actor, ran } = stage()
    const { client } = await start([actor], { transport })
    await start([actor], { transport })
    const job = await client.submit("scene.sleep", { input: { ms: 7_000 } })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded", result: 1 })
    expect(ran).toEqual([job.id])
  })

  describe("S178 suspend and resume", () => {
    test("a burst worker does nothing and ends; a normal one says that it is suspended, and starts after the resume", async () => {
      const transport = newBoard()
      const { actor, ran } = stage()
      const { client } = await start([], { transport })
      await client.suspend()
      const job = await client.submit("scene")
      const burst = await start([actor], { transport, burst: true })
      expect(await burst.stopped).toMatchObject({ finished: 0, handedBack: 0 })
      expect(await job.find()).toMatchObject({ state: "queued" })
      const normal = await start([actor], { transport })
      await eventually(() => normal.worker?.describe().state === "suspended", { message: "it is suspended" })
      expect(ran).toEqual([])
      await client.unsuspend()
      const resumed = performance.now()
      expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
      expect(performance.now() - resumed).toBeLessThan(2_000)
    })

    test("one worker alone, by name", async () => {
      const transport = newBoard()
      const [first, second] = [stage(), stage()]
      const { client } = await start([first.actor], { transport, name: "w1" })
      await start([second.actor], { transport, name: "w2" })
      await client.suspend("w1")
      await eventually(
        async () => (await client.control("stats")).some(({ value }) => JSON.stringify(value).includes('"suspended"')),
        { message: "it is suspended" },
      )
      const jobs = await Promise.all(Array.from({ length: 5 }, () => client.submit("scene")))
      for (const job of jobs) await job.outcome(WAIT)
      expect([first.ran.length, second.ran.length]).toEqual([0, 5])
    })
  })

  test("S111 burst: ends when all its queues are empty, jobs that jobs have submitted included", async () => {
    const transport = newBoard()
    const { actor, ran } = stage()
    const { client } = await start([], { transport })
    expect(await (await start([actor], { transport, burst: true })).stopped).toMatchObject({ finished: 0 })
    await client.submit("scene.breed", { input: { left: 5 } })
    await (await start([actor], { transport, burst: true, concurrency: 1 })).stopped
    expect(ran).toHaveLength(6)
  })

  describe("burst and what a limit has put off", () => {
    const limited = (ran: Array<number>) =>
      actor("limited", {
        methods: {
          rated: { rate: "4/s", run: ({ n }: { n: number }) => void ran.push(n) },
          shared: { limit: { rate: "4/s" }, run: ({ n }: { n: number }) => void ran.push(n) },
          single: {
            limit: { concurrency: 1, key: () => "one" },
            run: async ({ n }: { n: number }) => {
              await new Promise((resolve) => setTimeout(resolve, 150))
              ran.push(n)
            },
          },
        },
      })
    const submitted = async (client: Client, method: string, count: number) => {
      const tasks = Array.from({ length: count }, (_, n) => ({ task: `limited.${method}`, input: { n } }))
      for (const receipt of await client.submitMany(tasks)) if (receipt instanceof Error) throw receipt
    }

    test.each(kind === "memory" ? ["rated", "shared", "single"] : ["shared"])(
      "%s: it waits until that has come back, and ends soon after",
      async (method) => {
        const transport = newBoard()
        const ran: Array<number> = []
        const { client } = await start([], { transport })
        await submitted(client, method, 6)
        const service = await start([limited(ran)], { transport, burst: true, concurrency: 3 })
        const ended = service.stopped.then(() => performance.now())
        await eventually(() => ran.length === 6, { every: 5 })
        const lastAt = performance.now()
        expect((await ended) - lastAt).toBeLessThan(2_500)
        expect([...ran].sort()).toEqual([0, 1, 2, 3, 4, 5])
      },
    )

    test("it waits for what a worker has put off that is not there any more", async () => {
      const transport = newBoard()
      const ran: Array<number> = []
      const { client } = await start([], { transport })
      await submitted(client, "shared", 8)
      const before = await start([limited(ran)], { transport })
      await eventually(() => (before.worker?.postpone().length ?? 0) >= 4, { message: "tasks are put off" })
      await before.stop({ now: true })
      expect(ran.length).toBeLessThan(8)
      await (await start([limited(ran)], { transport, burst: true })).stopped
      expect([...ran].sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    })

    test("it waits for nothing that is due later by itself, or that is in a queue which it does not listen to", async () => {
      const transport = newBoard()
      const ran: Array<number> = []
      const { client } = await start([], { transport })
      await client.submit("limited.rated", { input: { n: 0 }, delay: "1 hour" })
      const began = performance.now()
      await (await start([limited(ran)], { transport, burst: true })).stopped
      expect(performance.now() - began).toBeLessThan(5_000)
      expect(ran).toEqual([])

      await submitted(client, "shared", 40)
      const busy = await start([limited(ran)], { transport })
      await eventually(() => (busy.worker?.postpone().length ?? 0) > 20, { message: "tasks are put off" })
      const other = performance.now()
      await (await start([limited(ran)], { transport, burst: true, queues: ["other"] })).stopped
      // The tasks of the other queue come back over ten seconds; this worker does not wait for them.
      expect(performance.now() - other).toBeLessThan(6_000)
    })
  })

  describe("queues", () => {
    test("a paused queue takes tasks and gives none out, also to workers that start later, until it is resumed", async () => {
      const transport = newBoard()
      const { actor, ran } = stage()
      const { client } = await start([actor], { transport, queues: ["held", "open"] })
      await client.pause("held")
      expect(await client.paused()).toEqual(["held"])
      const open = async () => (await client.submit("scene", { queue: "open" })).outcome(WAIT)
      // The worker learns of the pause a moment later: at the latest once two tasks of the other queue have run one after the other.
      await open()
      await open()
      const job = await client.submit("scene", { queue: "held" })
      await open()
      await start([actor], { transport, queues: ["held", "open"] })
      await open()
      expect(ran).not.toContain(job.id)
      await client.resume("held")
      expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
      expect(await client.paused()).toEqual([])
    })

    test("what waited in a worker's buffer is handed back when its queue is paused, uncounted", async () => {
      const transport = newBoard()
      const { actor, ran, release } = stage()
      const { client, worker } = await start([actor], { transport, concurrency: 1, prefetch: 10 })
      const first = await client.submit("scene.hold")
      await eventually(() => ran.length === 1, { message: "the first job runs" })
      const others = await Promise.all(Array.from({ length: 4 }, () => client.submit("scene")))
      await eventually(() => worker?.inspect().reserved.length === 4, { message: "the others wait in the worker" })
      await client.pause("default")
      await eventually(() => worker?.inspect().reserved.length === 0, { message: "they are handed back" })
      release()
      await first.outcome(WAIT)
      expect(ran).toHaveLength(1)
      await client.resume("default")
      for (const job of others) expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
      for (const job of others) expect(await job.find()).toMatchObject({ attempts: 1, retries: 0 })
    })

    test("purge cancels what waits, scheduled tasks included, and nothing that runs", async () => {
      const transport = newBoard()
      const { actor, ran, release } = stage()
      const { client } = await start([actor], { transport, concurrency: 1, prefetch: 1 })
      const running = await client.submit("scene.hold")
      await eventually(() => ran.length === 1, { message: "the first job runs" })
      const waiting = await Promise.all(
        Array.from({ length: 5 }, (_, at) => client.submit("scene", at === 0 ? { delay: 3600 } : {})),
      )
      expect(await client.purge("default")).toBe(5)
      release()
      expect(await running.outcome(WAIT)).toMatchObject({ state: "succeeded" })
      for (const job of waiting) {
        const view = await job.find()
        expect(view.state).toBe("cancelled")
        expect(view.transitions.at(-1)).toMatchObject({ reason: "purged" })
      }
      expect(ran).toHaveLength(1)
      await expect(client.purge("a queue")).rejects.toMatchObject({ details: { field: "queue" } })
    })
  })

  test("S112 max jobs: three jobs, two at most: two ran, one waits", async () => {
    const transport = newBoard()
    const { actor, ran } = stage()
    const { client } = await start([], { transport })
    const jobs = await Promise.all(Array.from({ length: 3 }, () => client.submit("scene")))
    const service = await start([actor], { transport, maxJobs: 2 })
    await service.stopped
    expect(ran).toHaveLength(2)
    const states = await Promise.all(jobs.map(async (job) => (await job.find()).state))
    expect([...states].sort()).toEqual(["queued", "succeeded", "succeeded"])
  })

  test("S113 max idle: a worker without work ends by itself", async () => {
    const { actor } = stage()
    const transport = newBoard()
    const { client } = await start([], { transport })
    // The job is submitted first: on a busy machine the worker might otherwise be idle for too long before the job comes.
    const job = await client.submit("scene")
    const service = await start([actor], { transport, maxIdle: 1.5 })
    await job.outcome(WAIT)
    const ended = performance.now()
    await service.stopped
    expect(performance.now() - ended).toBeGreaterThan(1_000)
  })

  // A worker decides the following by itself, so one transport is enough.
  if (kind !== "memory") return

  test("S166 states and counters: idle, busy with the job, idle again; successes, failures and working time", async () => {
    const { actor, release } = stage()
    const service = await start([actor], { transport: newBoard() })
    const { client, worker } = service
    expect(worker?.describe().state).toBe("idle")
    const job = await client.submit("scene.hold")
    await eventually(() => worker?.describe().state === "busy", { message: "it is busy" })
    expect(worker?.describe()).toMatchObject({
      running: [job.id],
      jobs: [{ id: job.id, name: "scene.hold", attempt: 1 }],
    })
    release()
    await job.outcome(WAIT)
    await (await client.submit("scene.fails")).outcome(WAIT)
    await (await client.submit("scene.sleep", { input: { ms: 100 } })).outcome(WAIT)
    await eventually(() => worker?.describe().state === "idle", { message: "it is idle" })
    const counted = worker?.describe()
    expect(counted).toMatchObject({ processed: 3, failed: 1 })
    expect(counted?.workingSeconds).toBeGreaterThanOrEqual(0.1)
  })

  test("S167 graceful stop, idle: at once", async () => {
    const service = await start([stage().actor], { transport: newBoard() })
    const began = performance.now()
    expect(await service.stop()).toEqual({ finished: 0, handedBack: 0, stuck: 0, lost: 0 })
    expect(performance.now() - began).toBeLessThan(4_000)
  })

  describe("S178 suspend and resume", () => {
    test("suspend(1) ends by itself", async () => {
      const transport = newBoard()
      const { actor } = stage()
      const { client, worker } = await start([actor], { transport })
      await client.suspend(undefined, { ttl: 1 })
      await eventually(() => worker?.describe().state === "suspended", { message: "it is suspended" })
      const job = await client.submit("scene")
      expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
      await expect(client.suspend(undefined, { ttl: 0 })).rejects.toMatchObject({ details: { field: "ttl" } })
    })
  })
})
