/**
 * What one session has asked the consumer of one lane, and what is known of that lane: a question about what there is now,
 * and beside it a parked request for one task that may come later.
 */
import type { Lane } from "./consumers.ts"
import { fetching, looking, PARK_MS, parking } from "./pull-request.ts"

/** Asks for what there is. */
interface Question {
  readonly number: number
  readonly wanted: number
  got: number
  /** Absent where it is no look: then nothing found does not mean that the lane is empty. */
  readonly look?: Look
}

interface Look {
  /** How many tasks had come before, of all lanes. */
  readonly since: number
  /** How often a consumer was too late for it before. */
  readonly missed: number
}

/** Asks for one task, whenever there is one. */
interface Parked {
  readonly number: number
  /** When the server ends it by itself. */
  readonly until: number
  heardAt: number
}

export interface LaneRequestsParts {
  readonly lane: Lane
  /** How often a parked request says that it lives, in milliseconds. */
  readonly beat: number
  /** Several servers keep the streams. */
  readonly replicated: boolean
  /** Sends a request; what the server says about it comes back with its number. */
  readonly send: (request: Uint8Array, number: number) => void
  /** Called when nobody serves the consumer. */
  readonly onLost: () => void
}

/** How long to leave a consumer alone that refused a request. */
const REFUSED_MS = 50

/** How often a consumer is asked to look, each time with twice as long as before, until it is taken to have nothing. */
const LOOKS = 10

/** A parked request that is silent for so many beats is given up: its consumer's leader may have died. */
const SILENT_BEATS = 2.5

export class LaneRequests {
  readonly lane: Lane
  readonly #parts: LaneRequestsParts
  #numbers = 0
  #question: Question | undefined
  #parked: Parked | undefined
  #seen: number | undefined
  #late = false
  #refusedUntil = 0

  constructor(parts: LaneRequestsParts) {
    this.#parts = parts
    this.lane = parts.lane
  }

  /** How many tasks had come, of all lanes, when this one was seen empty; 0: it may have something; `undefined`: nobody has looked yet. */
  get seen(): number | undefined {
    return this.#seen
  }

  /** It may have something again: what was seen says nothing about now. */
  unsee(): void {
    if (this.#seen !== undefined) this.#seen = 0
  }

  /** Its consumer was too late to look when it was last asked to: whether there is something is not known. */
  get isLate(): boolean {
    return this.#late
  }

  /** A question is open. */
  get isAsked(): boolean {
    return this.#question !== undefined
  }

  /** The next task comes by itself: as far as its consumer has heard, the lane is empty. */
  get isParked(): boolean {
    const now = Date.now()
    if (this.#parked !== undefined && now >= Math.min(this.#parked.until, this.#silentAt(this.#parked)))
      this.#parked = undefined
    return this.#parked !== undefined
  }

  /** Its consumer refused a request, and has not been asked since. */
  get isRefusing(): boolean {
    return this.#refusedUntil > 0 && this.#isSilent
  }

  /** When a parked request may turn out to be lost, or a consumer that refused may be asked again. */
  get nextCheck(): number {
    if (this.#parked !== undefined) return Math.min(this.#parked.until, this.#silentAt(this.#parked))
    return (this.#isSilent && this.#refusedUntil) || Number.POSITIVE_INFINITY
  }

  /** Asks for up to so many tasks that there are, as far as the consumer has heard. */
  fetch(wanted: number): void {
    this.#question = { number: ++this.#numbers, wanted, got: 0 }
    this.#send(fetching(wanted))
  }

  /**
   * Like `fetch`, and where nothing is found the lane was empty after `since` tasks had come. The consumer has longer for
   * it the more often one was too late.
   */
  look(wanted: number, since: number, missed: number): void {
    // Where there are several servers, a request that may wait costs an entry of their log, and the one that looks may be
    // behind the one that acknowledges anyway.
    const { replicated } = this.#parts
    // A look goes on for a moment after it has found nothing: it must not take much with it.
    const count = this.lane.quiet && !replicated ? 1 : wanted
    this.#late = false
    // Whether it brings as much as was asked for, or comes too late: that it was empty before counts no more.
    this.unsee()
    this.#question = { number: ++this.#numbers, wanted: count, got: 0, look: { since, missed } }
    this.#send(replicated ? fetching(count) : looking(count, missed))
  }

  /** Asks for one task that may come later, unless that is under way. */
  park(): void {
    const now = Date.now()
    if (this.isParked || this.#refusedUntil > now) return
    this.#parked = { number: ++this.#numbers, until: now + PARK_MS, heardAt: now }
    this.#send(parking(this.#parts.beat))
  }

  /** Tasks of it were taken, whatever a later question has found: the next time it is asked first. */
  hadTasks(): void {
    this.lane.quiet = false
  }

  /** A task of this lane is here. Returns whether that is worth waking up for. */
  arrived(): boolean {
    this.hadTasks()
    // The server does not say which request it answers; the one that was parked came first.
    this.#parked = undefined
    const question = this.#question
    if (question !== undefined && ++question.got < question.wanted) return false
    this.#question = undefined
    return true
  }

  /** What the server says about a request. Returns whether that is worth waking up for. */
  told(number: number, code: number, text: string): boolean {
    const [question, parked] = [this.#question, this.#parked]
    if (parked?.number === number) {
      if (code === 100) {
        parked.heardAt = Date.now()
        return false
      }
      this.#parked = undefined
    } else if (question?.number === number) {
      this.#late = code === 408 && question.look !== undefined && question.look.missed < LOOKS - 1
      if (this.#late) this.#question = undefined
      else this.endQuestion()
    } else return false
    // 404 and, after a look, 100: there is nothing. 408: time is over, or others wait for what there is.
    if (code === 404 || code === 408 || code === 100) {
      if (question?.number === number && question.got === 0 && !this.#late) this.lane.quiet = true
    } else {
      this.#refusedUntil = Date.now() + REFUSED_MS
      // 503: nobody serves this consumer: it was deleted, or its leader is being elected.
      if (code === 503 || /deleted/i.test(text)) this.#parts.onLost()
    }
    return true
  }

  /** The lane has no more, or does not say. */
  endQuestion(): void {
    if (this.#question?.look !== undefined) this.#seen = this.#question.look.since
    this.#question = undefined
  }

  /** The server knows of no request any more. */
  forget(): void {
    this.#question = undefined
    this.#parked = undefined
  }

  get #isSilent(): boolean {
    return this.#parked === undefined && this.#question === undefined
  }

  #silentAt({ heardAt }: Parked): number {
    return heardAt + SILENT_BEATS * this.#parts.beat
  }

  #send(request: Uint8Array): void {
    this.#refusedUntil = 0
    this.#parts.send(request, this.#numbers)
  }
}
