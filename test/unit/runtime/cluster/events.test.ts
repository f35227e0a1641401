/** Events of workers and applications, on every transport, with the fields of the message protocol document. */
import { type ActorDefinition, type Client, connect, type ReceivedEvent, type ServeOptions } from "callboard"
import { Result } from "effect"
import { describe, expect, test } from "vitest"
import { EventSender } from "../../../../runtime/cluster/events.ts"
import { generateId } from "../../../../runtime/id.ts"
import { NO_EMBED } from "../../../../runtime/protocol/body.ts"
import { composeMessage } from "../../../../runtime/protocol/compose.ts"
import { newTask, postingOf } from "../../../../runtime/protocol/headers.ts"
import { VERSION } from "../../../../runtime/version.ts"
import { onEveryBoard } from "../../../scenarios/boards.ts"
import { startNats } from "../../../support/servers/nats.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"
import { telling, tellingApart } from "./event-actor.ts"

const WAIT = { timeout: 60 } as const

const COMMON = ["type", "hostname", "timestamp", "utcoffset", "pid", "clock"]

/** The fields of each type besides the common ones, as in section 4 of the document. */
const FIELDS: Readonly<Record<string, ReadonlyArray<string>>> = {
  "task-sent": "uuid root_id parent_id name args kwargs retries eta expires queue exchange routing_key".split(" "),
  "task-received": "uuid name args kwargs root_id parent_id retries eta expires".split(" "),
  "task-started": ["uuid"],
  "task-succeeded": ["uuid", "result", "runtime"],
  "task-failed": ["uuid", "exception", "traceback"],
  "task-retried": ["uuid", "exception", "traceback"],
  "task-rejected": ["uuid", "requeue"],
  "task-revoked": ["uuid", "terminated", "signum", "expired"],
  "task-cancelled": ["uuid"],
  "worker-online": "freq active processed loadavg sw_ident sw_ver sw_sys".split(" "),
  "worker-heartbeat": "freq active processed loadavg sw_ident sw_ver sw_sys".split(" "),
  "worker-offline": "freq active processed loadavg sw_ident sw_ver sw_sys".split(" "),
}

/** All events on a board from now on. */
const listenTo = async (client: Client, signal = new AbortController().signal) => {
  const heard: Array<ReceivedEvent> = []
  await client.listen((event) => {
    heard.push(event)
  }, signal)
  const of = (id: string) => heard.filter((event) => event["uuid"] === id)
  const typesOf = (id: string) => of(id).map(({ type }) => type)
  return {
    heard,
    of,
    typesOf,
    /** The events of a job, once there are this many, each checked against the document. */
    untilTold: async (id: string, types: ReadonlyArray<string>): Promise<ReadonlyArray<ReceivedEvent>> => {
      await eventually(() => typesOf(id).length >= types.length, {
        message: `heard ${typesOf(id).join(", ")} instead of ${types.join(", ")}`,
      })
      expect(typesOf(id)).toEqual(types)
      for (const event of of(id)) {
        expect(Object.keys(event).sort()).toEqual([...COMMON, ...(FIELDS[event.type] ?? [])].sort())
        expect(event["timestamp"]).toBeCloseTo(Date.now() / 1000, -2)
        expect(event).toMatchObject({ utcoffset: 0, pid: process.pid })
      }
      const clocks = of(id).map((event) => Number(event["clock"]))
      expect(clocks).toEqual([...clocks].sort((a, b) => a - b))
      return of(id)
    },
  }
}

const told = (service: { readonly client: Client }) => listenTo(service.client)

/** Runs a job whose events come after all earlier events. */
const untilAllHeard = async (client: Client, listening: Awaited<ReturnType<typeof listenTo>>) => {
  const type = `fence-${generateId().slice(-8)}`
  await client.event(type)
  await eventually(() => listening.heard.some((event) => event.type === type), { message: "the last is heard" })
}

onEveryBoard((newBoard, transport) => {
  const serving = (options: ServeOptions = {}, actors: ReadonlyArray<ActorDefinition> = [telling]) =>
    start(actors, { transport: newBoard(), name: "w1", events: true, ...options })

  describe("of tasks", () => {
    test("a success: received, started, succeeded", async () => {
      const service = await serving()
      const { untilTold } = await told(service)
      const job = await service.client.submit("telling.works", { args: [1, "two"], expires: "1h", parentId: "p" })
      const [received, started, succeeded] = await untilTold(job.id, [
        "task-received",
        "task-started",
        "task-succeeded",
      ])
      expect(received).toMatchObject({
        name: "telling.works",
        args: '[1,"two"]',
        kwargs: "{}",
        root_id: job.id,
        parent_id: "p",
        retries: 0,
        eta: null,
        expires: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*(Z|\+00:00)$/),
        hostname: expect.stringMatching(/^w1@./),
      })
      expect(started?.["clock"]).toBeGreaterThan(Number(received?.["clock"]))
      expect(succeeded).toMatchObject({ result: '{"answer":42}', runtime: expect.any(Number) })
      expect(succeeded?.["runtime"]).toBeLessThan(20)
    })

    // The other transports store a result of any size.
    if (transport === "nats")
      test("a result that the transport refuses: received, started, failed", async () => {
        const service = await serving()
        const { untilTold } = await told(service)
        const job = await service.client.submit("telling.large")
        const events = await untilTold(job.id, ["task-received", "task-started", "task-failed"])
        expect(events[2]).toMatchObject({ exception: expect.stringMatching(/^ResultTooLarge\(/) })
      })

    // The following checks do not depend on the transport.
    if (transport !== "memory") return

    test("a failure, in the worker and in a process of its own: received, started, failed", async () => {
      const service = await serving({}, [telling, tellingApart])
      const { untilTold } = await told(service)
      for (const name of ["telling", "apart"]) {
        const job = await service.client.submit(`${name}.fails`)
        const events = await untilTold(job.id, ["task-received", "task-started", "task-failed"])
        expect(events[2]).toMatchObject({
          exception: 'RangeError("out of luck")',
          traceback: expect.stringContaining("event-actor.ts"),
        })
      }
    })

    test("a retry: received, started, retried, and the next attempt", async () => {
      const service = await serving()
      const { untilTold } = await told(service)
      const job = await service.client.submit("telling.flaky")
      const once = ["task-received", "task-started"]
      const events = await untilTold(job.id, [...once, "task-retried", ...once, "task-succeeded"])
      expect(events[2]).toMatchObject({ exception: 'TypeError("not yet")' })
      expect(events[3]).toMatchObject({ retries: 1 })
      expect(events[5]).toMatchObject({ result: '"now"' })
    })

    test("a task that its broker delivers before its eta: received, not rejected, and received again", async () => {
      const service = await serving()
      const { untilTold } = await told(service)
      const id = generateId()
      const task = newTask({ task: "telling.works", id, eta: Date.now() + 1_000 })
      const message = Result.getOrThrow(composeMessage(task, { args: [1, "two"], kwargs: {}, embed: NO_EMBED }))
      const { due: _atOnce, ...posting } = Result.getOrThrow(postingOf(message, "default"))
      await service.client.connection.jobs.publish([posting])
      await untilTold(id, ["task-received", "task-received", "task-started", "task-succeeded"])
    })

    test("a rejected job: received, started, rejected", async () => {
      const service = await serving()
      const { untilTold } = await told(service)
      const job = await service.client.submit("telling.rejects")
      const events = await untilTold(job.id, ["task-received", "task-started", "task-rejected"])
      expect(events[2]).toMatchObject({ requeue: false })
    })

    test("cancelled while it runs: received, started, revoked", async () => {
      const service = await serving()
      const { untilTold } = await told(service)
      const job = await service.client.submit("telling.endless")
      await eventually(async () => (await job.find()).state === "started", { message: "it is told to run" })
      await job.cancel()
      const events = await untilTold(job.id, ["task-received", "task-started", "task-revoked"])
      expect(events[2]).toMatchObject({ terminated: true, signum: null, expired: false })
    })

    test("revoked by a header before it starts: received, revoked", async () => {
      const service = await serving()
      const { untilTold } = await told(service)
      await service.client.revoke({ header: "tenant", values: ["acme"] })
      const job = await service.client.submit("telling.works", { headers: { tenant: "acme" } })
      const events = await untilTold(job.id, ["task-received", "task-revoked"])
      expect(events[1]).toMatchObject({ terminated: false, signum: null, expired: false })
    })

    test("expired when its turn comes: received, revoked", async () => {
      const service = await serving({ concurrency: 1, prefetch: 4 })
      const { untilTold, typesOf } = await told(service)
      const first = await service.client.submit("telling.endless")
      const late = await service.client.submit("telling.works", { expires: 0.2 })
      const over = Date.now() + 200
      await eventually(() => typesOf(late.id).length === 1 && Date.now() > over, { message: "its time is over" })
      await first.cancel()
      const events = await untilTold(late.id, ["task-received", "task-revoked"])
      expect(events[1]).toMatchObject({ terminated: false, signum: null, expired: true })
    })

    test("cancelled while it waits in the worker: received, revoked", async () => {
      const service = await serving({ concurrency: 1, prefetch: 4 })
      const { untilTold, typesOf } = await told(service)
      const first = await service.client.submit("telling.endless")
      const second = await service.client.submit("telling.works")
      await eventually(() => typesOf(second.id).length === 1, { message: "it is received" })
      await second.cancel()
      const events = await untilTold(second.id, ["task-received", "task-revoked"])
      expect(events[1]).toMatchObject({ terminated: false, signum: null, expired: false })
      await first.cancel()
    })

    test("cancelled while it runs in a process that is killed for it: revoked, with the signal", async () => {
      const service = await serving({}, [tellingApart])
      const { untilTold, typesOf } = await told(service)
      const job = await service.client.submit("apart.spins")
      await eventually(() => typesOf(job.id).includes("task-started"), { message: "it runs" })
      await eventually(async () => (await job.find()).state === "started", { message: "it is told to run" })
      await job.cancel({ terminate: true })
      const events = await untilTold(job.id, ["task-received", "task-started", "task-revoked"])
      expect(events[2]).toMatchObject({ terminated: true, signum: 9, expired: false })
    })

    test("a task that nobody serves fails without a traceback, and shows no arguments", async () => {
      const service = await serving({ unknownGrace: 0 })
      const { of, typesOf } = await told(service)
      const job = await service.client.submit("nobody.home", { input: { a: 1 } })
      await eventually(() => typesOf(job.id).length === 2, { message: "it fails" })
      expect(of(job.id)).toEqual([
        expect.objectContaining({ type: "task-received", args: "***", kwargs: "***" }),
        expect.objectContaining({ type: "task-failed", exception: expect.stringMatching(/^NotRegistered\(/) }),
      ])
      expect(of(job.id)[1]).not.toHaveProperty("traceback")
    })

    test("what a stop hands back: cancelled where a handler ran, else rejected to be queued again", async () => {
      const service = await serving({ concurrency: 1, prefetch: 4 })
      const { untilTold, typesOf, of } = await told(service)
      const runs = await service.client.submit("telling.endless")
      const waits = await service.client.submit("telling.works")
      await eventually(() => typesOf(waits.id).length === 1 && typesOf(runs.id).length === 2, {
        message: "both are there",
      })
      void service.stop({ now: true })
      await untilTold(runs.id, ["task-received", "task-started", "task-cancelled"])
      await untilTold(waits.id, ["task-received", "task-rejected"])
      expect(of(waits.id)[1]).toMatchObject({ requeue: true })
    })

    test("texts are short, and without what the method hides", async () => {
      const service = await serving()
      const { untilTold } = await told(service)
      const types = ["task-received", "task-started", "task-succeeded"]
      const ran = async (...args: Parameters<Client["submit"]>) =>
        untilTold((await service.client.submit(...args)).id, types)
      const [all, , result] = await ran("telling.secret", { input: { a: 1 } })
      expect([all?.["args"], all?.["kwargs"], result?.["result"]]).toEqual(["***", "***", "***"])
      const [some, , partly] = await ran("telling.partly", { input: { user: "u", password: "p" } })
      expect(some).toMatchObject({ kwargs: '{"user":"u","password":"***"}' })
      expect(partly).toMatchObject({ result: '{"user":"u","password":"***"}' })
      const [byPlace] = await ran("telling.partly", { args: ["u", "p"] })
      expect(byPlace).toMatchObject({ args: '["u","***"]', kwargs: "{}" })
      const [long] = await ran("telling.works", { input: { text: "x".repeat(10_000) } })
      expect(String(long?.["kwargs"])).toMatch(/^\{"text":"x+…$/)
      expect(String(long?.["kwargs"])).toHaveLength(1_024)
      const [huge] = await ran("telling.works", { input: { text: "x".repeat(100_000) } })
      expect(huge).toMatchObject({ kwargs: "(too-large)" })
      const [, , nothing] = await ran("telling.empty")
      expect(nothing).toMatchObject({ result: "null" })
    })

    test("off by default, on and off at run time", async () => {
      const service = await serving({ events: false })
      const listening = await told(service)
      const { client, worker } = service
      const run = async () => {
        const before = worker?.describe().processed ?? 0
        const job = await client.submit("telling.works")
        await eventually(() => (worker?.describe().processed ?? 0) > before, { message: "it is settled" })
        return job.id
      }
      const quiet = await run()
      expect(worker?.events(false)).toBe(false)
      expect(worker?.events(true)).toBe(true)
      expect(worker?.events(true)).toBe(false)
      await listening.untilTold(await run(), ["task-received", "task-started", "task-succeeded"])
      expect(worker?.events(false)).toBe(true)
      const again = await run()
      await untilAllHeard(client, listening)
      expect(listening.typesOf(quiet)).toEqual([])
      expect(listening.typesOf(again)).toEqual([])
    })

    test("task-sent is told by whoever submits, if it was asked to", async () => {
      const transport = newBoard()
      const service = await start([telling], { transport })
      await using client = await connect(transport, { taskSentEvents: true })
      const { untilTold, heard } = await told(service)
      const job = await client.submit("telling.partly", { args: ["u", "p"], delay: "1h" })
      const [sent] = await untilTold(job.id, ["task-sent"])
      expect(sent).toMatchObject({
        name: "telling.partly",
        args: '["u","***"]',
        kwargs: "{}",
        retries: 0,
        eta: expect.stringMatching(/^\d{4}-/),
        expires: null,
        queue: "default",
        exchange: "",
        routing_key: "default",
        root_id: job.id,
        parent_id: null,
        hostname: expect.stringMatching(/^gen\d+@/),
      })
      await service.client.submit("telling.works", { id: "quiet" })
      // A duplicate was not submitted again, so there is no event.
      await client.submit("telling.works", { id: "quiet" })
      await client.event("test-over")
      await eventually(() => heard.some(({ type }) => type === "test-over"), { message: "all is heard" })
      expect(heard.filter(({ type }) => type === "task-sent")).toHaveLength(1)
    })
  })

  test("a worker tells that it is there: online, a heartbeat, offline, without being asked to", async () => {
    const transport = newBoard()
    await using watcher = await connect(transport)
    const { heard } = await listenTo(watcher)
    const service = await start([telling], { transport, name: "w7" })
    await (await service.client.submit("telling.works")).result(WAIT)
    await eventually(() => heard.some(({ type }) => type === "worker-heartbeat"), { message: "the heart beats" })
    await service.stop()
    await eventually(() => heard.some(({ type }) => type === "worker-offline"), { message: "it goes" })
    expect(heard[0]?.type).toBe("worker-online")
    expect(heard.at(-1)?.type).toBe("worker-offline")
    for (const event of heard) {
      expect(Object.keys(event).sort()).toEqual([...COMMON, ...(FIELDS[event.type] ?? ["?"])].sort())
      expect(event).toMatchObject({ freq: 2, sw_ident: "callboard", sw_ver: VERSION, sw_sys: expect.any(String) })
      expect(event["loadavg"]).toEqual([expect.any(Number), expect.any(Number), expect.any(Number)])
      expect(event["hostname"]).toMatch(/^w7@./)
    }
    expect(heard.at(-1)).toMatchObject({ active: 0, processed: 1 })
    const beats = heard.filter(({ type }) => type === "worker-heartbeat")
    expect(beats[0]?.["clock"]).toBeGreaterThan(Number(heard[0]?.["clock"]))
  })

  describe("of applications", () => {
    test.each(["telling", "apart"])("a handler of %s tells its own, with its job's id", async (name) => {
      const service = await serving({ events: false }, [telling, tellingApart])
      const { of } = await told(service)
      const job = await service.client.submit(`${name}.tells`)
      await job.result(WAIT)
      await eventually(() => of(job.id).length === 2, { message: "both are heard" })
      expect(of(job.id)).toEqual([
        expect.objectContaining({
          type: "order-shipped",
          items: [1, { two: null }],
          hostname: expect.stringMatching(/^w1@/),
        }),
        expect.objectContaining({ type: "order-paid" }),
      ])
      const wrong = async (type: string, fields: object) =>
        (await service.client.submit(`${name}.tellsWrongly`, { input: { type, fields } })).result(WAIT)
      expect(await wrong("shipped", {})).toEqual(["invalid-input", "type"])
      expect(await wrong("order-shipped", { uuid: "x" })).toEqual(["invalid-input", "fields.uuid"])
    })

    test("a client tells its own; what comes after an event that it heard of has a larger clock", async () => {
      const transport = newBoard()
      await using one = await connect(transport)
      await using other = await connect(transport)
      const { heard } = await listenTo(one)
      for (let at = 0; at < 5; at++) await other.event("order-shipped", { at })
      await eventually(() => heard.length === 5, { message: "all are heard" })
      expect(heard.map((event) => event["at"])).toEqual([0, 1, 2, 3, 4])
      await one.event("order-paid")
      await eventually(() => heard.length === 6, { message: "its own is heard" })
      expect(heard[5]?.["clock"]).toBeGreaterThan(Number(heard[4]?.["clock"]))
    })
  })

  // The reader of /v1/events does not read, and the worker sends more events than fit at once.
  test("a flood of jobs with a deaf listener: none is lost, and what waits for it is bounded", async () => {
    const service = await serving({ concurrency: 64, http: { port: 0 } })
    const deaf = new AbortController()
    const stream = await fetch(`${service.url}/v1/events`, { signal: deaf.signal })
    expect(stream.status).toBe(200)
    const before = process.memoryUsage().heapUsed
    // What waits for a listener is bounded by the runtime; a transport can only lose jobs.
    const count = transport === "memory" ? 5_000 : 1_000
    const ids = Array.from({ length: count }, (_each, at) => `job-${at}`)
    const answers = await service.client.submitMany(ids.map((id) => ({ task: "telling.empty", id })))
    expect(answers.filter((answer) => "durability" in answer)).toHaveLength(count)
    await eventually(() => service.worker?.describe().processed === count, {
      message: "all have run",
      deadline: 90_000,
    })
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(200 * 1024 * 1024)
    deaf.abort()
    expect(service.worker?.describe()).toMatchObject({ failed: 0, superseded: 0 })
  }, 120_000)
})

test("who listens over nats hears again after the server was away", { timeout: 120_000 }, async () => {
  await using server = await startNats()
  await using client = await connect(server.url)
  const { heard } = await listenTo(client)
  await server.restart()
  await eventually(
    async () => {
      await client.event("order-shipped")
      return heard.length > 0
    },
    { message: "it is heard", deadline: 60_000, every: 200 },
  )
})

describe("events that applications may not tell", () => {
  const nested: Array<unknown> = []
  nested.push(nested)
  test.each<readonly [string, unknown, unknown]>([
    ["type", "", {}],
    ["type", "shipped", {}],
    ["type", "Order-shipped", {}],
    ["type", "order_shipped", {}],
    ["type", "order-", {}],
    ["type", "-order", {}],
    ["type", "order--shipped", {}],
    ["type", "order shipped-x", {}],
    ["type", "order-shipped\n", {}],
    ["type", `order-${"x".repeat(100)}`, {}],
    ["type", "task-succeeded", {}],
    ["type", "worker-offline", {}],
    ["type", 7, {}],
    ["fields", "order-shipped", null],
    ["fields", "order-shipped", [1]],
    ["fields", "order-shipped", new Date()],
    ["fields.hostname", "order-shipped", { hostname: "x" }],
    ["fields.type", "order-shipped", { type: "x" }],
    ["fields.clock", "order-shipped", { clock: 1 }],
    ["fields.a", "order-shipped", { a: Number.NaN }],
    ["fields.a[1].b", "order-shipped", { a: [1, { b: 1n }] }],
    ["fields.at", "order-shipped", { at: new Date() }],
    ["fields.run", "order-shipped", { run: () => 1 }],
    ["fields.a.__type__", "order-shipped", { a: { __type__: "uuid", __value__: 1 } }],
    ["fields", "order-shipped", { text: "x".repeat(65_536) }],
    ["fields", "order-shipped", { text: "é".repeat(40_000) }],
  ])("%s: %j", async (field, type, fields) => {
    await using client = await connect(`memory://${generateId()}`)
    // Values that only callers without types can pass.
    await expect(Reflect.apply(client.event, client, [type, fields])).rejects.toMatchObject({
      code: "invalid-input",
      details: { field },
    })
  })

  test("neither what refers to itself", async () => {
    await using client = await connect(`memory://${generateId()}`)
    await expect(client.event("order-shipped", { nested })).rejects.toMatchObject({ code: "invalid-input" })
  })

  test("what is as large as may be is told", async () => {
    await using client = await connect(`memory://${generateId()}`)
    const { heard } = await listenTo(client)
    await client.event("order-shipped", { text: "x".repeat(65_536 - '{"text":""}'.length), not: undefined })
    await eventually(() => heard.length === 1, { message: "it is heard" })
  })
})

describe("what waits to be sent", () => {
  /** A connection whose broadcast sends nothing until it is released. */
  const stuckBoard = async () => {
    await using client = await connect(`memory://${generateId()}`)
    const sent: Array<Uint8Array> = []
    const gate = Promise.withResolvers<void>()
    const broadcast = {
      ...client.connection.broadcast,
      send: async (_topic: string, payload: Uint8Array) => {
        await gate.promise
        sent.push(payload)
      },
    }
    return { connection: { ...client.connection, broadcast }, sent, release: gate.resolve }
  }
  const decode = (payloads: ReadonlyArray<Uint8Array>): ReadonlyArray<ReceivedEvent> =>
    payloads.flatMap((payload) => JSON.parse(new TextDecoder().decode(payload)))

  test("is bounded: the oldest are dropped, and counted in a log line", async () => {
    const { connection, sent, release } = await stuckBoard()
    const lines: Array<unknown> = []
    const sender = new EventSender({
      connection,
      hostname: "w@h",
      log: { debug: (message, fields) => lines.push([message, fields]) },
    })
    sender.emit("order-shipped", { at: -1 })
    // The first event is being sent when the others come.
    await new Promise((resolve) => setImmediate(resolve))
    for (let at = 0; at < 5_000; at++) sender.emit("order-shipped", { at })
    release()
    await sender.flush()
    const events = decode(sent)
    expect(events.at(0)).toMatchObject({ at: -1 })
    expect(events.at(-1)).toMatchObject({ at: 4_999, clock: 5_001 })
    expect(events.length).toBeLessThanOrEqual(1_001)
    const dropped = 5_001 - events.length
    expect(lines).toEqual([["events were dropped: there were more than could be sent", { count: dropped }]])
  })

  test("goes in messages that a broker takes", async () => {
    const { connection, sent, release } = await stuckBoard()
    release()
    const sender = new EventSender({ connection, hostname: "w@h" })
    for (let at = 0; at < 500; at++) sender.emit("order-shipped", { at, text: "x".repeat(10_000) })
    await sender.flush()
    const sizes = sent.map(({ length }) => length)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(256 * 1024 + 200)
    expect(decode(sent).at(-1)).toMatchObject({ at: 499 })
    // At most 4 MiB of events waited.
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(4.1 * 1024 * 1024)
  })
})
