/** Remote control and inspection, on every transport. */
import { actor, connect } from "callboard"
import { describe, expect, test } from "vitest"
import { encode } from "../../runtime/cluster/remote-command.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 60 } as const

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

onEveryBoard((newBoard, kind) => {
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
        return JSON.stringify(answer?.value) === JSON.stringify([{ id: waits.id, name: "scene", queue: "default" }])
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
    // The task that waits is handed back once the handler before it has run for a second.
    const inFlight = expect.toBeOneOf([1, 2])
    expect(stats?.value).toMatchObject({ name: "w1", concurrency: 1, inFlight, memory: { rss: expect.any(Number) } })
    resolve()
    await waits.outcome(WAIT)
  })

  test("an answer goes to a topic of answers, and to no other that a question names", async () => {
    const transport = newBoard()
    await start([makeActor(Promise.resolve())], { transport, name: "w1" })
    await using other = await connect(transport)
    const { broadcast } = other.connection
    const heard: Array<string> = []
    const topics = ["control", "cancel", "limit", "event", "board", "reply.1"]
    for (const topic of topics) await broadcast.listen(topic, () => heard.push(topic), AbortSignal.timeout(60_000))
    for (const reply of topics) await broadcast.send("inspect", encode({ command: "ping", arguments: {}, reply }))
    await eventually(() => heard.includes("reply.1"), { message: "the last question is answered" })
    expect(heard).toEqual(["reply.1"])
  })

  test("control is served before the tasks that wait, however many those are", async () => {
    const transport = newBoard()
    let ran = 0
    const busy = actor("busy", { methods: { run: () => void ran++ } })
    const { client, stopped } = await start([busy], { transport, concurrency: 4 })
    await using other = await connect(transport)
    const backlog = 2_000
    await client.submitMany(Array.from({ length: backlog }, () => ({ task: "busy" })))
    expect(await other.control("ping")).toMatchObject([{ value: "pong" }])
    expect(ran).toBeLessThan(backlog)
    // At once: what comes after it is not taken any more.
    await other.control("shutdown")
    const before = ran
    expect(before).toBeLessThan(backlog)
    await stopped
    expect(ran - before).toBeLessThan(backlog / 4)
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
      { error: "queue: the worker does not consume b" },
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

  // What a worker does with an order, once it is known to come on each transport.
  if (kind !== "memory") return

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
      { error: "count: the worker has 1 handler(s) and must keep one: at most 0" },
    ])
    expect(await client.control("pool-grow", { count: 10_000 })).toMatchObject([
      { error: "count: the worker has 1 handler(s) and can have 10000: at most 9999" },
    ])
    resolve()
    for (const job of jobs) await job.outcome(WAIT)
    await eventually(() => worker?.describe().processed === 6, { message: "all have ended" })
    expect(worker?.describe().concurrency).toBe(1)
  })

  test("time limits of a method change for runs that begin from now on", async () => {
    const { client } = await start([makeActor(new Promise(() => undefined))], { transport: newBoard() })
    expect(await client.control("time-limit", { task: "scene.hold", hard: 0.2 })).toMatchObject([
      { value: { task: "scene.hold", hard: 0.2 } },
    ])
    const job = await client.submit("scene.hold")
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "TimeLimitExceeded" } })
    expect(await client.control("time-limit", { task: "scene.no", hard: 1 })).toMatchObject([
      { error: "task: this worker does not serve scene.no" },
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
    expect(await client.control("rate-limit", { task: "scene.no", rate: 5 })).toMatchObject([
      { error: "task: this worker does not serve scene.no" },
    ])
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
    // Prefetch is made for the largest pool: eight. A take waits until a quarter of that is free.
    await eventually(() => (worker?.describe().inFlight ?? 0) > 6, { message: "it fetches for four" })
    expect(worker?.describe().inFlight).toBeLessThanOrEqual(8)
    expect(await client.control("autoscale", { min: 1, max: 6 })).toMatchObject([{ value: { min: 1, max: 6 } }])
    await eventually(() => worker?.inspect().active.length === 6, { message: "six run" })
    resolve()
    for (const job of jobs) await job.outcome(WAIT)
  })
})

describe("what cannot be asked is refused by its field, saying what it must be", () => {
  const WHOLE = "must be a whole number from 1 to 10000"
  const DURATION = "must be a duration: seconds as a number, or text such as 30s"
  test.each<readonly [command: string, given: unknown, options: object, field: string, message: string | RegExp]>([
    ["pign", {}, {}, "command", '"pign" is not a command (did you mean ping?)'],
    ["ping", { x: 1 }, {}, "x", "x is not an option of ping; it has none"],
    ["shutdown", { now: true }, {}, "now", "now is not an option of shutdown; it has none"],
    ["pool-grow", { n: 1 }, {}, "n", "n is not an option of pool-grow; it has count"],
    ["pool-grow", { cuont: 1 }, {}, "cuont", "cuont is not an option of pool-grow (did you mean count?)"],
    ["pool-grow", [1], {}, "arguments", "arguments: pool-grow takes an object with count"],
    ["pool-grow", {}, {}, "count", `count: is missing: it ${WHOLE}`],
    ["pool-grow", { count: 0 }, {}, "count", `count: ${WHOLE}`],
    ["pool-grow", { count: "two" }, {}, "count", `count: ${WHOLE}`],
    ["pool-grow", { count: 1.5 }, {}, "count", `count: ${WHOLE}`],
    ["pool-shrink", { count: -1 }, {}, "count", `count: ${WHOLE}`],
    ["autoscale", { min: 1 }, {}, "max", `max: is missing: it ${WHOLE}`],
    ["autoscale", { min: "16,2" }, {}, "min", `min: ${WHOLE}`],
    ["autoscale", { min: 0, max: 2 }, {}, "min", `min: ${WHOLE}`],
    ["autoscale", { min: 3, max: 2 }, {}, "min", "min: must not be greater than max; did you mean min 2 and max 3?"],
    ["add-consumer", { queue: "" }, {}, "queue", "queue: must be a queue name"],
    ["add-consumer", { queue: "b c" }, {}, "queue", /^queue: "b c" cannot be a name of a queue: use at most/],
    ["time-limit", { task: "a" }, {}, "hard", `hard: is missing: it ${DURATION}`],
    ["time-limit", { task: "a", hard: "soon" }, {}, "hard", /^hard: "soon" is not a duration/],
    ["time-limit", { task: "a", hard: 0 }, {}, "hard", "hard: must be more than 0"],
    ["time-limit", { task: "a", hard: 1, soft: 2 }, {}, "soft", "soft: must be shorter than hard"],
    ["rate-limit", { task: "a" }, {}, "rate", /^rate: is missing: it must be a rate, such as "10\/m"/],
    ["rate-limit", { task: "a", rate: true }, {}, "rate", /^rate: must be a rate, such as "10\/m"/],
    ["rate-limit", { task: "a", rate: "10/x" }, {}, "rate", /^rate: "10\/x" is not a rate: its unit must be s, m or h/],
    ["rate-limit", { task: "a", rate: "-1/m" }, {}, "rate", /^rate: "-1\/m" is not a rate: it is not a number with/],
    ["rate-limit", { task: "a", rate: "ten" }, {}, "rate", /^rate: "ten" is not a rate: it is not a number with/],
    ["rate-limit", { task: "a", rate: -1 }, {}, "rate", /^rate: "-1" is not a rate: it must be more than 0/],
    ["rate-limit", { rate: 5 }, {}, "task", "task: is missing: it must be a method name, such as math.add"],
    ["ping", {}, { timeout: 0 }, "timeout", "timeout: must be from 50 ms to 1 minute"],
    ["ping", {}, { timeout: "2 hours" }, "timeout", "timeout: must be from 50 ms to 1 minute"],
  ])("%s %j %j", async (command, given, options, field, message) => {
    const { client } = await start([])
    // As the command line and HTTP hand it over: untyped.
    await expect(Reflect.apply(client.control, client, [command, given, options])).rejects.toMatchObject({
      code: String(message).includes("is not an option") ? "unknown-field" : "invalid-input",
      details: { field },
      message: typeof message === "string" ? message : expect.stringMatching(message),
    })
  })

  test("by the worker itself, where code asks it", async () => {
    const { worker } = await start([makeActor(Promise.resolve())], { concurrency: 3 })
    if (worker === undefined) throw new Error("there is no worker")
    const { resize, autoscale, addQueue, limitTime, rateLimit } = worker
    const refusals: ReadonlyArray<readonly [method: CallableFunction, given: ReadonlyArray<unknown>, message: RegExp]> =
      [
        ...[0, -1, 1.5, Number.NaN, 10_001, "4", undefined].map(
          (count) => [resize, [count], /^concurrency: .*1 to 10000$/] as const,
        ),
        [autoscale, [{ min: 5, max: 2 }], /^autoscale: 5\.\.2 .*did you mean 2\.\.5\?$/],
        [autoscale, [{ min: 0, max: 2 }], /^autoscale: .*1 to 10000, /],
        [autoscale, [{ min: 1 }], /^autoscale: .*1 to 10000, /],
        [autoscale, ["16,2"], /^autoscale: .*2\.\.16, not 16,2$/],
        [addQueue, ["a b"], /^queue: "a b" cannot be a name of a queue/],
        [addQueue, [""], /^queue: /],
        [limitTime, ["scene.run", { hardMs: 0 }], /^hardMs: must be more than 0$/],
        [limitTime, ["scene.run", { hardMs: Number.NaN }], /^hardMs: must be more than 0$/],
        [limitTime, ["scene.run", { hardMs: 1, softMs: 2 }], /^softMs: must be shorter than hardMs$/],
        [rateLimit, ["scene.run", "10/x"], /^rate: "10\/x" is not a rate: .* s, m or h/],
        [rateLimit, ["scene.run", "-1/m"], /^rate: "-1\/m" is not a rate/],
        [rateLimit, ["scene.run", "ten"], /^rate: "ten" is not a rate/],
      ]
    for (const [method, given, message] of refusals) {
      const call = () => Reflect.apply(method, worker, given)
      expect(call, `${method.name} ${JSON.stringify(given)}`).toThrow(message)
      expect(call).toThrow(expect.objectContaining({ code: "invalid-input" }))
    }
    expect(worker.describe()).toMatchObject({ concurrency: 3, queues: ["default"] })
  })

  test("workers that nobody has heard of", async () => {
    const { client } = await start([makeActor(Promise.resolve())], { name: "w1" })
    await expect(client.control("ping", {}, { workers: ["w2"] })).rejects.toMatchObject({
      code: "not-found",
      details: { field: "workers" },
      message: 'no worker named "w2" is running (did you mean w1?)',
    })
  })

  test.each([
    ["10,3", "must be written as min..max: 3..10, not 10,3"],
    ["5..2", "5..2 has a minimum above its maximum; did you mean 2..5?"],
    ["0..4", "must be two whole numbers from 1 to 10000, such as 2..16"],
    ["many", "must be two whole numbers, such as 2..16"],
    ["10", "must be two whole numbers, such as 2..16"],
    ["16,2", "must be written as min..max: 2..16, not 16,2"],
  ])("autoscale %s", async (autoscale, message) => {
    await expect(start([makeActor(Promise.resolve())], { autoscale })).rejects.toMatchObject({
      code: "invalid-input",
      message: `autoscale: ${message}`,
      details: { field: "autoscale" },
    })
  })
})
