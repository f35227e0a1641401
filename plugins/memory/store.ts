/** Keyed values in the order of their bytes. */
import { Buffer } from "node:buffer"
import { TransportError } from "../../runtime/transport/mod.ts"
import type { Entry, Revision, Store, StoreOperation } from "../../runtime/transport/store.ts"
import { Sorted } from "./sorted.ts"

interface Kept extends Entry {
  readonly until: number
}

type Change = Parameters<Parameters<NonNullable<Store["watch"]>>[1]>[0]
type Watcher = { readonly prefix: string; readonly listener: (change: Change) => void }

/** Timers cannot wait for longer than 2³¹ − 1 ms. */
const LONGEST_TIMER = 3_600_000

export class MemoryStore {
  readonly #maxValue: number
  readonly #kept = new Map<string, Kept>()
  readonly #keys = new Sorted(compareBytes)
  /** Values with a time to live, by when it ends. */
  readonly #ends = new Sorted<Kept>((a, b) => a.until - b.until || compareBytes(a.key, b.key))
  readonly #watchers = new Set<Watcher>()
  #revision = 0
  #alarm: ReturnType<typeof setTimeout> | undefined

  constructor(maxValue: number) {
    this.#maxValue = maxValue
  }

  get(key: string): Entry | undefined {
    this.#sweep()
    const kept = this.#kept.get(key)
    return kept && { key, value: kept.value.slice(), revision: kept.revision }
  }

  write(operations: ReadonlyArray<StoreOperation>): ReadonlyArray<Revision> | "conflict" {
    this.#sweep()
    for (const operation of operations) this.#check(operation)
    const holds = ({ key, expect }: StoreOperation) =>
      expect === undefined || (this.#kept.get(key)?.revision ?? "") === expect
    if (!operations.every(holds)) return "conflict"
    const revisions = operations.map(({ key, value, ttl = Number.POSITIVE_INFINITY }) => {
      if (value === undefined) return ""
      if (value === null) return this.#put(key, undefined)
      const revision = String(++this.#revision)
      return this.#put(key, { key, value: value.slice(), revision, until: Date.now() + ttl })
    })
    this.#arm()
    return revisions
  }

  list({ prefix, after, limit, reverse = false }: Parameters<Store["list"]>[0]): ReadonlyArray<Entry> {
    this.#sweep()
    const keys: Array<string> = []
    // Going up, the first keys will do; going down, all up to `after` are looked at, and the last ones taken.
    for (const key of { [Symbol.iterator]: () => this.#keys[Symbol.iterator](reverse ? prefix : (after ?? prefix)) }) {
      if (reverse && after !== undefined && compareBytes(key, after) >= 0) break
      if (!key.startsWith(prefix)) {
        if (compareBytes(key, prefix) > 0) break
        continue
      }
      if (key !== after && keys.push(key) === limit && !reverse) break
    }
    return (reverse ? keys.reverse().slice(0, limit) : keys).flatMap((key) => this.get(key) ?? [])
  }

  /** Returns how to stop. */
  watch(prefix: string, listener: Watcher["listener"]): () => void {
    const watcher = { prefix, listener }
    this.#watchers.add(watcher)
    this.#arm()
    return () => {
      this.#watchers.delete(watcher)
      this.#arm()
    }
  }

  #check({ key, value, ttl }: StoreOperation): void {
    const bytes = Buffer.byteLength(key)
    if (bytes < 1 || bytes > 512 || !key.isWellFormed()) {
      throw new TransportError("invalid", `a key has 1 to 512 bytes of UTF-8, not ${bytes}`)
    }
    if (ttl !== undefined && !(ttl >= 1_000)) throw new TransportError("invalid", "a time to live is at least 1,000")
    if (value && value.length > this.#maxValue) {
      throw new TransportError("too-large", `${key}: ${value.length} bytes, ${this.#maxValue} are allowed`)
    }
  }

  #put(key: string, kept: Kept | undefined): Revision {
    const before = this.#kept.get(key)
    if (before !== undefined) this.#ends.remove(before)
    if (kept === undefined) {
      if (!this.#kept.delete(key)) return ""
      this.#keys.remove(key)
    } else {
      if (before === undefined) this.#keys.add(key)
      this.#kept.set(key, kept)
      if (kept.until < Number.POSITIVE_INFINITY) this.#ends.add(kept)
    }
    for (const { prefix, listener } of this.#watchers) {
      if (!key.startsWith(prefix)) continue
      queueMicrotask(() => listener(kept === undefined ? { key } : { key, value: kept.value.slice() }))
    }
    return kept?.revision ?? ""
  }

  /** Removes what has ended. */
  #sweep(): void {
    const now = Date.now()
    for (let kept = this.#ends.first; kept !== undefined && kept.until <= now; kept = this.#ends.first) {
      this.#put(kept.key, undefined)
    }
  }

  /** Watchers hear of an end in time; nothing else needs a timer. */
  #arm(): void {
    clearTimeout(this.#alarm)
    const { first } = this.#ends
    if (this.#watchers.size === 0 || first === undefined) return
    const wake = () => {
      this.#sweep()
      this.#arm()
    }
    this.#alarm = setTimeout(wake, Math.min(Math.max(first.until - Date.now(), 1), LONGEST_TIMER))
    this.#alarm.unref?.()
  }
}

/** Order of the UTF-8 bytes, which is that of code points; that of JavaScript's units puts surrogates too early. */
function compareBytes(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let at = 0; at < length; at++) {
    const x = a.charCodeAt(at)
    const y = b.charCodeAt(at)
    if (x === y) continue
    return x >= 0xd800 && y >= 0xd800 ? Number(isSurrogate(x)) - Number(isSurrogate(y)) || x - y : x - y
  }
  return a.length - b.length
}

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff
