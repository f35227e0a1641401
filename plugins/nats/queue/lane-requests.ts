/**
 * The pull requests of one session to the consumer of one lane: a fetch of the tasks that are there now, and a parked
 * request, which waits at the server for one task that may come later.
 */
import { encoder } from "../../../runtime/protocol/text.ts"
import { codeIn } from "../connection/header-block.ts"
import { isAway, type Lane } from "./consumers.ts"

/** A request for tasks that are there now. */
interface Fetch {
  readonly number: number
  readonly wanted: number
  got: number
}

/** A request that waits at the server for one task. */
interface Parked {
  readonly number: number
  /** When the request counts as lost, by the monotonic clock. */
  readonly lostAt: number
}

export interface LaneRequestsParts {
  readonly lane: Lane
  /** Sends a request; a status message of the server comes back with its number. `soon`: it may go out with others. */
  readonly send: (request: Uint8Array, number: number, soon: boolean) => void
  /** Called when the consumer does not exist. */
  readonly onLost: () => void
}

/** Pause after a consumer refused a request. */
const REFUSED_PAUSE_MS = 50

/**
 * How long the server keeps a parked request. When the server that leads the consumer dies, the request is lost without
 * a message: then a task waits this long for the next request, hardly longer than the election of a new leader takes.
 */
const PARK_MS = 5_000

/** How late the server may be to report the end of a parked request. */
const PARK_GRACE_MS = 500

/** Parks a request for one task. The consumer reads the stream for it. */
const PARK_REQUEST = encoder.encode(`{"batch":1,"expires":${PARK_MS}000000}`)

/**
 * Fetches the tasks that the consumer knows of. With `no_wait` it answers 404 without reading the stream, and it learns
 * of a message a moment after the publisher's acknowledgement (nats-server 2.15.1: up to 40 ms on a busy machine).
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

  /** Whether a fetch is open. */
  get isFetching(): boolean {
    return this.#openFetch !== undefined
  }

  /**
   * Whether a request is parked: as far as its consumer knows, the lane is empty, and the next task will come by
   * itself.
   */
  get isParked(): boolean {
    if (this.#parked !== undefined && performance.now() >= this.#parked.lostAt) this.#parked = undefined
    return this.#parked !== undefined
  }

  /** Whether there is no consumer to ask. */
  get isAway(): boolean {
    return isAway(this.lane)
  }

  /** Whether the consumer refused the last request. */
  get isRefusing(): boolean {
    return this.#refusedUntil > 0 && this.#isIdle
  }

  /** When to check again: a parked request may count as lost, or a consumer that refused may be asked again. */
  get nextCheck(): number {
    return this.#parked?.lostAt ?? ((this.#isIdle && this.#refusedUntil) || Number.POSITIVE_INFINITY)
  }

  /** Fetches up to `wanted` tasks that are there, as far as the consumer knows. */
  fetch(wanted: number): void {
    this.#openFetch = { number: ++this.#numbers, wanted, got: 0 }
    this.#send(fetchRequest(wanted), false)
  }

  /** Parks a request for one task, if none is parked and the consumer is there and has not just refused one. */
  park(): void {
    const now = performance.now()
    if (this.isAway || this.isParked || this.#refusedUntil > now) return
    this.#parked = { number: ++this.#numbers, lostAt: now + PARK_MS + PARK_GRACE_MS }
    this.#send(PARK_REQUEST, true)
  }

  /** To be called when a task of this lane has come. Returns whether the session should look at what it has. */
  onTask(): boolean {
    this.lane.quiet = false
    // The server does not tell which request it answers; the parked one was sent first.
    this.#parked = undefined
    const open = this.#openFetch
    if (open !== undefined && ++open.got < open.wanted) return false
    this.#openFetch = undefined
    return true
  }

  /**
   * To be called with the status line of a message to a request. Returns whether the session should look at what it has.
   */
  onStatus(number: number, status: string): boolean {
    const open = this.#openFetch
    if (this.#parked?.number === number) this.#parked = undefined
    else if (open?.number === number) this.#openFetch = undefined
    else return false
    const code = codeIn(status)
    // 404: there is no task. 408: the request has expired, or other requests wait for the tasks.
    if (code === 404 || code === 408) {
      if (open?.number === number && open.got === 0) this.lane.quiet = true
    } else {
      this.#refusedUntil = performance.now() + REFUSED_PAUSE_MS
      // 503: the consumer was deleted, or its leader is being elected.
      if (code === 503 || /deleted/i.test(status)) this.#parts.onLost()
    }
    return true
  }

  /** Drops a fetch that the consumer does not answer. */
  cancelFetch(): void {
    this.#openFetch = undefined
  }

  /** Drops all requests: after a change of the connection the server has none. */
  reset(): void {
    this.#openFetch = undefined
    this.#parked = undefined
  }

  get #isIdle(): boolean {
    return this.#parked === undefined && this.#openFetch === undefined
  }

  #send(request: Uint8Array, soon: boolean): void {
    this.#refusedUntil = 0
    this.#parts.send(request, this.#numbers, soon)
  }
}
