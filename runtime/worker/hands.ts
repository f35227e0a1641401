/**
 * What this worker has in its hands, bounded: deliveries that wait for a slot, run or settle. The number of free slots
 * is derived from what is really held, so that it cannot leak.
 */
import type { Delivery } from "../transport.ts"
import { Held } from "./delivery.ts"

export class Hands {
  readonly held = new Map<string, Held>()
  readonly #buffer: Array<Held> = []
  readonly #queues: ReadonlyMap<string, number>
  readonly #concurrency: number
  readonly #capacity: number
  readonly #threshold: number
  #running = 0
  /** Handlers that go on after their delivery was decided: they keep their slot until they really stop. */
  #stuck = 0
  #room: (() => void) | undefined
  #idle: Array<() => void> = []

  constructor(options: {
    readonly queues: ReadonlyArray<string>
    readonly concurrency: number
    readonly prefetch: number
    readonly rotate: boolean
  }) {
    // With `rotate` all queues are of one rank: the transport has taken turns already.
    this.#queues = new Map(options.queues.map((queue, at) => [queue, options.rotate ? 0 : at]))
    this.#concurrency = options.concurrency
    this.#capacity = options.concurrency * options.prefetch
    // A pull costs a round trip: under load it waits for a quarter of the slots. What is buffered still feeds every
    // handler meanwhile, because three quarters of the capacity are at least the concurrency.
    this.#threshold = options.prefetch > 1 ? Math.max(1, Math.floor(this.#capacity / 4)) : 1
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
  get waiting(): ReadonlyArray<Held> {
    return [...this.#buffer]
  }

  /** How many more deliveries may come. */
  get free(): number {
    return this.#capacity - this.held.size - this.#stuck
  }

  /** Resolves when it is worth pulling. */
  waitForRoom(signal: AbortSignal): Promise<void> {
    if (this.free >= this.#threshold || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      this.#room = resolve
      signal.addEventListener("abort", () => resolve(), { once: true })
    })
  }

  /** Resolves when no handler runs and nothing settles. */
  whenIdle(): Promise<void> {
    if (this.held.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  add(deliveries: ReadonlyArray<Delivery>): void {
    for (const delivery of deliveries) {
      const held = new Held(delivery, this.#queues.get(delivery.queue) ?? this.#queues.size)
      this.held.set(delivery.token, held)
      this.#insert(held)
    }
  }

  /** Keeps the order: queue, level, sequence. New arrivals mostly belong at the end. */
  #insert(held: Held): void {
    let at = this.#buffer.length
    while (at > 0) {
      const before = this.#buffer[at - 1]
      if (before === undefined || !precedes(held, before)) break
      at--
    }
    this.#buffer.splice(at, 0, held)
  }

  /** The next delivery to run, if a handler may start. */
  next(): Held | undefined {
    if (this.#running + this.#stuck >= this.#concurrency) return undefined
    const held = this.#buffer.shift()
    if (held === undefined) return undefined
    held.phase = "running"
    this.#running++
    return held
  }

  /** Takes everything out of the buffer, to hand it back. */
  takeBuffered(): ReadonlyArray<Held> {
    for (const held of this.#buffer) held.phase = "settling"
    return this.#buffer.splice(0)
  }

  /** Takes one delivery out of the buffer; false if it is not there. */
  unbuffer(held: Held): boolean {
    const at = this.#buffer.indexOf(held)
    if (at < 0) return false
    this.#buffer.splice(at, 1)
    held.phase = "settling"
    return true
  }

  /** The handler has stopped, or is stuck: then its slot comes back when it does. */
  handlerEnded(held: Held): void {
    held.phase = "settling"
    this.#running--
    const pending = held.run?.pending
    if (pending === undefined) return
    this.#stuck++
    const freed = () => {
      this.#stuck--
      this.#changed()
    }
    pending.then(freed, freed)
  }

  /** The delivery is settled, or not ours any more. */
  drop(held: Held): void {
    this.held.delete(held.delivery.token)
    this.#changed()
  }

  /** Called when a slot may have become free; replaced by the worker. */
  onFree: () => void = () => undefined

  #changed(): void {
    if (this.#room !== undefined && this.free >= this.#threshold) {
      const room = this.#room
      this.#room = undefined
      room()
    }
    if (this.held.size === 0) for (const idle of this.#idle.splice(0)) idle()
    this.onFree()
  }
}

const precedes = (a: Held, b: Held): boolean => {
  if (a.rank !== b.rank) return a.rank < b.rank
  if (a.delivery.level !== b.delivery.level) return a.delivery.level > b.delivery.level
  return a.delivery.sequence < b.delivery.sequence
}
