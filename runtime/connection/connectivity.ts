/** Whether the transport can be reached, by what it reports itself, and ways to wait for that to change. */
import type { Transport } from "../transport/job-store/transport.ts"
import type { TransportError } from "../transport/mod.ts"

export class Connectivity {
  readonly #leaving = new Set<() => void>()
  readonly #returning = new Set<() => void>()
  #connected = true
  #lost = false
  #why: TransportError | undefined

  /** Follows the transport until the signal fires. */
  constructor(transport: Transport, signal: AbortSignal) {
    const off = transport.onStatus((status, why) => {
      this.#why = why
      this.#connected = status === "connected"
      if (!this.#connected) this.#lost = true
      for (const wake of [...(this.#connected ? this.#returning : this.#leaving)]) wake()
    })
    signal.addEventListener("abort", off, { once: true })
  }

  get connected(): boolean {
    return this.#connected
  }

  /** Why the transport cannot be reached, where it gave a reason. */
  get why(): TransportError | undefined {
    return this.#why
  }

  /** Whether the transport was lost since the last {@link acknowledgeLoss}, even if it is connected again by now. */
  get wasLost(): boolean {
    return this.#lost
  }

  /** Returns {@link wasLost} and resets it: from then on it shows the next loss. */
  acknowledgeLoss(): boolean {
    const lost = this.#lost
    this.#lost = false
    return lost
  }

  /** Calls the listener each time the transport is lost, until the returned function is called. */
  onLost(listener: () => void): () => void {
    this.#leaving.add(listener)
    return () => this.#leaving.delete(listener)
  }

  /**
   * Resolves when the transport reports that it is connected again, when the signal fires, or after `ms` milliseconds.
   */
  untilConnected(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener("abort", done)
        this.#returning.delete(done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal.addEventListener("abort", done)
      this.#returning.add(done)
      if (signal.aborted) done()
    })
  }
}
