/** When a worker ends by itself: nothing is left to do (burst), it has done enough, or has done nothing for too long. */
import type { Clock } from "../async/clock.ts"
import type { Log } from "../log/log.ts"
import type { Dispatcher } from "./dispatcher.ts"
import type { DeliveryBuffer } from "./fetch/delivery-buffer.ts"
import type { QueueSubscription } from "./fetch/queue-subscription.ts"

export type StopReason = "burst" | "max-jobs" | "max-idle" | "shutdown"

export interface StopConditionOptions {
  readonly burst: boolean
  /** Milliseconds without a task after which it ends; absent: never. */
  readonly maxIdleMs?: number
  /** Deliveries in its hands, stuck handlers included. */
  readonly inFlight: () => number
  /** Whether more may be queued any moment by this worker itself. */
  readonly isBusy: () => boolean
  /** Whether it has taken as many jobs as it may. */
  readonly isSpent: () => boolean
  readonly onStop: (reason: StopReason) => void
}

/** Timers that are to wait for longer fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export class StopCondition {
  readonly #options: StopConditionOptions
  #idle: ReturnType<typeof setTimeout> | undefined
  #ended = false

  constructor(options: StopConditionOptions) {
    this.#options = options
    this.check()
  }

  /** Something changed in its hands. */
  check(): void {
    const { inFlight, isSpent, maxIdleMs } = this.#options
    if (inFlight() > 0) {
      clearTimeout(this.#idle)
      this.#idle = undefined
    } else if (isSpent()) this.#end("max-jobs")
    else if (maxIdleMs !== undefined) this.#idle ??= this.#idleFor(maxIdleMs)
  }

  /** Ends after so long, in portions of what a timer can wait for. */
  #idleFor(ms: number): ReturnType<typeof setTimeout> {
    return setTimeout(
      () => {
        if (ms <= LONGEST_TIMER_MS) this.#end("max-idle")
        else this.#idle = this.#idleFor(ms - LONGEST_TIMER_MS)
      },
      Math.min(ms, LONGEST_TIMER_MS),
    )
  }

  /** A look into the queues found nothing, and its hands were empty before and after it, and nothing was under way. */
  foundQueuesEmpty(): void {
    const { burst, inFlight, isBusy } = this.#options
    if (burst && inFlight() === 0 && !isBusy()) this.#end("burst")
  }

  stop(): void {
    this.#ended = true
    clearTimeout(this.#idle)
  }

  #end(reason: StopReason): void {
    if (this.#ended) return
    this.stop()
    this.#options.onStop(reason)
  }
}

export interface ReturningTasksOptions {
  readonly dispatcher: Dispatcher
  readonly buffer: DeliveryBuffer
  readonly subscription: QueueSubscription
  readonly clock: Clock
  readonly log: Log
}

/** With `burst`: whether tasks come back that a limit has put off, although a look into the queues does not show them. */
export class ReturningTasks {
  readonly #options: ReturningTasksOptions
  /** Until when tasks may come that other workers have put off, in milliseconds since the epoch. */
  #othersUntil = 0

  constructor(options: ReturningTasksOptions) {
    this.#options = options
  }

  /** For how long tasks may still come, in milliseconds, as far as is known; 0: none will, or something is in hand. */
  get ms(): number {
    const { dispatcher, buffer, subscription, clock } = this.#options
    // As long as something runs, what comes of it decides.
    if (buffer.inFlight.size > 0) return 0
    return Math.max(
      0,
      Math.max(dispatcher.deferrals.lastReturnAt(subscription.queues), this.#othersUntil) - clock.now(),
    )
  }

  /** Whether none will, after asking what the other workers have put off. Never rejects. */
  async isOver(): Promise<boolean> {
    const { dispatcher, subscription, log } = this.#options
    try {
      this.#othersUntil = await dispatcher.othersComeUntil(subscription.queues)
    } catch (cause) {
      // A worker that cannot ask must not end: the next look asks again.
      log.debug("it is not known whether tasks come back", { cause: String(cause) })
      return false
    }
    return this.ms === 0
  }
}
