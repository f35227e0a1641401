/**
 * Entries of one kind in the store: keys that begin alike, values of one schema as JSON. Keys, codec and compare-and-set
 * are written here once, for the workers' directory, pauses, revocations, idempotency keys and the like.
 */
import { Result, Schema } from "effect"
import type { Revision, Store, StoreOperation } from "../transport/store.ts"

/** An entry as it was found. */
export interface StoredEntry<A> {
  /** Absent where the value cannot be read, for instance because a newer version wrote it. */
  readonly value: A | undefined
  readonly revision: Revision
}

/** What is to become of an entry: another value, nothing any more, or (`keep`) what it is. */
export type EntryChange<A> = { readonly value: A; readonly ttlMs?: number } | "remove" | "keep"

export interface ChangeOptions {
  /** Tries the change first as if there were no entry: spares a round trip where that is likely. */
  readonly assumeAbsent?: boolean
}

/** Several processes may change one entry at the same time; more often than this in a row is not chance. */
const TRIES = 10

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export class StoreEntry<A> {
  /** What the keys of these entries begin with, the slash included. */
  readonly prefix: string
  readonly #ttlMs: number | undefined
  readonly #decode: (text: string) => Result.Result<A, unknown>

  /** `ttlMs`: how long an entry lives after each write, 1,000 ms at least; absent: until it is removed. */
  constructor(prefix: string, schema: Schema.Codec<A, unknown>, options: { readonly ttlMs?: number } = {}) {
    this.prefix = prefix
    this.#ttlMs = options.ttlMs
    this.#decode = Schema.decodeUnknownResult(Schema.fromJsonString(schema))
  }

  key(name: string): string {
    return this.prefix + name
  }

  /** `undefined` for what is no value of this kind, for instance one that a newer version wrote. */
  decode(bytes: Uint8Array): A | undefined {
    return Result.getOrUndefined(this.#decode(decoder.decode(bytes)))
  }

  /** The operation that writes an entry, whatever stands there; to be written alone or with others. */
  put(name: string, value: A, ttlMs: number | undefined = this.#ttlMs): StoreOperation {
    const bytes = encoder.encode(JSON.stringify(value))
    return { key: this.key(name), value: bytes, ...(ttlMs === undefined ? {} : { ttl: ttlMs }) }
  }

  /** The operation that removes an entry; one that is not there stays so. */
  remove(name: string): StoreOperation {
    return { key: this.key(name), value: null }
  }

  /** Fails as the store does. */
  async get(store: Store, name: string): Promise<StoredEntry<A> | undefined> {
    const [found] = await store.get([this.key(name)])
    return found === undefined ? undefined : { value: this.decode(found.value), revision: found.revision }
  }

  /** Names by key, up to `limit`, also of entries whose values cannot be read. */
  async names(store: Store, limit: number): Promise<ReadonlyArray<string>> {
    return (await store.list({ prefix: this.prefix, limit })).map(({ key }) => key.slice(this.prefix.length))
  }

  /** Names and values by key, up to `limit`; what cannot be read is left out rather than failing the list. */
  async list(store: Store, limit: number): Promise<ReadonlyArray<{ readonly name: string; readonly value: A }>> {
    const entries = await store.list({ prefix: this.prefix, limit })
    return entries.flatMap(({ key, value: bytes }) => {
      const value = this.decode(bytes)
      return value === undefined ? [] : [{ name: key.slice(this.prefix.length), value }]
    })
  }

  /**
   * Changes an entry by compare-and-set: `to` decides by what stands there, again after each conflict, and so may be
   * called several times. Resolves with what was decided last, or with `conflict` where others changed the entry ten
   * times in a row. Fails as the store does, and with what `to` throws.
   */
  async change<C extends EntryChange<A>>(
    store: Store,
    name: string,
    to: (found: StoredEntry<A> | undefined) => C,
    { assumeAbsent = false }: ChangeOptions = {},
  ): Promise<C | "conflict"> {
    for (let tried = 0; tried < TRIES; tried++) {
      const found = tried === 0 && assumeAbsent ? undefined : await this.get(store, name)
      const change = to(found)
      if (change === "keep") return change
      const operation = change === "remove" ? this.remove(name) : this.put(name, change.value, change.ttlMs)
      const written = await store.write([{ ...operation, expect: found?.revision ?? "" }])
      if (written !== "conflict") return change
    }
    return "conflict"
  }
}

/** All entries below a prefix, by key; read a page at a time. Fails as the store does. */
export const allEntries = async function* (
  store: Store,
  prefix: string,
  page = 1_000,
): AsyncGenerator<Awaited<ReturnType<Store["list"]>>[number]> {
  for (let after: string | undefined; ; ) {
    const entries = await store.list({ prefix, limit: page, ...(after === undefined ? {} : { after }) })
    yield* entries
    after = entries.at(-1)?.key
    if (entries.length < page) return
  }
}
