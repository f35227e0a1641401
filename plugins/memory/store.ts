/** The store: keyed values, and their watchers. */
import { Buffer } from "node:buffer"
import type { Entry, Revision, Store, StoreOperation } from "../../runtime/transport/mod.ts"
import { MAX_TIMER_MS } from "../../runtime/transport/timers.ts"
import { ExpiryQueue } from "./sorted.ts"

interface StoredEntry extends Entry {
  readonly sequence: number
  readonly until: number
}

export interface Watcher {
  readonly prefix: string
  readonly listener: Parameters<NonNullable<Store["watch"]>>[1]
}

/** The UTF-8 bytes of a key as one character each, so that text order is byte order. */
const bytesOf = (key: string): string => Buffer.from(key).toString("latin1")

export class MemoryStore {
  readonly watchers = new Set<Watcher>()
  /** Entries by the bytes of their keys. */
  readonly #entries = new Map<string, StoredEntry>()
  readonly #expiring = new ExpiryQueue<StoredEntry>()
  #timer: ReturnType<typeof setTimeout> | undefined
  /** When the timer fires. */
  #wakesAt = Number.POSITIVE_INFINITY
  #counter = 0

  get(keys: ReadonlyArray<string>): ReadonlyArray<Entry | undefined> {
    return keys.map((key) => copyOf(this.#entries.get(bytesOf(key))))
  }

  write(operations: ReadonlyArray<StoreOperation>): ReadonlyArray<Revision> | "conflict" {
    const holds = ({ key, expect }: StoreOperation) =>
      expect === undefined || (this.#entries.get(bytesOf(key))?.revision ?? "") === expect
    if (!operations.every(holds)) return "conflict"
    return operations.map(({ key, value, ttl = Number.POSITIVE_INFINITY }) => {
      if (value === undefined) return ""
      if (value === null) return this.#put(key)
      const sequence = ++this.#counter
      const entry = { key, value: value.slice(), revision: String(sequence), sequence, until: performance.now() + ttl }
      return this.#put(key, entry)
    })
  }

  list({ prefix, after, limit, reverse = false }: Parameters<Store["list"]>[0]): ReadonlyArray<Entry> {
    const [first, last] = [bytesOf(prefix), after === undefined ? undefined : bytesOf(after)]
    const isAfter = (key: string) => last === undefined || (reverse ? key < last : key > last)
    const keys = [...this.#entries.keys()].filter((key) => key.startsWith(first) && isAfter(key)).sort()
    return (reverse ? keys.reverse() : keys).slice(0, limit).flatMap((key) => copyOf(this.#entries.get(key)) ?? [])
  }

  /** Removes values whose time to live has ended. */
  sweep(): void {
    for (const { key } of this.#expiring.takeExpired()) this.#put(key)
  }

  /** While the store is watched, it sweeps when its first value expires: its watchers are to hear of that. */
  sweepInTime(): void {
    const at = this.#expiring.first?.until ?? Number.POSITIVE_INFINITY
    if (at >= this.#wakesAt || this.watchers.size === 0) return
    clearTimeout(this.#timer)
    this.#wakesAt = at
    this.#timer = setTimeout(
      () => {
        this.#wakesAt = Number.POSITIVE_INFINITY
        this.sweep()
        this.sweepInTime()
      },
      Math.min(MAX_TIMER_MS, Math.max(1, at - performance.now())),
    )
    this.#timer.unref?.()
  }

  /** Without an entry it removes the key. */
  #put(key: string, entry?: StoredEntry): Revision {
    const bytes = bytesOf(key)
    const before = this.#entries.get(bytes)
    if (before !== undefined) this.#expiring.remove(before)
    if (entry !== undefined) this.#entries.set(bytes, entry)
    else if (!this.#entries.delete(bytes)) return ""
    if (entry !== undefined && entry.until < Number.POSITIVE_INFINITY) {
      this.#expiring.add(entry)
      this.sweepInTime()
    }
    for (const { prefix, listener } of this.watchers) {
      if (!key.startsWith(prefix)) continue
      queueMicrotask(() => listener(entry === undefined ? { key } : { key, value: entry.value.slice() }))
    }
    return entry?.revision ?? ""
  }
}

const copyOf = (entry: Entry | undefined): Entry | undefined =>
  entry && { key: entry.key, value: entry.value.slice(), revision: entry.revision }
