/** Whether the transport is within reach, as it says itself, and a way to wait for that to change. */
import type { Transport } from "../transport/lift/transport.ts"
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

  /** Why it is not within reach, where the transport says so. */
  get why(): TransportError | undefined {
    return this.#why
  }

  /** Whether it was lost since {@link acknowledgeLoss}, also when it is back by now. */
  get wasLost(): boolean {
    return this.#lost
  }

  /** {@link wasLost}, which from here on means the next loss. */
  acknowledgeLoss(): boolean {
    const lost = this.#lost
    this.#lost = false
    return lost
  }

  /** Runs something with a signal that fires as soon as the transport is lost, too. */
  async whileConnected<A>(signal: AbortSignal, run: (signal: AbortSignal) => Promise<A>): Promise<A> {
    const either = new AbortController()
    const stop = () => either.abort()
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

  /** Resolves when the transport says that it is back, when the signal fires, or after so many milliseconds. */
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
