/**
 * Follows all store entries below one prefix: watches them, then reads all of them, and reads them again whenever the
 * transport was away, because changes may have been missed meanwhile.
 */

import { sleep } from "../async/deadline.ts"
import type { Log } from "../log/log.ts"
import { watchStore } from "../transport/lift/watch-store.ts"
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
const LONGEST_WAIT_MS = 10_000

export class StoreWatch {
  readonly #options: StoreWatchOptions
  readonly #ready = Promise.withResolvers<void>()
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
        wait = Math.min(LONGEST_WAIT_MS, wait * 2)
      }
    }
    this.#busy = false
  }
}
