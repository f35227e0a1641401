/**
 * What one session has asked the consumer of one lane: a question about what there is now, and beside it a parked request
 * for one task that may come later.
 */
import type { Lane } from "./consumers.ts"

/** Asks for what there is. */
interface Fetch {
  readonly number: number
  readonly wanted: number
  got: number
}

/** Asks for one task, whenever there is one. */
interface Parked {
  readonly number: number
  /** From then on it is taken to be lost, in milliseconds since the epoch. */
  readonly lostAt: number
}

export interface LaneRequestsParts {
  readonly lane: Lane
  /** Sends a request; what the server says about it comes back with its number. */
  readonly send: (request: Uint8Array, number: number) => void
  /** Called when nobody serves the consumer. */
  readonly onLost: () => void
}

/** How long to leave a consumer alone that refused a request. */
const REFUSED_PAUSE_MS = 50

/**
 * How long the server keeps a parked request. A request is lost without a word when the server that leads its consumer
 * dies: a task then waits so long for the next request, and hardly longer than the choice of a new leader takes anyway.
 */
const PARK_MS = 5_000

/** How late the server may be to say that a parked request is over. */
const PARK_GRACE_MS = 500

const encoder = new TextEncoder()

/** For one task, whenever there is one: the consumer reads the stream for it. */
const PARK_REQUEST = encoder.encode(`{"batch":1,"expires":${PARK_MS}000000}`)

/**
 * For what there is, as far as the consumer has heard: it answers 404 without reading the stream, and hears of a message
 * a moment after the publisher does (nats-server 2.15.1: up to 40 ms on a busy machine).
 */
const fetchRequest = (batch: number): Uint8Array => encoder.encode(`{"batch":${batch},"no_wait":true}`)

export class LaneRequests {
  readonly lane: Lane
  readonly #parts: LaneRequestsParts
  #numbers = 0
  #openFetch: Fetch | undefined
  #parked: Parked | undefined
  #refusedUntil = 0

  constructor(parts: LaneRequestsParts) {
    this.#parts = parts
    this.lane = parts.lane
  }

  /** A question is open. */
  get isFetching(): boolean {
    return this.#openFetch !== undefined
  }

  /** The next task comes by itself: as far as its consumer has heard, the lane is empty. */
  get isParked(): boolean {
    if (this.#parked !== undefined && Date.now() >= this.#parked.lostAt) this.#parked = undefined
    return this.#parked !== undefined
  }

  /** Its consumer refused a request, and has not been asked since. */
  get isRefusing(): boolean {
    return this.#refusedUntil > 0 && this.#isIdle
  }

  /** When a parked request may turn out to be lost, or a consumer that refused may be asked again. */
  get nextCheck(): number {
    return this.#parked?.lostAt ?? ((this.#isIdle && this.#refusedUntil) || Number.POSITIVE_INFINITY)
  }

  /** Asks for up to so many tasks that there are, as far as the consumer has heard. */
  fetch(wanted: number): void {
    this.#openFetch = { number: ++this.#numbers, wanted, got: 0 }
    this.#send(fetchRequest(wanted))
  }

  /** Asks for one task that may come later, unless that is under way. */
  park(): void {
    const now = Date.now()
    if (this.isParked || this.#refusedUntil > now) return
    this.#parked = { number: ++this.#numbers, lostAt: now + PARK_MS + PARK_GRACE_MS }
    this.#send(PARK_REQUEST)
  }

  /** A task of this lane is here. Returns whether that is worth waking up for. */
  onTask(): boolean {
    this.lane.quiet = false
    // The server does not say which request it answers; the one that was parked came first.
    this.#parked = undefined
    const open = this.#openFetch
    if (open !== undefined && ++open.got < open.wanted) return false
    this.#openFetch = undefined
    return true
  }

  /** What the server says about a request. Returns whether that is worth waking up for. */
  onStatus(number: number, code: number, text: string): boolean {
    const open = this.#openFetch
    if (this.#parked?.number === number) this.#parked = undefined
    else if (open?.number === number) this.#openFetch = undefined
    else return false
    // 404: there is nothing. 408: time is over, or others wait for what there is.
    if (code === 404 || code === 408) {
      if (open?.number === number && open.got === 0) this.lane.quiet = true
    } else {
      this.#refusedUntil = Date.now() + REFUSED_PAUSE_MS
      // 503: nobody serves this consumer: it was deleted, or its leader is being elected.
      if (code === 503 || /deleted/i.test(text)) this.#parts.onLost()
    }
    return true
  }

  /** The consumer does not answer the question. */
  cancelFetch(): void {
    this.#openFetch = undefined
  }

  /** The server knows of no request any more. */
  reset(): void {
    this.#openFetch = undefined
    this.#parked = undefined
  }

  get #isIdle(): boolean {
    return this.#parked === undefined && this.#openFetch === undefined
  }

  #send(request: Uint8Array): void {
    this.#refusedUntil = 0
    this.#parts.send(request, this.#numbers)
  }
}
