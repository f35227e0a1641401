/**
 * All deliveries of this worker: those that wait for a slot, run or are being settled. Their number is bounded. Free
 * slots are computed from what is really here, so that none can leak. Deliveries that wait for a limit have a bound of
 * their own, because they must not keep other tasks from being fetched.
 */
import type { ErasedMethod } from "../../actor/actor.ts"
import type { JobDelivery } from "../../transport/job-store/transport.ts"
import { ActiveDelivery, HeldDeliveries } from "../active-delivery.ts"
import {
  aheadOf,
  capacityOf,
  freeOf,
  hasRoom,
  isCrowded,
  type PullState,
  reducedAhead,
  restoredAhead,
} from "./pull-size.ts"

/** Pulls whose median tells how long a pull takes. */
const TIMED_PULLS = 15

export class DeliveryBuffer {
  readonly held = new HeldDeliveries()
  readonly #buffered: Array<ActiveDelivery> = []
  readonly #ranks = new Map<string, number>()
  readonly #rotate: boolean
  readonly #random: boolean
  /** With `rotate`: rank of the queue that the last task came from. */
  #lastRank = -1
  #concurrency = 0
  /** What is counted to decide how much to pull. */
  readonly #pull: { -readonly [Field in keyof PullState]: PullState[Field] }
  /** Deliveries that ran when the prefetch was reduced; they do not count as fetched ahead. */
  readonly #runningAtLoss = new Set<ActiveDelivery>()
  /** Surplus that is being given back, and counts as here until the transport has it again. */
  readonly #returning = new Set<ActiveDelivery>()
  #running = 0
  /** Handlers that run for long, or are expected to. */
  #long = 0
  /** Methods whose last run was a long one. */
  readonly #longMethods = new Set<ErasedMethod>()
  /** Milliseconds per task of the last full pulls. */
  readonly #pullTimes: Array<number> = []
  #pullMs = 0
  #delayed = 0
  #granted = 0
  #room: (() => void) | undefined
  #uncrowded: (() => void) | undefined
  #idle: Array<() => void> = []

  constructor(options: {
    readonly queues: ReadonlyArray<string>
    readonly concurrency: number
    readonly prefetch: number
    readonly rotate: boolean
    /** With `rotate`: queues take turns in no order. Defaults to false. */
    readonly random?: boolean
    /** Largest concurrency that autoscaling can set. The capacity is computed from it. */
    readonly maxConcurrency?: number
    /** Deliveries to take in all, not counting those that are given back. Defaults to no bound. */
    readonly maxJobs?: number
  }) {
    this.#rotate = options.rotate
    this.#random = options.random ?? false
    for (const queue of options.queues) this.#rankOf(queue)
    const { held } = this
    this.#pull = {
      slots: 1,
      prefetch: 1,
      stuck: 0,
      slow: 0,
      get held() {
        return held.size
      },
      limited: 0,
      ahead: Number.POSITIVE_INFINITY,
      spared: 0,
      jobsLeft: options.maxJobs ?? Number.POSITIVE_INFINITY,
    }
    this.resize(options)
  }

  /** Changes the concurrency and the prefetch. Running handlers are not affected. */
  resize(size: { readonly concurrency: number; readonly prefetch: number; readonly maxConcurrency?: number }): void {
    const { concurrency, prefetch, maxConcurrency = concurrency } = size
    this.#concurrency = concurrency
    this.#pull.slots = Math.max(maxConcurrency, 1)
    this.#pull.prefetch = prefetch
    this.#changed()
  }

  /** Position of a queue in the worker's list. A queue that was added later comes last. */
  #rankOf(queue: string): number {
    const known = this.#ranks.get(queue)
    if (known !== undefined) return known
    const rank = this.#ranks.size
    this.#ranks.set(queue, rank)
    return rank
  }

  get concurrency(): number {
    return this.#concurrency
  }

  /** Whether as many deliveries came as `maxJobs` allows. */
  get isSpent(): boolean {
    return this.#pull.jobsLeft <= 0
  }

  get capacity(): number {
    return capacityOf(this.#pull)
  }

  get running(): number {
    return this.#running
  }

  get stuck(): number {
    return this.#pull.stuck
  }

  /** Whether stuck handlers hold all slots: nothing can start until one of them stops. */
  get isStuck(): boolean {
    return this.#pull.stuck >= this.#pull.slots
  }

  /** Deliveries that wait for a slot, in the order in which they start. */
  get waiting(): ReadonlyArray<ActiveDelivery> {
    return [...this.#buffered]
  }

  /** Number of deliveries that may still be fetched now. */
  get free(): number {
    return freeOf(this.#pull)
  }

  /** What the size of a pull depends on. It changes with the deliveries. */
  get state(): PullState {
    return this.#pull
  }

  /**
   * Notes how long a pull took that brought as many tasks as it asked for. One task proves nothing: the pull may have waited
   * for it.
   */
  pulled(tasks: number, ms: number): void {
    if (tasks < 2) return
    if (this.#pullTimes.push(ms / tasks) > TIMED_PULLS) this.#pullTimes.shift()
    this.#pullMs = this.#pullTimes.toSorted((a, b) => a - b)[this.#pullTimes.length >> 1] ?? 0
  }

  /** Milliseconds that one task of a full pull takes; 0 while that is unknown. */
  get pullMs(): number {
    return this.#pullMs
  }

  /** Counter: deliveries that had to wait for a limit. */
  get delayed(): number {
    return this.#delayed
  }

  /** Counter: deliveries that were started after waiting for a limit. */
  get granted(): number {
    return this.#granted
  }

  /** Resolves when the buffer is not crowded any more, or after `ms`. */
  async whenUncrowded(ms: number, signal: AbortSignal): Promise<void> {
    if (!isCrowded(this.#pull) || signal.aborted) return
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener("abort", done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      this.#uncrowded = done
      signal.addEventListener("abort", done)
    })
    this.#uncrowded = undefined
  }

  /** Whether a handler may start. */
  get hasSlot(): boolean {
    return this.#running + this.#pull.stuck < this.#concurrency
  }

  /**
   * Reduces the prefetch after a broken connection, while handlers that ran then go on. Returns the number of
   * deliveries that may be fetched ahead now.
   */
  reducePrefetch(): number {
    for (const active of this.held.values()) if (active.phase === "running") this.#runningAtLoss.add(active)
    this.#pull.spared = this.#runningAtLoss.size
    this.#pull.ahead = reducedAhead(this.#pull, this.#running)
    return aheadOf(this.#pull)
  }

  #restorePrefetch(): void {
    this.#pull.ahead = restoredAhead(this.#pull)
    if (this.#pull.ahead === Number.POSITIVE_INFINITY) this.onRestored()
  }

  /** Number of deliveries to pull now; 0 while a pull would bring too few. */
  get room(): number {
    return hasRoom(this.#pull) ? this.free : 0
  }

  /** Resolves when a pull is worth its cost. */
  waitForRoom(signal: AbortSignal): Promise<void> {
    if (hasRoom(this.#pull) || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        signal.removeEventListener("abort", done)
        resolve()
      }
      this.#room = done
      signal.addEventListener("abort", done)
    })
  }

  /** Resolves when no delivery is left. */
  whenIdle(): Promise<void> {
    if (this.held.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  add(deliveries: ReadonlyArray<JobDelivery>): void {
    this.#pull.jobsLeft -= deliveries.length
    for (const delivery of deliveries) {
      const active = new ActiveDelivery(delivery, this.#rankOf(delivery.queue))
      this.held.add(active)
      this.#insert(active)
    }
    this.onChange()
  }

  /** Adds a delivery that is not to wait for a handler. */
  receive(delivery: JobDelivery): ActiveDelivery {
    const active = new ActiveDelivery(delivery, this.#rankOf(delivery.queue))
    active.phase = "settling"
    this.#pull.jobsLeft--
    this.held.add(active)
    return active
  }

  /**
   * Replaces the delivery of a running job by a redelivery of the same task. The run continues under the new token and
   * lease.
   */
  adopt(active: ActiveDelivery, redelivery: ActiveDelivery): void {
    active.delivery = redelivery.delivery
    this.held.remove(redelivery)
    this.handedBack()
    this.#changed()
  }

  /**
   * Inserts in the order queue, level, sequence. A new delivery mostly belongs at the end, so the search begins there.
   */
  #insert(active: ActiveDelivery): void {
    let at = this.#buffered.length
    while (at > 0) {
      const before = this.#buffered[at - 1]
      if (before === undefined || !precedes(active, before)) break
      at--
    }
    if (at === this.#buffered.length) this.#buffered.push(active)
    else this.#buffered.splice(at, 0, active)
  }

  /** The rank of one of the queues that buffered deliveries came from; each queue is as likely as the others. */
  #anyRank(): number {
    const ranks = [...new Set(this.#buffered.map(({ rank }) => rank))]
    return ranks[Math.floor(Math.random() * ranks.length)] ?? 0
  }

  /**
   * Takes the next delivery to run, if a slot is free: `ready`, which has waited for its limit, or the first buffered
   * one.
   */
  next(ready?: ActiveDelivery): ActiveDelivery | undefined {
    if (!this.hasSlot) return undefined
    // With `rotate`, the first delivery of the next queue that has one. The rotation of the transport is lost in this
    // buffer, where several pulls meet.
    if (this.#random) this.#lastRank = this.#anyRank() - 1
    const isLater = ({ rank }: ActiveDelivery): boolean => rank > this.#lastRank
    const at = Math.max(0, this.#rotate ? this.#buffered.findIndex(isLater) : 0)
    const first = this.#buffered[at]
    const isReady =
      ready !== undefined &&
      (first === undefined ||
        (this.#rotate && isLater(ready) !== isLater(first) ? isLater(ready) : precedes(ready, first)))
    const active = isReady ? ready : first
    if (active === undefined) return undefined
    if (isReady) {
      this.#pull.limited--
      this.#granted++
    } else if (at === 0) this.#buffered.shift()
    else this.#buffered.splice(at, 1)
    this.#lastRank = active.rank
    active.phase = "running"
    this.#running++
    return active
  }

  /** Frees the slot of a delivery that has to wait for its limit. */
  waitForLimit(active: ActiveDelivery): void {
    active.phase = "waiting"
    this.#running--
    this.#pull.limited++
    this.#delayed++
    this.#changed()
  }

  /** Ends the wait of a delivery for its limit: it is settled, or processed again in its order. */
  stopWaiting(active: ActiveDelivery, phase: "settling" | "buffered"): void {
    active.phase = phase
    this.#pull.limited--
    if (phase === "buffered") this.#insert(active)
  }

  /** Takes buffered deliveries out, to give them back: all, or those that match. */
  takeBuffered(matches: (active: ActiveDelivery) => boolean = () => true): ReadonlyArray<ActiveDelivery> {
    const taken = this.#buffered.filter(matches)
    if (taken.length === 0) return taken
    for (const active of taken) active.phase = "settling"
    const kept = this.#buffered.filter((active) => active.phase === "buffered")
    this.#buffered.splice(0, this.#buffered.length, ...kept)
    return taken
  }

  /** Takes the deliveries that exceed the capacity, or `maxJobs`, from the end of the buffer, to give them back. */
  takeSurplus(): ReadonlyArray<ActiveDelivery> {
    return this.#takeLast(-this.free)
  }

  /** The same for those that exceed `maxJobs` alone: none of them may start, also where slots are free. */
  takeBeyondMaxJobs(): ReadonlyArray<ActiveDelivery> {
    return this.#takeLast(-this.#pull.jobsLeft)
  }

  #takeLast(count: number): ReadonlyArray<ActiveDelivery> {
    const surplus = Math.min(this.#buffered.length, Math.max(0, count - this.#returning.size))
    const taken = this.#buffered.splice(this.#buffered.length - surplus, surplus)
    for (const active of taken) {
      active.phase = "settling"
      this.#returning.add(active)
    }
    return taken
  }

  /** Notes that a delivery was given back, so that under `maxJobs` another one may come in its place. */
  handedBack(): void {
    this.#pull.jobsLeft++
  }

  /** Takes one delivery out of the buffer. False if it is not there. */
  unbuffer(active: ActiveDelivery): boolean {
    const at = this.#buffered.indexOf(active)
    if (at < 0) return false
    this.#buffered.splice(at, 1)
    active.phase = "settling"
    return true
  }

  /** Whether the handler of a delivery can be expected to run for long, because the last run of its method did. */
  isExpectedLong({ method }: ActiveDelivery): boolean {
    return method !== undefined && this.#longMethods.has(method)
  }

  /** Notes that the handler of a delivery runs for long, so that nothing is fetched ahead for its slot. */
  runsLong(active: ActiveDelivery): void {
    if (active.phase !== "running" || active.isLong) return
    active.isLong = true
    if (active.method !== undefined) this.#longMethods.add(active.method)
    this.#long++
    this.#pull.slow = Math.min(this.#pull.slow + 1, this.#pull.slots)
  }

  /** Notes that a handler has ended or is stuck. A stuck handler keeps its slot until it ends. */
  handlerEnded(active: ActiveDelivery): void {
    active.phase = "settling"
    this.#running--
    if (active.isLong) this.#long--
    if (active.run !== undefined && !active.run.isLong) {
      this.#pull.slow = Math.max(this.#long, this.#pull.slow - 1)
      this.#longMethods.delete(active.run.method)
    }
    if (this.#pull.ahead !== Number.POSITIVE_INFINITY) this.#restorePrefetch()
    const pending = active.run?.pending
    if (pending === undefined) return
    this.#pull.stuck++
    const freed = () => {
      this.#pull.stuck--
      this.#changed()
    }
    pending.then(freed, freed)
  }

  /** Removes a delivery that is settled, or that another worker has. */
  drop(active: ActiveDelivery): void {
    this.held.remove(active)
    if (this.#runningAtLoss.delete(active)) this.#pull.spared--
    if (this.#returning.size > 0) this.#returning.delete(active)
    this.#changed()
  }

  /** Called when a slot may have become free; set by the dispatcher. */
  onFree: () => void = () => undefined
  /** Called after a delivery came or went; set by the worker. */
  onChange: () => void = () => undefined
  /** Called when a reduced prefetch is fully restored; set by the worker. */
  onRestored: () => void = () => undefined

  #changed(): void {
    if (this.#room !== undefined && hasRoom(this.#pull)) {
      const room = this.#room
      this.#room = undefined
      room()
    }
    if (!isCrowded(this.#pull)) this.#uncrowded?.()
    if (this.held.size === 0) for (const idle of this.#idle.splice(0)) idle()
    this.onFree()
    this.onChange()
  }
}

/** What the order of a delivery depends on. */
export interface Ranked extends Pick<ActiveDelivery, "rank" | "level"> {
  readonly delivery: Pick<JobDelivery, "sequence">
}

/** The order in which deliveries start: queue, then level (high first), then sequence. */
export const precedes = (a: Ranked, b: Ranked): boolean => {
  if (a.rank !== b.rank) return a.rank < b.rank
  if (a.level !== b.level) return a.level > b.level
  return a.delivery.sequence < b.delivery.sequence
}
