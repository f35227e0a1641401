/** The store: keyed values, sorted by the bytes of their keys. */
import { Buffer } from "node:buffer"
import type { Entry, Revision, Store, StoreOperation } from "../../runtime/transport/store.ts"
import { ExpiryQueue, Sorted } from "./sorted.ts"

interface StoredEntry extends Entry {
  readonly sequence: number
  readonly until: number
}

type Listener = Parameters<NonNullable<Store["watch"]>>[1]

/** Interval at which a watched store removes expired values, in milliseconds. */
const LOOK_MS = 50

/** The UTF-8 bytes of a key as one character each, so that text order is byte order. */
const bytesOf = (key: string): string => Buffer.from(key).toString("latin1")

export class MemoryStore {
  /** Entries by the bytes of their keys. */
  readonly #entries = new Map<string, StoredEntry>()
  readonly #keys = new Sorted<string>((a, b) => (a < b ? -1 : Number(a > b)))
  readonly #expiring = new ExpiryQueue<StoredEntry>()
  readonly #watchers = new Set<{ readonly prefix: string; readonly listener: Listener }>()
  #counter = 0

  get(key: string): Entry | undefined {
    this.#sweep()
    return this.#entry(bytesOf(key))
  }

  write(operations: ReadonlyArray<StoreOperation>): ReadonlyArray<Revision> | "conflict" {
    this.#sweep()
    const holds = ({ key, expect }: StoreOperation) =>
      expect === undefined || (this.#entries.get(bytesOf(key))?.revision ?? "") === expect
    if (!operations.every(holds)) return "conflict"
    return operations.map(({ key, value, ttl = Number.POSITIVE_INFINITY }) => {
      if (value === undefined) return ""
      if (value === null) return this.#put(key)
      const sequence = ++this.#counter
      return this.#put(key, {
        key,
        value: value.slice(),
        revision: String(sequence),
        sequence,
        until: Date.now() + ttl,
      })
    })
  }

  list({ prefix, after, limit, reverse = false }: Parameters<Store["list"]>[0]): ReadonlyArray<Entry> {
    this.#sweep()
    const [first, last] = [bytesOf(prefix), after === undefined ? undefined : bytesOf(after)]
    const found: Array<string> = []
    // Upward it stops at `limit`; downward it collects all keys up to `after` and returns the last of them.
    for (const key of this.#keys.from(reverse ? first : (last ?? first))) {
      if ((reverse && last !== undefined && key >= last) || (!key.startsWith(first) && key > first)) break
      if (key.startsWith(first) && key !== last && found.push(key) === limit && !reverse) break
    }
    return (reverse ? found.reverse().slice(0, limit) : found).flatMap((key) => this.#entry(key) ?? [])
  }

  /** Returns a function that stops the watch. */
  watch(prefix: string, listener: Listener): () => void {
    const watcher = { prefix, listener }
    this.#watchers.add(watcher)
    const looking = setInterval(() => this.#sweep(), LOOK_MS)
    looking.unref?.()
    return () => {
      clearInterval(looking)
      this.#watchers.delete(watcher)
    }
  }

  #entry(bytes: string): Entry | undefined {
    const entry = this.#entries.get(bytes)
    return entry && { key: entry.key, value: entry.value.slice(), revision: entry.revision }
  }

  #put(key: string, entry?: StoredEntry): Revision {
    const bytes = bytesOf(key)
    const before = this.#entries.get(bytes)
    if (before !== undefined) this.#expiring.remove(before)
    if (entry !== undefined) {
      if (before === undefined) this.#keys.add(bytes)
      this.#entries.set(bytes, entry)
      if (entry.until < Number.POSITIVE_INFINITY) this.#expiring.add(entry)
    } else if (this.#entries.delete(bytes)) this.#keys.remove(bytes)
    else return ""
    for (const { prefix, listener } of this.#watchers) {
      if (!key.startsWith(prefix)) continue
      queueMicrotask(() => listener(entry === undefined ? { key } : { key, value: entry.value.slice() }))
    }
    return entry?.revision ?? ""
  }

  #sweep(): void {
    for (const { key } of this.#expiring.takeExpired()) this.#put(key)
  }
}
