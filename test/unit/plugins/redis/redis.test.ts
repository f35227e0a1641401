/**
 * Rules of the redis transport beyond those that all transports keep, which `kit.test.ts` tests. Against a real server.
 */
import { describe, expect, test } from "vitest"
import { celery, plugin } from "../../../../plugins/redis/mod.ts"
import { isUndecodable, type Message } from "../../../../runtime/protocol/message.ts"
import type { Driver } from "../../../../runtime/transport/driver.ts"
import { eventually } from "../../../support/servers/process.ts"
import { workBoard } from "../../../support/work-board.ts"
import { growing, QUERIES, readsOf } from "../bounded-lists.ts"
import { ownServer } from "./own-server.ts"
import { options, posting } from "./posting.ts"

const redis = ownServer()
const { ask, texts } = redis

const open = (namespace: string, lease?: number, query = ""): Promise<Driver> =>
  plugin.connect(new URL(`${redis.server.url}${query}`), options(namespace, lease))

const never = new AbortController().signal
const request = (queue: string, max = 1) => ({ queues: [queue], max, wait: 0, rotate: false })
const takenFrom = async (driver: Driver, queue: string, max = 1) =>
  (await driver.take(request(queue, max), never)).deliveries

/** The envelope that Celery's client puts into a list. */
const celeryMessage = (tag: string, more: object = {}): string =>
  JSON.stringify({
    body: Buffer.from("[[1], {}, {}]").toString("base64"),
    "content-encoding": "utf-8",
    "content-type": "application/json",
    headers: { lang: "py", task: "tasks.add", id: `id-${tag}`, retries: 0, ...more },
    properties: {
      correlation_id: `id-${tag}`,
      delivery_mode: 2,
      delivery_info: { exchange: "", routing_key: "q" },
      priority: 0,
      body_encoding: "base64",
      delivery_tag: tag,
    },
  })

/** JSON as Python writes it, with blanks between values. */
const asPython = (text: string): string =>
  JSON.stringify(JSON.parse(text), undefined, 1)
    .replace(/\n */g, " ")
    .replace(/([[{]) /g, "$1")
    .replace(/ ([\]}])/g, "$1")

/** Writes the notes of a Celery worker that has taken a message. */
const heldByCelery = async (prefix: string, tag: string, message: string, at = Date.now() / 1_000): Promise<void> => {
  await ask("ZADD", `${prefix}unacked_index`, String(at), tag)
  await ask("HSET", `${prefix}unacked`, tag, `[${asPython(message)}, "", "q"]`)
}

const tagIn = (envelope: unknown): string => JSON.parse(String(envelope)).properties.delivery_tag

test("a job board is worked", () => workBoard(`${redis.server.url}?ns=boards`))

describe("kombu's layout", () => {
  test("a task lies in the list of its queue and step, with a body of base64 and an inverted priority", async () => {
    const driver = await open("layout")
    await driver.publish([9, 7, 6, 4, 3, 1, 0].map((level) => posting(`p${level}`, "q", level)))
    const lists = await Promise.all(
      ["", "\u0006\u00163", "\u0006\u00166", "\u0006\u00169"].map((step) =>
        ask("LRANGE", `layout:q${step}`, "0", "-1"),
      ),
    )
    const ids = lists.map((list) => (Array.isArray(list) ? list.map((each) => JSON.parse(String(each))) : []))
    expect(ids.map((each) => each.map(({ headers }) => headers.id))).toEqual([
      ["p7", "p9"],
      ["p4", "p6"],
      ["p1", "p3"],
      ["p0"],
    ])
    const [[seven]] = [ids[0] ?? []]
    expect(seven).toMatchObject({
      "content-type": "application/json",
      "content-encoding": "utf-8",
      body: Buffer.from("[[],{},{}]").toString("base64"),
      properties: {
        priority: 2,
        body_encoding: "base64",
        delivery_info: { exchange: "", routing_key: "q" },
        delivery_tag: expect.stringMatching(/^[0-9a-f-]{36}$/),
      },
    })
    await driver.close()
  })

  test("the priority of a signature of Celery is inverted, and without one the task is taken first", async () => {
    const messages = await celery.messages?.(new URL(redis.server.url), options("callboard"))
    expect([null, 0, 3, 9, 12, -1].map((given) => messages?.priorityOf(given))).toEqual([9, 9, 6, 0, 0, 9])
    await messages?.close()
  })

  test("listeners hear nothing once their signal has fired, although messages are on their way", async () => {
    const messages = await celery.messages?.(new URL(redis.server.url), options("callboard"))
    const results = await celery.results?.(new URL(redis.server.url), options("callboard"))
    const stop = new AbortController()
    const heard: Array<string> = []
    const hear = (what: string) => () => {
      heard.push(what)
      if (heard.length === 2) stop.abort()
    }
    await messages?.listen("celeryev", hear("event"), stop.signal)
    await results?.watch(["result"], hear("result"), stop.signal)
    const result = { key: "result", value: new TextEncoder().encode("1") }
    const event: Message = {
      headers: {},
      properties: { content_type: "text/plain", content_encoding: "utf-8" },
      body: new Uint8Array(),
    }
    const burst = async (): Promise<void> => {
      await Promise.all(
        Array.from({ length: 25 }, () => [
          messages?.broadcast("celeryev", "worker.online", event),
          results?.write([result], 60),
        ]).flat(),
      )
    }
    await burst()
    const done = new AbortController()
    let later = 0
    await messages?.listen("celeryev", () => void later++, done.signal)
    await burst()
    await eventually(() => later === 25)
    expect(heard).toHaveLength(2)
    await messages?.close()
    await results?.close()
  })

  test("a member of a chord counts once whatever its result, and one without a place comes last", async () => {
    const results = await celery.results?.(new URL(redis.server.url), options("callboard"))
    const count = (id: string, index: number | null, value: string) =>
      results?.chords?.count({ group: "counted", id, index, value: new TextEncoder().encode(value) }, 60)
    await results?.chords?.expect("counted", 3, 60)
    // As a worker of Celery writes it.
    await ask("ZADD", "celery-taskset-meta-counted.j", "1", '[1, "b", "SUCCESS", 2]')
    expect(await count("c", null, '[1,"c","SUCCESS",NaN]')).toEqual({ ended: 2, size: 3 })
    expect(await count("b", 1, '[1,"b","SUCCESS",2]')).toEqual({ ended: 2, size: 3 })
    expect(await count("c", null, '[1,"c","SUCCESS",4]')).toEqual({ ended: 2, size: 3 })
    expect(await count("d", 1, '[1,"d","SUCCESS",1]')).toEqual({ ended: 3, size: 3 })
    const members = await results?.chords?.members("counted")
    expect(members?.map((member) => new TextDecoder().decode(member))).toEqual([
      '[1,"b","SUCCESS",2]',
      '[1,"d","SUCCESS",1]',
      '[1,"c","SUCCESS",4]',
    ])
    await results?.close()
  })

  test("a message that a Celery client pushes is delivered at once, and is noted as kombu notes it", async () => {
    const driver = await open("pushed")
    const heard: Array<string> = []
    await driver.listen({ kind: "queues", queues: ["q"] }, ({ kind }) => heard.push(kind), never)
    await ask("LPUSH", "pushed:q", celeryMessage("tag-1"))
    await eventually(() => heard.includes("queue"))
    const [delivery] = await takenFrom(driver, "q")
    expect(delivery).toMatchObject({
      level: 9,
      first: true,
      content: { headers: { task: "tasks.add" }, properties: { priority: 9 } },
    })
    expect(await ask("HKEYS", "pushed:unacked")).toEqual(["tag-1"])
    expect(JSON.parse(String(await ask("HGET", "pushed:unacked", "tag-1")))).toEqual([
      JSON.parse(celeryMessage("tag-1")),
      "",
      "q",
    ])
    expect(Number(await ask("ZSCORE", "pushed:unacked_index", "tag-1"))).toBeCloseTo(Date.now() / 1_000, -1)
    expect(await driver.read(["id-tag-1"], "all")).toMatchObject([{ task: { queue: "q", held: true } }])
    await driver.commit([{ id: "id-tag-1", task: { kind: "ack", token: delivery?.token ?? "" } }])
    expect(await ask("EXISTS", "pushed:unacked", "pushed:unacked_index")).toBe(0)
    expect(await ask("KEYS", "pushed:callboard:*:t:*")).toEqual([])
    // A message in the list of any priority step wakes the listener.
    heard.length = 0
    await ask("LPUSH", "pushed:q\u0006\u00169", celeryMessage("tag-2"))
    await eventually(() => heard.includes("queue"))
    await driver.close()
  })

  test("a backlog of Celery is counted and listed without a worker, found by id, and withdrawn", async () => {
    const driver = await open("backlog")
    const tags = Array.from({ length: 250 }, (_, at) => `tag-${at}`)
    await ask("SADD", "backlog:_kombu.binding.celery", "q\u0006\u0016\u0006\u0016q")
    await ask("SADD", "backlog:_kombu.binding.celery.pidbox", "\u0006\u0016\u0006\u0016w.celery.pidbox")
    await ask("LPUSH", "backlog:w.celery.pidbox", celeryMessage("control"))
    await ask("LPUSH", "backlog:q", ...tags.map((tag) => celeryMessage(tag)))
    const before = Date.now()
    // No process listens to the queue: the binding names it.
    await eventually(async () => (await driver.queues?.())?.length === 1)
    const [depth] = (await driver.queues?.()) ?? []
    expect(depth).toMatchObject({ queue: "q", ready: 250, scheduled: 0, held: 0 })
    expect(depth?.oldest).toBeGreaterThan(before - 2_000)
    const listed = await driver.query?.({ limit: 500, states: ["queued"] })
    expect(listed?.jobs.map(({ id }) => id)).toContain("id-tag-0")

    // The last one is beyond those that a list notes.
    const found = await driver.read(["id-tag-249", "id-none"], "all")
    expect(found).toMatchObject([{ revision: "", task: { queue: "q", held: false } }, undefined])
    await driver.commit([{ id: "id-tag-249", task: { kind: "withdraw" } }])
    expect(await driver.read(["id-tag-249"], "all")).toEqual([undefined])
    expect(await ask("LLEN", "backlog:q")).toBe(249)

    const waiting = (await driver.waiting?.({ queue: "q" }, 500)) ?? []
    expect(waiting).toEqual(tags.slice(0, -1).map((tag) => `id-${tag}`))
    await driver.commit(waiting.map((id) => ({ id, task: { kind: "withdraw" as const } })))
    expect(await ask("LLEN", "backlog:q")).toBe(0)
    expect(await driver.queues?.()).toEqual([])
    await driver.close()
  })

  test("a queue that a worker listens to is counted, although no binding names it", async () => {
    const driver = await open("listened")
    await driver.listen({ kind: "queues", queues: ["q"] }, () => undefined, never)
    await ask("LPUSH", "listened:q\u0006\u00169", celeryMessage("tag-1"))
    await eventually(async () => (await driver.queues?.())?.[0]?.ready === 1)
    await driver.close()
  })

  test("messages of Celery that were noted while they waited are delivered once, in their order", async () => {
    const driver = await open("noted")
    await driver.publish([posting("a")])
    await ask("LPUSH", "noted:q", celeryMessage("tag-1"), celeryMessage("tag-2"))
    await driver.publish([posting("b")])
    expect(await driver.waiting?.({ queue: "q" }, 10)).toEqual(["a", "id-tag-1", "id-tag-2", "b"])
    // A worker of Celery takes what comes first.
    const message = String(await ask("RPOP", "noted:q"))
    await heldByCelery("noted:", tagIn(message), message)
    expect(await driver.read(["a", "b", "id-tag-1"], "all")).toMatchObject([
      { task: { held: true } },
      { task: { held: false } },
      { task: { held: false } },
    ])
    const [first, ...rest] = await takenFrom(driver, "q", 10)
    expect(first).toMatchObject({ first: true, deliveries: 1, level: 9 })
    const ids = [first, ...rest].map((each) => each && "headers" in each.content && each.content.headers["id"])
    expect(ids).toEqual(["id-tag-1", "id-tag-2", "b"])
    await driver.commit(
      ids.map((id, at) => ({ id: String(id), task: { kind: "ack", token: [first, ...rest][at]?.token ?? "" } })),
    )
    await ask("DEL", "noted:unacked", "noted:unacked_index")
    expect(await driver.read(["a"], "all")).toEqual([undefined])
    expect(await ask("KEYS", "noted:callboard:*:t:*")).toEqual([])
    await driver.close()
  })

  test("a message of Celery that was noted is removed once a worker of Celery has taken it", async () => {
    const driver = await open("taken")
    await ask("LPUSH", "taken:q", celeryMessage("tag-1"), celeryMessage("tag-2"))
    await driver.listen({ kind: "queues", queues: ["q"] }, () => undefined, never)
    await eventually(async () => (await driver.queues?.())?.[0]?.ready === 2)
    expect((await driver.query?.({ limit: 10 }))?.jobs).toHaveLength(2)
    await ask("RPOP", "taken:q")
    await eventually(async () => (await driver.query?.({ limit: 10 }))?.jobs.length === 1)
    expect(await driver.read(["id-tag-1"], "all")).toEqual([undefined])
    await driver.close()
  })

  test("messages that Celery workers take from a long list are forgotten without blocking the server", async () => {
    const driver = await open("long")
    const push = (from: number, count: number) =>
      ask("LPUSH", "long:q", ...Array.from({ length: count }, (_, at) => celeryMessage(`long-${from + at}`)))
    for (let from = 0; from < 20_000; from += 2_000) await push(from, 2_000)
    expect(await driver.waiting?.({ queue: "q" }, 600)).toHaveLength(600)
    const [before] = await ask("CONFIG", "GET", "slowlog-log-slower-than").then((found) => Object.values(Object(found)))
    await ask("CONFIG", "SET", "slowlog-log-slower-than", "500000")
    await ask("SLOWLOG", "RESET")
    try {
      await ask("LTRIM", "long:q", "0", "-601")
      expect(await driver.waiting?.({ queue: "q" }, 1)).toEqual(["id-long-600"])
      await eventually(async () => (await texts("KEYS", "long:callboard:long:t:*")).length === 1, {
        message: "what was taken is forgotten",
      })
      expect(await driver.read(["id-long-5000", "unknown"], "all")).toMatchObject([{ task: { queue: "q" } }, undefined])
      expect(await ask("SLOWLOG", "LEN")).toBe(0)
    } finally {
      await ask("CONFIG", "SET", "slowlog-log-slower-than", String(before))
      await driver.close()
    }
  })

  test("a message that was redelivered by kombu is no first delivery", async () => {
    const driver = await open("again")
    await ask("LPUSH", "again:q", celeryMessage("tag-1", { redelivered: true }))
    expect(await takenFrom(driver, "q")).toMatchObject([{ first: false, deliveries: 1 }])
    await driver.close()
  })

  test("a task that a Celery worker takes is in flight, and is removed once that worker acks it", async () => {
    const driver = await open("theirs")
    await driver.publish([posting("a"), posting("b")])
    const message = String(await ask("RPOP", "theirs:q"))
    await heldByCelery("theirs:", tagIn(message), message)
    expect(await driver.read(["a"], "all")).toMatchObject([{ task: { held: true } }])
    expect(
      (await takenFrom(driver, "q", 5)).map(({ content }) => "headers" in content && content.headers["id"]),
    ).toEqual(["b"])
    await ask("DEL", "theirs:unacked", "theirs:unacked_index")
    expect(await driver.read(["a"], "all")).toEqual([undefined])
    expect((await driver.query?.({ limit: 10, states: ["queued"] }))?.jobs.map(({ id }) => id)).toEqual(["b"])
    await driver.close()
  })

  test("tasks that Celery workers have taken are removed although their jobs are not read", async () => {
    const driver = await open("forgotten")
    await driver.publish(Array.from({ length: 120 }, (_, at) => posting(`j${at}`)))
    await ask("DEL", "forgotten:q")
    await eventually(
      async () =>
        (await texts("KEYS", "forgotten:callboard:*:t:*")).length === 0 &&
        (await ask("ZCARD", "forgotten:callboard:forgotten:x:s:queued")) === 0,
      { message: "all are forgotten" },
    )
    await driver.close()
  })

  test("the ack, release or extension of an owner that kombu has overtaken leaves the new owner's entry alone", async () => {
    const driver = await open("overtaken")
    await driver.publish([posting("a")])
    const [delivery] = await takenFrom(driver, "q")
    const token = delivery?.token ?? ""
    const [tag = ""] = await texts("HKEYS", "overtaken:unacked")
    // kombu's visibility timeout: the message goes back into the list, and another worker takes it.
    const entry = JSON.parse(String(await ask("HGET", "overtaken:unacked", tag)))
    const again = JSON.stringify({ ...entry[0], headers: { ...entry[0].headers, redelivered: true } })
    await heldByCelery("overtaken:", tag, again)
    expect(await driver.extend([token])).toEqual([false])
    for (const task of [{ kind: "hand-back", token, delay: 0 } as const, { kind: "ack", token } as const]) {
      expect(await driver.commit([{ id: "a", task }])).toEqual([{ status: "committed", revision: "", gone: true }])
    }
    expect(await ask("HEXISTS", "overtaken:unacked", tag)).toBe(1)
    expect(await ask("LLEN", "overtaken:q")).toBe(0)
    await driver.close()
  })

  test("a lease that lapses after kombu gave the task back does not give it back twice", async () => {
    const driver = await open("twice", 1_000)
    await driver.publish([posting("a")])
    const [delivery] = await takenFrom(driver, "q")
    const tag = (delivery?.token ?? "").split(".")[1] ?? ""
    const entry = JSON.parse(String(await ask("HGET", "twice:unacked", tag)))
    await ask("HDEL", "twice:unacked", tag)
    await ask("ZREM", "twice:unacked_index", tag)
    await ask("RPUSH", "twice:q", JSON.stringify(entry[0]))
    await eventually(async () => (await ask("ZCARD", "twice:callboard:twice:h:q")) === 0, {
      message: "the lease has lapsed",
    })
    expect(await ask("LLEN", "twice:q")).toBe(1)
    expect(await takenFrom(driver, "q", 5)).toMatchObject([{ first: false, deliveries: 2 }])
    await driver.close()
  })

  test("after the visibility timeout a dead Celery worker's message is back unchanged, and a leased task is not", async () => {
    const driver = await open("dead", 30_000, "?visibility_timeout=2")
    await driver.publish([posting("ours")])
    const [ours] = await takenFrom(driver, "q")
    const message = celeryMessage("tag-9", { big: "BIG" }).replace('"BIG"', "123456789012345678901234567890")
    await ask("ZADD", "dead:unacked_index", String(Date.now() / 1_000 - 3), "tag-9")
    await ask("HSET", "dead:unacked", "tag-9", `[${message.replace('"headers":{', '"headers": {')}, "", "q"]`)
    const tag = (ours?.token ?? "").split(".")[1] ?? ""
    await ask("ZADD", "dead:unacked_index", "5", tag)
    await eventually(async () => (await ask("LLEN", "dead:q")) === 1, { message: "it is back" })
    const text = String(await ask("LINDEX", "dead:q", "-1"))
    expect(text).toContain("123456789012345678901234567890")
    expect(JSON.parse(text)).toMatchObject({
      headers: { redelivered: true },
      properties: { delivery_info: { redelivered: true } },
    })
    expect(await ask("HKEYS", "dead:unacked")).toEqual([tag])
    // An extension renews the note, so kombu's visibility timeout does not end a long job.
    expect(await driver.extend([ours?.token ?? ""])).toEqual([true])
    expect(Number(await ask("ZSCORE", "dead:unacked_index", tag))).toBeGreaterThan(Date.now() / 1_000 - 60)
    await driver.close()
  })

  test("a task that falls due is put into the list without a worker of Callboard", async () => {
    const driver = await open("due")
    await driver.publish([{ ...posting("a"), due: Date.now() + 500 }])
    expect(await ask("LLEN", "due:q")).toBe(0)
    await eventually(async () => (await ask("LLEN", "due:q")) === 1)
    await driver.close()
  })

  test("a message of ours whose task is not known any more is delivered and ends", async () => {
    const driver = await open("unknown")
    await driver.publish([posting("a")])
    const message = String(await ask("RPOP", "unknown:q"))
    // A read removes the task that is missing, as it does where a Celery worker has taken it.
    expect(await driver.read(["a"], "all")).toEqual([undefined])
    await ask("LPUSH", "unknown:q", message)
    const [delivery] = await takenFrom(driver, "q")
    expect(delivery).toMatchObject({ queue: "q", content: { headers: { id: "a" } } })
    const ack = { kind: "ack", token: delivery?.token ?? "" } as const
    expect(await driver.commit([{ id: "a", task: ack }])).toEqual([{ status: "committed", revision: "" }])
    expect(await ask("EXISTS", "unknown:unacked", "unknown:callboard:unknown:h:q")).toBe(0)
    await driver.close()
  })

  test("two messages with one tag are two tasks", async () => {
    const driver = await open("same-tag")
    await ask("LPUSH", "same-tag:q", celeryMessage("tag"), celeryMessage("tag"))
    const found = await takenFrom(driver, "q", 5)
    expect(new Set(found.map(({ token }) => token)).size).toBe(2)
    for (const { token } of found)
      expect(await driver.commit([{ id: "x", task: { kind: "ack", token } }])).toEqual([
        { status: "committed", revision: "" },
      ])
    expect(await ask("EXISTS", "same-tag:unacked")).toBe(0)
    await driver.close()
  })
})

describe("bad input", () => {
  test("a value that is no message is delivered with the reason, and the next message is read", async () => {
    const driver = await open("poison")
    const good = JSON.parse(celeryMessage("good"))
    const bad = [
      ["nonsense", "it is not JSON"],
      ["[1]", "it is not a JSON object"],
      [JSON.stringify({ ...good, headers: [1] }), "its headers are not a map"],
      [JSON.stringify({ ...good, properties: "no" }), "its properties are not a map"],
      [JSON.stringify({ ...good, "content-type": 5 }), "it has no content type"],
      [JSON.stringify({ ...good, body: { a: 1 } }), "its body is not text"],
      [JSON.stringify({ ...good, body: "%%%" }), "its body is not base64"],
      [`${"[".repeat(2_000)}${"]".repeat(2_000)}`, "it is not a JSON object"],
      [`{"headers": {}, "properties": {"delivery_tag": "\\ud800"}, "a": "\\ud83d"}`, "it has no content type"],
    ] as const
    for (const [text] of bad) await ask("LPUSH", "poison:q", text)
    await ask("LPUSH", "poison:q", celeryMessage("good"))
    const found = await takenFrom(driver, "q", 20)
    const reasons = found.map(({ content }) => ("undecodable" in content ? content.undecodable : "a message"))
    expect(reasons).toEqual([...bad.map(([, why]) => `not a kombu envelope: ${why}`), "a message"])
    expect(found.slice(0, -1).map(({ content }) => "raw" in content && Buffer.from(content.raw).toString())).toEqual(
      bad.map(([text]) => text),
    )
    // A message without a tag is not noted for the visibility timeout: kombu could not read it.
    expect(await ask("ZCARD", "poison:unacked_index")).toBeLessThan(found.length)
    for (const { token } of found) await driver.commit([{ id: "x", task: { kind: "ack", token } }])
    expect(await ask("EXISTS", "poison:unacked")).toBe(0)
    expect(
      found.every(({ content }) => content instanceof Uint8Array || isUndecodable(content) || "headers" in content),
    ).toBe(true)
    await driver.close()
  })

  test("NaN in headers and a body of text are read, and unknown properties are kept", async () => {
    const driver = await open("odd")
    const { properties, ...rest } = JSON.parse(celeryMessage("odd"))
    const { body_encoding: _, ...plain } = properties
    const text = JSON.stringify({
      ...rest,
      body: "[[], {}, {}]",
      properties: { ...plain, body_encoding: "utf-8", origin: "gen1@h" },
    })
    await ask("LPUSH", "odd:q", text.replace('"retries":0', '"retries":0,"load":NaN'))
    const [delivery] = await takenFrom(driver, "q")
    expect(delivery?.content).toMatchObject({
      headers: { load: Number.NaN },
      properties: { origin: "gen1@h" },
      body: new TextEncoder().encode("[[], {}, {}]"),
    })
    await driver.close()
  })

  test("a message may lack what kombu does not need, or have null in its place", async () => {
    const driver = await open("sparse")
    const { properties, "content-encoding": _encoding, ...rest } = JSON.parse(celeryMessage("sparse"))
    const nothing = { ...properties, correlation_id: null, reply_to: null }
    await ask("LPUSH", "sparse:q", JSON.stringify({ ...rest, properties: nothing }))
    await ask("LPUSH", "sparse:q", JSON.stringify({ ...rest, "content-encoding": null, headers: null, properties }))
    const [first, second] = await takenFrom(driver, "q", 2)
    expect(first?.content).toMatchObject({ headers: { id: "id-sparse" }, properties: { content_encoding: "utf-8" } })
    // A result would be sent to a queue of the name null.
    expect(first?.content).not.toHaveProperty("properties.reply_to")
    expect(first?.content).not.toHaveProperty("properties.correlation_id")
    expect(second?.content).toMatchObject({ headers: {}, properties: { content_encoding: "utf-8" } })
    await driver.close()
  })

  test("a queue cannot have the name of a key that kombu or Callboard uses", async () => {
    const driver = await open("reserved")
    for (const queue of [
      "unacked",
      "unacked_index",
      "_kombu.binding.celery",
      "callboard:x",
      "celery-task-meta-1",
      "q\u0006\u00163",
    ]) {
      const [bad, good] = await driver.publish([posting("a", queue), posting(`b${queue}`)])
      expect(bad).toMatchObject({ status: "failed", error: { reason: "invalid" } })
      expect(good).toEqual({ status: "stored" })
    }
    await driver.close()
  })

  test("unpaired surrogates and zeros in fields of the index do not affect other tasks", async () => {
    const driver = await open("zeros")
    const odd = posting("odd")
    const index = { ...odd.index, task: "a\0\ud800" }
    expect(await driver.publish([posting("one"), { ...odd, index }, posting("two")])).toEqual(
      Array.from({ length: 3 }, () => ({ status: "stored" })),
    )
    expect((await driver.query?.({ task: "a\0\ud800", limit: 10 }))?.jobs.map(({ id }) => id)).toEqual(["odd"])
    await driver.close()
  })
})

test("a list reads as much with 20,000 jobs as with 1,000", async () => {
  // Lists of waiting and succeeded jobs search longer lists: one more list each would be one more write for every job.
  const bounded = Object.entries(QUERIES).filter(([name]) => name !== "succeeded" && !name.startsWith("waiting"))
  expect(growing(await readsOf((namespace) => open(namespace), Object.fromEntries(bounded)))).toEqual([])
})

test("a server whose memory is full is out of reach until it stores again", async () => {
  const driver = await plugin.connect(new URL(redis.server.url), { ...options("full"), heartbeat: 200 })
  const said: Array<string> = []
  driver.onStatus((status, why) => said.push(`${status} ${why?.message ?? ""}`))
  await ask("CONFIG", "SET", "maxmemory", "1")
  try {
    await eventually(() => said.length === 1)
    expect(said[0]).toMatch(/^disconnected .*maxmemory/)
  } finally {
    await ask("CONFIG", "SET", "maxmemory", "0")
  }
  await eventually(() => said.length === 2)
  expect(said[1]).toBe("connected ")
  await driver.close()
})

test("a take whose signal fired on the way gives back, uncounted, what it took", async () => {
  const driver = await open("aborted")
  await driver.publish([posting("a")])
  const stop = new AbortController()
  const taking = driver.take(request("q"), stop.signal)
  stop.abort()
  expect(await taking).toEqual({ deliveries: [] })
  expect(await takenFrom(driver, "q")).toMatchObject([{ first: true, deliveries: 1 }])
  await driver.close()
})

test("records are read whose replies are larger together than what the server keeps for a subscriber", async () => {
  const driver = await open("large")
  const lost: Array<unknown> = []
  driver.onStatus((_, why) => lost.push(why))
  await driver.listen({ kind: "jobs" }, () => undefined, never)
  const bytes = new Uint8Array(12 * 1024 * 1024)
  const index = posting("a").index
  // The server ends the connection of a subscriber that is 32 MiB behind, by default.
  const ids = ["a", "b", "c"]
  for (const id of ids) await driver.commit([{ id, record: { expect: "", bytes, index, keep: 60_000 } }])
  const read = await driver.read(ids, "record")
  expect(read.map((known) => known?.record?.length)).toEqual(ids.map(() => bytes.length))
  expect(lost).toEqual([])
  await driver.close()
})

test("the keys of many repetitions of a job are not kept for ever", async () => {
  const driver = await open("repeats")
  for (let run = 1; run <= 30; run++) {
    await driver.publish([{ ...posting("a"), key: `a/${run}/0` }])
    const [delivery] = await takenFrom(driver, "q")
    // Sets the time back as if the task had left its queue three minutes ago.
    await driver.commit([{ id: "a", task: { kind: "ack", token: delivery?.token ?? "" } }])
    await ask("HSET", "repeats:callboard:repeats:p:a", `a/${run}/0`, `@${Date.now() - 180_000}`)
  }
  expect(Number(await ask("HLEN", "repeats:callboard:repeats:p:a"))).toBeLessThan(25)
  await driver.close()
})
