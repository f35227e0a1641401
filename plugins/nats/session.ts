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
import { LaneRequests } from "./lane-requests.ts"
import type { Link } from "./link.ts"
import { beatOf } from "./pull-request.ts"
import type { Returns } from "./returns.ts"
import type { Turns } from "./turns.ts"

export interface SessionParts {
  readonly link: Link
  readonly mint: Mint
  readonly consumers: Consumers
  readonly returns: Returns
  readonly turns: Turns
  /** Several servers keep the streams. */
  readonly replicated: boolean
}

interface Arrival extends Arrived, Candidate {
  readonly delivery: Delivery
}

/** How many tasks are to come of a lane. */
interface Wanted {
  readonly lane: number
  readonly wanted: number
}

/** How long a consumer may take to say what it has. */
const ANSWER_MS = 2_000

/**
 * How often all lanes above are looked at while tasks come there. From then on only those of which it is not certain:
 * each time they are higher up, so that a pull ends however fast tasks come.
 */
const FULL_ROUNDS = 2

export class Session {
  readonly #parts: SessionParts
  readonly #lanes: ReadonlyArray<LaneRequests>
  readonly #prefix: string
  readonly #subscription: Subscription
  readonly #byConsumer: ReadonlyMap<string, number>
  readonly #stopStatus: () => void
  #arrivals: Array<Arrival> = []
  #lastLane = 0
  #arrived = 0
  #wake: (() => void) | undefined
  #interrupted = false
  #ended = false

  constructor(parts: SessionParts, lanes: ReadonlyArray<Lane>, prefix: string) {
    const { link, consumers, replicated } = parts
    this.#parts = parts
    this.#prefix = prefix
    const beat = beatOf(lanes.length)
    this.#lanes = lanes.map((lane, index) => {
      const send = (request: Uint8Array, number: number) =>
        link.send(lane.next, request, `${prefix}.${index}.${number}`)
      return new LaneRequests({ lane, beat, replicated, send, onLost: () => consumers.lost(lane) })
    })
    this.#byConsumer = new Map(lanes.map(({ consumer }, index) => [consumer, index]))
    this.#subscription = link.subscribe(`${prefix}.*.*`, (message) => this.#received(message))
    this.#stopStatus = link.onStatus(() => this.#forgetAll())
  }

  /** How many there are. */
  get lanes(): number {
    return this.#lanes.length
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
    return this.#lanes.find(({ isRefusing }) => isRefusing)?.lane.consumer
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
        lanes.map((lane) => ({ lane, wanted: max - this.count({ from, to: lane + 1 }) })),
        (requests, wanted) => requests.fetch(wanted),
      )
    let start = from
    while (start < to && this.#lanes[start]?.lane.quiet) start++
    if (start === to) start = from
    // What is parked is known to be empty. The others above are looked at in the end; in a new session, though, they may
    // well have something by now, and what was taken below would have to be handed back.
    const above = range(from, start).filter((index) => !this.#lanes[index]?.isParked)
    const isNew = above.some((index) => this.#lanes[index]?.seen === undefined)
    if (isNew) await fetch(above)
    for (let index = start; index < to && this.count({ from, to: index + 1 }) < max; index++) {
      if (!this.#lanes[index]?.isParked) await fetch([index])
    }
    if (!isNew && this.count({ from, to }) === 0) await fetch(above)
  }

  /** Looks whether any lane has something after all: a consumer may not have heard of it when it was asked. */
  async look(): Promise<void> {
    await this.#look(range(0, this.lanes).map((lane) => ({ lane, wanted: 1 })))
  }

  /**
   * Takes out up to `max` of the tasks that are here, of each share, in order of lane and sequence, after a look at the
   * lanes above them: what is there by now comes first, and what has no place any more is handed back. Takes nothing when
   * it is interrupted.
   */
  async take(shares: ReadonlyArray<Share>): Promise<ReadonlyArray<ReadonlyArray<Arrived>>> {
    // What was left over of the last one would otherwise go first unseen.
    for (const lane of this.#lanes) lane.unsee()
    for (let round = 1; ; round++) {
      this.#forgetUnsound()
      const chosen = shares.map((share) => choose(this.#arrivals, share))
      const above = shares.flatMap((share, at) => lanesAbove(share, chosen[at] ?? []))
      const unsure = above.filter(({ lane, since }) => (this.#lanes[lane]?.seen ?? 0) < since)
      if (this.#interrupted) return []
      if (unsure.length === 0 || !this.#parts.link.connected) return this.#takeOut(shares, chosen)
      await this.#look(round <= FULL_ROUNDS ? above : unsure)
    }
  }

  /**
   * Looks at lanes; where a consumer was too late, at all of them once more. Those that were empty a moment ago may have
   * something by the time the late one has looked.
   */
  async #look(wanted: ReadonlyArray<Wanted>): Promise<void> {
    const before = this.#arrived
    for (let missed = 0; ; missed++) {
      await this.#ask(wanted, (requests, count) => requests.look(count, before, missed))
      if (this.#arrived > before || this.#interrupted || !this.#parts.link.connected) return
      if (!wanted.some(({ lane }) => this.#lanes[lane]?.isLate)) return
    }
  }

  #takeOut(
    shares: ReadonlyArray<Share>,
    chosen: ReadonlyArray<ReadonlyArray<Arrival>>,
  ): ReadonlyArray<ReadonlyArray<Arrived>> {
    const taken = new Set(chosen.flat())
    for (const { lane } of taken) this.#lanes[lane]?.hadTasks()
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
    for (const lane of this.#lanes) lane.park()
  }

  /** Resolves when something has happened, or may have, or at `until`. One waits at a time. */
  event(until: number): Promise<void> {
    return this.pause(Math.min(until, ...this.#lanes.map(({ nextCheck }) => nextCheck)) - Date.now())
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
    await this.#parts.consumers.ensure(this.#lanes.map(({ lane }) => lane))
  }

  /** Hands back what is here and what is still on its way, and leaves nothing behind. */
  async end(): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    this.#stopStatus()
    this.#forgetUnsound()
    this.#parts.returns.give(this.#arrivals.map(({ token }) => token))
    this.#arrivals = []
    try {
      // Tasks that the server sends before it learns of the end still arrive, until the drain is over.
      await this.#subscription.drain()
    } catch {
      // Without a connection nothing is on its way.
    }
  }

  /** Asks lanes, in one write, and awaits what they have. */
  async #ask(wanted: ReadonlyArray<Wanted>, ask: (requests: LaneRequests, wanted: number) => void): Promise<void> {
    if (wanted.length === 0 || this.#interrupted || !this.#parts.link.connected) return
    const asked: Array<LaneRequests> = []
    for (const each of wanted) {
      const requests = this.#lanes[each.lane]
      if (requests === undefined) continue
      ask(requests, each.wanted)
      asked.push(requests)
    }
    const until = Date.now() + ANSWER_MS
    for (;;) {
      const open = asked.filter(({ isAsked }) => isAsked)
      if (open.length === 0 || this.#interrupted) return
      if (Date.now() >= until) {
        for (const lane of open) lane.endQuestion()
        // Those of a consumer that is away come when it is back: no reason to keep the others waiting.
        if (!this.isEmpty) return
        const names = open.map(({ lane }) => lane.consumer)
        throw new TransportError("unavailable", `the consumer ${names.join(", ")} does not answer`)
      }
      await this.event(until)
    }
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
    const requests = index === undefined ? undefined : this.#lanes[index]
    if (now < this.#parts.turns.soundFrom(now)) {
      if (requests?.arrived()) this.#wake?.()
      return
    }
    const arrived = requests === undefined ? undefined : this.#parts.mint.read(message, ack, requests.lane, now)
    if (arrived === undefined || index === undefined || requests === undefined) {
      this.#parts.returns.give([{ ack, consumer: consumerOf(ack) ?? "" }])
      return
    }
    this.#arrivals.push({ ...arrived, lane: index, number: ++this.#arrived })
    if (requests.arrived()) this.#wake?.()
  }

  /** Most tasks come from the lane that the one before came from. */
  #laneOf(ack: string): number | undefined {
    if (ack.startsWith(this.#lanes[this.#lastLane]?.lane.acks ?? " ")) return this.#lastLane
    const index = this.#byConsumer.get(consumerOf(ack) ?? "")
    if (index !== undefined) this.#lastLane = index
    return index
  }

  #status(message: Msg): void {
    const [index = -1, number = 0] = message.subject
      .slice(this.#prefix.length + 1)
      .split(".")
      .map(Number)
    const { code = 0, description = "" } = message.headers ?? {}
    if (this.#lanes[index]?.told(number, code, description)) this.#wake?.()
  }

  /** What may be in other hands by now is left alone. */
  #forgetUnsound(): void {
    const from = this.#parts.turns.soundFrom(Date.now())
    if (from > Number.NEGATIVE_INFINITY) this.#arrivals = this.#arrivals.filter(({ token }) => token.receivedAt >= from)
  }

  /** After a change of the connection the server knows of no request any more. */
  #forgetAll(): void {
    for (const lane of this.#lanes) lane.forget()
    this.#wake?.()
  }
}

const range = (from: number, to: number): ReadonlyArray<number> =>
  Array.from({ length: to - from }, (_, at) => from + at)
