/** Keyed values in the order of their bytes. */
import { Buffer } from "node:buffer"
import type { Entry, Revision, Store, StoreOperation } from "../../runtime/transport/store.ts"
import { Ending, Sorted } from "./sorted.ts"

interface Kept extends Entry {
  readonly sequence: number
  readonly until: number
}

type Listener = Parameters<NonNullable<Store["watch"]>>[1]

/** How often a watched store looks for values whose time has ended, in milliseconds. */
const LOOK_MS = 50

/** The bytes of a key as text of one byte each, which sorts as they do. */
const bytesOf = (key: string): string => Buffer.from(key).toString("latin1")

export class MemoryStore {
  /** By the bytes of their keys. */
  readonly #kept = new Map<string, Kept>()
  readonly #keys = new Sorted<string>((a, b) => (a < b ? -1 : Number(a > b)))
  readonly #ends = new Ending<Kept>()
  readonly #watchers = new Set<{ readonly prefix: string; readonly listener: Listener }>()
  #counter = 0

  get(key: string): Entry | undefined {
    this.#sweep()
    return this.#entry(bytesOf(key))
  }

  write(operations: ReadonlyArray<StoreOperation>): ReadonlyArray<Revision> | "conflict" {
    this.#sweep()
    const holds = ({ key, expect }: StoreOperation) =>
      expect === undefined || (this.#kept.get(bytesOf(key))?.revision ?? "") === expect
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
    // Going up, the first keys will do; going down, all up to `after` are looked at, and the last ones taken.
    for (const key of this.#keys.from(reverse ? first : (last ?? first))) {
      if ((reverse && last !== undefined && key >= last) || (!key.startsWith(first) && key > first)) break
      if (key.startsWith(first) && key !== last && found.push(key) === limit && !reverse) break
    }
    return (reverse ? found.reverse().slice(0, limit) : found).flatMap((key) => this.#entry(key) ?? [])
  }

  /** Returns how to stop. */
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
    const kept = this.#kept.get(bytes)
    return kept && { key: kept.key, value: kept.value.slice(), revision: kept.revision }
  }

  #put(key: string, kept?: Kept): Revision {
    const bytes = bytesOf(key)
    const before = this.#kept.get(bytes)
    if (before !== undefined) this.#ends.remove(before)
    if (kept !== undefined) {
      if (before === undefined) this.#keys.add(bytes)
      this.#kept.set(bytes, kept)
      if (kept.until < Number.POSITIVE_INFINITY) this.#ends.add(kept)
    } else if (this.#kept.delete(bytes)) this.#keys.remove(bytes)
    else return ""
    for (const { prefix, listener } of this.#watchers) {
      if (!key.startsWith(prefix)) continue
      queueMicrotask(() => listener(kept === undefined ? { key } : { key, value: kept.value.slice() }))
    }
    return kept?.revision ?? ""
  }

  #sweep(): void {
    for (const { key } of this.#ends.ended()) this.#put(key)
  }
}
