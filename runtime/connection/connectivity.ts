/** Whether the transport can be reached, by what it reports itself, and ways to wait for that to change. */
import type { Transport } from "../transport/lift/transport.ts"
import type { TransportError } from "../transport/mod.ts"

/** Why a wait ends. */
const ENDED = "stopped, or the connection was lost"

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

  /** Runs `run` with a signal that fires with the given one, and also as soon as the transport is lost. */
  async whileConnected<A>(signal: AbortSignal, run: (signal: AbortSignal) => Promise<A>): Promise<A> {
    const either = new AbortController()
    // Without a reason, `abort` makes an exception with its stack for each pull.
    const stop = () => either.abort(ENDED)
    if (signal.aborted || this.#lost) stop()
    signal.addEventListener("abort", stop)
    this.#leaving.add(stop)
    try {
      return await run(either.signal)
    } finally {
      signal.removeEventListener("abort", stop)
      this.#leaving.delete(stop)
    }
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
