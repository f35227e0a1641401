/**
 * Decides when a worker ends by itself: its queues are empty (`burst`), it has taken enough jobs, or it had none for
 * too long.
 */
import type { Clock } from "../async/clock.ts"
import type { Log } from "../log/log.ts"
import { MAX_TIMER_MS } from "../transport/timers.ts"
import type { Dispatcher } from "./dispatcher.ts"
import type { DeliveryBuffer } from "./fetch/delivery-buffer.ts"
import type { QueueSubscription } from "./fetch/queue-subscription.ts"

/** `stuck`: handlers that do not stop hold all slots. */
export type StopReason = "burst" | "max-jobs" | "max-idle" | "shutdown" | "stuck"

export interface StopConditionOptions {
  readonly burst: boolean
  /** Milliseconds without a task after which the worker ends; absent: never. */
  readonly maxIdleMs?: number
  /** Number of its deliveries, including stuck handlers. */
  readonly inFlight: () => number
  /** Whether this worker may itself queue more tasks at any moment. */
  readonly isBusy: () => boolean
  /** Whether it has taken as many jobs as it may. */
  readonly isSpent: () => boolean
  readonly onStop: (reason: StopReason) => void
}

export class StopCondition {
  readonly #options: StopConditionOptions
  #idle: ReturnType<typeof setTimeout> | undefined
  #ended = false

  constructor(options: StopConditionOptions) {
    this.#options = options
    this.check()
  }

  /** Checks the conditions after a delivery came or went. */
  check(): void {
    const { inFlight, isSpent, maxIdleMs } = this.#options
    if (inFlight() > 0) {
      clearTimeout(this.#idle)
      this.#idle = undefined
    } else if (isSpent()) this.#end("max-jobs")
    else if (maxIdleMs !== undefined) this.#idle ??= this.#idleFor(maxIdleMs)
  }

  /** Ends the worker after `ms`, which may take several timers. */
  #idleFor(ms: number): ReturnType<typeof setTimeout> {
    return setTimeout(
      () => {
        if (ms <= MAX_TIMER_MS) this.#end("max-idle")
        else this.#idle = this.#idleFor(ms - MAX_TIMER_MS)
      },
      Math.min(ms, MAX_TIMER_MS),
    )
  }

  /** Called when a pull found nothing and the worker had no delivery before it and after it. */
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

/** For `burst`: tells whether deferred tasks will come back, which a pull does not show. */
export class ReturningTasks {
  readonly #options: ReturningTasksOptions
  /** Until when tasks may come back that other workers deferred, in milliseconds since the epoch. */
  #othersUntil = 0

  constructor(options: ReturningTasksOptions) {
    this.#options = options
  }

  /**
   * Milliseconds for which deferred tasks may still come back, as far as is known; 0: none will, or the worker has a
   * delivery.
   */
  get ms(): number {
    const { dispatcher, buffer, subscription, clock } = this.#options
    // While a delivery is left, the worker does not end anyway.
    if (buffer.held.size > 0) return 0
    return Math.max(
      0,
      Math.max(dispatcher.postponements.lastReturnAt(subscription.queues), this.#othersUntil) - clock.now(),
    )
  }

  /** Whether no deferred task will come back, after reading the notes of other workers. Never rejects. */
  async isOver(): Promise<boolean> {
    const { dispatcher, subscription, log } = this.#options
    try {
      this.#othersUntil = await dispatcher.postponements.othersUntil(subscription.queues)
    } catch (cause) {
      // A worker that cannot read the notes must not end; the next empty pull reads them again.
      log.debug("the notes of deferred tasks could not be read", { cause: String(cause) })
      return false
    }
    return this.ms === 0
  }
}
