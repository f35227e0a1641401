/**
 * A copy of all store entries below one prefix, as a map in this process: read once, then updated by watching, and read
 * again whenever the transport was away. Entries that are looked up for every task (revocations, pauses) thus cost no
 * round trip.
 */

import { allEntries } from "../async/store-entry.ts"
import type { Log } from "../log/log.ts"
import type { Connection } from "./connection.ts"
import { StoreWatch } from "./store-watch.ts"

export interface StoreMirrorOptions<A> {
  readonly connection: Connection
  readonly prefix: string
  /** `undefined` for an entry that cannot be read, for instance one of a newer version: it is left out. */
  readonly decode: (value: Uint8Array) => A | undefined
  readonly log: Log
  /** Called for each entry that is new or has changed, and for every entry of the first reading. */
  readonly onEntry?: (key: string, entry: A) => void
  /** Called after each change, and after each reading of the whole prefix. */
  readonly onChange?: () => void
  readonly signal: AbortSignal
}

export class StoreMirror<A> {
  readonly #options: StoreMirrorOptions<A>
  readonly #entries = new Map<string, A>()
  readonly #watch: StoreWatch
  /** Keys that changed while the prefix is being read: their watched values are newer than the values read. */
  #touched: Set<string> | undefined

  constructor(options: StoreMirrorOptions<A>) {
    this.#options = options
    const { connection, prefix, log, signal } = options
    this.#watch = new StoreWatch({
      connection,
      prefix,
      log,
      onChange: ({ key, value }) => this.#changed(key, value),
      read: () => this.#read(),
      signal,
    })
    void this.#watch.refresh()
  }

  /** Resolves once the whole prefix was read; never rejects. Waits for as long as the transport cannot be reached. */
  get ready(): Promise<void> {
    return this.#watch.ready
  }

  /** The decoded entries, by key. */
  get entries(): ReadonlyMap<string, A> {
    return this.#entries
  }

  async #read(): Promise<void> {
    const { connection, prefix, onChange, signal } = this.#options
    const touched = new Set<string>()
    this.#touched = touched
    try {
      const seen = new Set<string>()
      for await (const { key, value } of allEntries(connection.store, prefix)) {
        seen.add(key)
        if (!touched.has(key)) this.#keep(key, value)
        if (signal.aborted) return
      }
      for (const key of this.#entries.keys()) if (!seen.has(key) && !touched.has(key)) this.#entries.delete(key)
    } finally {
      this.#touched = undefined
    }
    onChange?.()
  }

  #changed(key: string, value: Uint8Array | undefined): void {
    this.#touched?.add(key)
    if (value === undefined) this.#entries.delete(key)
    else this.#keep(key, value)
    this.#options.onChange?.()
  }

  #keep(key: string, value: Uint8Array): void {
    const entry = this.#options.decode(value)
    if (entry === undefined) {
      this.#entries.delete(key)
      return
    }
    this.#entries.set(key, entry)
    this.#options.onEntry?.(key, entry)
  }
}
