/**
 * The conversation of one pull with the consumers of its lanes: what was asked for, what has arrived, and how it ends
 * without stranding anything.
 *
 * A lane is asked for what it has, which the server answers at once, or parked: one task is asked for that will come
 * when there is one. Asking goes from the top down, and begins at the first lane that had tasks the last time. Before
 * tasks are taken out, all lanes above them are looked at once more, in one write, and what is there comes first.
 */
import type { Msg, Subscription } from "nats"
import { type Delivery, TransportError } from "../../runtime/transport.ts"
import { type Candidate, choose, type Lanes, lanesAbove, type Share } from "./choice.ts"
import type { Consumers, Lane } from "./consumers.ts"
import { type Arrived, consumerOf, type Mint } from "./delivery.ts"
import type { Link } from "./link.ts"
import { beatOf, fetching, looking, PARK_MS, parking } from "./pull-request.ts"
import type { Returns } from "./returns.ts"

export interface SessionParts {
  readonly link: Link
  readonly mint: Mint
  readonly consumers: Consumers
  readonly returns: Returns
  /** Several servers keep the streams. */
  readonly replicated: boolean
}

interface Arrival extends Arrived, Candidate {
  readonly delivery: Delivery
}

/** Asks for what there is. */
interface Question {
  readonly number: number
  readonly wanted: number
  got: number
  /** Absent where it is no look: then nothing found does not mean that the lane is empty. */
  readonly look?: Look
}

interface Look {
  /** How many tasks had come before. */
  readonly since: number
  /** How often the consumer was too late for it. */
  readonly missed: number
  /** It was too late this time too. */
  late: boolean
}

/** Asks for one task, whenever there is one. */
interface Parked {
  readonly number: number
  /** When the server ends it by itself. */
  readonly until: number
  heardAt: number
}

/** How long a consumer may take to say what it has. */
const ANSWER_MS = 2_000

/** How long to leave a consumer alone that refused a request. */
const REFUSED_MS = 50

/** How often a consumer is asked to look when it is too late for that each time. */
const LOOKS = 4

/**
 * How often all lanes above are looked at while tasks come there. From then on only those of which it is not certain:
 * each time they are higher up, so that a pull ends however fast tasks come.
 */
const FULL_ROUNDS = 2

export class Session {
  readonly lanes: ReadonlyArray<Lane>
  readonly #parts: SessionParts
  readonly #prefix: string
  readonly #subscription: Subscription
  readonly #byConsumer: ReadonlyMap<string, number>
  readonly #questions: Array<Question | undefined>
  readonly #parked: Array<Parked | undefined>
  readonly #quiet: Array<boolean>
  /** How many tasks had come when a lane was last seen empty. */
  readonly #seen: Array<number | undefined>
  /** Lanes whose consumer refused, until when. */
  readonly #refused: Array<number>
  readonly #stopStatus: () => void
  readonly #beat: number
  /** A parked request without a sign of life for so long is given up: its consumer's leader may have died. */
  readonly #silence: number
  #arrivals: Array<Arrival> = []
  #lastLane = 0
  #numbers = 0
  #arrived = 0
  #wake: (() => void) | undefined
  #interrupted = false
  #ended = false

  /** `quiet`: which lanes had nothing when they were last asked. Kept up to date, for the session after this one. */
  constructor(parts: SessionParts, lanes: ReadonlyArray<Lane>, quiet: Array<boolean>, prefix: string) {
    this.#parts = parts
    this.lanes = lanes
    this.#prefix = prefix
    this.#beat = beatOf(lanes.length)
    this.#silence = 2.5 * this.#beat
    this.#quiet = quiet
    this.#questions = lanes.map(() => undefined)
    this.#parked = lanes.map(() => undefined)
    this.#seen = lanes.map(() => undefined)
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
    const index = this.#refused.findIndex((until, at) => until > 0 && this.#isSilent(at))
    return this.lanes[index]?.consumer
  }

  interrupt(): void {
    this.#interrupted = true
    this.#wake?.()
  }

  /**
   * Asks these lanes for what they have, until `max` tasks are here; goes down a lane only when the one above has no
   * more. Ends early when interrupted or disconnected. Fails with `unavailable` when a consumer does not answer.
   */
  async sweep({ from, to }: Lanes, max: number): Promise<void> {
    const fetch = (lanes: ReadonlyArray<number>): Promise<void> =>
      this.#ask(
        lanes.map((index) => [index, max - this.count({ from, to: index + 1 })]),
        (index, wanted) => this.#fetch(index, wanted),
      )
    let start = from
    while (start < to && this.#quiet[start]) start++
    if (start === to) start = from
    // What is parked is known to be empty. The others above are looked at in the end; in a new session, though, they may
    // well have something by now, and what was taken below would have to be handed back.
    const above = range(from, start).filter((index) => !this.#isParked(index))
    const isNew = above.some((index) => this.#seen[index] === undefined)
    if (isNew) await fetch(above)
    for (let index = start; index < to && this.count({ from, to: index + 1 }) < max; index++) {
      if (!this.#isParked(index)) await fetch([index])
    }
    if (!isNew && this.count({ from, to }) === 0) await fetch(above)
  }

  /** Looks whether any lane has something after all: a consumer may not have heard of it when it was asked. */
  async look(): Promise<void> {
    await this.#ask(
      this.lanes.map((_, index) => [index, 1]),
      (index, wanted) => this.#look(index, wanted),
    )
  }

  /**
   * Takes out up to `max` of the tasks that are here, of each share, in order of lane and sequence, after a look at the
   * lanes above them: what is there by now comes first, and what has no place any more is handed back. Takes nothing when
   * it is interrupted.
   */
  async take(shares: ReadonlyArray<Share>): Promise<ReadonlyArray<ReadonlyArray<Arrived>>> {
    for (let round = 1; ; round++) {
      const chosen = shares.map((share) => choose(this.#arrivals, share))
      const above = shares.flatMap((share, at) => lanesAbove(share, chosen[at] ?? []))
      const unsure = above.filter(({ lane, since }) => (this.#seen[lane] ?? 0) < since)
      if (this.#interrupted) return []
      if (unsure.length === 0 || !this.#parts.link.connected) return this.#takeOut(shares, chosen)
      const asked = round <= FULL_ROUNDS ? above : unsure
      await this.#ask(
        asked.map(({ lane, wanted }) => [lane, wanted]),
        (lane, wanted) => this.#look(lane, wanted),
      )
    }
  }

  #takeOut(
    shares: ReadonlyArray<Share>,
    chosen: ReadonlyArray<ReadonlyArray<Arrival>>,
  ): ReadonlyArray<ReadonlyArray<Arrived>> {
    const taken = new Set(chosen.flat())
    for (const { lane } of taken) this.#quiet[lane] = false
    // What is left of these lanes comes first the next time. What is below would wait here while more comes above.
    const isDisplaced = ({ lane }: Arrival): boolean =>
      shares.some(({ lanes: { from, to } }, at) => lane >= from && lane < to && lane > (chosen[at]?.at(-1)?.lane ?? to))
    const left = this.#arrivals.filter((arrival) => !taken.has(arrival))
    this.#parts.returns.give(left.filter(isDisplaced).map(({ token }) => token))
    this.#arrivals = left.filter((arrival) => !isDisplaced(arrival))
    return chosen
  }

  /** Asks each lane for one task that may come later. */
  park(): void {
    const now = Date.now()
    for (let index = 0; index < this.lanes.length; index++) {
      if (this.#isParked(index) || (this.#refused[index] ?? 0) > now) continue
      const number = ++this.#numbers
      this.#parked[index] = { number, until: now + PARK_MS, heardAt: now }
      this.#send(index, number, parking(this.#beat))
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

  /** Resolves with something that never fails; sooner when interrupted, disconnected, or after so long as an answer may take. */
  async after(other: Promise<unknown>): Promise<void> {
    let pending = true
    void other.then(() => {
      pending = false
      this.#wake?.()
    })
    const until = Date.now() + ANSWER_MS
    while (pending && !this.#interrupted && this.#parts.link.connected && Date.now() < until) await this.event(until)
  }

  /** Makes missing consumers anew. */
  async ensure(): Promise<void> {
    await this.#parts.consumers.ensure(this.lanes)
  }

  /** Hands back what is here and what is still on its way, and leaves nothing behind. */
  async end(): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    this.#stopStatus()
    this.#parts.returns.give(this.#arrivals.map(({ token }) => token))
    this.#arrivals = []
    try {
      // Tasks that the server sends before it learns of the end still arrive, until the drain is over.
      await this.#subscription.drain()
    } catch {
      // Without a connection nothing is on its way.
    }
  }

  #isParked(index: number): boolean {
    const parked = this.#parked[index]
    if (parked === undefined) return false
    const now = Date.now()
    const alive = now < parked.until && now - parked.heardAt < this.#silence
    if (!alive) this.#parked[index] = undefined
    return alive
  }

  /** Nothing is asked for there. */
  #isSilent(index: number): boolean {
    return this.#parked[index] === undefined && this.#questions[index] === undefined
  }

  /** When a request may turn out to be lost, or a refused lane may be asked again. */
  #nextCheck(): number {
    let next = Infinity
    for (let index = 0; index < this.lanes.length; index++) {
      const parked = this.#parked[index]
      if (parked !== undefined) next = Math.min(next, parked.until, parked.heardAt + this.#silence)
      else if (this.#isSilent(index)) next = Math.min(next, this.#refused[index] || Infinity)
    }
    return next
  }

  /** Asks lanes for up to so many tasks each, in one write, and awaits what they have. */
  async #ask(
    wanted: ReadonlyArray<readonly [lane: number, count: number]>,
    ask: (index: number, count: number) => void,
  ): Promise<void> {
    if (wanted.length === 0 || this.#interrupted || !this.#parts.link.connected) return
    for (const [index, count] of wanted) ask(index, count)
    const until = Date.now() + ANSWER_MS
    for (;;) {
      const open = wanted.filter(([index]) => this.#questions[index] !== undefined)
      if (open.length === 0 || this.#interrupted) return
      if (Date.now() >= until) {
        for (const [index] of open) this.#answered(index)
        // Those of a consumer that is away come when it is back: no reason to keep the others waiting.
        if (!this.isEmpty) return
        const names = open.map(([index]) => this.lanes[index]?.consumer)
        throw new TransportError("unavailable", `the consumer ${names.join(", ")} does not answer`)
      }
      await this.event(until)
      for (const [index] of open) {
        const question = this.#questions[index]
        if (question?.look?.late) this.#look(index, question.wanted - question.got, question.look.missed + 1)
      }
    }
  }

  #fetch(index: number, wanted: number): void {
    const number = ++this.#numbers
    this.#questions[index] = { number, wanted, got: 0 }
    this.#send(index, number, fetching(wanted))
  }

  /** Like `fetch`, and where nothing is found the lane was empty. */
  #look(index: number, wanted: number, missed = 0): void {
    const number = ++this.#numbers
    // Where there are several servers, a request that may wait costs an entry of their log, and the one that looks may be
    // behind the one that acknowledges anyway.
    const { replicated } = this.#parts
    // A look goes on for a moment after it has found nothing: it must not take much with it.
    const count = this.#quiet[index] && !replicated ? 1 : wanted
    this.#questions[index] = { number, wanted: count, got: 0, look: { since: this.#arrived, missed, late: false } }
    this.#send(index, number, replicated ? fetching(count) : looking(count, missed))
  }

  #send(index: number, number: number, request: Uint8Array): void {
    this.#refused[index] = 0
    this.#parts.link.send(this.lanes[index]?.next ?? "", request, `${this.#prefix}.${index}.${number}`)
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
      this.#parts.returns.give([{ ack, consumer: consumerOf(ack) ?? "" }])
      return
    }
    this.#arrivals.push({ ...arrived, lane: index, number: ++this.#arrived })
    this.#quiet[index] = false
    // The server does not say which request it answers; the one that was parked came first.
    this.#parked[index] = undefined
    const question = this.#questions[index]
    if (question !== undefined) {
      if (++question.got < question.wanted) return
      this.#questions[index] = undefined
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
    const lane = this.lanes[index]
    const parked = this.#parked[index]
    const question = this.#questions[index]
    const code = message.headers?.code ?? 0
    if (lane === undefined) return
    if (parked?.number === number) {
      if (code === 100) {
        parked.heardAt = Date.now()
        return
      }
      this.#parked[index] = undefined
    } else if (question?.number === number) {
      const { look } = question
      if (code === 408 && look !== undefined && look.missed < LOOKS - 1) look.late = true
      else this.#answered(index)
    } else return
    // 404 and, after a look, 100: there is nothing. 408: time is over, or others wait for what there is.
    if (code === 404 || code === 408 || code === 100) {
      if (question?.number === number && question.got === 0) this.#quiet[index] = true
    } else {
      this.#refused[index] = Date.now() + REFUSED_MS
      const text = message.headers?.description ?? ""
      // 503: nobody serves this consumer: it was deleted, or its leader is being elected.
      if (code === 503 || /deleted/i.test(text)) this.#parts.consumers.lost(lane)
    }
    this.#wake?.()
  }

  /** A lane has no more, or does not say. */
  #answered(index: number): void {
    const look = this.#questions[index]?.look
    if (look !== undefined) this.#seen[index] = look.since
    this.#questions[index] = undefined
  }

  /** After a change of the connection the server knows of no request any more. */
  #forgetAll(): void {
    this.#questions.fill(undefined)
    this.#parked.fill(undefined)
    this.#wake?.()
  }
}

const range = (from: number, to: number): ReadonlyArray<number> =>
  Array.from({ length: to - from }, (_, at) => from + at)
