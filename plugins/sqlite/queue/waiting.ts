/**
 * The calls of `take` that wait for tasks, first come, first served. They are served at the end of a transaction that
 * made a task ready; otherwise a notification, or one timer for the next due task, has them check the queues again. A
 * check only reads, so that the write lock is not taken for an empty queue.
 */
import type { Delivery, TakeRequest } from "../../../runtime/transport/driver.ts"
import type { TransportError } from "../../../runtime/transport/mod.ts"
import { MAX_TIMER_MS } from "../../../runtime/transport/timers.ts"
import type { MachineClock } from "../clock.ts"
import type { Transaction } from "../writing/transaction.ts"
import type { Participant } from "../writing/writer.ts"
import type { Taker } from "./take.ts"

/**
 * A check for a due task comes up to this much later, in milliseconds, by chance. Timers of one process that end together fire
 * in the order in which they were set: without it a worker that has given a task back, because another one serves it, would
 * have it again and again before that one.
 */
const SPREAD_MS = 4

/** Most tasks in one `take`, so that the transaction stays short. */
const MAX_TASKS = 1_000

interface Waiter {
  readonly request: TakeRequest
  /** Whether the queues were checked since this call began. */
  checked: boolean
  taken: ReadonlyArray<Delivery>
  readonly resolve: (deliveries: ReadonlyArray<Delivery>) => void
  readonly reject: (error: TransportError) => void
}

export class WaitingTakes implements Participant {
  readonly #taker: Taker
  readonly #clock: MachineClock
  readonly #wake: () => void
  readonly #onWait: () => void
  readonly #isWatched: () => boolean
  /** A list, and no `Set`: JavaScriptCore would keep what a waiter took until it next collects all garbage. */
  #waiters: ReadonlyArray<Waiter> = []
  /** Whether another process, or the passing of time, may have made a task ready since the last check. */
  #stale = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #timerAt = Number.POSITIVE_INFINITY

  /**
   * `wake` asks for a transaction; `onWait` is called when a `take` begins to wait; `isWatched` says whether a listener
   * wants to hear of ready tasks without taking them.
   */
  constructor(
    taker: Taker,
    clock: MachineClock,
    options: { readonly wake: () => void; readonly onWait: () => void; readonly isWatched: () => boolean },
  ) {
    this.#taker = taker
    this.#clock = clock
    this.#isWatched = options.isWatched
    this.#wake = options.wake
    this.#onWait = options.onWait
  }

  take(request: TakeRequest, signal: AbortSignal): Promise<ReadonlyArray<Delivery>> {
    if (signal.aborted || !(request.max >= 1) || request.queues.length === 0) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      let timer: ReturnType<typeof setTimeout> | undefined
      const end = (): void => {
        clearTimeout(timer)
        signal.removeEventListener("abort", giveUp)
        this.#waiters = this.#waiters.filter((other) => other !== waiter)
      }
      const giveUp = (): void => {
        end()
        resolve([])
      }
      const waiter: Waiter = {
        request: { ...request, max: Math.min(Math.floor(request.max), MAX_TASKS) },
        checked: false,
        taken: [],
        resolve: (deliveries) => {
          end()
          resolve(deliveries)
        },
        reject: (error) => {
          end()
          reject(error)
        },
      }
      signal.addEventListener("abort", giveUp)
      if (request.wait > 0) timer = setTimeout(giveUp, Math.min(request.wait, MAX_TIMER_MS))
      this.#waiters = [...this.#waiters, waiter]
      this.#wake()
    })
  }

  /** Checks the queues again: another process may have published a task. */
  recheck(): void {
    if (!this.#isNeeded()) return
    this.#stale = true
    this.#wake()
  }

  /** Ends every waiting `take` with no tasks. */
  close(): void {
    for (const waiter of this.#waiters) waiter.resolve([])
    this.#clearTimer()
  }

  wants(): boolean {
    const unchecked = this.#waiters.filter((waiter) => this.#stale || !waiter.checked)
    if (unchecked.length === 0 && !(this.#stale && this.#isWatched())) return false
    if (unchecked.some(({ request }) => this.#taker.hasReady(request.queues))) return true
    if (this.#taker.nextAt() <= this.#clock.read().now) return true
    this.#settleIdle()
    return false
  }

  join(transaction: Transaction): void {
    if (!this.#isNeeded()) return
    this.#taker.promote(transaction)
    const all = this.#stale || transaction.readyQueues.size > 0
    for (const waiter of this.#waiters) {
      if (all || !waiter.checked) waiter.taken = this.#taker.take(transaction, waiter.request)
    }
  }

  committed(transaction: Transaction): void {
    for (const waiter of this.#waiters) {
      if (waiter.taken.length > 0) waiter.resolve(waiter.taken)
    }
    if (this.#isNeeded()) this.#settleIdle(transaction.nextReadyAt)
  }

  rolledBack(): void {
    for (const waiter of this.#waiters) waiter.taken = []
  }

  failed(error: TransportError): void {
    for (const waiter of this.#waiters) waiter.reject(error)
  }

  /**
   * Every `take` has checked the queues and found nothing: ends those that do not wait, and sets the timer for the
   * others.
   */
  #settleIdle(later?: number): void {
    this.#stale = false
    for (const waiter of this.#waiters) {
      if (!waiter.checked) {
        waiter.checked = true
        if (waiter.request.wait > 0) this.#onWait()
        else waiter.resolve([])
      }
    }
    if (!this.#isNeeded()) this.#clearTimer()
    else if (later === undefined || this.#timer === undefined) this.#setTimer(this.#taker.nextAt())
    else this.#setTimer(Math.min(later, this.#timerAt))
  }

  #isNeeded(): boolean {
    return this.#waiters.length > 0 || this.#isWatched()
  }

  /** Has the queues checked again when the next task is due or its lease ends. */
  #setTimer(at: number): void {
    if (at === this.#timerAt && this.#timer !== undefined) return
    this.#clearTimer()
    if (at === Number.POSITIVE_INFINITY) return
    this.#timerAt = at
    this.#timer = setTimeout(
      () => {
        this.#clearTimer()
        this.recheck()
      },
      Math.min(Math.max(at - this.#clock.read().now, 1) + Math.random() * SPREAD_MS, MAX_TIMER_MS),
    )
    // The timer does not keep the process alive: each `take` that waits has a timer of its own for that.
    this.#timer.unref()
  }

  #clearTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#timerAt = Number.POSITIVE_INFINITY
  }
}
