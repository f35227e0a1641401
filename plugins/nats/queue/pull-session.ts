/**
 * The pull requests of one `take` to the consumers of its lanes, the tasks that have come, and an end that leaves no
 * task orphaned.
 *
 * A lane either is fetched (the server answers at once with the tasks that are there), or has a parked request for one
 * task that may come later. Lanes are fetched from the highest down. Lanes that had no task the last time are fetched
 * together with the next one below them, in one write, so that they cost no time; if more tasks come than are needed,
 * the surplus is returned.
 */
import type { Msg, Subscription } from "nats"
import type { Delivery } from "../../../runtime/transport/driver.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { numberFrom } from "../connection/digits.ts"
import { statusLineOf } from "../connection/header-block.ts"
import type { NatsLink } from "../connection/link.ts"
import type { ServerClock } from "../connection/server-clock.ts"
import type { PendingNaks } from "./acks.ts"
import { type Consumers, isAway, type Lane } from "./consumers.ts"
import { consumerOf, type DeliveryFactory, type Received } from "./delivery.ts"
import { LaneRequests } from "./lane-requests.ts"
import type { StallGuard } from "./stall-guard.ts"

export interface PullSessionParts {
  readonly link: NatsLink
  readonly deliveryFactory: DeliveryFactory
  readonly consumers: Consumers
  readonly naks: PendingNaks
  readonly stallGuard: StallGuard
  readonly clock: ServerClock
}

export interface Arrival extends Received, Candidate {
  readonly delivery: Delivery
}

/** How long a consumer may take to answer a fetch. */
const ANSWER_MS = 2_000

export class PullSession {
  readonly #parts: PullSessionParts
  readonly #lanes: ReadonlyArray<LaneRequests>
  readonly #prefix: string
  readonly #subscription: Subscription
  readonly #byConsumer: ReadonlyMap<string, number>
  readonly #stopStatus: () => void
  #arrivals: Array<Arrival> = []
  #lastLane = 0
  #wake: (() => void) | undefined
  #interrupted = false
  #ended = false

  constructor(parts: PullSessionParts, lanes: ReadonlyArray<Lane>, prefix: string) {
    const { link, consumers } = parts
    this.#parts = parts
    this.#prefix = prefix
    this.#lanes = lanes.map((lane, index) => {
      const send = (request: Uint8Array, number: number, soon: boolean): void => {
        const now = () => link.send(lane.next, request, `${prefix}.${index}.${number}`)
        if (soon) link.soon(() => this.#sendLate(now))
        else now()
      }
      return new LaneRequests({ lane, send, onLost: () => consumers.lost(lane) })
    })
    this.#byConsumer = new Map(lanes.map(({ consumer }, index) => [consumer, index]))
    this.#subscription = link.subscribe(`${prefix}.*.*`, (message) => this.#received(message))
    this.#stopStatus = link.onStatus(() => this.#resetLanes())
  }

  /** Number of lanes. */
  get lanes(): number {
    return this.#lanes.length
  }

  /** Number of tasks of these lanes that have come. */
  count(lanes: LaneRange): number {
    let count = 0
    for (const { lane } of this.#arrivals) if (lane >= lanes.from && lane < lanes.to) count++
    return count
  }

  get isEmpty(): boolean {
    return this.#arrivals.length === 0
  }

  /** Set by {@link interrupt}: every wait in this session ends soon. */
  get interrupted(): boolean {
    return this.#interrupted
  }

  /** Name of a consumer that refused its last request. */
  get refusing(): string | undefined {
    return this.#lanes.find(({ isRefusing }) => isRefusing)?.lane.consumer
  }

  interrupt(): void {
    this.#interrupted = true
    this.#wake?.()
  }

  /**
   * Fetches these lanes until `max` tasks have come. It goes below a lane that had tasks the last time only when that
   * has no more. Ends early when interrupted or disconnected. Fails with `unavailable` when a consumer does not answer.
   */
  async fetch({ from, to }: LaneRange, max: number): Promise<void> {
    for (let first = from; first < to && this.count({ from, to }) < max; ) {
      let last = first
      while (last < to - 1 && this.#seemsEmpty(last)) last++
      await this.#fetchLanes(first, last, (lane) => max - this.count({ from, to: lane + 1 }))
      first = last + 1
    }
  }

  /**
   * Takes up to `max` of the tasks that have come, in the order that `order` gives; returns the others to the server.
   */
  take(max: number, order: (here: ReadonlyArray<Arrival>) => ReadonlyArray<Arrival>): ReadonlyArray<Arrival> {
    this.#dropUntrusted()
    const here = order(this.#arrivals)
    this.#arrivals = []
    this.#parts.naks.send(here.slice(max).map(({ token }) => token))
    return here.slice(0, max)
  }

  /** Parks a request on each lane. */
  park(): void {
    for (const lane of this.#lanes) lane.park()
  }

  /**
   * Resolves at the next event (a task, a status message, an interrupt), when a lane has to be checked, or at `until`,
   * which is a time of the monotonic clock. Only one caller may wait at a time.
   */
  nextEvent(until: number): Promise<void> {
    return this.pause(Math.min(until, ...this.#lanes.map(({ nextCheck }) => nextCheck)) - performance.now())
  }

  /** Resolves at the next event, or after `ms` milliseconds. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#interrupted) return resolve()
      const timer = setTimeout(() => this.#wake?.(), Math.max(ms, 1))
      this.#wake = () => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve()
      }
    })
  }

  /**
   * Resolves with `other`, which must never reject; earlier when interrupted or disconnected, or after the longest time
   * that an answer may take.
   */
  async waitFor(other: Promise<unknown>): Promise<void> {
    let pending = true
    void other.then(() => {
      pending = false
      this.#wake?.()
    })
    const until = performance.now() + ANSWER_MS
    while (pending && !this.#interrupted && this.#parts.link.connected && performance.now() < until)
      await this.nextEvent(until)
  }

  /**
   * Creates consumers that are missing. Returns why one is still away, after the longest time that an answer may take: the
   * others can be asked. Fails where waiting does not help.
   */
  async ensure(): Promise<TransportError | undefined> {
    const away = this.#lanes.filter((requests) => requests.isAway).map(({ lane }) => lane)
    if (away.length === 0) return undefined
    let failure: unknown
    const making = this.#parts.consumers.ensureLeased(away).catch((error: unknown) => {
      failure = error
    })
    await this.waitFor(making)
    if (failure !== undefined && !(failure instanceof TransportError && failure.retryable)) throw failure
    return failure ?? (away.some(isAway) ? unanswered(away.filter(isAway)) : undefined)
  }

  /** Returns the tasks that have come and those that are still on their way. */
  async end(): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    this.#stopStatus()
    this.#dropUntrusted()
    this.#parts.naks.send(this.#arrivals.map(({ token }) => token))
    this.#arrivals = []
    try {
      // Tasks that the server sends before it learns of the end still arrive until the subscription is drained.
      await this.#subscription.drain()
    } catch {
      // Without a connection no task is on its way.
    }
  }

  /** Whether a lane is empty as far as is known. A task for a parked request comes by itself. */
  #seemsEmpty(index: number): boolean {
    const requests = this.#lanes[index]
    return requests !== undefined && (requests.isAway || requests.lane.quiet || requests.isParked)
  }

  /** Fetches lanes, in one write, and waits for the answers. */
  async #fetchLanes(first: number, last: number, wanted: (lane: number) => number): Promise<void> {
    if (this.#interrupted || !this.#parts.link.connected) return
    const fetching: Array<LaneRequests> = []
    for (let index = first; index <= last; index++) {
      const requests = this.#lanes[index]
      if (requests === undefined || requests.isAway || requests.isParked) continue
      requests.fetch(wanted(index))
      fetching.push(requests)
    }
    const until = performance.now() + ANSWER_MS
    for (;;) {
      const open = fetching.filter(({ isFetching }) => isFetching)
      if (open.length === 0 || this.#interrupted) return
      if (performance.now() >= until) {
        for (const requests of open) requests.cancelFetch()
        const refusal = open.map(({ lane }) => this.#parts.link.refusal(lane.next)).find((error) => error !== undefined)
        if (refusal !== undefined) throw refusal
        // The tasks of a consumer that is away come when it is back: the others need not wait for them.
        if (!this.isEmpty) return
        throw unanswered(open.map(({ lane }) => lane))
      }
      await this.nextEvent(until)
    }
  }

  #received(message: Msg): void {
    if (message.subject.startsWith(this.#prefix)) this.#status(message)
    else this.#task(message)
  }

  #task(message: Msg): void {
    const ack = message.reply
    if (ack === undefined) return
    const now = this.#parts.clock.now()
    const index = this.#ended ? undefined : this.#laneOf(ack)
    const requests = index === undefined ? undefined : this.#lanes[index]
    if (now < this.#parts.stallGuard.trustedFrom(now)) {
      if (requests?.onTask()) this.#wake?.()
      return
    }
    const arrived =
      requests === undefined ? undefined : this.#parts.deliveryFactory.create(message, ack, requests.lane, now)
    if (arrived === undefined || index === undefined || requests === undefined) {
      this.#parts.naks.send([{ ack, consumer: consumerOf(ack) ?? "" }])
      return
    }
    this.#arrivals.push({ delivery: arrived.delivery, token: arrived.token, lane: index })
    if (requests.onTask()) this.#wake?.()
  }

  /** Most tasks come from the same lane as the task before, so that this lane is tried first. */
  #laneOf(ack: string): number | undefined {
    if (ack.startsWith(this.#lanes[this.#lastLane]?.lane.acks ?? " ")) return this.#lastLane
    const index = this.#byConsumer.get(consumerOf(ack) ?? "")
    if (index !== undefined) this.#lastLane = index
    return index
  }

  #status(message: Msg): void {
    const { subject } = message
    const requests = this.#lanes[numberFrom(subject, this.#prefix.length + 1)]
    if (requests?.onStatus(numberFrom(subject, subject.lastIndexOf(".") + 1), statusLineOf(message))) this.#wake?.()
  }

  /**
   * Drops tasks that another delivery may have by now. They are not returned, because a nak would act on that delivery.
   */
  #dropUntrusted(): void {
    const from = this.#parts.stallGuard.trustedFrom(this.#parts.clock.now())
    if (from > Number.NEGATIVE_INFINITY) this.#arrivals = this.#arrivals.filter(({ token }) => token.receivedAt >= from)
  }

  /** A request after the end of the session would bring a task that nothing receives. */
  #sendLate(send: () => void): void {
    if (this.#ended || !this.#parts.link.connected) return
    try {
      send()
    } catch {
      // Without a connection the session begins anew.
    }
  }

  /** After a change of the connection the server has no requests of this session. */
  #resetLanes(): void {
    for (const lane of this.#lanes) lane.reset()
    this.#wake?.()
  }
}

const unanswered = (lanes: ReadonlyArray<Lane>): TransportError =>
  new TransportError("unavailable", `the consumer ${lanes.map(({ consumer }) => consumer).join(", ")} does not answer`)

// ── order of the tasks ───────────────────────────────────────────────────────────────────────────────────────────────

/** A range of lanes, the highest first; `to` is not included. */
export interface LaneRange {
  readonly from: number
  readonly to: number
}

/** A task that has come. */
export interface Candidate {
  readonly lane: number
  readonly delivery: { readonly sequence: number }
}

/** By lane, then by sequence. */
export const byPriority = <T extends Candidate>(here: ReadonlyArray<T>): ReadonlyArray<T> =>
  [...here].sort((a, b) => a.lane - b.lane || a.delivery.sequence - b.delivery.sequence)

/** One task of each queue in turn, beginning with the queue `first`; within a queue by lane, then by sequence. */
export const roundRobin = <T extends Candidate>(
  here: ReadonlyArray<T>,
  queueOf: (lane: number) => number,
  queues: number,
  first: number,
): ReadonlyArray<T> => {
  const rounds = new Array<number>(queues).fill(0)
  const placed = byPriority(here).map((task) => {
    const queue = queueOf(task.lane)
    const round = rounds[queue] ?? 0
    rounds[queue] = round + 1
    return { task, place: round * queues + ((queue - first + queues) % queues) }
  })
  return placed.sort((a, b) => a.place - b.place).map(({ task }) => task)
}
