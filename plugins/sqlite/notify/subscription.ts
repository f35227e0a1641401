/** Who listens in this process. Listeners are called one after another and outside of every transaction. */
import { recordFromJson, recordToJson } from "../../../runtime/protocol/record.ts"
import type { JobRecord } from "../../../runtime/transport/mod.ts"
import type { Announcement, StoreChange } from "../writing/transaction.ts"

interface RecordWatcher {
  readonly id: string | undefined
  readonly listener: (record: JobRecord) => void
}

interface StoreWatcher {
  readonly prefix: string
  readonly listener: (change: StoreChange) => void
}

export class Subscriptions {
  readonly #records = new Set<RecordWatcher>()
  readonly #store = new Set<StoreWatcher>()
  readonly #topics = new Map<string, Set<(payload: Uint8Array) => void>>()

  get watchesRecords(): boolean {
    return this.#records.size > 0
  }

  get watchesStore(): boolean {
    return this.#store.size > 0
  }

  /** Whether anybody would hear of this job. */
  watchesRecord(id: string): boolean {
    for (const watcher of this.#records) if (watcher.id === undefined || watcher.id === id) return true
    return false
  }

  // Each returns how to stop.

  onRecord(id: string | undefined, listener: (record: JobRecord) => void): () => void {
    const watcher = { id, listener }
    this.#records.add(watcher)
    return () => void this.#records.delete(watcher)
  }

  onStore(prefix: string, listener: (change: StoreChange) => void): () => void {
    const watcher = { prefix, listener }
    this.#store.add(watcher)
    return () => void this.#store.delete(watcher)
  }

  onTopic(topic: string, listener: (payload: Uint8Array) => void): () => void {
    const listeners = this.#topics.get(topic) ?? new Set()
    this.#topics.set(topic, listeners)
    // Wrapped, so that one function that listens twice is called twice.
    const entry = (payload: Uint8Array): void => listener(payload)
    listeners.add(entry)
    return () => {
      listeners.delete(entry)
      if (listeners.size === 0 && this.#topics.get(topic) === listeners) this.#topics.delete(topic)
    }
  }

  tellRecord(record: JobRecord): void {
    for (const { id, listener } of this.#records) {
      if (id !== undefined && id !== record.id) continue
      const copy = copyOf(record)
      queueMicrotask(() => listener(copy))
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
    for (const listener of this.#topics.get(topic) ?? []) {
      const copy = payload.slice()
      queueMicrotask(() => listener(copy))
    }
  }
}

/** Nobody outside may change what others are told. */
const copyOf = (record: JobRecord): JobRecord => {
  try {
    return structuredClone(record)
  } catch {
    // A function somewhere in it: stored without, told without.
    const copy = recordFromJson(recordToJson(record))
    return copy._tag === "Success" ? copy.success : record
  }
}
