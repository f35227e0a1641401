/**
 * News for other processes: ids of changed jobs, changed keys and broadcasts, in a table whose rows live for seconds. A
 * row is written in the transaction that it reports, and only if a transport of another process listens for its kind.
 * Listeners in this process are called directly.
 */
import type { TransportError } from "../../../runtime/transport/mod.ts"
import { bytes, bytesOrNull, type Database, int } from "../database/database.ts"
import type { QueueNames } from "../jobs/queue-names.ts"
import type { Taker } from "../queue/take.ts"
import { keyFromBytes, keyToBytes, type StoreTable } from "../store.ts"
import type { Announcement, StoreChange, Transaction } from "../writing/transaction.ts"
import type { Participant, Writer } from "../writing/writer.ts"
import {
  BROADCAST,
  JOBS,
  type Listener,
  type ListenerRegistry,
  QUEUES,
  STORE,
  type Subscriptions,
} from "./listeners.ts"
import type { Notifier } from "./notifier.ts"

/** Most rows of news that are read at once; the others follow in the next turn of the event loop. */
const BATCH = 500

/** How long news are kept. A process that reads none for this long misses some. */
const RETENTION_MS = 30_000

/** Most rows of news that one statement removes. */
const PRUNE_BATCH = 1_000

/**
 * A delayed task is worth a notification only if it becomes ready within this time: for a later one the other processes
 * find out by themselves.
 */
const SOON_MS = 1_000

export class NewsTable implements Participant {
  readonly #ns: number
  readonly #registry: ListenerRegistry
  readonly #subscriptions: Subscriptions
  readonly #names: QueueNames
  readonly #store: StoreTable
  readonly #taker: Taker
  readonly #notifier: Notifier
  readonly #statements
  #others: ReadonlyArray<Listener> = []
  /** The kinds of news that other transports listen for, as a sum. */
  #wantedKinds = 0
  /** The kinds of news that this transaction writes, as a sum. */
  #writtenKinds = 0
  /**
   * Number of the last news that were read; at first, of the last before this transport began to listen. -1: it does
   * not listen.
   */
  #last = -1

  constructor(
    database: Database,
    ns: number,
    parts: {
      readonly registry: ListenerRegistry
      readonly subscriptions: Subscriptions
      readonly names: QueueNames
      readonly store: StoreTable
      readonly taker: Taker
      readonly notifier: Notifier
    },
  ) {
    this.#ns = ns
    this.#registry = parts.registry
    this.#subscriptions = parts.subscriptions
    this.#names = parts.names
    this.#store = parts.store
    this.#taker = parts.taker
    this.#notifier = parts.notifier
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
        `DELETE FROM callboard_news WHERE n IN (SELECT n FROM callboard_news ORDER BY n LIMIT ${PRUNE_BATCH}) AND at < ?`,
      ),
    }
  }

  /**
   * Whether any process listens for changes of jobs. Reads the list of listeners; called once at the beginning of each
   * transaction.
   */
  jobsWatched(): boolean {
    this.#others = this.#registry.others()
    this.#wantedKinds = this.#others.reduce((sum, { kinds }) => sum | kinds, 0)
    return this.#subscriptions.watchesJobs || (this.#wantedKinds & JOBS) !== 0
  }

  /** Begins to listen: news from this transaction on will be read. */
  listenFrom(transaction: Transaction): void {
    if (this.#last < 0) this.#last = transaction.next() - 1
  }

  wants(): boolean {
    return false
  }

  join(transaction: Transaction): void {
    const { jobChanges, storeChanges, announcements, readyQueues, nextReadyAt, now } = transaction
    const wantedKinds = this.#wantedKinds
    if (wantedKinds === 0) return
    const put = (kind: number, topic: string, payload: Uint8Array | null): void => {
      const { instance } = this.#registry
      this.#statements.insert.run(transaction.next(), this.#ns, instance, kind, keyToBytes(topic), payload, now)
      this.#writtenKinds |= kind
    }
    if (wantedKinds & JOBS) for (const id of new Set(jobChanges.map((change) => change.id))) put(JOBS, id, null)
    if (wantedKinds & STORE) for (const { key } of storeChanges) put(STORE, key, null)
    if (wantedKinds & BROADCAST) for (const { topic, payload } of announcements) put(BROADCAST, topic, payload)
    // A task that this process took in the same transaction concerns no other process.
    const hasReadyTask = (): boolean => [...readyQueues].some((queue) => this.#taker.isReady(queue))
    if (wantedKinds & QUEUES && (nextReadyAt - now < SOON_MS || hasReadyTask())) this.#writtenKinds |= QUEUES
  }

  committed({ jobChanges, storeChanges, announcements, readyQueues }: Transaction): void {
    const concerned = this.#others.filter(({ kinds }) => (kinds & this.#writtenKinds) !== 0)
    this.#writtenKinds = 0
    this.#notifier.notify(concerned.map(({ instance }) => instance))
    if (this.#subscriptions.watchesQueues) {
      for (const queue of readyQueues) this.#subscriptions.notifyQueue(this.#names.nameOf(queue))
    }
    for (const change of jobChanges) this.#subscriptions.notifyJob(change)
    for (const change of storeChanges) this.#subscriptions.notifyStore(change)
    for (const announcement of announcements) this.#subscriptions.notifyTopic(announcement)
  }

  rolledBack(): void {
    this.#writtenKinds = 0
  }

  failed(_error: TransportError): void {
    // News are best effort: listeners check by themselves as well.
  }

  /** Reads the news of other processes and calls the listeners of this one. Reads only; `true` if there may be more. */
  read(): boolean {
    if (this.#last < 0) return false
    const rows = this.#statements.read.all(this.#last, this.#ns)
    const changedJobs = new Set<string>()
    const changedKeys = new Set<string>()
    const announced: Array<Announcement> = []
    for (const row of rows) {
      this.#last = int(row, "n")
      if (int(row, "sender") === this.#registry.instance) continue
      const topic = keyFromBytes(bytes(row, "topic"))
      const kind = int(row, "kind")
      if (kind === JOBS) changedJobs.add(topic)
      else if (kind === STORE) changedKeys.add(topic)
      else if (kind === BROADCAST) announced.push({ topic, payload: bytesOrNull(row, "payload") ?? new Uint8Array(0) })
    }
    for (const id of changedJobs) this.#subscriptions.notifyJob({ id })
    if (this.#subscriptions.watchesStore)
      for (const key of changedKeys) this.#subscriptions.notifyStore(this.#changeOf(key))
    for (const announcement of announced) this.#subscriptions.notifyTopic(announcement)
    return rows.length === BATCH
  }

  /** Calls the listeners of queues that have a ready task, which another process may have published. Reads only. */
  notifyReadyQueues(): void {
    for (const queue of this.#subscriptions.queues()) {
      if (this.#taker.hasReady([queue])) this.#subscriptions.notifyQueue(queue)
    }
  }

  /** Whether any news are old enough to be removed. Reads only. */
  hasOld(now: number): boolean {
    const row = this.#statements.first.get()
    return row !== undefined && int(row, "at") < now - RETENTION_MS
  }

  /** Removes old news; `true` if there may be more. */
  prune(transaction: Transaction): boolean {
    return this.#statements.prune.run(transaction.now - RETENTION_MS).changes === PRUNE_BATCH
  }

  #changeOf(key: string): StoreChange {
    const entry = this.#store.get(key)
    return entry === undefined ? { key } : { key, value: entry.value }
  }
}

// ── listening ────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Connects the listeners of this process to the news of the others: enters this transport into the list of listeners,
 * and reads the news.
 */
export class NewsFeed {
  readonly #registry: ListenerRegistry
  readonly #news: NewsTable
  readonly #notifier: Notifier
  readonly #writer: Writer
  readonly #closing: AbortSignal
  /** Called when a task may have been published of which no notification was sent. */
  readonly #recheck: () => void

  constructor(parts: {
    readonly registry: ListenerRegistry
    readonly news: NewsTable
    readonly notifier: Notifier
    readonly writer: Writer
    readonly closing: AbortSignal
    readonly recheck: () => void
  }) {
    this.#registry = parts.registry
    this.#news = parts.news
    this.#notifier = parts.notifier
    this.#writer = parts.writer
    this.#closing = parts.closing
    this.#recheck = parts.recheck
  }

  /** Resolves once other transports send news of this kind. */
  async start(kind: number): Promise<void> {
    if (this.#registry.has(kind)) return
    // The notifier starts first, because other transports send notifications as soon as this one is listed.
    await this.#notifier.start()
    try {
      await this.#writer.doWithoutSync((transaction) => {
        this.#registry.register(transaction, kind)
        this.#news.listenFrom(transaction)
      })
    } catch (error) {
      this.#registry.forget(kind)
      throw error
    }
    if (this.#closing.aborted) return
    // A task that was published before this transport was listed caused no notification.
    if (kind === QUEUES) this.#recheck()
  }

  /**
   * Keeps a subscription until its signal fires or the transport is closed. `begin` adds the listener, and returns a
   * function that removes it.
   */
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

  /** Reads the news and calls the listeners; a long list is continued in the next turns of the event loop. */
  readonly read = (): void => {
    if (this.#closing.aborted) return
    try {
      this.#news.notifyReadyQueues()
      if (this.#news.read()) setImmediate(this.read)
    } catch {
      // The file is locked for a moment; the next poll reads the news.
    }
  }
}
