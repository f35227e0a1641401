/** Keyed values in byte order, as one sorted list of keys beside a map. */
import { Buffer } from "node:buffer"
import { type Entry, type Store, type StoreOperation, TransportError } from "../../runtime/transport/mod.ts"

interface Kept {
  readonly value: Uint8Array
  readonly revision: string
  readonly until: number
}

type Listener = (change: { readonly key: string; readonly value?: Uint8Array }) => void

const MAX_KEY_BYTES = 512

export class MemoryStore {
  readonly #maxValue: number
  readonly #kept = new Map<string, Kept>()
  #keys: Array<string> = []
  readonly #watchers = new Set<{ readonly prefix: string; readonly listener: Listener }>()
  #revision = 0
  /** When the next value ends, as far as known; never later than it is. */
  #next = Infinity
  #alarm: ReturnType<typeof setTimeout> | undefined

  constructor(maxValue: number) {
    this.#maxValue = maxValue
  }

  get(key: string): Entry | undefined {
    this.#sweep()
    const kept = this.#kept.get(key)
    return kept && { key, value: kept.value.slice(), revision: kept.revision }
  }

  write(operations: ReadonlyArray<StoreOperation>): "written" | "conflict" {
    this.#sweep()
    for (const operation of operations) this.#check(operation)
    const holds = operations.every(({ key, expect }) => {
      const revision = this.#kept.get(key)?.revision
      return expect === undefined || (expect === "absent" ? revision === undefined : revision === expect.revision)
    })
    if (!holds) return "conflict"
    const now = Date.now()
    for (const { key, value, ttl } of operations) {
      if (value === undefined) this.#remove(key)
      else this.#put(key, { value: value.slice(), revision: String(++this.#revision), until: now + (ttl ?? Infinity) })
    }
    this.#arm()
    return "written"
  }

  list({ prefix, after, limit, reverse }: Parameters<Store["list"]>[0]): ReadonlyArray<Entry> {
    this.#sweep()
    const [start, end] = this.#range(prefix)
    const from = after === undefined ? start : Math.max(start, this.#place(after) + (this.#kept.has(after) ? 1 : 0))
    const to = after === undefined ? end : Math.min(end, this.#place(after))
    const keys = reverse
      ? this.#keys.slice(Math.max(start, to - limit), to).reverse()
      : this.#keys.slice(from, Math.min(end, from + limit))
    return keys.flatMap((key) => this.get(key) ?? [])
  }

  count(prefix: string): number {
    this.#sweep()
    const [start, end] = this.#range(prefix)
    return end - start
  }

  /** Returns how to stop. */
  watch(prefix: string, listener: Listener): () => void {
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
    if (bytes < 1 || bytes > MAX_KEY_BYTES || !key.isWellFormed()) {
      throw new TransportError("invalid", `a key has 1 to ${MAX_KEY_BYTES} bytes of UTF-8, not ${bytes}`)
    }
    if (ttl !== undefined && !(ttl >= 1_000)) throw new TransportError("invalid", "a time to live is at least 1,000")
    if (value !== undefined && value.length > this.#maxValue) {
      throw new TransportError("too-large", `${key}: ${value.length} bytes, ${this.#maxValue} are allowed`)
    }
  }

  #put(key: string, kept: Kept): void {
    if (!this.#kept.has(key)) this.#keys.splice(this.#place(key), 0, key)
    this.#kept.set(key, kept)
    this.#next = Math.min(this.#next, kept.until)
    this.#tell(key, kept.value)
  }

  #remove(key: string): void {
    if (!this.#kept.delete(key)) return
    this.#keys.splice(this.#place(key), 1)
    this.#tell(key)
  }

  /** Removes what has ended. */
  #sweep(): void {
    const now = Date.now()
    if (now < this.#next) return
    const ended = this.#keys.filter((key) => (this.#kept.get(key)?.until ?? 0) <= now)
    for (const key of ended) this.#remove(key)
    this.#next = Infinity
    for (const { until } of this.#kept.values()) this.#next = Math.min(this.#next, until)
  }

  /** Those who watch hear of an end in time; nobody else needs a timer. */
  #arm(): void {
    clearTimeout(this.#alarm)
    if (this.#watchers.size === 0 || this.#next === Infinity) return
    this.#alarm = setTimeout(
      () => {
        this.#sweep()
        this.#arm()
      },
      Math.min(Math.max(this.#next - Date.now(), 1), 3_600_000),
    )
    this.#alarm.unref?.()
  }

  #tell(key: string, value?: Uint8Array): void {
    for (const { prefix, listener } of this.#watchers) {
      if (key.startsWith(prefix)) queueMicrotask(() => listener(value ? { key, value: value.slice() } : { key }))
    }
  }

  /** Where a key is, or would be. */
  #place(key: string): number {
    let low = 0
    for (let high = this.#keys.length; low < high; ) {
      const middle = (low + high) >> 1
      if (compareBytes(this.#keys[middle] ?? "", key) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  #range(prefix: string): readonly [number, number] {
    const start = this.#place(prefix)
    let low = start
    // Keys with the prefix are neighbours: the first one without it ends them.
    for (let high = this.#keys.length; low < high; ) {
      const middle = (low + high) >> 1
      if (this.#keys[middle]?.startsWith(prefix)) low = middle + 1
      else high = middle
    }
    return [start, low]
  }
}

/** Order of the UTF-8 bytes, which is that of code points; that of JavaScript's units puts surrogates too early. */
const compareBytes = (a: string, b: string): number => {
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
