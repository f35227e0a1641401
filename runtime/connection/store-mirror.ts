/**
 * A prefix of the store as a map in this process: read once, then kept by watching, and read again whenever the transport
 * was away. What many look at for every task (revocations, pauses) costs no round trip then.
 */

import type { Log } from "../log/log.ts"
import type { Board } from "./board.ts"
import { pause } from "./listening.ts"

export interface StoreMirrorOptions<A> {
  readonly board: Board
  readonly prefix: string
  /** `undefined` for what cannot be read, for instance an entry of a newer version: it is left out. */
  readonly decode: (value: Uint8Array) => A | undefined
  readonly log: Log
  /** Called for each entry that is new or has changed, also at the first reading. */
  readonly onEntry?: (key: string, entry: A) => void
  /** Called after anything may have changed. */
  readonly onChange?: () => void
  readonly signal: AbortSignal
}

const PAGE = 1_000
const FIRST_WAIT_MS = 250
const LONGEST_WAIT_MS = 10_000

export class StoreMirror<A> {
  readonly #options: StoreMirrorOptions<A>
  readonly #entries = new Map<string, A>()
  readonly #ready = Promise.withResolvers<void>()
  /** Keys that changed while the prefix is being read: what was read of them is older. */
  #touched: Set<string> | undefined
  #watches = false
  /** Something may have been missed since the last reading. */
  #stale = false
  #busy = false

  constructor(options: StoreMirrorOptions<A>) {
    this.#options = options
    const { board, signal } = options
    const off = board.transport.onStatus((status) => {
      if (status === "connected") void this.#refresh()
    })
    signal.addEventListener("abort", off, { once: true })
    void this.#refresh()
  }

  /** Resolves once everything was read; never rejects. Until the transport can be reached it waits. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  /** By key. */
  get entries(): ReadonlyMap<string, A> {
    return this.#entries
  }

  /** Reads everything again, until that has worked; what becomes stale meanwhile is one more reading. */
  async #refresh(): Promise<void> {
    const { board, prefix, log, signal } = this.#options
    this.#stale = true
    if (this.#busy) return
    this.#busy = true
    let wait = FIRST_WAIT_MS
    while (this.#stale && !signal.aborted) {
      this.#stale = false
      try {
        if (!this.#watches) await board.store.watch(prefix, ({ key, value }) => this.#changed(key, value), signal)
        this.#watches = true
        await this.#read()
        this.#options.onChange?.()
        this.#ready.resolve()
      } catch (cause) {
        this.#stale = true
        log.debug(`${prefix} cannot be read now`, { cause: String(cause) })
        await pause(wait, signal)
        wait = Math.min(LONGEST_WAIT_MS, wait * 2)
      }
    }
    this.#busy = false
  }

  async #read(): Promise<void> {
    const { board, prefix, signal } = this.#options
    const touched = new Set<string>()
    this.#touched = touched
    try {
      const seen = new Set<string>()
      let after: string | undefined
      do {
        const page = await board.store.list({ prefix, limit: PAGE, ...(after === undefined ? {} : { after }) })
        for (const { key, value } of page) {
          seen.add(key)
          if (!touched.has(key)) this.#keep(key, value)
        }
        after = page.length < PAGE ? undefined : page.at(-1)?.key
      } while (after !== undefined && !signal.aborted)
      for (const key of this.#entries.keys()) if (!seen.has(key) && !touched.has(key)) this.#entries.delete(key)
    } finally {
      this.#touched = undefined
    }
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
