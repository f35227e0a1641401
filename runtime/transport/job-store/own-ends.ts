/**
 * Ends of jobs that this process stores itself. A wait is told of such an end once it is stored, without asking the transport:
 * on nats that is five of fifteen messages of a job, on sqlite a read beside its two transactions. Ends that were stored
 * before the wait began are not remembered: the job may run again since. The transport is asked about them, as about all
 * that other processes store.
 */

/** Gets the terminal record as it was stored. */
type Listener = (stored: Uint8Array) => void

/** How long a wait relies on this process before it asks the transport as well, in milliseconds. */
const RELY_MS = 3

export class OwnEnds {
  readonly #waiting = new Map<string, Set<Listener>>()
  #lastWaited = ""
  #lastStored = ""
  /** The job that was waited for last ended here, so the next one probably will. */
  #isLikely = false

  /** To be called once a terminal record is stored. */
  stored(id: string, record: Uint8Array): void {
    this.#lastStored = id
    if (id === this.#lastWaited) this.#isLikely = true
    const listeners = this.#waiting.size > 0 ? this.#waiting.get(id) : undefined
    if (listeners !== undefined) for (const listener of [...listeners]) listener(record)
  }

  /** Tells `listener` of an end until the signal fires. Resolves when the transport is to be asked, or the signal has fired. */
  wait(id: string, listener: Listener, signal: AbortSignal): Promise<void> {
    const relies = this.#isLikely && id !== this.#lastStored
    this.#lastWaited = id
    const listeners = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, listeners.add(listener))
    return new Promise((resolve) => {
      const late = () => {
        this.#isLikely = false
        resolve()
      }
      const timer = relies ? setTimeout(late, RELY_MS) : resolve()
      const stop = () => {
        clearTimeout(timer ?? undefined)
        listeners.delete(listener)
        if (listeners.size === 0) this.#waiting.delete(id)
        resolve()
      }
      signal.addEventListener("abort", stop, { once: true })
    })
  }
}
