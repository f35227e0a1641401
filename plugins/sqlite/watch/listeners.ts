/**
 * The transports that listen on a file, and the listeners of this one. A transport is entered into the file when it
 * first waits for tasks or watches: as long as no other process is in the list, a commit writes no news and sends no
 * notification.
 */
import { randomInt } from "node:crypto"
import type { News } from "../../../runtime/transport/driver.ts"
import type { MachineClock } from "../clock.ts"
import { type Database, int } from "../database/database.ts"
import type { Announcement, JobChange, StoreChange, Transaction } from "../writing/transaction.ts"

/** Kinds of news; a transport listens for a sum of these. */
export const QUEUES = 1
export const JOBS = 2
export const STORE = 4
export const BROADCAST = 8

/** A transport that has not renewed its entry for this long has ended; it renews it every {@link HEARTBEAT_MS}. */
const LISTENER_TTL_MS = 60_000
export const HEARTBEAT_MS = 20_000

/** Another transport that listens, and for which kinds. */
export interface Listener {
  readonly instance: number
  readonly kinds: number
}

export class ListenerRegistry {
  /** Identifies this transport among all that use the file. */
  readonly instance = randomInt(1, 2 ** 48 - 1)
  readonly #ns: number
  readonly #clock: MachineClock
  readonly #statements
  #kinds = 0

  constructor(database: Database, ns: number, clock: MachineClock) {
    this.#ns = ns
    this.#clock = clock
    const prepare = (sql: string) => database.prepare(sql)
    this.#statements = {
      others: prepare("SELECT instance, kinds FROM callboard_listener WHERE ns = ? AND instance <> ? AND until > ?"),
      put: prepare(
        `INSERT INTO callboard_listener (instance, ns, kinds, until) VALUES (?, ?, ?, ?)
         ON CONFLICT (instance) DO UPDATE SET kinds = excluded.kinds, until = excluded.until`,
      ),
      remove: prepare("DELETE FROM callboard_listener WHERE instance = ? OR until < ?"),
    }
  }

  get listens(): boolean {
    return this.#kinds !== 0
  }

  has(kind: number): boolean {
    return (this.#kinds & kind) === kind
  }

  /** The other transports that listen. Reads only. */
  others(): ReadonlyArray<Listener> {
    const rows = this.#statements.others.all(this.#ns, this.instance, this.#clock.read().ended)
    return rows.map((row) => ({ instance: int(row, "instance"), kinds: int(row, "kinds") }))
  }

  /** Enters this transport into the list, or renews its entry; from then on also for news of `kind`. */
  register(transaction: Transaction, kind = 0): void {
    this.#kinds |= kind
    this.#statements.put.run(this.instance, this.#ns, this.#kinds, transaction.now + LISTENER_TTL_MS)
  }

  /** To be called when a {@link register} failed: this transport is not listed for `kind`. */
  forget(kind: number): void {
    this.#kinds &= ~kind
  }

  /** Removes this transport's entry, and entries that have run out. */
  unregister(transaction: Transaction): void {
    this.#kinds = 0
    this.#statements.remove.run(this.instance, transaction.ended)
  }
}

// ── listeners in this process ────────────────────────────────────────────────────────────────────────────────────────

type NewsListener = (news: News) => void

interface QueueListener {
  readonly queues: ReadonlySet<string>
  readonly listener: NewsListener
}

interface JobListener {
  /** Absent: all jobs. */
  readonly id: string | undefined
  readonly listener: NewsListener
}

interface StoreListener {
  readonly prefix: string
  readonly listener: (change: StoreChange) => void
}

interface TopicListener {
  readonly topic: string
  readonly listener: (payload: Uint8Array) => void
}

/** Adds an entry; returns how to remove it. */
const add = <T>(entries: Set<T>, entry: T): (() => void) => {
  entries.add(entry)
  return () => void entries.delete(entry)
}

/** The listeners in this process. They are called one after another, and never inside a transaction. */
export class Subscriptions {
  readonly #queues = new Set<QueueListener>()
  readonly #jobs = new Set<JobListener>()
  readonly #store = new Set<StoreListener>()
  readonly #topics = new Set<TopicListener>()

  get watchesJobs(): boolean {
    return this.#jobs.size > 0
  }

  get watchesStore(): boolean {
    return this.#store.size > 0
  }

  get watchesQueues(): boolean {
    return this.#queues.size > 0
  }

  /** All queues that a listener of this process is interested in. */
  queues(): ReadonlySet<string> {
    return new Set([...this.#queues].flatMap(({ queues }) => [...queues]))
  }

  // Each of these adds a listener, and returns a function that removes it.

  onQueues(queues: ReadonlySet<string>, listener: NewsListener): () => void {
    return add(this.#queues, { queues, listener })
  }

  onJob(id: string | undefined, listener: NewsListener): () => void {
    return add(this.#jobs, { id, listener })
  }

  onStore(prefix: string, listener: (change: StoreChange) => void): () => void {
    return add(this.#store, { prefix, listener })
  }

  onTopic(topic: string, listener: (payload: Uint8Array) => void): () => void {
    return add(this.#topics, { topic, listener })
  }

  // Each listener gets a copy of the bytes, so that none can change what another one gets.

  notifyQueue(queue: string): void {
    for (const { queues, listener } of this.#queues) {
      if (queues.has(queue)) queueMicrotask(() => listener({ kind: "queue", queue }))
    }
  }

  notifyJob({ id, record }: JobChange): void {
    for (const each of this.#jobs) {
      if (each.id !== undefined && each.id !== id) continue
      const news: News = { kind: "job", id, ...(record === undefined ? {} : { record: record.slice() }) }
      queueMicrotask(() => each.listener(news))
    }
  }

  notifyStore({ key, value }: StoreChange): void {
    for (const { prefix, listener } of this.#store) {
      if (!key.startsWith(prefix)) continue
      const change = value === undefined ? { key } : { key, value: value.slice() }
      queueMicrotask(() => listener(change))
    }
  }

  notifyTopic({ topic, payload }: Announcement): void {
    for (const each of this.#topics) {
      if (each.topic !== topic) continue
      const copy = payload.slice()
      queueMicrotask(() => each.listener(copy))
    }
  }
}
