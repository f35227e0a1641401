/** When a worker ends by itself: nothing is left to do (burst), it has done enough, or has done nothing for too long. */

export type EndReason = "burst" | "max-jobs" | "max-idle" | "shutdown"

export interface EndingOptions {
  readonly burst: boolean
  /** Milliseconds without a task after which it ends; absent: never. */
  readonly maxIdleMs?: number
  /** Deliveries in its hands, stuck handlers included. */
  readonly held: () => number
  /** Whether more may be queued any moment by this worker itself. */
  readonly isBusy: () => boolean
  /** Whether it has taken as many jobs as it may. */
  readonly isSpent: () => boolean
  readonly onEnd: (reason: EndReason) => void
}

/** Timers that are to wait for longer fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export class Ending {
  readonly #options: EndingOptions
  #idle: ReturnType<typeof setTimeout> | undefined
  #ended = false

  constructor(options: EndingOptions) {
    this.#options = options
    this.look()
  }

  /** Something changed in its hands. */
  look(): void {
    const { held, isSpent, maxIdleMs } = this.#options
    if (held() > 0) {
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
  foundNothing(): void {
    const { burst, held, isBusy } = this.#options
    if (burst && held() === 0 && !isBusy()) this.#end("burst")
  }

  stop(): void {
    this.#ended = true
    clearTimeout(this.#idle)
  }

  #end(reason: EndReason): void {
    if (this.#ended) return
    this.stop()
    this.#options.onEnd(reason)
  }
}
