/** The nats driver by itself: the messages that it sends, and what a crash leaves behind. */
import { actor, serve } from "callboard"
import { connect as dial, headers, type NatsConnection } from "nats"
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest"
import { Link } from "../../../../plugins/nats/connection/link.ts"
import { Names, plugin } from "../../../../plugins/nats/mod.ts"
import { generateId } from "../../../../runtime/id.ts"
import { encodeEnvelope } from "../../../../runtime/protocol/envelope.ts"
import { publishKey } from "../../../../runtime/protocol/message.ts"
import type { Commit, Delivery, Driver, Posting } from "../../../../runtime/transport/driver.ts"
import type { Index } from "../../../../runtime/transport/known.ts"
import { taskOf } from "../../../kit/task.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { startNatsCluster } from "../../../support/servers/nats-cluster.ts"
import { eventually } from "../../../support/servers/process.ts"
import { type Proxy, startProxy } from "./proxy.ts"

const closing = (client: NatsConnection): NatsConnection & AsyncDisposable =>
  Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })

const never = new AbortController().signal
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const textOf = (bytes: Uint8Array | undefined): string | undefined =>
  bytes === undefined ? undefined : new TextDecoder().decode(bytes)

const postingOf = (fields: Partial<Parameters<typeof taskOf>[0]> = {}): Posting => {
  const posting = taskOf({ id: generateId(), queue: "q", ...fields })
  const frame = encodeEnvelope(posting.message)
  if (frame._tag === "Failure") throw new Error(frame.failure.message)
  const { id, queue, level, due, expires, message } = posting
  return {
    id,
    key: publishKey(posting),
    queue,
    level,
    index: indexOf(due === undefined ? "queued" : "scheduled", { queue }),
    frame: frame.success,
    message,
    ...(due === undefined ? {} : { due }),
    ...(expires === undefined ? {} : { expires }),
  }
}

const indexOf = (state: Index["state"], fields: Partial<Index> = {}): Index => ({
  state,
  queue: "q",
  task: "a",
  at: 1_700_000_000_000,
  ...fields,
})

let server: NatsServer
let proxy: Proxy
let resources: AsyncDisposableStack
let namespace: string
/** All bytes that the driver behind the proxy has sent. */
let sent: string
/** Replaces text that the driver sends; `undefined` leaves it unchanged. */
let tap: ((text: string) => string) | undefined

beforeAll(async () => {
  server = await startNats()
  proxy = await startProxy(
    () => server.port,
    (text) => {
      sent += text
      return tap === undefined ? undefined : Promise.resolve(tap(text))
    },
  )
})

afterAll(async () => {
  await proxy?.stop()
  await server?.stop()
})

beforeEach(() => {
  resources = new AsyncDisposableStack()
  namespace = generateId()
  sent = ""
  tap = undefined
})

afterEach(() => resources.disposeAsync())

const open = async (url: string, lease = 30_000): Promise<Driver> =>
  resources.adopt(
    await plugin.connect(new URL(url), { namespace, lease, name: "test", timeout: 5_000 }),
    (opened: Driver) => opened.close(),
  )
const direct = (lease?: number) => open(server.url, lease)
const wired = (lease?: number) => open(`nats://127.0.0.1:${proxy.port}`, lease)

const publish = async (driver: Driver, ...postings: ReadonlyArray<Posting>): Promise<void> => {
  expect(await driver.publish(postings)).toEqual(postings.map(() => ({ status: "stored" })))
}

const takeAll = async (driver: Driver, max: number, wait = 5_000): Promise<ReadonlyArray<Delivery>> => {
  const { deliveries } = await driver.take({ queues: ["q"], max, wait, rotate: false }, never)
  return deliveries
}

const take = async (driver: Driver, wait = 5_000): Promise<Delivery> => {
  const [delivery] = await takeAll(driver, 1, wait)
  if (delivery === undefined) throw new Error("a task must come")
  return delivery
}

const commit = async (driver: Driver, one: Commit) => {
  const [committed] = await driver.commit([one])
  if (committed === undefined) throw new Error("one answer per commit")
  return committed
}

/** Stores a record. Resolves with its revision; fails if it is not stored. */
const store = async (
  driver: Driver,
  id: string,
  state: Index["state"],
  expect_ = "",
  rest: Partial<Commit> & { readonly keep?: number } = {},
): Promise<string> => {
  const { keep, ...more } = rest
  const record = {
    expect: expect_,
    bytes: bytesOf(state),
    index: indexOf(state),
    ...(keep === undefined ? {} : { keep }),
  }
  const committed = await commit(driver, { id, record, ...more })
  if (committed.status !== "committed") throw new Error(`${id} must be committed: ${JSON.stringify(committed)}`)
  return committed.revision
}

const read = async (driver: Driver, id: string, what: "record" | "all" = "all") => (await driver.read([id], what))[0]

/** Resolves when the server has answered all earlier requests. */
const roundTrip = (driver: Driver) => read(driver, "nothing", "record")

/** Subjects of this namespace to which the driver has published, in order. */
const subjectsSent = (): ReadonlyArray<string> =>
  [...sent.matchAll(/H?PUB (\S+)/g)]
    .map(([, subject = ""]) => subject)
    .filter((subject) => !subject.startsWith("$JS.API"))

test("a job that succeeds at its first delivery is one publish, one record and one acknowledgement", async () => {
  const driver = await wired()
  const warm = postingOf()
  await publish(driver, warm)
  await store(driver, warm.id, "succeeded", "", { task: { kind: "ack", token: (await take(driver)).token } })
  await roundTrip(driver)
  sent = ""
  const posting = postingOf()
  await publish(driver, posting)
  const delivery = await take(driver)
  expect(delivery.first).toBe(true)
  await store(driver, posting.id, "succeeded", "", { task: { kind: "ack", token: delivery.token }, keep: 60_000 })
  await roundTrip(driver)
  const [task, record, ack, ...more] = subjectsSent()
  expect(task).toBe(new Names(namespace).task("j", "q", 4, posting.id, { task: "a" }))
  expect(record).toBe(`${namespace}.t.${posting.id}`)
  expect(ack).toMatch(/^\$JS\.ACK\./)
  expect(more).toEqual([])
  expect([...sent.matchAll(/\$JS\.API\.(?!CONSUMER\.MSG\.NEXT)\S+/g)].map(String)).toEqual([
    `$JS.API.DIRECT.GET.${namespace}_state.${namespace}.t.nothing`,
  ])
})

test("the acknowledgement of a job does not wait for what follows from others", async () => {
  const driver = await wired()
  const postings = [postingOf(), postingOf(), postingOf()]
  await publish(driver, ...postings)
  const deliveries = await takeAll(driver, 3)
  sent = ""
  await driver.commit(
    deliveries.map(({ token }, at) => ({
      id: postings[at]?.id ?? "",
      record: { expect: "", bytes: bytesOf("x"), index: indexOf(at === 2 ? "failed" : "succeeded") },
      ...(at === 2 ? { post: [postingOf({ queue: "next" })] } : {}),
      task: { kind: "ack", token },
    })),
  )
  await roundTrip(driver)
  const subjects = subjectsSent()
  const acks = subjects.flatMap((subject, at) => (subject.startsWith("$JS.ACK") ? [at] : []))
  const posted = subjects.findIndex((subject) => subject.includes(".j.next."))
  expect(acks).toHaveLength(3)
  // The last acknowledgement is sent after the postings, since its reply confirms all of them.
  expect(acks[0]).toBeLessThan(posted)
  expect(acks[1]).toBeGreaterThan(posted)
})

describe("a record", () => {
  test("is stored only on the revision that is expected, and each revision is another one", async () => {
    const driver = await direct()
    const id = generateId()
    const first = await store(driver, id, "deferred")
    expect(await commit(driver, { id, record: { expect: "", bytes: bytesOf("x"), index: indexOf("queued") } })).toEqual(
      {
        status: "conflict",
      },
    )
    const second = await store(driver, id, "started", first)
    expect(second).not.toBe(first)
    for (const expect_ of [first, "", "never", "0"]) {
      const record = { expect: expect_, bytes: bytesOf("late"), index: indexOf("failed") }
      expect(await commit(driver, { id, record, post: [postingOf({ queue: "post" })] })).toEqual({ status: "conflict" })
    }
    expect(textOf((await read(driver, id))?.record)).toBe("started")
    expect((await read(driver, id))?.revision).toBe(second)
    expect((await driver.waiting?.({ queue: "post" }, 10)) ?? []).toEqual([])
    await store(driver, id, "succeeded", second)
  })

  test("that is hidden holds its id, and its time is that of the last one", async () => {
    const driver = await direct()
    const id = generateId()
    const first = await store(driver, id, "succeeded", "", { keep: 1_000 })
    const record = {
      expect: first,
      bytes: bytesOf("hidden"),
      index: indexOf("succeeded", { hidden: true }),
      keep: 2_000,
    }
    expect(await commit(driver, { id, record })).toMatchObject({ status: "committed" })
    expect(await commit(driver, { id, record: { ...record, expect: "" } })).toEqual({ status: "conflict" })
    await eventually(async () => (await read(driver, id, "record")) === undefined)
    await store(driver, id, "queued")
  })

  test("is found by what it says in lists, newest first, and hidden ones are not", async () => {
    const driver = await direct()
    const ids = Array.from({ length: 6 }, () => generateId())
    const states = ["succeeded", "failed", "cancelled", "queued", "started", "failed"] as const
    for (const [at, state] of states.entries()) await store(driver, ids[at] ?? "", state)
    const dead = { expect: "", bytes: bytesOf("dead"), index: indexOf("failed", { dead: true, queue: "other" }) }
    await commit(driver, { id: "dead", record: dead })
    const hidden = { expect: "", bytes: bytesOf("hidden"), index: indexOf("failed", { hidden: true }) }
    await commit(driver, { id: "hidden", record: hidden })
    // Streams are merged by the time of their messages, in milliseconds.
    const submitted = Date.now()
    await eventually(async () => Date.now() > submitted, { every: 1, message: "the next millisecond" })
    const waiting = postingOf()
    await publish(driver, waiting)
    const list = async (query: Partial<Parameters<NonNullable<Driver["query"]>>[0]>) =>
      (await driver.query?.({ limit: 100, ...query }))?.jobs.map(({ id }) => id)
    const [succeeded, failed, cancelled, queued, started, failed2] = ids
    expect(await list({})).toEqual([waiting.id, "dead", failed2, started, queued, cancelled, failed, succeeded])
    expect(await list({ states: ["failed"] })).toEqual(["dead", failed2, failed])
    expect(await list({ states: ["failed"], queue: "other" })).toEqual(["dead"])
    expect(await list({ dead: true })).toEqual(["dead"])
    expect(await list({ states: ["started"] })).toEqual([started])
    expect(await list({ states: ["queued"] })).toEqual([waiting.id, queued])
    expect(await list({ states: ["succeeded", "cancelled"] })).toEqual([cancelled, succeeded])
    expect(await list({ task: "other" })).toEqual([])
    expect(await list({ until: 1_700_000_000_000 })).toEqual([])
    const page = await driver.query?.({ limit: 2, states: ["failed"] })
    expect(page?.jobs.map(({ id }) => id)).toEqual(["dead", failed2])
    expect(await list({ states: ["failed"], after: page?.next ?? "" })).toEqual([failed])
  })
})

test("on three servers a record is read from the leader, with one question per job", { timeout: 60_000 }, async () => {
  const cluster = resources.use(await startNatsCluster(3))
  const [first, ...others] = [...cluster.servers.values()].map(({ port }) => `127.0.0.1:${port}`)
  let asked = ""
  const tapped = await startProxy(
    () => Number(first?.split(":")[1]),
    (text) => {
      asked += text
      return undefined
    },
  )
  resources.defer(() => tapped.stop())
  const connect = (url: string) =>
    eventually(() => open(`nats://${url}?replicas=3`).catch(() => undefined), { deadline: 40_000, every: 250 })
  const driver = await connect(`127.0.0.1:${tapped.port}`)
  const other = await connect(others[0] ?? "")
  const ids = ["a", "b", "c"]
  for (const id of ids) {
    const revision = await store(other, id, "queued")
    asked = ""
    expect(await driver.read([id, "nothing"], "record")).toEqual([{ revision, record: bytesOf("queued") }, undefined])
    expect([...asked.matchAll(/\$JS\.API\.\S+/g)].map(String)).toEqual([
      `$JS.API.STREAM.MSG.GET.${namespace}_state`,
      `$JS.API.STREAM.MSG.GET.${namespace}_state`,
    ])
  }
})

test("on three servers a record that was replaced is never found again, and mended into no other run", {
  timeout: 60_000,
}, async () => {
  const cluster = resources.use(await startNatsCluster(3))
  const [first, ...others] = [...cluster.servers.values()]
  let cut = false
  const wire = await startProxy(
    () => first?.port ?? 0,
    // The process dies before it removes the task, and the entry of the record that it has replaced.
    (text) => (cut && /STREAM\.(PURGE|MSG\.DELETE)/.test(text) ? Promise.resolve("PING\r\n") : undefined),
  )
  resources.defer(() => wire.stop())
  const connect = (port: number | undefined) =>
    eventually(() => open(`nats://127.0.0.1:${port}?replicas=3`).catch(() => undefined), {
      deadline: 40_000,
      every: 250,
    })
  const dying = await connect(wire.port)
  const readers = await Promise.all(others.map(({ port }) => connect(port)))
  const posting = postingOf()
  const waiting = await store(dying, posting.id, "queued", "", { post: [posting] })
  cut = true
  const done = store(dying, posting.id, "cancelled", waiting, { task: { kind: "withdraw" } }).catch(() => undefined)
  const [reader] = readers
  if (reader === undefined) throw new Error("there are three")
  await eventually(async () => textOf((await read(reader, posting.id))?.record) === "cancelled")
  for (const driver of readers) {
    expect(textOf((await read(driver, posting.id, "record"))?.record)).toBe("cancelled")
    expect(await driver.orphans?.(Date.now() + 1_000, 10)).toEqual([])
    // The entry of the waiting job is still there, and lists skip it.
    expect((await driver.query?.({ limit: 10, states: ["queued", "started"] }))?.jobs).toEqual([])
  }
  // The readers also see it when the server that has stored it dies.
  await first?.kill()
  await eventually(async () => textOf((await read(reader, posting.id, "record"))?.record) === "cancelled")
  // Each stream elects a leader of its own: that of the records may have one before that of their entries.
  const orphans = await eventually(() => reader.orphans?.(Date.now() + 1_000, 10).catch(() => undefined), {
    message: "the stream of entries has a leader",
  })
  expect(orphans).toEqual([])
  await done
})

describe("a worker that dies between two steps", () => {
  test("of a cancellation leaves nothing that is mended into another run once the record is over", async () => {
    const driver = await direct()
    const posting = postingOf()
    const waiting = await store(driver, posting.id, "queued", "", { post: [posting] })
    const dying = await wired()
    // The worker sends nothing after the record itself.
    tap = (text) => (/STREAM\.PURGE/.test(text) ? "PING\r\n" : text)
    const done = store(dying, posting.id, "cancelled", waiting, { keep: 1_500, task: { kind: "withdraw" } }).catch(
      () => undefined,
    )
    await eventually(async () => textOf((await read(driver, posting.id))?.record) === "cancelled")
    await take(driver)
    const task = (await read(driver, posting.id))?.task
    expect(task).toBeDefined()
    await driver.commit([{ id: posting.id, task: { kind: "withdraw" } }])
    await eventually(async () => (await read(driver, posting.id)) === undefined)
    expect((await driver.query?.({ limit: 10, states: ["queued", "cancelled"] }))?.jobs).toEqual([])
    // A driver that connects now reads all entries.
    const fresh = await direct()
    expect(await fresh.orphans?.(Date.now() + 1_000, 10)).toEqual([])
    await done
  })

  test("between its record and its posting is found, once it is old enough, and only until the task is there", async () => {
    const driver = await direct()
    const [lost, healthy] = [postingOf(), postingOf()]
    const revision = await store(driver, lost.id, "queued")
    await store(driver, healthy.id, "queued", "", { post: [healthy] })
    expect(await driver.orphans?.(Date.now() - 15_000, 10)).toEqual([])
    expect(await driver.orphans?.(Date.now() + 1_000, 10)).toEqual([lost.id])
    expect(await driver.orphans?.(Date.now() + 1_000, 10)).toEqual([lost.id])
    await store(driver, lost.id, "queued", revision, { post: [lost] })
    expect(await driver.orphans?.(Date.now() + 1_000, 10)).toEqual([])
    // The search for orphans reads the entry again once the job waits again.
    const known = await read(driver, lost.id)
    await store(driver, lost.id, "started", known?.revision ?? "")
    const started = await read(driver, lost.id)
    await store(driver, lost.id, "queued", started?.revision ?? "", { task: { kind: "withdraw" } })
    expect(await driver.orphans?.(Date.now() + 1_000, 10)).toEqual([lost.id])
  })
})

describe("a delivery", () => {
  test("that another connection extends is known to the one that gives it back", async () => {
    const driver = await direct(1_000)
    const keeper = await direct(1_000)
    await publish(driver, postingOf(), postingOf())
    const [first, second] = await takeAll(driver, 2)
    if (first === undefined || second === undefined) throw new Error("two must come")
    const began = Date.now()
    await eventually(
      async () => {
        expect(await keeper.extend([first.token])).toEqual([true])
        return Date.now() > began + 1_300
      },
      { every: 300 },
    )
    const committed = await driver.commit([
      { id: "one", task: { kind: "release", token: first.token, delay: 0 } },
      { id: "two", task: { kind: "ack", token: second.token } },
    ])
    expect(committed).toEqual([
      { status: "committed", revision: "" },
      { status: "committed", revision: "", gone: true },
    ])
    expect(await takeAll(driver, 2)).not.toEqual([])
    expect(await keeper.extend([first.token, "nonsense"])).toEqual([expect.any(Boolean), false])
  })

  test("that was ended acts on nothing any more", async () => {
    const driver = await direct()
    await publish(driver, postingOf())
    const first = await take(driver)
    const released = { id: "x", task: { kind: "release" as const, token: first.token, delay: 0 } }
    expect(await commit(driver, released)).toEqual({ status: "committed", revision: "" })
    const second = await take(driver)
    expect(second.fence > first.fence).toBe(true)
    expect(second.first).toBe(false)
    expect(await commit(driver, released)).toMatchObject({ gone: true })
    expect(await commit(driver, { id: "x", task: { kind: "ack", token: first.token } })).toMatchObject({ gone: true })
    expect(await driver.extend([first.token, second.token])).toEqual([false, true])
    expect(await commit(driver, { id: "x", task: { kind: "ack", token: second.token } })).toEqual({
      status: "committed",
      revision: "",
    })
  })
})

describe("the store", () => {
  test("checks what it does not write, and tells the revisions of what it writes", async () => {
    const { store: values } = await direct()
    const [one] = await written(values.write([{ key: "a", value: bytesOf("1"), expect: "" }]))
    const revisions = await written(
      values.write([
        { key: "b", value: bytesOf("2") },
        { key: "a", expect: one ?? "" },
        { key: "c", expect: "" },
      ]),
    )
    expect(revisions).toEqual([expect.stringMatching(/^\d+$/), "", ""])
    const [a, b, c] = await values.get(["a", "b", "c"])
    expect([a?.revision, b?.revision, c]).toEqual([one, revisions[0], undefined])
    expect(Number(b?.revision)).toBeGreaterThan(Number(one))
    expect(
      await values.write([
        { key: "b", value: null },
        { key: "a", expect: "7" },
      ]),
    ).toBe("conflict")
    expect(
      await values.write([
        { key: "b", value: null },
        { key: "c", expect: one ?? "" },
      ]),
    ).toBe("conflict")
    expect(await values.write([{ key: "a", expect: one ?? "" }])).toEqual([""])
    expect(await values.write([{ key: "a", expect: "" }])).toBe("conflict")
    expect(await values.write([{ key: "b", value: null, expect: b?.revision ?? "" }])).toEqual([""])
    expect((await values.list({ prefix: "", limit: 10 })).map(({ key }) => key)).toEqual(["a"])
  })

  test("lists the same in one answer, in pages, and where there is more than one answer may hold", async () => {
    const { store: values } = await direct()
    const put = (keys: ReadonlyArray<string>) => values.write(keys.map((key) => ({ key, value: bytesOf(key) })))
    const few = ["p/", "p/b", "p/a", "p/\u{1f600}", "p/\uffee", "p/a/1", "p/é"]
    await put([...few, "p", "pa", "q/a"])
    await values.write([{ key: "p/b", value: null }])
    const many = Array.from({ length: 1_100 }, (_, at) => `m/${at}`)
    for (let from = 0; from < many.length; from += 550) await put(many.slice(from, from + 550))
    const inBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))
    for (const [prefix, expected] of [
      ["p/", few.filter((key) => key !== "p/b")],
      ["p/a", ["p/a", "p/a/1"]],
      ["m/", many],
      ["none/", []],
    ] as const) {
      const keys = [...expected].sort(inBytes)
      for (const limit of [100, 256, 2_000]) {
        const listed = await values.list({ prefix, limit })
        expect(listed.map(({ key }) => key)).toEqual(keys.slice(0, limit))
        expect(listed.map(({ value }) => textOf(value))).toEqual(keys.slice(0, limit))
        const last = await values.list({ prefix, limit, reverse: true })
        expect(last.map(({ key }) => key)).toEqual(keys.toReversed().slice(0, limit))
      }
    }
  })

  const written = async (writing: ReturnType<Driver["store"]["write"]>): Promise<ReadonlyArray<string>> => {
    const answer = await writing
    if (answer === "conflict") throw new Error("it must be written")
    return answer
  }
})

describe("the lease of a consumer", () => {
  const leaseOf = async (): Promise<unknown> => {
    await using client = closing(await dial({ servers: server.url }))
    const names = new Names(namespace)
    return (await (await client.jetstreamManager()).consumers.info(names.queueStream, names.consumer("q", 4))).config
      .ack_wait
  }

  test("is that of the worker: what only submits has no say in it", async () => {
    const worker = await direct(6_000)
    const posting = postingOf()
    await publish(worker, posting)
    await take(worker)
    const client = await direct(30_000)
    await publish(client, postingOf())
    await take(worker)
    expect(await leaseOf()).toBe(6_000 * 1_000_000)
  })

  test("that two workers differ about is named by the one that comes later", async () => {
    const lines: Array<string> = []
    const note = (message: string) => void lines.push(message)
    const log = { debug: note, info: note, warn: (message: string) => note(`warn ${message}`), error: note }
    const at = async (name: string, leaseMs: number, queues: ReadonlyArray<string>) => {
      const actors = [actor("any", { methods: { run: () => 1 } })]
      const common = { transport: server.url, namespace, actors, signals: false, log } as const
      const service = await serve({ ...common, name, leaseMs, queues })
      resources.defer(async () => void (await service.stop({ now: true })))
      await service.ready()
    }
    const warnings = () => lines.filter((line) => line.startsWith("warn"))
    await at("elsewhere", 20_000, ["other"])
    await at("longer", 30_000, ["q", "r"])
    await at("same", 30_000, ["q"])
    expect(warnings()).toEqual([])
    await at("shorter", 6_000, ["q"])
    await eventually(() => warnings().length === 2, { message: "both workers are named" })
    expect(warnings().toSorted()).toEqual([
      expect.stringMatching(/worker longer of the same queue has a lease of 30 s, and this one of 6 s/),
      expect.stringMatching(/worker same of the same queue has a lease of 30 s, and this one of 6 s/),
    ])
  })

  test("becomes that of the worker where a submitter has made it", async () => {
    await publish(await direct(30_000), postingOf())
    expect(await leaseOf()).toBe(30_000 * 1_000_000)
    await take(await direct(6_000))
    expect(await leaseOf()).toBe(6_000 * 1_000_000)
  })
})

test("values that expired long ago, and that the server has kept, are swept", async () => {
  const driver = await direct()
  await using client = closing(await dial({ servers: server.url }))
  const names = new Names(namespace)
  const put = async (key: string, until: number | undefined): Promise<void> => {
    const header = headers()
    if (until !== undefined) header.set("Callboard-Until", String(until))
    await client.jetstream().publish(names.value(key), bytesOf(key), { headers: header })
  }
  const now = await driver.store.now()
  // The values have no time to live on the server, as if the server had forgotten it.
  for (let count = 0; count < 300; count++) await put(`old/${count}`, now - 3_600_000)
  await put("just-expired", now - 1_000)
  await put("alive", now + 3_600_000)
  await put("for-ever", undefined)
  const kept = async () => {
    const { state } = await (await client.jetstreamManager()).streams.info(names.storeStream, { subjects_filter: ">" })
    return Object.keys(state.subjects ?? {}).map((subject) => names.key(subject))
  }
  for (let round = 0; round < 2; round++) await driver.orphans?.(0, 10)
  expect((await kept()).sort()).toEqual(["alive", "for-ever", "just-expired"])
  expect((await driver.store.list({ prefix: "", limit: 10 })).map(({ key }) => key)).toEqual(["alive", "for-ever"])
})

test("a broadcast ends within a bound while the server is frozen", async () => {
  const driver = await wired()
  proxy.freeze()
  const began = performance.now()
  await driver.broadcast?.send("news", bytesOf("one")).finally(() => proxy.thaw())
  expect(performance.now() - began).toBeLessThan(4_000)
})

test("a task that another program publishes to a level that is no band is refused by the server", async () => {
  const driver = await direct()
  await using client = closing(await dial({ servers: server.url }))
  const names = new Names(namespace)
  const { frame } = postingOf()
  for (const kind of ["j", "s"] as const)
    await expect(client.jetstream().publish(names.task(kind, "q", 5, "a", { task: "a" }), frame)).rejects.toMatchObject(
      {
        code: "503",
      },
    )
  await client.jetstream().publish(names.task("j", "q", 4, "b", { task: "a" }), frame)
  expect((await take(driver)).level).toBe(4)
})

test.each([1, 2, 3, 4, 10])(
  "with %i bands a task of every priority, and one of the front, is seen to wait, and taken",
  async (bands) => {
    const driver = await open(`${server.url}?bands=${bands}`)
    const postings = Array.from({ length: 11 }, (_, level) => ({ ...postingOf(), level }))
    const ids = new Set(postings.map(({ id }) => id))
    await publish(driver, ...postings)
    expect(new Set(await driver.waiting?.({ queue: "q" }, 100))).toEqual(ids)
    expect(await driver.queues?.()).toMatchObject([{ queue: "q", ready: 11, scheduled: 0, held: 0 }])
    const taken = new Set<number>()
    await eventually(async () => {
      for (const { sequence } of await takeAll(driver, 20, 1_000)) taken.add(sequence)
      return taken.size === 11
    })
  },
)

test("a task that another program publishes to a level between the bands is refused, as no worker would take it", async () => {
  const driver = await open(`${server.url}?bands=3`)
  await publish(driver, postingOf())
  await using client = closing(await dial({ servers: server.url }))
  const levels = await Promise.all(
    Array.from({ length: 11 }, async (_, level) => {
      const answer = await client
        .request(`${namespace}.j.q.${level}.other-${level}`, "x", { timeout: 2_000 })
        .catch(() => undefined)
      return answer === undefined ? [] : [level]
    }),
  )
  expect(levels.flat()).toEqual([0, 4, 7, 10])
})

test("a failed job, which has an entry beside its record, is counted once among all", async () => {
  const driver = await direct()
  for (const state of ["failed", "succeeded"] as const)
    await commit(driver, { id: state, record: { expect: "", bytes: bytesOf("{}"), index: indexOf(state) } })
  expect((await driver.query?.({ limit: 10, bare: true }))?.jobs.map(({ id }) => id)).toEqual(["succeeded", "failed"])
})

test("a job that ends while a list looks for it is in the list, once", async () => {
  const driver = await direct()
  await publish(driver, postingOf({ id: "moving" }))
  const { token } = await take(driver)
  let ended: Promise<void> | undefined
  const end = async (): Promise<void> => {
    const record = { expect: "", bytes: bytesOf("{}"), index: indexOf("succeeded") }
    expect((await commit(driver, { id: "moving", record, task: { kind: "ack", token } })).status).toBe("committed")
    await eventually(async () => (await driver.read(["moving"], "all"))[0]?.task === undefined)
  }
  const api = Link.prototype.api
  const spy = vi.spyOn(Link.prototype, "api").mockImplementation(async function (this: Link, name, body) {
    const streams = /^STREAM\.INFO\..*_(state|queue)$/.exec(name)?.[1]
    // A list that read the records before the tasks would read the tasks only after the job has ended, and miss the job.
    if (streams === "queue") await ended
    const answer = api.call(this, name, body)
    if (streams !== "state" || ended !== undefined) return answer
    ended = answer.then(end)
    await ended
    return answer
  })
  const page = await driver.query?.({ limit: 10 })
  spy.mockRestore()
  expect(ended).toBeDefined()
  expect(page?.jobs.map(({ id }) => id)).toEqual(["moving"])
  expect((await driver.query?.({ limit: 10 }))?.jobs.map(({ id }) => id)).toEqual(["moving"])
})
