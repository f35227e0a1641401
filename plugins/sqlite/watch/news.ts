/**
 * Carries what others must hear through a short-lived table: names of jobs and keys that changed, and broadcasts. Only
 * what somebody in another process listens for is written, in the transaction that it tells of; listeners in this
 * process are told directly.
 */
import type { TransportError } from "../../../runtime/transport/mod.ts"
import type { Database } from "../database/database.ts"
import { bytes, bytesOrNull, int } from "../database/row.ts"
import type { QueueNames } from "../jobs/queue-names.ts"
import type { Taker } from "../queue/take.ts"
import { keyFromBytes, keyToBytes, type StoreTable } from "../store.ts"
import type { Announcement, StoreChange, Transaction } from "../writing/transaction.ts"
import type { Participant, Writer } from "../writing/writer.ts"
import { BROADCAST, JOBS, type Listener, type Presence, QUEUES, STORE, type Subscriptions } from "./listeners.ts"
import type { Doorbell } from "./notifier.ts"

/** News read at once; the rest waits for the next turn of the event loop. */
const BATCH = 500

/** How long news are kept: a process that does not look for this long misses some. */
const KEPT_MS = 30_000

/** News removed at once. */
const PRUNE = 1_000

/** What becomes ready within this time is worth waking others for; they look by themselves at least this often. */
const SOON_MS = 1_000

export class NewsTable implements Participant {
  readonly #ns: number
  readonly #presence: Presence
  readonly #subscriptions: Subscriptions
  readonly #names: QueueNames
  readonly #store: StoreTable
  readonly #taker: Taker
  readonly #doorbell: Doorbell
  readonly #statements
  #others: ReadonlyArray<Listener> = []
  /** The sum of what others listen for. */
  #wanted = 0
  /** The kinds of news in this transaction. */
  #brought = 0
  /** Last news that were read, or that came before this transport listened. */
  #last = -1

  constructor(
    database: Database,
    ns: number,
    parts: {
      readonly presence: Presence
      readonly subscriptions: Subscriptions
      readonly names: QueueNames
      readonly store: StoreTable
      readonly taker: Taker
      readonly doorbell: Doorbell
    },
  ) {
    this.#ns = ns
    this.#presence = parts.presence
    this.#subscriptions = parts.subscriptions
    this.#names = parts.names
    this.#store = parts.store
    this.#taker = parts.taker
    this.#doorbell = parts.doorbell
    const prepare = (sql: string) => database.prepare(sql)
    this.#statements = {
      insert: prepare(
        "INSERT INTO callboard_news (n, ns, sender, kind, topic, payload, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ),
      read: prepare(
        `SELECT n, sender, kind, topic, payload FROM callboard_news WHERE n > ? AND ns = ? ORDER BY n LIMIT ${BATCH}`,
      ),
      first: prepare("SELECT at FROM callboard_news ORDER BY n LIMIT 1"),
      prune: prepare(
        `DELETE FROM callboard_news WHERE n IN (SELECT n FROM callboard_news ORDER BY n LIMIT ${PRUNE}) AND at < ?`,
      ),
    }
  }

  /** Whether somebody, here or elsewhere, listens for jobs. Asked once at the beginning of each transaction. */
  tells(): boolean {
    this.#others = this.#presence.others()
    this.#wanted = this.#others.reduce((sum, { kinds }) => sum | kinds, 0)
    return this.#subscriptions.watchesJobs || (this.#wanted & JOBS) !== 0
  }

  /** From this transaction on, what others write is read. */
  listenFrom(transaction: Transaction): void {
    if (this.#last < 0) this.#last = transaction.next() - 1
  }

  wants(): boolean {
    return false
  }

  join(transaction: Transaction): void {
    const { jobs, stored, announced, readied, later, now } = transaction
    const wanted = this.#wanted
    if (wanted === 0) return
    const put = (kind: number, topic: string, payload: Uint8Array | null): void => {
      const { instance } = this.#presence
      this.#statements.insert.run(transaction.next(), this.#ns, instance, kind, keyToBytes(topic), payload, now)
      this.#brought |= kind
    }
    if (wanted & JOBS) for (const id of new Set(jobs.map((job) => job.id))) put(JOBS, id, null)
    if (wanted & STORE) for (const { key } of stored) put(STORE, key, null)
    if (wanted & BROADCAST) for (const { topic, payload } of announced) put(BROADCAST, topic, payload)
    // What this process took in the same transaction is nobody else's business.
    const left = (): boolean => [...readied].some((queue) => this.#taker.isReady(queue))
    if (wanted & QUEUES && (later - now < SOON_MS || left())) this.#brought |= QUEUES
  }

  committed({ jobs, stored, announced, readied }: Transaction): void {
    const concerned = this.#others.filter(({ kinds }) => (kinds & this.#brought) !== 0)
    this.#brought = 0
    this.#doorbell.ring(concerned.map(({ instance }) => instance))
    if (this.#subscriptions.watchesQueues) {
      for (const queue of readied) this.#subscriptions.tellQueue(this.#names.nameOf(queue))
    }
    for (const job of jobs) this.#subscriptions.tellJob(job)
    for (const change of stored) this.#subscriptions.tellStore(change)
    for (const announcement of announced) this.#subscriptions.tellTopic(announcement)
  }

  rolledBack(): void {
    this.#brought = 0
  }

  failed(_error: TransportError): void {
    // News are best effort.
  }

  /** Reads what others wrote, and tells those who listen here. Reads only; `true` if there may be more. */
  read(): boolean {
    if (this.#last < 0) return false
    const rows = this.#statements.read.all(this.#last, this.#ns)
    const changed = new Set<string>()
    const stored = new Set<string>()
    const announced: Array<Announcement> = []
    for (const row of rows) {
      this.#last = int(row, "n")
      if (int(row, "sender") === this.#presence.instance) continue
      const topic = keyFromBytes(bytes(row, "topic"))
      const kind = int(row, "kind")
      if (kind === JOBS) changed.add(topic)
      else if (kind === STORE) stored.add(topic)
      else if (kind === BROADCAST) announced.push({ topic, payload: bytesOrNull(row, "payload") ?? new Uint8Array(0) })
    }
    for (const id of changed) this.#subscriptions.tellJob({ id })
    if (this.#subscriptions.watchesStore) for (const key of stored) this.#subscriptions.tellStore(this.#changeOf(key))
    for (const announcement of announced) this.#subscriptions.tellTopic(announcement)
    return rows.length === BATCH
  }

  /** Tells those who wait for tasks in this process of queues that another one has put some into. Reads only. */
  lookAtQueues(): void {
    for (const queue of this.#subscriptions.queues()) {
      if (this.#taker.hasReady([queue])) this.#subscriptions.tellQueue(queue)
    }
  }

  /** Whether there are news to be removed. Reads only. */
  hasOld(now: number): boolean {
    const row = this.#statements.first.get()
    return row !== undefined && int(row, "at") < now - KEPT_MS
  }

  /** Removes old news; `true` if there may be more. */
  prune(transaction: Transaction): boolean {
    return this.#statements.prune.run(transaction.now - KEPT_MS).changes === PRUNE
  }

  #changeOf(key: string): StoreChange {
    const entry = this.#store.get(key)
    return entry === undefined ? { key } : { key, value: entry.value }
  }
}

// ── listening ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Listening, here and across processes: says what this transport waits for, and reads what others bring. */
export class Listening {
  readonly #presence: Presence
  readonly #news: NewsTable
  readonly #doorbell: Doorbell
  readonly #writer: Writer
  readonly #closing: AbortSignal
  /** Called when a task may have come that rang no bell. */
  readonly #look: () => void

  constructor(parts: {
    readonly presence: Presence
    readonly news: NewsTable
    readonly doorbell: Doorbell
    readonly writer: Writer
    readonly closing: AbortSignal
    readonly look: () => void
  }) {
    this.#presence = parts.presence
    this.#news = parts.news
    this.#doorbell = parts.doorbell
    this.#writer = parts.writer
    this.#closing = parts.closing
    this.#look = parts.look
  }

  /** Resolves once others tell this transport of such things. */
  async start(kind: number): Promise<void> {
    if (this.#presence.has(kind)) return
    // First, because others ring as soon as they know of this transport.
    await this.#doorbell.start()
    try {
      await this.#writer.doLightly((transaction) => {
        this.#presence.announce(transaction, kind)
        this.#news.listenFrom(transaction)
      })
    } catch (error) {
      this.#presence.retract(kind)
      throw error
    }
    if (this.#closing.aborted) return
    // What came before this was known rang no bell.
    if (kind === QUEUES) this.#look()
  }

  /** Keeps a subscription until its signal or the transport ends it. `begin` returns how to stop. */
  async subscribe(kind: number, signal: AbortSignal, begin: () => () => void): Promise<void> {
    if (signal.aborted) return
    const stop = begin()
    const end = (): void => {
      stop()
      signal.removeEventListener("abort", end)
      this.#closing.removeEventListener("abort", end)
    }
    signal.addEventListener("abort", end)
    this.#closing.addEventListener("abort", end)
    try {
      await this.start(kind)
    } catch (error) {
      end()
      throw error
    }
  }

  /** Tells those who listen here what others wrote; the rest of a long list in the next turns of the event loop. */
  readonly read = (): void => {
    if (this.#closing.aborted) return
    try {
      this.#news.lookAtQueues()
      if (this.#news.read()) setImmediate(this.read)
    } catch {
      // Locked for a moment: the next look reads it.
    }
  }
}
