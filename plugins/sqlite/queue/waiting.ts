/**
 * The calls of `take` that wait. They are served at the end of the transaction that made something ready, first come, first
 * served; otherwise a doorbell or the one timer here makes them look again. Nobody takes the lock to find nothing.
 */
import type { TakeRequest, TaskDelivery } from "../../../runtime/transport/driver.ts"
import type { TransportError } from "../../../runtime/transport/mod.ts"
import type { Transaction } from "../writing/transaction.ts"
import type { Participant } from "../writing/writer.ts"
import type { Taker } from "./take.ts"

/** The longest that a timer can wait is 2³¹ − 1 ms. */
const LONGEST_TIMER = 2 ** 31 - 1

/** Most tasks in one `take`: the transaction must stay short. */
const MAX_TASKS = 1_000

interface Waiter {
  readonly request: TakeRequest
  /** Whether the queues have been looked at since it came. */
  tried: boolean
  taken: ReadonlyArray<TaskDelivery>
  readonly resolve: (deliveries: ReadonlyArray<TaskDelivery>) => void
  readonly reject: (error: TransportError) => void
}

export class WaitingTakes implements Participant {
  readonly #taker: Taker
  readonly #wake: () => void
  readonly #onWait: () => void
  readonly #isWatched: () => boolean
  readonly #waiters = new Set<Waiter>()
  /** Whether something may have become ready that nobody here put there. */
  #stale = false
  #alarm: ReturnType<typeof setTimeout> | undefined
  #alarmAt = Number.POSITIVE_INFINITY

  /**
   * `wake` asks for a transaction; `onWait` is called when one starts to wait; `isWatched` says whether somebody wants to
   * hear that tasks are ready without taking them.
   */
  constructor(
    taker: Taker,
    options: { readonly wake: () => void; readonly onWait: () => void; readonly isWatched: () => boolean },
  ) {
    this.#taker = taker
    this.#isWatched = options.isWatched
    this.#wake = options.wake
    this.#onWait = options.onWait
  }

  take(request: TakeRequest, signal: AbortSignal): Promise<ReadonlyArray<TaskDelivery>> {
    if (signal.aborted || !(request.max >= 1) || request.queues.length === 0) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      let timer: ReturnType<typeof setTimeout> | undefined
      const end = (): void => {
        clearTimeout(timer)
        signal.removeEventListener("abort", giveUp)
        this.#waiters.delete(waiter)
      }
      const giveUp = (): void => {
        end()
        resolve([])
      }
      const waiter: Waiter = {
        request: { ...request, max: Math.min(Math.floor(request.max), MAX_TASKS) },
        tried: false,
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
      if (request.wait > 0) timer = setTimeout(giveUp, Math.min(request.wait, LONGEST_TIMER))
      this.#waiters.add(waiter)
      this.#wake()
    })
  }

  /** Another process may have put something into a queue. */
  look(): void {
    if (!this.#isNeeded()) return
    this.#stale = true
    this.#wake()
  }

  /** Ends all of them with nothing. */
  close(): void {
    for (const waiter of this.#waiters) waiter.resolve([])
    this.#disarm()
  }

  wants(): boolean {
    const looking = [...this.#waiters].filter((waiter) => this.#stale || !waiter.tried)
    if (looking.length === 0 && !(this.#stale && this.#isWatched())) return false
    if (looking.some(({ request }) => this.#taker.hasReady(request.queues))) return true
    if (this.#taker.nextAt() <= Date.now()) return true
    this.#rest()
    return false
  }

  join(transaction: Transaction): void {
    if (!this.#isNeeded()) return
    this.#taker.promote(transaction)
    const look = this.#stale || transaction.readied.size > 0
    for (const waiter of this.#waiters) {
      if (look || !waiter.tried) waiter.taken = this.#taker.take(transaction, waiter.request)
    }
  }

  committed(transaction: Transaction): void {
    for (const waiter of this.#waiters) {
      if (waiter.taken.length > 0) waiter.resolve(waiter.taken)
    }
    if (this.#isNeeded()) this.#rest(transaction.later)
  }

  rolledBack(): void {
    for (const waiter of this.#waiters) waiter.taken = []
  }

  failed(error: TransportError): void {
    for (const waiter of this.#waiters) waiter.reject(error)
  }

  /** All have looked and found nothing: sends away those who do not wait, and sets the timer for the others. */
  #rest(later?: number): void {
    this.#stale = false
    for (const waiter of this.#waiters) {
      if (!waiter.tried) {
        waiter.tried = true
        if (waiter.request.wait > 0) this.#onWait()
        else waiter.resolve([])
      }
    }
    if (!this.#isNeeded()) this.#disarm()
    else if (later === undefined || this.#alarm === undefined) this.#arm(this.#taker.nextAt())
    else this.#arm(Math.min(later, this.#alarmAt))
  }

  #isNeeded(): boolean {
    return this.#waiters.size > 0 || this.#isWatched()
  }

  /** Looks again when the next task is due or lapses. */
  #arm(at: number): void {
    if (at === this.#alarmAt && this.#alarm !== undefined) return
    this.#disarm()
    if (at === Number.POSITIVE_INFINITY) return
    this.#alarmAt = at
    this.#alarm = setTimeout(
      () => {
        this.#disarm()
        this.look()
      },
      Math.min(Math.max(at - Date.now(), 1), LONGEST_TIMER),
    )
    // Whoever waits keeps the process alive by its own timer.
    this.#alarm.unref()
  }

  #disarm(): void {
    clearTimeout(this.#alarm)
    this.#alarm = undefined
    this.#alarmAt = Number.POSITIVE_INFINITY
  }
}
