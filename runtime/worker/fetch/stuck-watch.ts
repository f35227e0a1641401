/**
 * Watches for slots that are held by stuck handlers: those that go on after their job was decided. While they hold some
 * of the slots, what was fetched ahead for these slots is given back. While they hold all of them, nothing can start in
 * this worker: it is stuck, and ends when that lasts too long, because only a new process has free slots.
 */
import type { Clock } from "../../async/clock.ts"
import type { Log } from "../../log/log.ts"
import type { DeliveryBuffer } from "./delivery-buffer.ts"
import type { QueueSubscription } from "./queue-subscription.ts"

export interface StuckWatchOptions {
  readonly buffer: DeliveryBuffer
  readonly subscription: QueueSubscription
  readonly clock: Clock
  readonly log: Log
  /** Milliseconds for which the worker may be stuck before it ends. */
  readonly graceMs: number
  /** Gives back deliveries for which there is no place any more. */
  readonly handBackSurplus: () => void
  /** Called when the worker becomes stuck, and when a handler has freed its slot after all. */
  readonly onChange: () => void
  /** Called once, when the worker is to end. */
  readonly onEnd: () => void
}

/** Time between two looks. A handler that needs less to stop after its job was decided is not stuck. */
const LOOK_MS = 500

export class StuckWatch {
  readonly #options: StuckWatchOptions
  #looks: ReturnType<typeof setInterval> | undefined
  /** When all slots were first seen to be held by stuck handlers, by the monotonic clock. */
  #since: number | undefined
  #ended = false

  constructor(options: StuckWatchOptions) {
    this.#options = options
  }

  /** Called whenever a slot was taken or freed. */
  check(): void {
    const { buffer, subscription, log, onChange } = this.#options
    if (this.#ended) return
    if (buffer.stuck > 0) this.#looks ??= setInterval(() => this.#look(), LOOK_MS)
    else this.#pause()
    if (buffer.isStuck) return
    this.#since = undefined
    if (!subscription.isStuck) return
    subscription.setStuck(false)
    log.info("a stuck handler has stopped: this worker takes tasks again")
    onChange()
  }

  #look(): void {
    const { buffer, subscription, clock, log, graceMs, handBackSurplus, onChange, onEnd } = this.#options
    const now = clock.monotonic()
    if (!buffer.isStuck) handBackSurplus()
    else if (this.#since === undefined) this.#since = now
    else if (!subscription.isStuck) {
      subscription.setStuck(true)
      log.error(
        `all ${buffer.stuck} handlers keep running after their jobs have ended, so this worker takes no tasks: make them stop on job.signal. The worker exits in ${Math.ceil(graceMs / 1_000)} s unless one of them stops`,
      )
      onChange()
    } else if (now - this.#since >= graceMs) {
      this.stop()
      onEnd()
    }
  }

  #pause(): void {
    clearInterval(this.#looks)
    this.#looks = undefined
  }

  stop(): void {
    this.#ended = true
    this.#pause()
  }
}
