/**
 * What this worker has in its hands, bounded: deliveries that wait for a slot, run or settle. The number of free slots
 * is derived from what is really held, so that it cannot leak. Those that wait for a limit have a bound of their own: they
 * must not keep others from being fetched.
 */
import type { JobDelivery } from "../../transport/lift/transport.ts"
import { InFlight } from "../delivery/in-flight.ts"
import { PrefetchQos } from "./prefetch.ts"

/** Few handlers, too, keep up with a limit that lets many start. */
const LEAST_PLACES = 64

export class DeliveryBuffer {
  readonly inFlight = new Map<string, InFlight>()
  readonly #buffered: Array<InFlight> = []
  readonly #ranks = new Map<string, number>()
  readonly #rotate: boolean
  /** With `rotate`: rank of the queue whose turn was last. */
  #lastRank = -1
  #concurrency = 0
  #capacity = 0
  #prefetch = 1
  readonly #qos: PrefetchQos
  /** What ran when the prefetch was reduced: it does not count as fetched ahead. */
  readonly #runningAtLoss = new Set<InFlight>()
  /** How many deliveries may still come at all. */
  #left = Number.POSITIVE_INFINITY
  #running = 0
  /** Handlers that go on after their delivery was decided: they keep their slot until they really stop. */
  #stuck = 0
  /** Deliveries that wait for a limit. */
  #limited = 0
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
    /** The largest concurrency there will be, where it changes by itself: the capacity is made for that. */
    readonly maxConcurrency?: number
    /** Deliveries that may come in all, hand-backs not counted. Defaults to no bound. */
    readonly maxJobs?: number
  }) {
    this.#rotate = options.rotate
    for (const queue of options.queues) this.#rankOf(queue)
    this.#left = options.maxJobs ?? Number.POSITIVE_INFINITY
    this.#qos = new PrefetchQos(options.prefetch)
    this.resize(options)
  }

  /** Changes how many handlers run at a time, and how much is held for them. What runs goes on. */
  resize(size: { readonly concurrency: number; readonly prefetch: number; readonly maxConcurrency?: number }): void {
    const { concurrency, prefetch, maxConcurrency = concurrency } = size
    this.#concurrency = concurrency
    this.#capacity = Math.max(maxConcurrency, 1) * prefetch
    this.#prefetch = prefetch
    this.#changed()
  }

  /** Position of a queue in the worker's list; one that came later is behind. */
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

  /** Whether as many deliveries came as may come. */
  get isSpent(): boolean {
    return this.#left <= 0
  }

  get capacity(): number {
    return this.#capacity
  }

  get running(): number {
    return this.#running
  }

  get stuck(): number {
    return this.#stuck
  }

  /** Deliveries that wait for a slot, in order. */
  get waiting(): ReadonlyArray<InFlight> {
    return [...this.#buffered]
  }

  /** How many more deliveries may come. */
  get free(): number {
    const fetched = this.inFlight.size - this.#limited
    const slots = this.#capacity - fetched - this.#stuck
    return Math.min(this.#left, slots, this.#qos.limit(this.#capacity) - fetched + this.#runningAtLoss.size)
  }

  /** How many deliveries may wait for a limit, beside those that are fetched ahead. */
  get limitCapacity(): number {
    return Math.max(LEAST_PLACES, this.#capacity)
  }

  /** Whether so many wait for limits that most of what comes now may have to go back. */
  get isCrowded(): boolean {
    return this.#limited >= 0.75 * this.limitCapacity
  }

  /** How many more deliveries find a place here even if they all have to wait for a limit. */
  get freeIfLimited(): number {
    return Math.max(0, Math.min(this.free, this.limitCapacity - this.#limited))
  }

  /** How many deliveries were found to have to wait for a limit, ever. */
  get delayed(): number {
    return this.#delayed
  }

  /** How many that had waited for a limit were started, ever. */
  get granted(): number {
    return this.#granted
  }

  /** Resolves when it is crowded no more, or after so long. */
  async whenUncrowded(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.isCrowded || signal.aborted) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#uncrowded = () => {
        clearTimeout(timer)
        resolve()
      }
      signal.addEventListener("abort", this.#uncrowded, { once: true })
    })
    this.#uncrowded = undefined
  }

  /** Whether a handler may start. */
  get hasSlot(): boolean {
    return this.#running + this.#stuck < this.#concurrency
  }

  /** After a broken connection: fetches less while what ran then goes on. Returns what may be fetched ahead now. */
  reducePrefetch(): number {
    for (const inFlight of this.inFlight.values()) if (inFlight.phase === "running") this.#runningAtLoss.add(inFlight)
    return this.#qos.reduce(this.#capacity, this.#running)
  }

  /** How many more are pulled now. */
  get room(): number {
    return this.#hasRoom ? this.free : 0
  }

  /** Resolves when it is worth pulling. */
  waitForRoom(signal: AbortSignal): Promise<void> {
    if (this.#hasRoom || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      this.#room = resolve
      signal.addEventListener("abort", () => resolve(), { once: true })
    })
  }

  get #hasRoom(): boolean {
    // A pull costs a round trip: under load it waits for a quarter of the slots. What is buffered still feeds every
    // handler meanwhile, because three quarters of the capacity are at least the concurrency.
    const quarter = this.#prefetch > 1 ? Math.floor(this.#qos.limit(this.#capacity) / 4) : 1
    return this.free >= Math.max(1, Math.min(quarter, this.#left))
  }

  /** Resolves when no handler runs and nothing settles. */
  whenIdle(): Promise<void> {
    if (this.inFlight.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  add(deliveries: ReadonlyArray<JobDelivery>): void {
    this.#left -= deliveries.length
    for (const delivery of deliveries) {
      const inFlight = new InFlight(delivery, this.#rankOf(delivery.queue))
      this.inFlight.set(delivery.token, inFlight)
      this.#insert(inFlight)
    }
    this.onChange()
  }

  /** Takes a delivery that is not to wait for a handler. */
  receive(delivery: JobDelivery): InFlight {
    const inFlight = new InFlight(delivery, this.#rankOf(delivery.queue))
    inFlight.phase = "settling"
    this.#left--
    this.inFlight.set(delivery.token, inFlight)
    return inFlight
  }

  /** What runs goes on as the delivery of `again`, which is one of the same task. */
  adopt(inFlight: InFlight, again: InFlight): void {
    this.inFlight.delete(inFlight.delivery.token)
    inFlight.delivery = again.delivery
    this.inFlight.set(inFlight.delivery.token, inFlight)
    this.handedBack()
    this.#changed()
  }

  /** Keeps the order: queue, level, sequence. New arrivals mostly belong at the end. */
  #insert(inFlight: InFlight): void {
    let at = this.#buffered.length
    while (at > 0) {
      const before = this.#buffered[at - 1]
      if (before === undefined || !precedes(inFlight, before)) break
      at--
    }
    this.#buffered.splice(at, 0, inFlight)
  }

  /** The next delivery to run, if a handler may start: `ready`, which has waited for its limit, or one of the others. */
  next(ready?: InFlight): InFlight | undefined {
    if (!this.hasSlot) return undefined
    // With `rotate` the first one of the next queue that has any. The transport's turns are lost here, where pulls meet.
    const isLater = ({ rank }: InFlight): boolean => rank > this.#lastRank
    const at = Math.max(0, this.#rotate ? this.#buffered.findIndex(isLater) : 0)
    const first = this.#buffered[at]
    const isReady =
      ready !== undefined &&
      (first === undefined ||
        (this.#rotate && isLater(ready) !== isLater(first) ? isLater(ready) : precedes(ready, first)))
    const inFlight = isReady ? ready : first
    if (inFlight === undefined) return undefined
    if (isReady) {
      this.#limited--
      this.#granted++
    } else this.#buffered.splice(at, 1)
    this.#lastRank = inFlight.rank
    inFlight.phase = "running"
    this.#running++
    return inFlight
  }

  /** It needs no handler yet: it waits for its limit. */
  waitForLimit(inFlight: InFlight): void {
    inFlight.phase = "waiting"
    this.#running--
    this.#limited++
    this.#delayed++
    this.#changed()
  }

  /** One is put off for its limit without having waited here. */
  putOff(): void {
    this.#delayed++
  }

  /** It waits for its limit no more: to be settled, or to be looked at again in its turn. */
  stopWaiting(inFlight: InFlight, phase: "settling" | "buffered"): void {
    inFlight.phase = phase
    this.#limited--
    if (phase === "buffered") this.#insert(inFlight)
  }

  /** Takes what is meant out of the buffer, to hand it back: everything, unless said otherwise. */
  takeBuffered(meant: (inFlight: InFlight) => boolean = () => true): ReadonlyArray<InFlight> {
    const taken = this.#buffered.filter(meant)
    if (taken.length === 0) return taken
    for (const inFlight of taken) inFlight.phase = "settling"
    const kept = this.#buffered.filter((inFlight) => inFlight.phase === "buffered")
    this.#buffered.splice(0, this.#buffered.length, ...kept)
    return taken
  }

  /** Takes out of the buffer what is more than may be held, from its end, to hand it back. */
  takeSurplus(): ReadonlyArray<InFlight> {
    const surplus = Math.min(this.#buffered.length, Math.max(0, -this.free))
    const taken = this.#buffered.splice(this.#buffered.length - surplus, surplus)
    for (const inFlight of taken) inFlight.phase = "settling"
    return taken
  }

  /** A delivery was given back, uncounted: another may come in its place. */
  handedBack(): void {
    this.#left++
  }

  /** Takes one delivery out of the buffer; false if it is not there. */
  unbuffer(inFlight: InFlight): boolean {
    const at = this.#buffered.indexOf(inFlight)
    if (at < 0) return false
    this.#buffered.splice(at, 1)
    inFlight.phase = "settling"
    return true
  }

  /** The handler has stopped, or is stuck: then its slot comes back when it does. */
  handlerEnded(inFlight: InFlight): void {
    inFlight.phase = "settling"
    this.#running--
    if (this.#qos.restore(this.#capacity)) this.onRestored()
    const pending = inFlight.run?.pending
    if (pending === undefined) return
    this.#stuck++
    const freed = () => {
      this.#stuck--
      this.#changed()
    }
    pending.then(freed, freed)
  }

  /** The delivery is settled, or not ours any more. */
  drop(inFlight: InFlight): void {
    this.inFlight.delete(inFlight.delivery.token)
    this.#runningAtLoss.delete(inFlight)
    this.#changed()
  }

  /** Called when a slot may have become free; replaced by who starts handlers. */
  onFree: () => void = () => undefined
  /** Called after anything has come or gone; replaced by the worker. */
  onChange: () => void = () => undefined
  /** Called when the prefetch is back to what it was; replaced by the worker. */
  onRestored: () => void = () => undefined

  #changed(): void {
    if (this.#room !== undefined && this.#hasRoom) {
      const room = this.#room
      this.#room = undefined
      room()
    }
    if (!this.isCrowded) this.#uncrowded?.()
    if (this.inFlight.size === 0) for (const idle of this.#idle.splice(0)) idle()
    this.onFree()
    this.onChange()
  }
}

/** The order in which deliveries start. */
export const precedes = (a: InFlight, b: InFlight): boolean => {
  if (a.rank !== b.rank) return a.rank < b.rank
  if (a.level !== b.level) return a.level > b.level
  return a.delivery.sequence < b.delivery.sequence
}
