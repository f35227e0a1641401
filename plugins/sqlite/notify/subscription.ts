/** Who listens in this process. Listeners are called one after another and outside of every transaction. */
import type { News } from "../../../runtime/transport/driver.ts"
import type { Announcement, JobChange, StoreChange } from "../writing/transaction.ts"

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

  /** The queues that somebody here listens for. */
  queues(): ReadonlySet<string> {
    return new Set([...this.#queues].flatMap(({ queues }) => [...queues]))
  }

  // Each returns how to stop.

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

  // What is handed over is each listener's own, so that no one can change what others are told.

  tellQueue(queue: string): void {
    for (const { queues, listener } of this.#queues) {
      if (queues.has(queue)) queueMicrotask(() => listener({ kind: "queue", queue }))
    }
  }

  tellJob({ id, record }: JobChange): void {
    for (const each of this.#jobs) {
      if (each.id !== undefined && each.id !== id) continue
      const news: News = { kind: "job", id, ...(record === undefined ? {} : { record: record.slice() }) }
      queueMicrotask(() => each.listener(news))
    }
  }

  tellStore({ key, value }: StoreChange): void {
    for (const { prefix, listener } of this.#store) {
      if (!key.startsWith(prefix)) continue
      const change = value === undefined ? { key } : { key, value: value.slice() }
      queueMicrotask(() => listener(change))
    }
  }

  tellTopic({ topic, payload }: Announcement): void {
    for (const each of this.#topics) {
      if (each.topic !== topic) continue
      const copy = payload.slice()
      queueMicrotask(() => each.listener(copy))
    }
  }
}
