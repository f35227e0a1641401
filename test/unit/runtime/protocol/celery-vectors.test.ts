/**
 * Every captured Celery message is decoded to its meaning and encoded with the same meaning, or listed below with a
 * reason.
 */
import { Result } from "effect"
import { describe, expect, test } from "vitest"
import { type Body, decodeBody, decodeValue, encodeBody, encodeValue } from "../../../../runtime/protocol/body.ts"
import { decodeEvents, encodeEvents } from "../../../../runtime/protocol/celery/event.ts"
import { controlMessage, parseControl, parseReply, replyMessage } from "../../../../runtime/protocol/celery-control.ts"
import { chordResults, decodeMeta, encodeMeta, metaKey } from "../../../../runtime/protocol/celery-result.ts"
import { parseTask, postingOf, renderCompact } from "../../../../runtime/protocol/headers.ts"
import type { Message } from "../../../../runtime/protocol/message.ts"
import { toProtocol2 } from "../../../../runtime/protocol/protocol1.ts"
import { recordOfPosting } from "../../../../runtime/protocol/record.ts"
import { bytesOf, canonical, isFields, messageOf, textOf, type Vector, vectors, wrapped } from "./vectors.ts"

const ofKind = (...kinds: ReadonlyArray<string>): ReadonlyArray<Vector> =>
  vectors.filter((vector) => kinds.includes(vector.expect.kind))

/**
 * Vectors that this test skips, each with the reason. The names are exact, so that no new vector is skipped by
 * accident.
 */
const UNSUPPORTED_COMPRESSION = ["redis/json/v2/compression-lzma"]
const LISTED: ReadonlyArray<{ readonly kind: string; readonly count: number; readonly reason: string }> = [
  { kind: "state", count: 1, reason: "keys of a Redis database with an unacknowledged task: the Redis transport's" },
]

const isSupported = (vector: Vector): boolean => !UNSUPPORTED_COMPRESSION.includes(vector.name)

/** The message in protocol 2. */
const converted = (vector: Vector): Message => Result.getOrThrow(toProtocol2(messageOf(vector)))

const bodyFields = (body: Body): Readonly<Record<string, unknown>> => ({
  args: canonical(body.args),
  kwargs: canonical(body.kwargs),
  callbacks: canonical(body.embed.callbacks),
  errbacks: canonical(body.embed.errbacks),
  chord: canonical(body.embed.chord),
})

const pick = (fields: Readonly<Record<string, unknown>>, ...names: ReadonlyArray<string>): unknown =>
  Object.fromEntries(names.map((name) => [name, fields[name] ?? null]))

describe("tasks", () => {
  const tasks = ofKind("task").filter(isSupported)

  test.each(tasks.map((vector) => [vector.name, vector] as const))("%s: headers", (_name, vector) => {
    const wanted = vector.expect
    const message = converted(vector)
    const task = Result.getOrThrow(parseTask(message))
    expect(task.task).toBe(wanted.task)
    expect(task.id).toBe(wanted.id)
    expect(task.eta).toBe(wanted.eta_epoch_ms)
    expect(task.expires).toBe(wanted.expires_epoch_ms)
    expect(task.timelimit).toEqual(wanted.timelimit)
    expect(task.group).toBe(wanted.group ?? null)
    expect(task.groupIndex).toBe(wanted.group_index ?? null)
    // A worker of Celery 5.6 lets the header of a hybrid message win: 1, where the body says 0.
    expect(task.retries).toBe(vector.protocol === "hybrid" ? 1 : (wanted.retries ?? 0))
    expect(message.properties.correlation_id ?? null).toBe(wanted.correlation_id)
    expect(message.properties.reply_to ?? null).toBe(wanted.reply_to)
    expect(message.properties.priority ?? null).toBe(wanted.priority)
    expect(message.properties.delivery_mode ?? null).toBe(wanted.delivery_mode)
    const { expiration } = message.properties
    expect(expiration === undefined ? null : Number(expiration)).toBe(wanted.expiration_ms)
    if (wanted.protocol !== 2) return
    expect(task.lang).toBe(wanted.lang)
    expect(task.shadow ?? task.task).toBe(wanted.name)
    expect(task.rootId).toBe(wanted.root_id)
    expect(task.parentId).toBe(wanted.parent_id)
    expect(task.argsrepr).toBe(wanted.argsrepr)
    expect(task.kwargsrepr).toBe(wanted.kwargsrepr)
    expect(task.origin).toBe(wanted.origin)
    expect(task.ignoreResult).toBe(wanted.ignore_result ?? false)
    expect(task.replacedTaskNesting).toBe(wanted.replaced_task_nesting ?? 0)
    expect(task.stampedHeaders).toEqual(wanted.stamped_headers)
    expect(canonical(task.stamps)).toEqual(wanted.stamps ?? {})
    expect(canonical(task.custom)).toEqual(wanted.custom_headers)
    expect(task.compression).toBe(wanted.compression)
  })

  test.each(tasks.map((vector) => [vector.name, vector] as const))("%s: headers written again", (_name, vector) => {
    const message = converted(vector)
    const task = Result.getOrThrow(parseTask(message))
    expect(Result.getOrThrow(parseTask({ headers: renderCompact(task) }))).toEqual({ ...task, lang: task.lang ?? "ts" })
  })

  test.each(tasks.map((vector) => [vector.name, vector] as const))(
    "%s: body, and body written again",
    (_name, vector) => {
      const wanted = vector.expect
      const message = converted(vector)
      const body = Result.getOrThrow(decodeBody(message))
      const expected = pick(wanted, "args", "kwargs", "callbacks", "errbacks", "chord")
      expect(bodyFields(body)).toEqual(expected)
      if (wanted.protocol === 2) expect(canonical(body.embed.chain)).toEqual(wanted.chain_wire_order)
      const contentType = message.properties.content_type
      const written = Result.getOrThrow(encodeBody(body, { contentType }))
      expect(written.contentEncoding).toBe(message.properties.content_encoding)
      const { compression: _, ...headers } = message.headers
      const again = Result.getOrThrow(decodeBody({ ...message, headers, body: written.bytes }))
      expect(bodyFields(again)).toEqual(expected)
      expect(canonical(again.embed.chain)).toEqual(canonical(body.embed.chain))
    },
  )

  test.each(UNSUPPORTED_COMPRESSION)("%s: routed and listed although its body stays closed", (name) => {
    const vector = vectors.find((each) => each.name === name)
    if (vector === undefined) throw new Error(`no vector ${name}`)
    const message = messageOf(vector)
    const posting = Result.getOrThrow(postingOf(message, "q"))
    expect(Result.getOrThrow(recordOfPosting(posting, 0)).task).toBe(vector.expect.task)
    expect(Result.flip(decodeBody(message))).toMatchObject({ success: { reason: "unsupported-compression" } })
  })
})

describe("refusals", () => {
  test.each(ofKind("refuse").map((vector) => [vector.name, vector] as const))(
    "%s: pickle stays closed",
    (_name, vector) => {
      const message = messageOf(vector)
      expect(Result.flip(decodeBody(message, { accepts: ["*/*"] }))).toMatchObject({
        success: { reason: "refused-content-type", bytes: message.body },
      })
      if (vector.protocol === 1) {
        expect(Result.flip(toProtocol2(message))).toMatchObject({ success: { reason: "refused-content-type" } })
      } else {
        expect(Result.getOrThrow(postingOf(message, "q")).id).toBe(vector.expect.id)
      }
    },
  )

  const reasons: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
    "redis/json/v2/unknown-type-marker": { _tag: "UndecodableBody", reason: "malformed" },
    "redis/msgpack/v2/int-map-key": { _tag: "UndecodableBody", reason: "malformed" },
    "amqp/msgpack/v2/group-in-chain-corrupt": { _tag: "UndecodableBody", reason: "malformed" },
    "redis/json/v2/edge-bad-json": { _tag: "UndecodableBody", reason: "malformed" },
    "amqp/json/v2/edge-bad-json": { _tag: "UndecodableBody", reason: "malformed" },
    "redis/json/v2/edge-bad-eta": { _tag: "InvalidTask", field: "eta" },
    "redis/json/v2/edge-poison-no-id": { _tag: "InvalidTask", field: "id" },
    "redis/json/v2/edge-poison-two-element-body": { _tag: "UndecodableBody", reason: "malformed" },
    "redis/json/v2/edge-kwargs-list": { _tag: "UndecodableBody", reason: "malformed" },
  }

  test.each(ofKind("must-fail").map((vector) => [vector.name, vector] as const))(
    "%s: fails as a value",
    (name, vector) => {
      const message = converted(vector)
      const outcome = Result.flatMap(parseTask(message), () => decodeBody(message))
      expect(Result.flip(outcome)).toMatchObject({ success: reasons[name] ?? { _tag: "missing from the table" } })
    },
  )

  test.each(ofKind("unknown-message").map((vector) => [vector.name, vector] as const))(
    "%s: is no task",
    (name, vector) => {
      const outcome = toProtocol2(messageOf(vector))
      const wanted = name.endsWith("text-plain") ? { reason: "unsupported-content-type" } : { _tag: "UnknownMessage" }
      expect(Result.flip(outcome)).toMatchObject({ success: wanted })
      const value = Result.getOrThrow(decodeValue(messageOf(vector), { accepts: ["text/plain"] })).value
      const { payload } = vector.expect
      expect(
        typeof payload === "string" && value instanceof Uint8Array ? new TextDecoder().decode(value) : canonical(value),
      ).toEqual(payload)
    },
  )
})

describe("events, control messages and results", () => {
  test.each(ofKind("event", "event-batch").map((vector) => [vector.name, vector] as const))("%s", (_name, vector) => {
    const events = Result.getOrThrow(decodeEvents(messageOf(vector).body))
    const wanted = vector.expect.events ?? [vector.expect.payload ?? vector.expect.event]
    expect(wrapped(events)).toEqual(wanted)
    expect(wrapped(Result.getOrThrow(decodeEvents(Result.getOrThrow(encodeEvents(events)))))).toEqual(wanted)
  })

  const written = (value: unknown, contentType: string): unknown => {
    const bytes = Result.getOrThrow(encodeValue(value, contentType))
    const message: Message = {
      headers: {},
      properties: { content_type: contentType, content_encoding: "" },
      body: bytes,
    }
    return wrapped(Result.getOrThrow(decodeValue(message)).value)
  }

  test.each(ofKind("control-request", "control-reply", "rpc-reply").map((vector) => [vector.name, vector] as const))(
    "%s",
    (_name, vector) => {
      const message = messageOf(vector)
      const { value } = Result.getOrThrow(decodeValue(message))
      const { kind, headers, routing_key, note, correlation_id, ...wanted } = vector.expect
      const { method, ticket, reply, ...rest } = wanted
      const isReply = kind === "control-reply"
      if (kind === "control-request") {
        const request = Result.getOrThrow(parseControl(message))
        expect({ ...request }).toMatchObject({
          destination: wanted.destination ?? null,
          pattern: wanted.pattern ?? null,
          matcher: wanted.matcher ?? null,
        })
        const sent = Result.getOrThrow(controlMessage(request))
        expect(wrapped(Result.getOrThrow(decodeValue(sent)).value)).toEqual(wrapped(value))
        expect(sent.headers.clock).toBe(message.headers.clock)
      }
      if (isReply) {
        const read = Result.getOrThrow(parseReply(message))
        expect(read.ticket).toBe(message.headers.ticket)
        const [answer] = read.replies
        expect(read.replies).toHaveLength(1)
        const sent = answer && Result.getOrThrow(replyMessage(answer, read.ticket, 1))
        expect(sent && wrapped(Result.getOrThrow(decodeValue(sent)).value)).toEqual(wrapped(value))
      }
      if (headers !== undefined) expect(message.headers).toEqual(headers)
      if (correlation_id !== undefined) expect(message.properties.correlation_id).toBe(correlation_id)
      // A reply does not contain the name of its method, and a long reply not its value.
      if (isReply && reply !== undefined) expect(wrapped(value)).toEqual(reply)
      if (kind === "rpc-reply") expect(canonical(value)).toEqual(rest)
      if (kind === "control-request") expect(wrapped(value)).toMatchObject({ method, ...rest })
      if (ticket !== undefined) expect(isReply ? message.headers.ticket : isFields(value) && value.ticket).toBe(ticket)
      expect(written(value, message.properties.content_type)).toEqual(wrapped(value))
    },
  )

  test.each(ofKind("result", "group-result").map((vector) => [vector.name, vector] as const))("%s", (_name, vector) => {
    const contentType = vector.serializer === "msgpack" ? "application/x-msgpack" : "application/json"
    const { kind, key, ttl, published_on, ...wanted } = vector.expect
    const message: Message = {
      headers: {},
      properties: { content_type: contentType, content_encoding: "" },
      body: bytesOf(vector.raw.value_base64),
    }
    const { value } = Result.getOrThrow(decodeValue(message))
    expect(wrapped(value)).toEqual(wanted)
    expect(written(value, contentType)).toEqual(wanted)
    if (kind !== "result" || vector.serializer !== "json") return
    const meta = Result.getOrThrow(decodeMeta(message.body))
    expect(metaKey(meta.task_id)).toBe(key)
    // Further fields are there only with `result_extended`.
    if (!("worker" in wanted)) expect(wrapped(meta)).toEqual({ ...wanted, children: wanted.children ?? [] })
    expect(wrapped(Result.getOrThrow(decodeMeta(Result.getOrThrow(encodeMeta(meta)))))).toEqual(wrapped(meta))
  })

  test("what the counter of a chord holds is read in order", () => {
    const added = ofKind("chord-counter").flatMap(({ raw }) =>
      Array.isArray(raw.cmd) && raw.cmd[0] === "ZADD" ? [new TextEncoder().encode(textOf(raw.cmd[3]))] : [],
    )
    expect(Result.getOrThrow(chordResults(added))).toEqual([6828, 6808, 21438])
  })
})

test("every vector is read by a test above or listed with a reason", () => {
  const read = ofKind(
    "task",
    "refuse",
    "must-fail",
    "unknown-message",
    "event",
    "event-batch",
    "control-request",
    "control-reply",
    "rpc-reply",
    "result",
    "group-result",
    "chord-counter",
  )
  for (const { kind, count } of LISTED) expect(ofKind(kind), kind).toHaveLength(count)
  const listed = LISTED.reduce((sum, { count }) => sum + count, 0)
  expect(read.length + listed).toBe(vectors.length)
  expect(vectors).toHaveLength(623)
  expect(UNSUPPORTED_COMPRESSION.every((name) => vectors.some((vector) => vector.name === name))).toBe(true)
})
