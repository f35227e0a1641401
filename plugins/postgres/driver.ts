/** The driver. Each method runs one SQL statement and translates its rows. */
import { Buffer } from "node:buffer"
import type { ClientConfig } from "pg"
import { BaseDriver } from "../../runtime/transport/base-driver.ts"
import { checkOperation } from "../../runtime/transport/checks.ts"
import type * as contract from "../../runtime/transport/driver.ts"
import type { Known, QueuedTask } from "../../runtime/transport/known.ts"
import { type ConnectOptions, TransportError } from "../../runtime/transport/mod.ts"
import type { FoundJob, FoundJobs, Query, QueueBrowser, QueueDepth } from "../../runtime/transport/optional.ts"
import type { Entry, Store } from "../../runtime/transport/store.ts"
import { explain, type Library, linkTo, type PostgresLink } from "./link.ts"
import { DEDUPE_MS, HELD, NEVER, prepare, schemaOf } from "./schema.ts"

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

/**
 * Bytes of an announcement per notification, which has 8,000 bytes at most. A part is sent as the number of parts that
 * follow, the topic, and base64.
 */
const PART = 5_000
/** Jobs that one statement of a search reads, so that a long search does not delay commits. */
const PORTION = 2_000

/** Columns of a job's record and its newest task. */
const KNOWN = `job.revision, job.bytes, frame, json_strip_nulls(json_build_object('queue', queue, 'due', due,
  'expires', expires, 'at', posted, 'held', in_hand)) AS task`
const KNOWN_FROM = `LEFT JOIN job ON job.id = asked.id AND job.until > ms() LEFT JOIN LATERAL (SELECT *, ${HELD} AS in_hand
  FROM task WHERE task.id = asked.id ORDER BY sequence DESC LIMIT 1) AS newest`

export class PostgresDriver extends BaseDriver<PostgresLink> implements contract.Driver {
  readonly name = "postgres"
  readonly capabilities = capabilities
  readonly #connect: (...heard: [(why: unknown) => void, (channel: string, payload: string) => void]) => PostgresLink
  readonly #schema: string
  #parts: Array<Buffer> = []

  constructor(library: Library, config: ClientConfig, options: ConnectOptions) {
    super(options)
    this.#connect = (lost, notified) => linkTo(library, config, schemaOf(options.namespace), lost, notified)
    this.#schema = schemaOf(options.namespace)
  }

  protected async open(lost: (why: unknown) => void, signal: AbortSignal): Promise<PostgresLink> {
    const link = this.#connect(lost, (channel, payload) => this.#notified(channel.split(":")[1], payload))
    signal.addEventListener("abort", () => link.close(), { once: true })
    await link.open()
    await prepare(link, this.#schema)
    for (const kind of ["queue", "job", "topic"]) await link.ask(`LISTEN "${this.#schema}:${kind}"`)
    await link.open()
    return link
  }

  protected explain(error: unknown): TransportError {
    return explain(error)
  }

  protected tick({ ask }: PostgresLink): Promise<unknown> {
    return ask("SELECT sweep()", [], "sweep")
  }

  #notified(kind: string | undefined, payload: string): void {
    if (kind === "queue") this.emit({ kind, queue: payload })
    if (kind === "job") this.emit({ kind, id: payload })
    if (kind !== "topic") return
    const [left, topic = "", part = ""] = payload.split(" ")
    this.#parts.push(Buffer.from(part, "base64"))
    if (left === "0") this.emitAnnouncement(topic, Buffer.concat(this.#parts.splice(0)))
  }

  #ask<R extends object>(text: string, values: Array<unknown>, name?: string): Promise<ReadonlyArray<R>> {
    return this.call(({ ask }) => ask<R>(text, values, name))
  }

  // ── Tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  protected publishChecked({ ask }: PostgresLink, postings: ReadonlyArray<contract.Posting>) {
    const text = `SELECT CASE WHEN post(p) THEN 'stored' ELSE 'duplicate' END AS status
      FROM jsonb_array_elements($1) AS p`
    return ask<contract.Receipt>(text, [json(postings.map(jsonOf))], "publish")
  }

  protected async takeNow(
    { ask }: PostgresLink,
    { queues, max, rotate }: contract.TakeRequest,
  ): Promise<contract.Taken> {
    const text = `SELECT token, queue, level, sequence::float8, deliveries = 1 AS first,
      lpad(deliveries::text, 9, '0') AS fence, deliveries, frame AS content FROM take($1, $2, $3, $4)`
    const values = [queues, max, rotate ? 1 : max, this.options.lease]
    const deliveries = await ask<contract.Delivery>(text, values, "take")
    if (deliveries.length > 0) return { deliveries }
    const soon = "SELECT greatest(min(until) - ms(), 0)::float8 AS next FROM task WHERE queue = ANY ($1) AND NOT ready"
    const [row] = await ask<{ next: number | null }>(soon, [queues], "next")
    return typeof row?.next === "number" ? { deliveries, next: row.next } : { deliveries }
  }

  protected giveBack({ ask }: PostgresLink, deliveries: ReadonlyArray<contract.Delivery>): Promise<unknown> {
    const back = `WITH back AS (UPDATE task SET ready = true, token = NULL, deliveries = deliveries - 1
      WHERE token = ANY ($1) RETURNING queue) SELECT tell('queue', queue) FROM back`
    return ask(back, [deliveries.map(({ token }) => token)])
  }

  async extend(tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> {
    const text = `UPDATE task SET ready = false, until = ms() + $2 WHERE sequence = ANY (ARRAY(
      SELECT sequence FROM task WHERE token = ANY ($1) ORDER BY sequence FOR UPDATE)) RETURNING token`
    const rows = await this.#ask<{ token: string }>(text, [tokens.map(plain), this.options.lease], "extend")
    const extended = new Set(rows.map(({ token }) => token))
    return tokens.map((token) => extended.has(token))
  }

  // ── Records ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async read(ids: ReadonlyArray<string>, what: "record" | "all"): Promise<ReadonlyArray<Known | undefined>> {
    const text = `SELECT ${KNOWN} FROM unnest($1::text[]) WITH ORDINALITY AS asked(id, n) ${KNOWN_FROM} ON $2 ORDER BY n`
    return (await this.#ask<KnownRow>(text, [ids.map(plain), what === "all"], "read")).map(knownOf)
  }

  protected async commitChecked({ ask }: PostgresLink, commits: ReadonlyArray<contract.Commit>) {
    const text = `SELECT json_strip_nulls(json_build_object('status', status, 'gone', gone, 'revision',
      CASE status WHEN 'committed' THEN coalesce(stored::text, '') END)) AS answer FROM settle($1) ORDER BY place`
    const batch = commits.map(({ id, record, post = [], task }) => {
      return { ...record, ...(record && { bytes: base64(record.bytes) }), ...task, id, post: post.map(jsonOf) }
    })
    return (await ask<{ answer: contract.Committed }>(text, [json(batch)], "settle")).map(({ answer }) => answer)
  }

  // ── Lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async query({
    states,
    task,
    since,
    until = NEVER,
    limit,
    after,
    budget = NEVER,
    ...fields
  }: Query): Promise<FoundJobs> {
    const end = performance.now() + budget
    // The index of a task keeps its state: one that was posted as scheduled may be due by now.
    const wanted = states?.some((state) => WAITS.has(state)) ? [...states, ...WAITS] : states
    const filter = [json(fields), wanted, task && plain(task), since ?? 0, fields.root && plain(fields.root)]
    const [cursor, at, id] = /^(\d{1,16}):(.*)$/s.exec(after ?? `${until}:`) ?? []
    if (cursor === undefined) throw new TransportError("invalid", `not a cursor of postgres: ${after?.slice(0, 40)}`)
    const jobs: Array<FoundJob> = []
    for (let last = { at: String(at), id: plain(String(id)) }; ; ) {
      const rows = await this.#ask<FoundRow>(SEARCH, [...filter, last.at, last.id, limit + 1 - jobs.length])
      for (const row of rows) {
        if (jobs.length === limit) return { jobs, next: `${last.at}:${last.id}` }
        if (row.fits) jobs.push({ revision: "", ...knownOf(row), id: row.id })
        last = row
      }
      if (rows.at(-1)?.place !== PORTION) return { jobs }
      if (performance.now() > end) return { jobs, next: `${last.at}:${last.id}`, partial: true }
    }
  }

  async queues(): Promise<ReadonlyArray<QueueDepth>> {
    const text = `SELECT json_strip_nulls(json_build_object('queue', queue, 'held', count(*) FILTER (WHERE ${HELD}),
      'scheduled', count(*) FILTER (WHERE NOT ready AND token IS NULL AND until > ms()),
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

  readonly store: Store = {
    get: async (keys) => {
      const text = "SELECT key, value, revision FROM entry WHERE key = ANY ($1) AND until > ms()"
      const found = await this.#ask<Entry>(text, [keys.map(plain)], "get")
      return keys.map((key) => found.find((entry) => entry.key === key))
    },
    write: async (operations) => {
      this.assertOpen()
      for (const operation of operations) checkOperation(operation, capabilities)
      const batch = operations.map(({ value, ...rest }) => ({
        ...rest,
        ...(value === undefined ? {} : { value: value && base64(value) }),
      }))
      const text = "SELECT coalesce(stored::text, '') AS revision FROM write($1) ORDER BY place"
      const rows = await this.#ask<{ revision: string }>(text, [json(batch)], "write")
      return rows.length < operations.length ? "conflict" : rows.map(({ revision }) => revision)
    },
    list: async ({ prefix, after, limit, reverse = false }) => {
      const text = `SELECT key, value, revision FROM entry WHERE key BETWEEN $1 AND $2 AND until > ms()
        AND ($3::text IS NULL OR key ${reverse ? "<" : ">"} $3) ORDER BY key ${reverse ? "DESC" : ""} LIMIT $4`
      // The upper bound is above every key with this prefix, since a key has 512 bytes at most.
      return this.#ask<Entry>(text, [prefix, prefix + "\u{10ffff}".repeat(128), after, limit])
    },
    now: async () => (await this.#ask<{ now: number }>("SELECT ms()::float8 AS now", [], "now"))[0]?.now ?? Date.now(),
  }

  readonly broadcast = this.createBroadcast((topic, payload) => {
    const last = Math.max(0, Math.ceil(payload.length / PART) - 1)
    const part = (at: number) => base64(payload.subarray(at * PART, (at + 1) * PART))
    const parts = Array.from({ length: last + 1 }, (_, at) => `${last - at} ${topic} ${part(at)}`)
    return this.#ask("SELECT tell('topic', part) FROM unnest($1::text[]) AS part", [parts], "send")
  })
}

const WAITS: ReadonlySet<string> = new Set(["queued", "scheduled"])

/**
 * One step of a search: up to {@link PORTION} jobs from a cursor on, newest first. It returns the jobs that match, and also
 * the last one that it read, from which the next step continues.
 */
const FITS = `NOT index ? 'hidden' AND index @> $1 AND ($2::text[] IS NULL OR index->>'state' = ANY ($2))
  AND ($3::text IS NULL OR $3 IN (index->>'task', (index->>'task') || '.' || (index->>'method'))) AS fits`
const part = (from: string) => `(SELECT id, at, ${FITS} FROM ${from} AND at >= $4
  AND ($5::text IS NULL OR index->>'root' = $5) AND (at, id) < ($6, $7) ORDER BY at DESC, id DESC LIMIT ${PORTION})`
const SEARCH = `SELECT asked.*, ${KNOWN} FROM (
  SELECT *, (row_number() OVER (ORDER BY at DESC, id DESC))::int AS place FROM (${part("job WHERE until > ms()")} UNION ALL
    ${part(`task AS own WHERE id <> '' AND NOT EXISTS (SELECT FROM job WHERE job.id = own.id AND job.until > ms())
      AND NOT EXISTS (SELECT FROM task AS other WHERE other.id = own.id AND other.sequence > own.sequence)`)}) AS all_of_them
  ORDER BY place LIMIT ${PORTION}) AS asked ${KNOWN_FROM} ON fits WHERE fits OR place = ${PORTION} ORDER BY place LIMIT $8`

interface KnownRow {
  readonly revision: string | null
  readonly bytes: Buffer | null
  readonly frame: Buffer | null
  readonly task: Omit<QueuedTask, "content">
}

interface FoundRow extends KnownRow {
  readonly id: string
  readonly at: string
  readonly fits: boolean
  readonly place: number
}

const knownOf = ({ revision, bytes, frame, task }: KnownRow): Known | undefined => {
  if (revision === null && frame === null) return undefined
  const record = bytes && { record: new Uint8Array(bytes) }
  return { revision: revision ?? "", ...record, ...(frame && { task: { ...task, content: new Uint8Array(frame) } }) }
}

/**
 * Replaces what PostgreSQL's text cannot hold: the zero character and half surrogates. Ids and queue names with them are
 * refused by the checks; fields of the index are changed instead.
 */
const plain = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd")
const json = (value: object): string =>
  JSON.stringify(value, (_, each: unknown) => (typeof each === "string" ? plain(each) : each))

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64")

const jsonOf = ({ message: _message, frame, ...posting }: contract.Posting) => ({
  ...posting,
  frame: base64(frame),
})
