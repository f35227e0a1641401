/**
 * The conversation of one pull with the consumers of its lanes: what was asked for, what has arrived, and how it ends
 * without stranding anything.
 *
 * A lane is either asked for what it has (`fetch`: the server answers at once) or parked: one task is asked for that
 * will come when there is one. A parked lane is known to be empty and needs no asking, so that a pull in a loop asks
 * only the lanes that had tasks the last time.
 */
import type { Msg, Subscription } from "nats"
import { TransportError } from "../../runtime/transport.ts"
import { nak } from "./acks.ts"
import type { Consumers, Lane } from "./consumers.ts"
import { type Arrived, consumerOf, type Mint } from "./delivery.ts"
import type { Link } from "./link.ts"

export interface SessionParts {
  readonly link: Link
  readonly mint: Mint
  readonly consumers: Consumers
}

interface Request {
  readonly number: number
  readonly parked: boolean
  readonly wanted: number
  got: number
  /** When the server ends it by itself. */
  readonly until: number
  heardAt: number
}

interface Arrival extends Arrived {
  readonly lane: number
}

/** How often a parked request says that it lives; less often where there are many. */
const BEAT_MS = 1_000
const BEAT_PER_LANE_MS = 50

/** How long a consumer may take to say what it has. */
const FETCH_MS = 2_000

/** How long to leave a consumer alone that refused a request. */
const REFUSED_MS = 50

/** How long the server keeps a parked request: longer than most pulls wait, so that the next one finds it parked. */
const PARK_MS = 20_000

const encoder = new TextEncoder()
const NAK = nak(0)

export class Session {
  readonly lanes: ReadonlyArray<Lane>
  readonly #parts: SessionParts
  readonly #prefix: string
  readonly #subscription: Subscription
  readonly #byConsumer: ReadonlyMap<string, number>
  readonly #requests: Array<Request | undefined>
  /** Lanes whose consumer refused, until when. */
  readonly #refused: Array<number>
  readonly #stopStatus: () => void
  readonly #beat: number
  /** A parked request without a sign of life for so long is given up: its consumer's leader may have died. */
  readonly #silence: number
  #arrivals: Array<Arrival> = []
  #lastLane = 0
  #numbers = 0
  #wake: (() => void) | undefined
  #interrupted = false
  #ended = false

  constructor(parts: SessionParts, lanes: ReadonlyArray<Lane>, prefix: string) {
    this.#parts = parts
    this.lanes = lanes
    this.#prefix = prefix
    this.#beat = Math.min(Math.max(BEAT_MS, lanes.length * BEAT_PER_LANE_MS), PARK_MS / 4)
    this.#silence = 2.5 * this.#beat
    this.#requests = lanes.map(() => undefined)
    this.#refused = lanes.map(() => 0)
    this.#byConsumer = new Map(lanes.map(({ consumer }, index) => [consumer, index]))
    this.#subscription = parts.link.subscribe(`${prefix}.*.*`, (message) => this.#received(message))
    this.#stopStatus = parts.link.onStatus(() => this.#forgetAll())
  }

  /** Tasks that are here, of these lanes. */
  count(lanes: Lanes): number {
    let count = 0
    for (const { lane } of this.#arrivals) if (lane >= lanes.from && lane < lanes.to) count++
    return count
  }

  get isEmpty(): boolean {
    return this.#arrivals.length === 0
  }

  /** Set by {@link interrupt}: whatever waits here ends soon. */
  get interrupted(): boolean {
    return this.#interrupted
  }

  /** A consumer that refused to say what it has, and has not been asked since. */
  get refusing(): string | undefined {
    const index = this.#refused.findIndex((until, at) => until > 0 && this.#requests[at] === undefined)
    return this.lanes[index]?.consumer
  }

  interrupt(): void {
    this.#interrupted = true
    this.#wake?.()
  }

  /**
   * Asks these lanes from the top for what they have, until `max` tasks are here; goes down a lane only when the one
   * above has no more, and up again when something came there meanwhile. Ends early when interrupted or disconnected.
   * Fails with `unavailable` when a consumer does not answer.
   */
  async sweep({ from, to }: Lanes, max: number): Promise<void> {
    const quiet = new Set<number>()
    // What is here of lower lanes does not count: it waits if there is more above.
    const missing = (index: number): number => max - this.count({ from, to: index + 1 })
    for (let index = from; index < to && missing(index) > 0; index++) {
      if (this.#interrupted || !this.#parts.link.connected) return
      if (this.#isParked(index)) {
        quiet.add(index)
        continue
      }
      await this.#fetch(index, missing(index))
      const woken = [...quiet].find((above) => above < index && !this.#isParked(above))
      if (woken === undefined) continue
      quiet.delete(woken)
      index = woken - 1
    }
  }

  /** Asks each lane for one task that may come later. */
  park(): void {
    const now = Date.now()
    for (let index = 0; index < this.lanes.length; index++) {
      if (!this.#isParked(index) && (this.#refused[index] ?? 0) <= now) this.#ask(index, 1, PARK_MS)
    }
  }

  /** Resolves when something has happened, or may have, or at `until`. One waits at a time. */
  event(until: number): Promise<void> {
    return this.pause(Math.min(until, this.#nextCheck()) - Date.now())
  }

  /** Resolves when something has happened, or after so many milliseconds. */
  async pause(ms: number): Promise<void> {
    if (this.#interrupted) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => this.#wake?.(), Math.max(ms, 1))
      this.#wake = () => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve()
      }
    })
  }

  /** Makes missing consumers anew. */
  async ensure(): Promise<void> {
    await this.#parts.consumers.ensure(this.lanes)
  }

  /** Takes out up to `max` of the tasks that are here, in order of lane and sequence. */
  collect(lanes: Lanes, max: number): ReadonlyArray<Arrived> {
    const chosen = this.#arrivals.filter(({ lane }) => lane >= lanes.from && lane < lanes.to)
    chosen.sort((a, b) => a.lane - b.lane || a.delivery.sequence - b.delivery.sequence)
    if (chosen.length > max) chosen.length = max
    if (chosen.length === this.#arrivals.length) this.#arrivals = []
    else {
      const taken = new Set(chosen)
      this.#arrivals = this.#arrivals.filter((arrival) => !taken.has(arrival))
    }
    return chosen
  }

  /** Hands back what is here. */
  handBack(): void {
    for (const { token } of this.#arrivals) this.#handBack(token.ack)
    this.#arrivals = []
  }

  /** Hands back what is here and what is still on its way, and leaves nothing behind. */
  async end(): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    this.#stopStatus()
    this.handBack()
    try {
      // Tasks that the server sends before it learns of the end still arrive, until the drain is over.
      await this.#subscription.drain()
    } catch {
      // Without a connection nothing is on its way.
    }
  }

  #isParked(index: number): boolean {
    const request = this.#requests[index]
    if (request === undefined) return false
    const now = Date.now()
    const alive = now < request.until && (!request.parked || now - request.heardAt < this.#silence)
    if (!alive) this.#requests[index] = undefined
    return alive && request.parked
  }

  /** When a request may turn out to be lost, or a refused lane may be asked again. */
  #nextCheck(): number {
    let next = Infinity
    for (const [index, request] of this.#requests.entries()) {
      if (request === undefined) next = Math.min(next, this.#refused[index] || Infinity)
      else next = Math.min(next, request.until, request.parked ? request.heardAt + this.#silence : Infinity)
    }
    return next
  }

  async #fetch(index: number, wanted: number): Promise<void> {
    const request = this.#ask(index, wanted, 0)
    while (this.#requests[index] === request && !this.#interrupted) {
      if (Date.now() >= request.until) {
        this.#requests[index] = undefined
        if (this.#arrivals.length > 0) return
        throw new TransportError("unavailable", `the consumer ${this.lanes[index]?.consumer} does not answer`)
      }
      await this.event(request.until)
    }
  }

  /** `wait` 0: what there is now. */
  #ask(index: number, wanted: number, wait: number): Request {
    const now = Date.now()
    const number = ++this.#numbers
    const until = now + (wait > 0 ? wait : FETCH_MS)
    const request: Request = { number, parked: wait > 0, wanted, got: 0, until, heardAt: now }
    this.#requests[index] = request
    this.#refused[index] = 0
    const body =
      wait > 0
        ? `{"batch":${wanted},"expires":${wait}000000,"idle_heartbeat":${this.#beat}000000}`
        : `{"batch":${wanted},"no_wait":true}`
    const reply = `${this.#prefix}.${index}.${number}`
    this.#parts.link.send(this.lanes[index]?.next ?? "", encoder.encode(body), reply)
    return request
  }

  #received(message: Msg): void {
    if (message.subject.startsWith(this.#prefix)) this.#status(message)
    else this.#task(message)
  }

  #task(message: Msg): void {
    const ack = message.reply
    if (ack === undefined) return
    const now = Date.now()
    const index = this.#ended ? undefined : this.#laneOf(ack)
    const lane = index === undefined ? undefined : this.lanes[index]
    const arrived = lane === undefined ? undefined : this.#parts.mint.read(message, ack, lane, now)
    if (arrived === undefined || index === undefined) {
      this.#handBack(ack)
      return
    }
    this.#arrivals.push({ ...arrived, lane: index })
    const request = this.#requests[index]
    if (request !== undefined) {
      request.heardAt = now
      if (++request.got < request.wanted) return
      this.#requests[index] = undefined
    }
    this.#wake?.()
  }

  /** Most tasks come from the lane that the one before came from. */
  #laneOf(ack: string): number | undefined {
    if (ack.startsWith(this.lanes[this.#lastLane]?.acks ?? " ")) return this.#lastLane
    const index = this.#byConsumer.get(consumerOf(ack) ?? "")
    if (index !== undefined) this.#lastLane = index
    return index
  }

  #status(message: Msg): void {
    const [index = -1, number = 0] = message.subject
      .slice(this.#prefix.length + 1)
      .split(".")
      .map(Number)
    const request = this.#requests[index]
    const lane = this.lanes[index]
    if (request === undefined || lane === undefined || request.number !== number) return
    const code = message.headers?.code ?? 0
    if (code === 100) {
      request.heardAt = Date.now()
      return
    }
    this.#requests[index] = undefined
    // 404: there is nothing. 408: time is over, or the last of what there was has been sent.
    if (code !== 404 && code !== 408) {
      this.#refused[index] = Date.now() + REFUSED_MS
      const text = message.headers?.description ?? ""
      // 503: nobody serves this consumer: it was deleted, or its leader is being elected.
      if (code === 503 || /deleted/i.test(text)) this.#parts.consumers.lost(lane)
    }
    this.#wake?.()
  }

  /** After a change of the connection the server knows of no request any more. */
  #forgetAll(): void {
    this.#requests.fill(undefined)
    this.#wake?.()
  }

  #handBack(ack: string): void {
    try {
      this.#parts.link.send(ack, NAK)
    } catch {
      // Without a connection its lease lapses.
    }
  }
}

/** A range of lanes. */
export interface Lanes {
  readonly from: number
  readonly to: number
}
