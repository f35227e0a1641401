/** Remote control and inspection, on every transport. */
import { actor, connect } from "callboard"
import { describe, expect, test } from "vitest"
import { start } from "../runtime/worker/services.ts"
import { eventually } from "../servers/process.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 15 } as const

const makeActor = (held: Promise<void>) =>
  actor("scene", {
    methods: {
      run: () => "done",
      hold: async (_input: unknown, job) => {
        await Promise.race([held, new Promise((resolve) => job.signal.addEventListener("abort", resolve))])
        if (job.signal.aborted) throw job.signal.reason
      },
    },
  })

onEveryBoard((newBoard) => {
  test("every worker answers, by name; a caller elsewhere sees what they do", async () => {
    const transport = newBoard()
    const { promise, resolve } = Promise.withResolvers<void>()
    const scene = makeActor(promise)
    const { client } = await start([scene], { transport, name: "w1", concurrency: 1, prefetch: 4 })
    await using other = await connect(transport)
    const job = await client.submit("scene.hold")
    await eventually(async () => (await job.find()).state === "started", { message: "it runs" })
    const waits = await client.submit("scene")
    await eventually(
      async () => {
        const [answer] = await other.control("reserved")
        return JSON.stringify(answer?.value) === JSON.stringify([{ id: waits.id, queue: "default" }])
      },
      { message: "the second task waits in the worker" },
    )
    await start([scene], { transport, name: "w2", queues: ["other"] })
    expect(await other.control("ping")).toEqual([
      { worker: "w1", value: "pong" },
      { worker: "w2", value: "pong" },
    ])
    expect(await other.control("active", {}, { workers: ["w1"] })).toMatchObject([
      { worker: "w1", value: [{ id: job.id, name: "scene.hold", queue: "default", attempt: 1 }] },
    ])
    expect(await other.control("queues")).toMatchObject([{ value: ["default"] }, { value: ["other"] }])
    expect(await other.control("registered", {}, { workers: ["w2"] })).toEqual([
      { worker: "w2", value: [{ name: "scene", methods: ["run", "hold"] }] },
    ])
    const [stats] = await other.control("stats", {}, { workers: ["w1"] })
    expect(stats?.value).toMatchObject({ name: "w1", concurrency: 1, inFlight: 2, memory: { rss: expect.any(Number) } })
    resolve()
    await waits.outcome(WAIT)
  })

  test("the pool grows and shrinks, exactly, while jobs run", async () => {
    const transport = newBoard()
    const { promise, resolve } = Promise.withResolvers<void>()
    const { client, worker } = await start([makeActor(promise)], { transport, concurrency: 1, prefetch: 1 })
    const jobs = await Promise.all(Array.from({ length: 6 }, () => client.submit("scene.hold")))
    const running = () => worker?.inspect().active.length
    await eventually(() => running() === 1, { message: "one runs" })
    expect(await client.control("pool-grow", { count: 2 })).toMatchObject([{ value: { concurrency: 3 } }])
    await eventually(() => running() === 3, { message: "three run" })
    expect(await client.control("pool-shrink", { count: 2 })).toMatchObject([{ value: { concurrency: 1 } }])
    // What runs goes on.
    expect(running()).toBe(3)
    expect(await client.control("pool-shrink", { count: 1 })).toMatchObject([
      { error: expect.stringContaining("0 handlers") },
    ])
    resolve()
    for (const job of jobs) await job.outcome(WAIT)
    await eventually(() => worker?.describe().processed === 6, { message: "all are settled" })
    expect(worker?.describe().concurrency).toBe(1)
  })

  test("a worker listens to one queue more, and no more", async () => {
    const transport = newBoard()
    const { client } = await start([makeActor(Promise.resolve())], { transport, queues: ["a"] })
    const job = await client.submit("scene", { queue: "b" })
    expect(await client.control("add-consumer", { queue: "b" })).toMatchObject([{ value: ["a", "b"] }])
    expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(await client.control("cancel-consumer", { queue: "b" })).toMatchObject([{ value: ["a"] }])
    const later = await client.submit("scene", { queue: "b" })
    await (await client.submit("scene", { queue: "a" })).outcome(WAIT)
    expect(await later.find()).toMatchObject({ state: "queued" })
    expect(await client.control("cancel-consumer", { queue: "b" })).toMatchObject([
      { error: "it does not listen to b" },
    ])
    expect(await client.control("add-consumer", { queue: "b c" })).toMatchObject([
      { error: expect.stringMatching(/^queue: /) },
    ])
  })

  test("time limits of a method change for runs that begin from now on", async () => {
    const { client } = await start([makeActor(new Promise(() => undefined))], { transport: newBoard() })
    expect(await client.control("time-limit", { task: "scene.hold", hard: 0.2 })).toMatchObject([
      { value: { task: "scene.hold", hard: 0.2 } },
    ])
    const job = await client.submit("scene.hold")
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "TimeLimitExceeded" } })
    expect(await client.control("time-limit", { task: "scene.no", hard: 1 })).toMatchObject([
      { error: "nobody here serves scene.no" },
    ])
    expect(await client.control("time-limit", { task: "scene.hold", hard: 1, soft: 2 })).toMatchObject([
      { error: "soft: must be more than 0 and shorter than hard" },
    ])
  })

  test("the rate of a method changes, and is taken away again", async () => {
    const { client } = await start([makeActor(Promise.resolve())], { transport: newBoard() })
    const answers = (rate: string | number) => client.control("rate-limit", { task: "scene.run", rate })
    expect(await answers("1/h")).toMatchObject([{ value: { task: "scene.run", rate: "1/h" } }])
    await (await client.submit("scene")).outcome(WAIT)
    const second = await client.submit("scene")
    await expect(second.result({ timeout: 0.5 })).rejects.toMatchObject({ _tag: "WaitTimeout" })
    expect(await answers("none")).toMatchObject([{ value: { rate: "none" } }])
    await (await client.submit("scene")).outcome(WAIT)
    expect(await answers("10/x")).toMatchObject([{ error: expect.stringMatching(/rate/) }])
    expect(await client.control("rate-limit", { task: "scene.no", rate: 5 })).toMatchObject([
      { error: "nobody here serves scene.no" },
    ])
  })

  test("events about tasks are told while they are enabled", async () => {
    const { client } = await start([makeActor(Promise.resolve())], { transport: newBoard() })
    const types: Array<string> = []
    const stop = new AbortController()
    await client.listen(({ type }) => {
      if (type.startsWith("task-")) types.push(type)
    }, stop.signal)
    const answered = async (command: "enable-events" | "disable-events") => (await client.control(command))[0]?.value
    expect(await answered("enable-events")).toBe("task events enabled")
    expect(await answered("enable-events")).toBe("task events already enabled")
    await (await client.submit("scene")).outcome(WAIT)
    await eventually(() => types.length === 3, { message: "they are told" })
    expect(types).toEqual(["task-received", "task-started", "task-succeeded"])
    expect(await answered("disable-events")).toBe("task events disabled")
    await (await client.submit("scene")).outcome(WAIT)
    // What is asked now is answered after whatever the worker had to tell.
    await client.control("ping")
    expect(types).toHaveLength(3)
    stop.abort()
  })

  test("shutdown stops the service that was meant, and no other", async () => {
    const transport = newBoard()
    const scene = makeActor(Promise.resolve())
    const first = await start([scene], { transport, name: "w1" })
    const second = await start([scene], { transport, name: "w2" })
    expect(await second.client.control("shutdown", {}, { workers: ["w1"] })).toEqual([
      { worker: "w1", value: "stopping" },
    ])
    await first.stopped
    expect((await second.client.workers()).map(({ name }) => name)).toEqual(["w2"])
  })

  test("with autoscale the handlers follow the work, up at once, and never beyond the bounds", async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const { client, worker } = await start([makeActor(promise)], {
      transport: newBoard(),
      autoscale: "1..4",
      prefetch: 2,
    })
    expect(worker?.describe().concurrency).toBe(1)
    const jobs = await Promise.all(Array.from({ length: 12 }, () => client.submit("scene.hold")))
    await eventually(() => worker?.inspect().active.length === 4, { message: "four run" })
    // Prefetch is made for the largest pool: eight. A pull waits until a quarter of that is free.
    await eventually(() => (worker?.describe().inFlight ?? 0) > 6, { message: "it fetches for four" })
    expect(worker?.describe().inFlight).toBeLessThanOrEqual(8)
    expect(await client.control("autoscale", { min: 1, max: 6 })).toMatchObject([{ value: { min: 1, max: 6 } }])
    await eventually(() => worker?.inspect().active.length === 6, { message: "six run" })
    expect(await client.control("autoscale", { min: 3, max: 2 })).toMatchObject([
      { error: "min: must not be more than max" },
    ])
    resolve()
    for (const job of jobs) await job.outcome(WAIT)
  })
})

describe("what cannot be asked is refused by its field", () => {
  test.each([
    ["pign", {}, {}, "command"],
    ["ping", { x: 1 }, {}, "x"],
    ["pool-grow", {}, {}, "count"],
    ["pool-grow", { count: 0 }, {}, "count"],
    ["pool-grow", { count: "two" }, {}, "count"],
    ["autoscale", { min: 1 }, {}, "max"],
    ["add-consumer", { queue: "" }, {}, "queue"],
    ["time-limit", { task: "a" }, {}, "hard"],
    ["ping", {}, { timeout: 0 }, "timeout"],
    ["ping", {}, { timeout: "2 hours" }, "timeout"],
  ])("%s %j %j", async (command, given, options, field) => {
    const { client } = await start([])
    // As the command line and HTTP hand it over: untyped.
    await expect(Reflect.apply(client.control, client, [command, given, options])).rejects.toMatchObject({
      code: "invalid-input",
      details: { field },
    })
  })

  test("workers that nobody has heard of", async () => {
    const { client } = await start([makeActor(Promise.resolve())], { name: "w1" })
    await expect(client.control("ping", {}, { workers: ["w2"] })).rejects.toMatchObject({
      code: "not-found",
      details: { field: "workers" },
      message: 'there is no live worker "w2" (did you mean w1?)',
    })
  })

  test.each([
    ["10,3", "is written from least to most: 3..10, not 10,3"],
    ["5..2", "5..2 begins above its end; did you mean 2..5?"],
    ["0..4", "must be two whole numbers from 1 to 10000, as in 2..16"],
    ["many", "must be two whole numbers, as in 2..16"],
  ])("autoscale %s", async (autoscale, message) => {
    await expect(start([makeActor(Promise.resolve())], { autoscale })).rejects.toMatchObject({
      code: "invalid-input",
      message: `autoscale: ${message}`,
      details: { field: "autoscale" },
    })
  })
})
