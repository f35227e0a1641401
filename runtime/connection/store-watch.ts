/** Follows all store entries below one prefix; a mirror keeps them as a map in this process. */

import { deferred } from "../async/deferred.ts"
import { allEntries } from "../async/store-entry.ts"
import type { Log } from "../log/log.ts"
import { watchStore } from "../transport/job-store/watch-store.ts"
import { sleep } from "../transport/timers.ts"
import type { Connection } from "./connection.ts"

export interface StoreWatchOptions {
  readonly connection: Connection
  readonly prefix: string
  readonly log: Log
  /** Called for each change since the watch began, also while {@link StoreWatchOptions.read} is under way. */
  readonly onChange: (change: { readonly key: string; readonly value?: Uint8Array }) => void
  /** Reads the whole prefix. Where it fails it is called again, after waits that double up to 10 seconds. */
  readonly read: () => Promise<void>
  readonly signal: AbortSignal
}

const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 10_000

/**
 * Watches the entries, then reads all of them, and reads them again whenever the transport was away, because changes may
 * have been missed meanwhile.
 */
export class StoreWatch {
  readonly #options: StoreWatchOptions
  readonly #ready = deferred<void>()
  #watches = false
  /** True while a change may have been missed since the last reading. */
  #stale = false
  #busy = false

  constructor(options: StoreWatchOptions) {
    this.#options = options
    const { connection, signal } = options
    const off = connection.transport.onStatus((status) => {
      if (status === "connected") void this.refresh()
    })
    signal.addEventListener("abort", off, { once: true })
  }

  /** Resolves once the whole prefix was read; never rejects. Waits for as long as the transport cannot be reached. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  /**
   * Reads the whole prefix again, until that has worked. A call during a reading leads to one more reading. Never
   * rejects.
   */
  async refresh(): Promise<void> {
    const { connection, prefix, onChange, read, log, signal } = this.#options
    this.#stale = true
    if (this.#busy) return
    this.#busy = true
    let wait = FIRST_WAIT_MS
    while (this.#stale && !signal.aborted) {
      this.#stale = false
      try {
        if (!this.#watches) await watchStore(connection.store, prefix, onChange, signal)
        this.#watches = true
        await read()
        this.#ready.resolve()
      } catch (cause) {
        this.#stale = true
        log.debug(`${prefix} cannot be read now`, { cause: String(cause) })
        await sleep(wait, signal)
        wait = Math.min(MAX_WAIT_MS, wait * 2)
      }
    }
    this.#busy = false
  }
}

interface StoreMirrorOptions<A> {
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

/**
 * A copy of the entries, updated by watching. Entries that are looked up for every task (revocations, pauses) thus cost no
 * round trip.
 */
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
