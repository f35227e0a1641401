/** The driver: each method checks what it is given, asks one statement, and says what was answered. */
import { Buffer } from "node:buffer"
import type { ClientConfig } from "pg"
import { BaseDriver } from "../../runtime/transport/base-driver.ts"
import { checkCommit, checkOperation, checkPosting, checkTopic } from "../../runtime/transport/checks.ts"
import type * as contract from "../../runtime/transport/driver.ts"
import type { Index, Known, QueuedTask } from "../../runtime/transport/known.ts"
import { type ConnectOptions, TransportError } from "../../runtime/transport/mod.ts"
import type { Broadcast, FoundJobs, Query, QueueBrowser, QueueDepth } from "../../runtime/transport/optional.ts"
import type { DriverStore, Entry } from "../../runtime/transport/store.ts"
import { explain, type Library, openLink, type PostgresLink } from "./link.ts"
import { DEDUPE_MS, HELD, schemaOf } from "./schema.ts"

export const capabilities: contract.Capabilities = {
  durability: "fsync",
  reach: "network",
  atomic: true,
  waits: false,
  dedupeWindow: DEDUPE_MS,
  delay: Number.POSITIVE_INFINITY,
  bands: 10,
  front: true,
  maxTask: 4 * 1024 * 1024,
  maxRecord: 16 * 1024 * 1024,
  leaseResolution: 50,
  dueResolution: 50,
}

/** A notification holds 8,000 bytes: an announcement comes in parts of so many, as base64 behind a number and a topic. */
const PART = 5_000

/** What is known of a job: its record, and the newest of its tasks. */
const KNOWN = `job.revision, job.bytes, frame, json_strip_nulls(json_build_object('queue', queue, 'due', due,
  'expires', expires, 'at', posted, 'held', in_hand)) AS task`
const KNOWN_FROM = `LEFT JOIN job ON job.id = asked.id AND job.until > ms() LEFT JOIN LATERAL (SELECT *, ${HELD} AS in_hand
  FROM task WHERE task.id = asked.id ORDER BY sequence DESC LIMIT 1) AS newest`

export class PostgresDriver extends BaseDriver<PostgresLink> implements contract.Driver {
  readonly name = "postgres"
  readonly capabilities = capabilities
  readonly #library: Library
  readonly #config: ClientConfig
  readonly #schema: string
  readonly #topics = new Set<{ readonly topic: string; readonly listener: (payload: Uint8Array) => void }>()
  #parts: Array<Buffer> = []
  /** Queue that was served last, where queues take turns. */
  #served = ""

  constructor(library: Library, config: ClientConfig, options: ConnectOptions) {
    super(options)
    this.#library = library
    this.#config = config
    this.#schema = schemaOf(options.namespace)
  }

  protected async open(lost: (why: unknown) => void, signal: AbortSignal): Promise<PostgresLink> {
    const hear = (channel: string, payload: string) => this.#notified(channel.split(":")[1], payload)
    return openLink(this.#library, this.#config, this.#schema, lost, hear, signal)
  }

  protected explain(error: unknown): TransportError {
    return explain(error)
  }

  protected tick({ ask }: PostgresLink): Promise<unknown> {
    return ask("SELECT sweep()", [], "sweep")
  }

  #notified(kind: string | undefined, payload: string): void {
    if (kind === "queue") this.tell({ kind, queue: payload })
    else if (kind === "job") this.tell({ kind, id: payload })
    else if (kind === "topic") {
      const [left, topic, part = ""] = payload.split(" ")
      this.#parts.push(Buffer.from(part, "base64"))
      if (left !== "0") return
      const whole = Buffer.concat(this.#parts)
      this.#parts = []
      for (const each of this.#topics) if (each.topic === topic) each.listener(new Uint8Array(whole))
    }
  }

  #ask<R extends object>(text: string, values: ReadonlyArray<unknown>, name?: string): Promise<ReadonlyArray<R>> {
    return this.call(({ ask }) => ask<R>(text, values, name))
  }

  // ── Tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  publish(postings: ReadonlyArray<contract.TaskPosting>): Promise<ReadonlyArray<contract.Receipt>> {
    const text = `SELECT CASE WHEN post(p) THEN 'stored' ELSE 'duplicate' END AS status
      FROM jsonb_array_elements($1) AS p`
    const check = (posting: contract.TaskPosting) => checkPosting(posting, capabilities)
    return this.batch(postings, check, ({ ask }, sound) =>
      ask<contract.Receipt>(text, [json(sound.map(jsonOf))], "publish"),
    )
  }

  async take({ queues, max, rotate }: contract.TakeRequest, signal: AbortSignal): Promise<contract.Taken> {
    this.guard()
    if (signal.aborted) return { deliveries: [] }
    const first = rotate ? queues.indexOf(this.#served) + 1 : 0
    const text = `SELECT sequence || '.' || deliveries AS token, queue, level, sequence::float8, deliveries = 1 AS first,
      lpad(deliveries::text, 9, '0') AS fence, deliveries, frame AS content FROM take($1, $2, $3, $4)`
    const names = [...queues.slice(first), ...queues.slice(0, first)]
    const values = [names, max, rotate ? 1 : max, this.options.lease]
    const deliveries = await this.#ask<contract.TaskDelivery>(text, values, "take")
    if (signal.aborted) {
      // They were never handed over.
      const back = `WITH back AS (UPDATE task SET ready = true, held = false, deliveries = deliveries - 1
        WHERE sequence = ANY ($1) RETURNING queue) SELECT tell('queue', queue) FROM (SELECT DISTINCT queue FROM back) b`
      await this.#ask(back, [deliveries.map(({ sequence }) => sequence)])
      return { deliveries: [] }
    }
    this.#served = deliveries.at(-1)?.queue ?? this.#served
    if (deliveries.length > 0) return { deliveries }
    const soon = "SELECT (min(until) - ms())::float8 AS next FROM task WHERE queue = ANY ($1) AND NOT ready"
    const [row] = await this.#ask<{ next: number | null }>(soon, [queues], "next")
    return typeof row?.next === "number" ? { deliveries, next: Math.max(0, row.next) } : { deliveries }
  }

  async extend(tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> {
    const text = `UPDATE task SET ready = false, until = ms() + $3 WHERE sequence = ANY (ARRAY(
        SELECT sequence FROM task WHERE sequence = ANY ($1::bigint[]) ORDER BY sequence FOR UPDATE))
      AND held AND sequence || '.' || deliveries = ANY ($2) RETURNING sequence || '.' || deliveries AS token`
    const values = [tokens.map(sequenceOf), tokens, this.options.lease]
    const extended = new Set((await this.#ask<{ token: string }>(text, values, "extend")).map(({ token }) => token))
    return tokens.map((token) => extended.has(token))
  }

  // ── Records ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async read(ids: ReadonlyArray<string>, what: "record" | "all"): Promise<ReadonlyArray<Known | undefined>> {
    const text = `SELECT ${KNOWN} FROM unnest($1::text[]) WITH ORDINALITY AS asked(id, n) ${KNOWN_FROM} ON $2 ORDER BY n`
    return (await this.#ask<KnownRow>(text, [ids.map(plain), what === "all"], "read")).map(knownOf)
  }

  commit(commits: ReadonlyArray<contract.Commit>): Promise<ReadonlyArray<contract.Committed>> {
    const text = `SELECT json_strip_nulls(json_build_object('status', status, 'gone', gone, 'revision',
      CASE status WHEN 'committed' THEN coalesce(stored::text, '') END)) AS answer FROM settle($1) ORDER BY place`
    const check = (commit: contract.Commit) => checkCommit(commit, capabilities)
    return this.batch(commits, check, async ({ ask }, sound) => {
      const batch = sound.map(({ id, record, post = [], task }) => ({
        id,
        ...(record && { ...record, bytes: base64(record.bytes) }),
        post: post.map(jsonOf),
        ...(task && { ...task, ...("token" in task && { sequence: sequenceOf(task.token) }) }),
      }))
      const rows = await ask<{ answer: contract.Committed }>(text, [json(batch)], "settle")
      return rows.map(({ answer }) => answer)
    })
  }

  // ── Lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async query({ states, task, since, until, limit, after, budget: _budget, ...fields }: Query): Promise<FoundJobs> {
    const values: Array<unknown> = []
    const value = (each: unknown) => `$${values.push(each)}`
    const where = ["NOT index ? 'hidden'", `index @> ${value(json(fields))}`]
    // What was scheduled may be due by now.
    const wanted = states?.some((state) => WAITS.includes(state)) ? [...states, ...WAITS] : states
    if (wanted !== undefined) where.push(`index->>'state' = ANY (${value(wanted)})`)
    // All jobs of one tree are looked at often: there is an index.
    if (fields.root !== undefined) where.push(`index->>'root' = ${value(plain(fields.root))}`)
    if (task !== undefined)
      where.push(`${value(plain(task))} IN (index->>'task', (index->>'task') || '.' || (index->>'method'))`)
    if (since !== undefined) where.push(`at >= ${value(since)}`)
    if (until !== undefined) where.push(`at < ${value(until)}`)
    if (after !== undefined) {
      const [, at, id] = /^(\d{1,15}):(.+)$/s.exec(after) ?? []
      if (at === undefined) throw new TransportError("invalid", `not a cursor of postgres: ${after.slice(0, 40)}`)
      where.push(`(at, id) < (${value(at)}::bigint, ${value(id)})`)
    }
    const part = (from: string) =>
      `(SELECT id, at FROM ${from} AND ${where.join(" AND ")} ORDER BY at DESC, id DESC LIMIT ${limit + 1})`
    const own = `task AS own WHERE id <> '' AND NOT EXISTS (SELECT FROM job WHERE job.id = own.id AND job.until > ms())
      AND NOT EXISTS (SELECT FROM task AS other WHERE other.id = own.id AND other.sequence > own.sequence)`
    const text = `SELECT asked.*, ${KNOWN} FROM (${part("job WHERE job.until > ms()")} UNION ALL ${part(own)}) AS asked
      ${KNOWN_FROM} ON true ORDER BY asked.at DESC, asked.id DESC LIMIT ${limit + 1}`
    const rows = await this.#ask<KnownRow & { id: string; at: string }>(text, values)
    const jobs = rows.slice(0, limit).map((row) => ({ revision: "", ...knownOf(row), id: row.id }))
    const last = rows[limit - 1]
    return rows.length > limit && last !== undefined ? { jobs, next: `${last.at}:${last.id}` } : { jobs }
  }

  async queues(): Promise<ReadonlyArray<QueueDepth>> {
    const text = `SELECT json_strip_nulls(json_build_object('queue', queue, 'held', count(*) FILTER (WHERE ${HELD}),
      'scheduled', count(*) FILTER (WHERE NOT ready AND NOT held AND until > ms()),
      'ready', count(*) FILTER (WHERE ready OR until <= ms()),
      'oldest', min(posted) FILTER (WHERE ready OR until <= ms()))) AS depth FROM task GROUP BY queue`
    return (await this.#ask<{ depth: QueueDepth }>(text, [], "queues")).map(({ depth }) => depth)
  }

  async waiting(what: Parameters<QueueBrowser["waiting"]>[0], max: number): Promise<ReadonlyArray<string>> {
    const [where, order, value] =
      "queue" in what
        ? ["queue = $1", "CASE WHEN ready OR until <= ms() THEN 0 ELSE until END, level DESC, sequence", what.queue]
        : ["expires <= $1", "expires, sequence", what.expiredBy]
    const text = `SELECT id FROM task WHERE ${where} AND NOT ${HELD} AND id <> '' ORDER BY ${order} LIMIT $2`
    return (await this.#ask<{ id: string }>(text, [value, max])).map(({ id }) => id)
  }

  // ── What workers share ────────────────────────────────────────────────────────────────────────────────────────────

  readonly store: DriverStore = {
    get: async (keys) => {
      const text = `SELECT ${ENTRY} FROM entry WHERE key = ANY ($1::bytea[]) AND until > ms()`
      const found = await this.#ask<Entry>(text, [keys.map((key) => Buffer.from(key))], "get")
      return keys.map((key) => found.find((entry) => entry.key === key))
    },
    write: async (operations) => {
      this.guard()
      for (const operation of operations) checkOperation(operation, capabilities)
      const batch = operations.map(({ key, value, ...rest }) => ({
        ...rest,
        key: base64(Buffer.from(key)),
        ...(value !== undefined && { value: value && base64(value) }),
      }))
      const text = "SELECT coalesce(stored::text, '') AS revision FROM write($1) ORDER BY place"
      const rows = await this.#ask<{ revision: string }>(text, [json(batch)], "write")
      return rows.length < operations.length ? "conflict" : rows.map(({ revision }) => revision)
    },
    list: async ({ prefix, after, limit, reverse = false }) => {
      const text = `SELECT ${ENTRY} FROM entry WHERE key >= $1 AND key < $2 AND until > ms()
        AND ($3::bytea IS NULL OR key ${reverse ? "<" : ">"} $3) ORDER BY entry.key ${reverse ? "DESC" : ""} LIMIT $4`
      // No byte of UTF-8 is 255: it comes behind all of the prefix.
      const range = [Buffer.from(prefix), Buffer.concat([Buffer.from(prefix), Buffer.of(255)])]
      return this.#ask<Entry>(text, [...range, after === undefined ? null : Buffer.from(after), limit])
    },
    now: async () => (await this.#ask<{ now: number }>("SELECT ms()::float8 AS now", [], "now"))[0]?.now ?? Date.now(),
  }

  readonly broadcast: Broadcast = {
    send: async (topic, payload) => {
      this.guard()
      checkTopic(topic, payload)
      const last = Math.max(0, Math.ceil(payload.length / PART) - 1)
      const parts = Array.from({ length: last + 1 }, (_, at) => {
        return `${last - at} ${topic} ${base64(payload.subarray(at * PART, (at + 1) * PART))}`
      })
      await this.#ask("SELECT tell('topic', part) FROM unnest($1::text[]) AS part", [parts], "send")
    },
    listen: async (topic, listener, signal) => {
      this.guard()
      checkTopic(topic)
      this.subscribe(this.#topics, { topic, listener }, signal)
    },
  }
}

interface KnownRow {
  readonly revision: string | null
  readonly bytes: Buffer | null
  readonly frame: Buffer | null
  readonly task: Omit<QueuedTask, "content">
}

const knownOf = ({ revision, bytes, frame, task }: KnownRow): Known | undefined => {
  if (revision === null && frame === null) return undefined
  const record = bytes && { record: new Uint8Array(bytes) }
  return { revision: revision ?? "", ...record, ...(frame && { task: { ...task, content: new Uint8Array(frame) } }) }
}

const ENTRY = "convert_from(key, 'UTF8') AS key, value, revision"
const WAITS: ReadonlyArray<Index["state"]> = ["queued", "scheduled"]

/** PostgreSQL's text holds no zero and no half of a pair. Ids and queues with such are refused; what lists look for is not worth that. */
const plain = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd")
const json = (value: object): string =>
  JSON.stringify(value, (_, each: unknown) => (typeof each === "string" ? plain(each) : each))

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64")

const jsonOf = ({ message: _message, frame, ...posting }: contract.TaskPosting) => ({
  ...posting,
  frame: base64(frame),
})

/** Which task a token is of; no task has the number 0. */
const sequenceOf = (token: string): string => /^\d{1,18}(?=\.\d{1,9}$)/.exec(token)?.[0] ?? "0"
