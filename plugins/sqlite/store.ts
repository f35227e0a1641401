/** The store: keyed values with revisions and times to live, in one table. */
import { bomDecoder, encoder } from "../../runtime/protocol/text.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import type { Entry, Revision, Store, StoreOperation } from "../../runtime/transport/store.ts"
import { MAX_TIMER_MS } from "../../runtime/transport/timers.ts"
import type { MachineClock } from "./clock.ts"
import { bytes, type Database, int, type Row } from "./database/database.ts"
import { MAX_RECORD } from "./jobs/columns.ts"
import type { Transaction } from "./writing/transaction.ts"
import type { Writer } from "./writing/writer.ts"

export interface PreparedOperation {
  readonly operation: StoreOperation
  readonly key: Uint8Array
}

/** Most expired values that one statement removes. */
const EXPIRE_BATCH = 200

export class StoreTable {
  readonly #ns: number
  readonly #clock: MachineClock
  readonly #statements

  constructor(database: Database, ns: number, clock: MachineClock) {
    this.#ns = ns
    this.#clock = clock
    const prepare = (sql: string) => database.prepare(sql)
    const live = "(until IS NULL OR until > ?2)"
    const range = `ns = ?1 AND ${live} AND key >= ?3 AND key < ?4`
    this.#statements = {
      get: prepare(`SELECT key, value, rev FROM callboard_store WHERE ns = ?1 AND ${live} AND key = ?3`),
      up: prepare(`SELECT key, value, rev FROM callboard_store WHERE ${range} ORDER BY key LIMIT ?5`),
      down: prepare(`SELECT key, value, rev FROM callboard_store WHERE ${range} ORDER BY key DESC LIMIT ?5`),
      rev: prepare(`SELECT rev FROM callboard_store WHERE ns = ?1 AND ${live} AND key = ?3`),
      put: prepare(
        `INSERT INTO callboard_store (ns, key, value, rev, until) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (ns, key) DO UPDATE SET value = excluded.value, rev = excluded.rev, until = excluded.until`,
      ),
      remove: prepare("DELETE FROM callboard_store WHERE ns = ? AND key = ? RETURNING 1"),
      expire: prepare(
        `DELETE FROM callboard_store WHERE row IN (
           SELECT row FROM callboard_store INDEXED BY callboard_store_until
           WHERE until IS NOT NULL AND until <= ? AND ns = ? ORDER BY until LIMIT ${EXPIRE_BATCH}) RETURNING key`,
      ),
      nextExpiry: prepare(
        `SELECT until FROM callboard_store INDEXED BY callboard_store_until
         WHERE until IS NOT NULL AND ns = ? ORDER BY until LIMIT 1`,
      ),
    }
  }

  get(key: string): Entry | undefined {
    const row = this.#statements.get.get(this.#ns, this.#clock.read().ended, keyToBytes(key))
    return row && entryOf(row)
  }

  list({ prefix, after, limit, reverse }: Parameters<Store["list"]>[0]): ReadonlyArray<Entry> {
    let start = keyToBytes(prefix)
    let end = afterPrefix(start)
    if (after !== undefined) {
      const key = keyToBytes(after)
      if (reverse && compareKeys(key, end) < 0) end = key
      if (!reverse && compareKeys(key, start) >= 0) start = afterKey(key)
    }
    const statement = reverse ? this.#statements.down : this.#statements.up
    return statement.all(this.#ns, this.#clock.read().ended, start, end, Math.max(0, Math.floor(limit))).map(entryOf)
  }

  /** Checks an operation before the write lock is taken. Fails with `invalid` or `too-large`. */
  prepare(operation: StoreOperation): PreparedOperation {
    const { key, value, ttl } = operation
    if (ttl !== undefined && !(ttl >= 1_000))
      throw new TransportError("invalid", "a time to live must be at least 1,000")
    if (value && value.length > MAX_RECORD) {
      throw new TransportError("too-large", `${key}: ${value.length} bytes; at most ${MAX_RECORD} are allowed`)
    }
    // The value is copied, because the caller may change its bytes before they are written.
    return { key: checkKey(key), operation: value ? { ...operation, value: value.slice() } : operation }
  }

  /** Does all operations or none. */
  write(transaction: Transaction, operations: ReadonlyArray<PreparedOperation>): ReadonlyArray<Revision> | "conflict" {
    if (!operations.every((each) => this.#holds(transaction, each))) return "conflict"
    return operations.map((each) => this.#write(transaction, each))
  }

  #write(transaction: Transaction, { key, operation }: PreparedOperation): Revision {
    const { value, ttl } = operation
    if (value === undefined) return ""
    if (value === null) {
      const [removed] = this.#statements.remove.all(this.#ns, key)
      if (removed !== undefined) transaction.storeChanges.push({ key: operation.key })
      return ""
    }
    const until = ttl === undefined ? Number.POSITIVE_INFINITY : Math.ceil(transaction.now + ttl)
    const revision = transaction.next()
    this.#statements.put.run(this.#ns, key, value, revision, Number.isSafeInteger(until) ? until : null)
    transaction.storeChanges.push({ key: operation.key, value })
    return String(revision)
  }

  /** In how many milliseconds the next value expires; `Infinity` if none does. */
  nextExpiry(): number {
    const row = this.#statements.nextExpiry.get(this.#ns)
    return row === undefined ? Number.POSITIVE_INFINITY : int(row, "until") - this.#clock.read().ended
  }

  /** Removes expired values; `true` if there may be more. */
  expire(transaction: Transaction): boolean {
    const rows = this.#statements.expire.all(transaction.ended, this.#ns)
    for (const row of rows) transaction.storeChanges.push({ key: keyFromBytes(bytes(row, "key")) })
    return rows.length === EXPIRE_BATCH
  }

  #holds(transaction: Transaction, { key, operation: { expect } }: PreparedOperation): boolean {
    if (expect === undefined) return true
    const row = this.#statements.rev.get(this.#ns, transaction.ended, key)
    return (row === undefined ? "" : String(int(row, "rev"))) === expect
  }
}

const entryOf = (row: Row): Entry => ({
  key: keyFromBytes(bytes(row, "key")),
  value: bytes(row, "value"),
  revision: String(int(row, "rev")),
})

// ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

const MAX_BYTES = 512

/** A key as the bytes of its UTF-8, so that SQLite sorts keys in byte order. */
export const keyToBytes = (key: string): Uint8Array => encoder.encode(key)

export const keyFromBytes = (bytes: Uint8Array): string => bomDecoder.decode(bytes)

/** A checked key as bytes. Fails with `invalid`. */
export const checkKey = (key: string): Uint8Array => {
  const bytes = encoder.encode(key)
  if (bytes.length >= 1 && bytes.length <= MAX_BYTES && key.isWellFormed()) return bytes
  throw new TransportError("invalid", `a key must be 1 to ${MAX_BYTES} bytes of UTF-8, not ${bytes.length}`)
}

/** The first bytes after everything that starts with `prefix`. */
export const afterPrefix = (prefix: Uint8Array): Uint8Array => {
  for (let at = prefix.length - 1; at >= 0; at--) {
    const byte = prefix[at] ?? 0
    if (byte < 0xff) {
      const end = prefix.slice(0, at + 1)
      end[at] = byte + 1
      return end
    }
  }
  // UTF-8 never contains this byte, so that it sorts after every key.
  return Uint8Array.of(0xff)
}

/** The first bytes after this very key. */
export const afterKey = (key: Uint8Array): Uint8Array => {
  const next = new Uint8Array(key.length + 1)
  next.set(key)
  return next
}

export const compareKeys = (a: Uint8Array, b: Uint8Array): number => {
  const length = Math.min(a.length, b.length)
  for (let at = 0; at < length; at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0)
    if (difference !== 0) return difference
  }
  return a.length - b.length
}

// ── expiry ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The longest delay of a timer, in milliseconds. */
/**
 * Removes values when their time is over, while the store is watched, so that watchers hear of it. Without a watcher no
 * timer is needed, because reads skip expired values.
 */
export class StoreExpiry {
  readonly #store: StoreTable
  readonly #writer: Writer
  readonly #watched: () => boolean
  #timer: ReturnType<typeof setTimeout> | undefined
  /** When the timer fires, by the monotonic clock. */
  #at = Number.POSITIVE_INFINITY

  constructor(store: StoreTable, writer: Writer, watched: () => boolean) {
    this.#store = store
    this.#writer = writer
    this.#watched = watched
  }

  /** Only a change of a value changes when the next one expires. */
  committed({ storeChanges }: Transaction): void {
    if (storeChanges.length > 0) this.schedule()
  }

  /** Sets the timer for the next value that expires. Reads only. */
  schedule(): void {
    const delay = this.#watched() ? this.#nextEnd() : Number.POSITIVE_INFINITY
    const at = performance.now() + delay
    if (Math.abs(at - this.#at) < 1 && this.#timer !== undefined) return
    this.close()
    if (at === Number.POSITIVE_INFINITY) return
    this.#at = at
    this.#timer = setTimeout(() => this.#fire(), Math.min(Math.max(delay, 1), MAX_TIMER_MS))
    this.#timer.unref()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#at = Number.POSITIVE_INFINITY
  }

  #fire(): void {
    this.close()
    this.#writer
      .doWithoutSync((transaction) => this.#store.expire(transaction))
      .then(
        () => this.schedule(),
        () => undefined,
      )
  }

  #nextEnd(): number {
    try {
      return this.#store.nextExpiry()
    } catch {
      return Number.POSITIVE_INFINITY
    }
  }
}
