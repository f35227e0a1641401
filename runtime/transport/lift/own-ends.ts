/**
 * Ends of jobs that this process stores itself. A wait for such a job hears of the end from here, without asking the
 * transport: on nats that is five of fifteen messages of a job. Ends that other processes store come by the transport.
 */
import type { AddressedTask } from "../../protocol/message.ts"

/** Gets a terminal record as it was stored. */
type Listener = (stored: Uint8Array) => void

/** How long a wait relies on this process before it asks the transport as well, in milliseconds. */
const GRACE_MS = 3

/** Most tasks of one call that are followed. A call with more of them is seldom waited for job by job. */
const MOST = 16

export class OwnEnds {
  readonly #waiting = new Map<string, Set<Listener>>()
  /** Jobs that are being submitted here, with the records of those that have ended before their submission is answered. */
  readonly #submitting = new Map<string, Uint8Array | undefined>()
  /** The last job of whose end the transport told first. */
  #told = ""
  /** Whether the last job that was waited for was ended here, so that the next one probably will be. */
  #likely = false

  /** Submits tasks by `publish`. A wait that begins in the turn in which that is answered knows of ends that came before. */
  async submit<A>(postings: ReadonlyArray<AddressedTask>, publish: () => Promise<A>): Promise<A> {
    if (postings.length > MOST) return publish()
    for (const { id } of postings) this.#submitting.set(id, undefined)
    try {
      return await publish()
    } finally {
      // Later, another process may have run the job again.
      setImmediate(() => {
        for (const { id } of postings) this.#submitting.delete(id)
      })
    }
  }

  /** To be called once a terminal record is stored. */
  stored(id: string, record: Uint8Array): void {
    if (this.#told === id) this.#likely = true
    if (this.#submitting.size > 0 && this.#submitting.has(id)) this.#submitting.set(id, record)
    if (this.#waiting.size === 0) return
    for (const listener of this.#waiting.get(id) ?? []) listener(record)
  }

  /**
   * Tells `listener` of the end of a job, until the signal fires. Resolves once the transport is to be asked as well; with
   * `true` where that is not needed any more: the end was told, or the signal has fired.
   */
  async wait(id: string, listener: Listener, signal: AbortSignal): Promise<boolean> {
    const before = this.#submitting.get(id)
    if (before !== undefined) {
      listener(before)
      return true
    }
    return new Promise((resolve) => {
      let timer: ReturnType<typeof setTimeout> | undefined
      const heard: Listener = (stored) => {
        stop()
        listener(stored)
      }
      const stop = () => {
        signal.removeEventListener("abort", unheard)
        clearTimeout(timer)
        const listeners = this.#waiting.get(id)
        if (listeners?.delete(heard) && listeners.size === 0) this.#waiting.delete(id)
        resolve(true)
      }
      const unheard = () => {
        this.#likely = false
        this.#told = id
        stop()
      }
      const listeners = this.#waiting.get(id) ?? new Set()
      this.#waiting.set(id, listeners.add(heard))
      signal.addEventListener("abort", unheard)
      if (this.#likely) timer = setTimeout(() => resolve(false), GRACE_MS)
      else resolve(false)
    })
  }
}
