/** The driver. Each method runs one SQL statement and translates its rows. */
import type { ClientConfig } from "pg"
import type * as contract from "../../runtime/transport/mod.ts"
import { BaseDriver, TransportError } from "../../runtime/transport/mod.ts"
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

export class PostgresDriver extends BaseDriver<PostgresLink> implements contract.Driver {
  readonly name = "postgres"
  readonly capabilities = capabilities
  readonly #schema: string
  /** Where the sweep of publish keys goes on. */
  #sweptUntil = 0
  readonly #linkTo: (lost: (why: unknown) => void) => PostgresLink

  constructor(library: Library, config: ClientConfig, options: contract.ConnectOptions) {
    super(options)
    this.#schema = schemaOf(options.namespace)
    this.#linkTo = (lost) => linkTo(library, config, this.#schema, lost, (payload) => this.#notified(payload))
  }

  protected async open(lost: (why: unknown) => void, signal: AbortSignal): Promise<PostgresLink> {
    const link = this.#linkTo(lost)
    signal.addEventListener("abort", () => link.close(), { once: true })
    await link.open()
    await prepare(link, this.#schema)
    await link.ask(`LISTEN "${this.#schema}"`)
    await link.open()
    return link
  }

  protected explain(error: unknown): TransportError {
    return explain(error)
  }

  protected async tick({ ask }: PostgresLink): Promise<void> {
    const [swept] = await ask<{ readonly until: string }>("SELECT sweep($1) AS until", [this.#sweptUntil], "sweep")
    this.#sweptUntil = Number(swept?.until ?? 0)
  }

  #notified(payload: string): void {
    const [, kind, what = ""] = /^(\w+) (.*)$/s.exec(payload) ?? []
    if (kind === "queue") this.emit({ kind, queue: what })
    if (kind === "job") this.emit({ kind, id: what })
    if (kind === "part") this.emitPart(what)
  }

  #ask<R extends object>(text: string, values: Array<unknown>, name?: string): Promise<ReadonlyArray<R>> {
    return this.call(({ ask }) => ask<R>(text, values, name))
  }

  // ── Tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  protected publishChecked({ ask }: PostgresLink, postings: ReadonlyArray<contract.Posting>) {
    const text = `SELECT CASE WHEN post(p) THEN 'stored' ELSE 'duplicate' END AS status
      FROM jsonb_array_elements($1) AS p`
    return ask<contract.Receipt>(text, [json(postings)], "publish")
  }

  protected async takeNow({ ask }: PostgresLink, { queues, max, rotate }: contract.TakeRequest) {
    const text = `SELECT token, queue, level, sequence::float8, deliveries = 1 AS first,
      lpad(deliveries::text, 9, '0') AS fence, deliveries, frame AS content FROM take($1, $2, $3, $4)`
    const values = [queues, max, rotate ? 1 : max, this.options.lease]
    const deliveries = await ask<contract.Delivery>(text, values, "take")
    if (deliveries.length > 0) return { deliveries }
    const soon = "SELECT min(greatest(until - ms(), 0))::float8 AS next FROM task WHERE queue = ANY ($1) AND NOT ready"
    const [row] = await ask<{ next: number | null }>(soon, [queues], "next")
    return typeof row?.next === "number" ? { deliveries, next: row.next } : { deliveries }
  }

  protected handBack({ ask }: PostgresLink, deliveries: ReadonlyArray<contract.Delivery>): Promise<unknown> {
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

  async read(ids: ReadonlyArray<string>, what: "record" | "all"): Promise<ReadonlyArray<contract.Known | undefined>> {
    const text = `SELECT job.revision, job.bytes, frame, json_strip_nulls(json_build_object('queue', queue, 'due', due,
        'expires', expires, 'at', posted, 'held', in_hand, 'deliveries', deliveries)) AS task
      FROM unnest($1::text[]) WITH ORDINALITY AS asked(id, n) LEFT JOIN job ON job.id = asked.id AND job.until > ms()
        LEFT JOIN LATERAL (SELECT posting.*, deliveries, ${HELD} AS in_hand FROM posting
          JOIN task USING (sequence) WHERE posting.id = asked.id ORDER BY sequence DESC LIMIT 1) AS newest ON $2 ORDER BY n`
    return (await this.#ask<KnownRow>(text, [ids.map(plain), what === "all"], "read")).map(knownOf)
  }

  protected async commitChecked({ ask }: PostgresLink, commits: ReadonlyArray<contract.Commit>) {
    const text = "SELECT answer FROM settle($1) ORDER BY place"
    return (await ask<{ answer: contract.Committed }>(text, [json(commits)], "settle")).map(({ answer }) => answer)
  }

  // ── Lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  query(query: contract.Query): Promise<contract.FoundJobs> {
    const { states, task, since = 0, until = NEVER, limit, after, budget, signal, bare, idEnds, ...fields } = query
    // The index of a task keeps its state: one that was posted as scheduled may be due by now.
    const waits = states?.some((state) => WAITS.has(state)) ?? true
    const wanted = states !== undefined && waits ? [...new Set([...states, ...WAITS])] : states
    const keys = keysOf({ ...query, ...(wanted === undefined ? {} : { states: wanted }) })
    const filter = [json(fields), wanted, task && plain(task), since, idEnds]
    const [text, values] = search({ job: keys, posting: postingKeysOf(query) }, waits)
    // Most pages are full after a few rows.
    let portion = Math.min(4 * limit, PORTION)
    return this.search(query, async (from = `${until}:`, max) => {
      const [, at, id = ""] = /^(\d{1,16}):(.*)$/s.exec(from) ?? []
      if (at === undefined) throw new TransportError("invalid", `not a cursor of postgres: ${from.slice(0, 40)}`)
      const rows = await this.#ask<FoundRow>(text, [...filter, at, plain(id), max, portion, ...values.map(plain)])
      const ids = rows.flatMap((row) => (row.fits ? row.id : []))
      const last = rows.at(-1)
      const isMore = last?.place === portion || rows.length === max
      portion = PORTION
      const read = last?.read ?? 0
      return isMore ? { ids, next: `${last?.at}:${last?.id}`, read } : { ids, read }
    })
  }

  async count(state: contract.Index["state"], queue?: string, max?: number): Promise<number | undefined> {
    if (state === "succeeded") return undefined
    const [where, values] = queue === undefined ? ["", []] : ["AND index->>'queue' = $3", [plain(queue)]]
    const text = `SELECT count(*)::float8 AS count FROM (SELECT FROM job WHERE index->>'state' = $1
      AND index->>'state' <> 'succeeded' ${where} AND NOT index ? 'hidden' AND until > ms() LIMIT $2) AS counted`
    const limit = max === undefined ? null : max + 1
    const [row] = await this.#ask<{ count: number }>(text, [state, limit, ...values])
    return row?.count
  }

  async queues(): Promise<ReadonlyArray<contract.QueueDepth>> {
    const text = `SELECT json_strip_nulls(json_build_object('queue', queue, 'held', count(*) FILTER (WHERE ${HELD}),
      'scheduled', count(*) FILTER (WHERE NOT ready AND token IS NULL AND until > ms()),
      'ready', count(*) FILTER (WHERE ready OR until <= ms()),
      'oldest', min(at) FILTER (WHERE ready OR until <= ms()))) AS depth FROM task GROUP BY queue`
    return (await this.#ask<{ depth: contract.QueueDepth }>(text, [], "queues")).map(({ depth }) => depth)
  }

  async waiting(what: Parameters<contract.QueueBrowser["waiting"]>[0], max: number): Promise<ReadonlyArray<string>> {
    const text =
      "queue" in what
        ? `SELECT id FROM task WHERE queue = $1 AND NOT ${HELD} AND id <> ''
            ORDER BY CASE WHEN ready OR until <= ms() THEN 0 ELSE until END, level DESC, sequence LIMIT $2`
        : `SELECT task.id FROM posting JOIN task USING (sequence) WHERE expires <= $1 AND NOT ${HELD} AND task.id <> ''
            ORDER BY expires, sequence LIMIT $2`
    const rows = await this.#ask<{ id: string }>(text, ["queue" in what ? what.queue : what.expiredBy, max])
    return rows.map(({ id }) => id)
  }

  // ── What workers share ────────────────────────────────────────────────────────────────────────────────────────────

  readonly store = this.createStore({
    get: async (keys) => {
      const text = "SELECT key, value, revision FROM entry WHERE key = ANY ($1) AND until > ms()"
      const found = await this.#ask<contract.Entry>(text, [keys.map(plain)], "get")
      return keys.map((key) => found.find((entry) => entry.key === key))
    },
    write: async (operations) => {
      const text = "SELECT coalesce(stored::text, '') AS revision FROM write($1) ORDER BY place"
      const rows = await this.#ask<{ revision: string }>(text, [json(operations)], "write")
      return rows.length < operations.length ? "conflict" : rows.map(({ revision }) => revision)
    },
    list: async ({ prefix, after, limit, reverse = false }) => {
      const text = `SELECT key, value, revision FROM entry WHERE key BETWEEN $1 AND $2 AND until > ms()
        AND ($3::text IS NULL OR key ${reverse ? "<" : ">"} $3) ORDER BY key ${reverse ? "DESC" : ""} LIMIT $4`
      // The upper bound is above every key with this prefix, since a key has 512 bytes at most.
      return this.#ask<contract.Entry>(text, [prefix, prefix + "\u{10ffff}".repeat(128), after, limit])
    },
    now: async () => (await this.#ask<{ now: number }>("SELECT ms()::float8 AS now", [], "now"))[0]?.now ?? Date.now(),
  })

  /** A notification has 8,000 bytes at most. */
  readonly broadcast = this.createBroadcastInParts(7_900, (parts) =>
    this.#ask("SELECT tell('part', part) FROM unnest($1::text[]) AS part", [parts], "send"),
  )
}

const WAITS: ReadonlySet<contract.Index["state"]> = new Set(["queued", "scheduled"])
/** Most jobs that one statement of a search reads, so that a long search does not delay commits. */
const PORTION = 2_000

/** Fields of the index, and the values that jobs must have there: there is an index by these and by the order of lists. */
type Key = ReadonlyArray<readonly [field: Field, value: string]>
type Field = "state" | "error" | "task" | "queue" | "root" | "parent" | "group"

const LINKS = ["root", "parent", "group"] as const

const linkOf = (query: contract.Query): ReadonlyArray<Key> | undefined => {
  for (const link of LINKS) {
    const value = query[link]
    if (value !== undefined) return [[[link, value]]]
  }
  return undefined
}

/** The values of the field `task` in indexes of jobs of a task: the whole name, or only the actor that it names. */
const tasksOf = (task: string): ReadonlyArray<Key> =>
  [...new Set([task, actorOf(task)])].map((each) => [["task", each]])

/** The keys by which the jobs of a query are looked up, each in its own range of an index. Without keys all jobs are read. */
const keysOf = (query: contract.Query): ReadonlyArray<Key> => {
  const { states, dead, error, task, queue } = query
  const link = linkOf(query)
  if (link !== undefined) return link
  if (error !== undefined) return [[["error", error]]]
  const named: ReadonlyArray<Key> =
    task !== undefined ? tasksOf(task) : queue !== undefined ? [[["queue", queue]]] : [[]]
  const wanted = states ?? (dead ? (["failed", "cancelled", "expired"] as const) : undefined)
  const isNamed = task !== undefined || queue !== undefined
  if (wanted === undefined || (isNamed && wanted.includes("succeeded"))) return isNamed ? named : []
  return wanted.flatMap((state) => named.map((key): Key => [...key, ["state", state]]))
}

/** Like {@link keysOf}, for jobs without a record, which are looked up by their tasks. */
const postingKeysOf = (query: contract.Query): ReadonlyArray<Key> => {
  const { task, queue } = query
  return linkOf(query) ?? (task !== undefined ? tasksOf(task) : queue !== undefined ? [[["queue", queue]]] : [])
}

/** The actor in `actor.method`; a name without a dot is the actor. */
const actorOf = (task: string): string => task.slice(0, task.includes(".") ? task.lastIndexOf(".") : undefined)

/** The condition of the partial index for a key: the planner uses such an index only if the query repeats its condition. */
const partialOf = (key: Key): string => {
  const has = (field: Field) => key.some(([each]) => each === field)
  // Most jobs are their own root, and are looked up by their id then.
  if (has("root")) return "AND index->>'root' <> id"
  if (key.length > 1) return "AND index->>'state' <> 'succeeded'"
  const optional = (["error", "parent", "group"] as const).find(has)
  return optional === undefined ? "" : `AND index ? '${optional}'`
}

/**
 * One step of a search: up to `$9` jobs from a cursor on, newest first. It returns the jobs that match, and also the last one
 * that it read, from which the next step continues.
 */
const FITS = `NOT index ? 'hidden' AND index @> $1 AND ($2::text[] IS NULL OR index->>'state' = ANY ($2))
  AND ($3::text IS NULL OR $3 IN (index->>'task', (index->>'task') || '.' || (index->>'method')))
  AND ($5::text IS NULL OR lower(right(id, 8)) = $5)`
type Table = "job" | "posting"
const ROWS: Readonly<Record<Table, string>> = { job: "until > ms()", posting: "id <> ''" }

/**
 * A job is listed by its record; without one by its newest task. Each is looked up for itself: a join, or a condition, would let
 * the planner read all of them first.
 */
const RECORDED = "LEFT JOIN LATERAL (SELECT true FROM job WHERE job.id = own.id AND job.until > ms() LIMIT 1)"
const NEWER = `LEFT JOIN LATERAL (SELECT true FROM posting
  WHERE posting.id = own.id AND posting.sequence > own.sequence LIMIT 1)`

/** The rows of a table from the cursor on. The limit is applied before the filters, so that a step reads a bounded number of rows. */
const listed = (table: Table, condition: string, order: string): string => {
  const rows = `(SELECT * FROM ${table} WHERE ${ROWS[table]} ${condition} ORDER BY ${order} LIMIT $9) AS own`
  if (table === "job") return `(SELECT id, at, ${FITS} AS fits FROM ${rows})`
  const isListed = "recorded.found IS NULL AND newer.found IS NULL"
  return `(SELECT id, at, ${FITS} AND ${isListed} AS fits
    FROM ${rows} ${RECORDED} AS recorded(found) ON true ${NEWER} AS newer(found) ON true)`
}

const RANGE = "AND at >= $4 AND (at, id) < ($6, $7)"

/** The rows with a key. Comparing whole rows makes key and order one range of the index; else the planner may read all jobs. */
const keyed = (table: Table, key: Key, first: number): ReadonlyArray<string> => {
  const fields = key.map(([field]) => (table === "posting" && field === "queue" ? field : `(index->>'${field}')`))
  const row = `(${fields.join(", ")}, at, id)`
  const values = key.map((_, at) => `$${first + at}`).join(", ")
  const range = `AND ${row} < (${values}, $6::bigint, $7) AND ${row} >= (${values}, $4::bigint, '')`
  const order = `${fields.map((field) => `${field} DESC`).join(", ")}, at DESC, id DESC`
  const rows = listed(table, `${partialOf(key)} ${range}`, order)
  if (key[0]?.[0] !== "root") return [rows]
  // `at + 0` keeps the planner from using the index by time: the row is to be looked up by its id.
  return [rows, listed(table, `AND id = ${values} AND at + 0 >= $4 AND (at + 0, id) < ($6, $7)`, "id")]
}

/** The statement, and the values of its keys. */
const search = (
  keys: Readonly<Record<Table, ReadonlyArray<Key>>>,
  waits: boolean,
): readonly [text: string, values: ReadonlyArray<string>] => {
  const values: Array<string> = []
  const rows = (table: Table): ReadonlyArray<string> =>
    keys[table].length === 0
      ? [listed(table, RANGE, "at DESC, id DESC")]
      : keys[table].flatMap((key) =>
          keyed(table, key, 9 + values.push(...key.map(([, value]) => value)) - key.length + 1),
        )
  const found = [...rows("job"), ...(waits ? rows("posting") : [])].join(" UNION ALL ")
  const text = `SELECT * FROM (SELECT *, (row_number() OVER (ORDER BY at DESC, id DESC))::int AS place,
      (count(*) OVER ())::int AS read FROM (${found}) AS found) AS placed
    WHERE place <= $9 AND (fits OR place = least(read, $9)) ORDER BY place LIMIT $8`
  return [text, values]
}

interface FoundRow {
  readonly id: string
  readonly at: string
  readonly fits: boolean
  readonly place: number
  /** How many jobs this step has read. */
  readonly read: number
}

interface KnownRow {
  readonly revision: string | null
  readonly bytes: Uint8Array | null
  readonly frame: Uint8Array | null
  readonly task: Omit<contract.QueuedTask, "content">
}

const knownOf = ({ revision, bytes, frame, task }: KnownRow): contract.Known | undefined => {
  if (revision === null && frame === null) return undefined
  return {
    revision: revision ?? "",
    ...(bytes && { record: bytes }),
    ...(frame && { task: { ...task, content: frame } }),
  }
}

/**
 * Replaces what PostgreSQL's text cannot hold: the zero character and half surrogates. Ids and queue names with them are
 * refused by the checks; fields of the index are changed instead.
 */
const plain = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd")

/** Items of the contract for a statement, with bytes as base64, and without messages, which the frames hold as well. */
const json = (items: object): string =>
  JSON.stringify(items, function (this: Readonly<Record<string, unknown>>, key: string, text: unknown) {
    // What comes as `text` may be what `toJSON` of a Buffer returns.
    const value = this[key]
    if (key === "message") return undefined
    if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.length).toString("base64")
    return typeof value === "string" ? plain(value) : text
  })
