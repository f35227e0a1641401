/**
 * Entries of one kind in the store: their keys share a prefix, their values are JSON of one schema. Keys, decoding and
 * compare-and-set are written here once, for the directory of workers, pauses, revocations, idempotency keys and others.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { decoder, encoder } from "../protocol/text.ts"
import type { Revision, Store, StoreOperation } from "../transport/store.ts"
import { beforeTry, MAX_TRIES } from "./conflicts.ts"

/** An entry as it was found. */
export interface StoredEntry<A> {
  /** Absent where the value cannot be read, for instance because a newer version wrote it. */
  readonly value: A | undefined
  readonly revision: Revision
}

/** How an entry is changed: to another value, removed, or left as it is (`keep`). */
export type EntryChange<A> = { readonly value: A; readonly ttlMs?: number } | "remove" | "keep"

export interface ChangeOptions {
  /** Assume at first that there is no entry: saves the round trip of reading it where that is likely. */
  readonly assumeAbsent?: boolean
}

export class StoreEntry<A> {
  /** Beginning of the keys of these entries, with its slash. */
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

  /** `undefined` where the bytes are no value of this kind, for instance because a newer version wrote them. */
  decode(bytes: Uint8Array): A | undefined {
    return Result.getOrUndefined(this.#decode(decoder.decode(bytes)))
  }

  /** The operation that writes an entry, whether or not there is one; to be written alone or together with others. */
  put(name: string, value: A, ttlMs: number | undefined = this.#ttlMs): StoreOperation {
    const bytes = encoder.encode(JSON.stringify(value))
    return { key: this.key(name), value: bytes, ...(ttlMs === undefined ? {} : { ttl: ttlMs }) }
  }

  /** The operation that removes an entry. Where there is none it does nothing. */
  remove(name: string): StoreOperation {
    return { key: this.key(name), value: null }
  }

  /** The entry of this name. Fails as the store does. */
  async get(store: Store, name: string): Promise<StoredEntry<A> | undefined> {
    const [found] = await store.get([this.key(name)])
    return found === undefined ? undefined : { value: this.decode(found.value), revision: found.revision }
  }

  /**
   * Writes an entry if what was found is still all that there is. Resolves with its new revision, or with `conflict`. Fails
   * as the store does.
   */
  async replace(store: Store, name: string, value: A, expect: Revision): Promise<Revision | "conflict"> {
    const written = await store.write([{ ...this.put(name, value), expect }])
    return written === "conflict" ? written : (written[0] ?? "conflict")
  }

  /** Names by key, up to `limit`, also of entries whose values cannot be read. */
  async names(store: Store, limit: number): Promise<ReadonlyArray<string>> {
    return (await store.list({ prefix: this.prefix, limit })).map(({ key }) => key.slice(this.prefix.length))
  }

  /**
   * Names and values by key, up to `limit`. An entry that cannot be read is left out; the list does not fail for it.
   */
  async list(store: Store, limit: number): Promise<ReadonlyArray<{ readonly name: string; readonly value: A }>> {
    const entries = await store.list({ prefix: this.prefix, limit })
    return entries.flatMap(({ key, value: bytes }) => {
      const value = this.decode(bytes)
      return value === undefined ? [] : [{ name: key.slice(this.prefix.length), value }]
    })
  }

  /**
   * Changes an entry by compare-and-set. `to` gets the entry as it was found and returns the change; after a conflict it
   * is called again with the newer entry. Resolves with the last change, or with `conflict` where other processes changed
   * the entry thirty times in a row. Fails as the store does, and with whatever `to` throws.
   */
  async change<C extends EntryChange<A>>(
    store: Store,
    name: string,
    to: (found: StoredEntry<A> | undefined) => C,
    { assumeAbsent = false }: ChangeOptions = {},
  ): Promise<C | "conflict"> {
    for (let tried = 0; tried < MAX_TRIES; tried++) {
      await beforeTry(tried)
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

/** All entries below a prefix, by key, read one page at a time. Fails as the store does. */
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
