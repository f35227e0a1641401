/**
 * One limit and tenant across the cluster, as this worker takes part in it. What is asked in one turn of the event loop is
 * one compare-and-set of the state that all workers share; what is left of a portion of a high rate costs none.
 *
 * Where there are slots, those who find none wait on a list. Whoever writes the state, because a slot was given back or
 * because it is time to look, also calls those who are next: in the same write, so that nobody is called twice.
 */
import type { Log } from "../../log.ts"
import { burstOf, type Rate, take } from "../../rate.ts"
import type { Entry, Store, StoreOperation } from "../../transport.ts"
import { CALL_MS, expectedOf, mayCall, type Review, review } from "./calls.ts"
import { Line } from "./line.ts"
import type { Presence } from "./presence.ts"
import { decodeState, encodeState, type LimitState } from "./state.ts"
import { turnOf } from "./turn.ts"
import { type Waiting, WaitingList } from "./waiting.ts"

export interface Limit {
  readonly rate?: Rate
  readonly concurrency?: number
}

/** Who asks. */
export interface Asking {
  readonly place: string
  /** Whether it may be on the list: it was delivered before. */
  readonly returning: boolean
}

/**
 * `granted`: one may run. Else when the rate allows the next at the earliest, in milliseconds from now; `away`: the store
 * could not be asked.
 */
export type Answer =
  | { readonly granted: true }
  | { readonly granted: false; readonly waitMs: number; readonly away: boolean }

export interface SharedLimitOptions {
  readonly key: string
  readonly limit: Limit
  readonly store: Store
  readonly presence: Presence
  readonly log: Log
  /** Makes tasks that were put off due at once. Absent: nobody waits on a list. */
  readonly hasten?: (tokens: ReadonlyArray<string>) => Promise<void>
  /** Writes and removes entries of the list, those of one turn of the event loop together. */
  readonly enter: (operation: StoreOperation) => Promise<unknown>
  /** Whether a job is over. */
  readonly isOver: (id: string) => Promise<boolean>
}

/** Tries to write while others write the same. */
const TRIES = 12
/** Before the first is tried again; grows up to eightfold. */
const CONFLICT_MS = 4
/** What could not be asked is asked again after about so long. */
const AWAY_MS = 1_000
/** What is left of a portion lapses. */
const PORTION_LIFE_MS = 1_000
/** State with slots in use, or with those who wait, is kept for so long, and written anew while slots are in use. */
const HELD_TTL_MS = 3_600_000
const LEAST_TTL_MS = 1_000
/** Whoever knows of some who wait looks about so often whether a worker has died that holds slots. */
const LOOK_MS = 600
/** Who is put on the list is told of together with those who come so soon. */
const TELL_MS = 50
/** So long it is believed that others wait for whom there is no slot: newcomers behind them need not ask. */
const BELIEVED_MS = 250
/** Not all workers at the same moment. */
const SPREAD_MS = 150
/** Of those who wait, so many are looked at together where many may be over. */
const MANY = 64

interface Ask extends Asking {
  readonly answer: (answer: Answer) => void
}

/** What one writing of the state has decided. */
interface Round {
  /** Places that may run. */
  readonly admitted: ReadonlySet<string>
  readonly waitMs: number
}

const NOT_FULL = { at: 0, head: undefined }

export class SharedLimit {
  readonly line = new Line()
  readonly #options: SharedLimitOptions
  readonly #list: WaitingList
  #asks: Array<Ask> = []
  #busy: Promise<void> | undefined
  /** Handlers that run here under this limit. */
  #running = 0
  /** Slots that are ours as far as the store knows; `NaN`: not known. */
  #stored = 0
  #storedAt = 0
  #portion = { count: 0, until: 0 }
  /** Entries of the list on their way to the store. */
  #entering = 0
  /** The first place of those that nobody was told of yet. */
  #untold: string | undefined
  #telling: ReturnType<typeof setTimeout> | undefined
  /** The first place that the head may have been moved behind. A new one with each change. */
  #minded: { readonly place: string } | undefined
  /** Some wait, or were called, when the state was last looked at. */
  #someWait = false
  /** When some waited for whom there was no slot as the state was last looked at, and the head then. */
  #full: { readonly at: number; readonly head: string | undefined } = NOT_FULL
  #lookAt = 0
  /** Never rejects. */
  #lookingBack: Promise<void> | undefined
  #looking = false
  /** Some that were called did not come because their job is over. */
  #someAreOver = false

  constructor(options: SharedLimitOptions) {
    this.#options = options
    this.#list = new WaitingList(options.store, options.key)
  }

  /** May it run? What is granted must be given back with {@link release} if there is a `concurrency`. */
  ask(asking: Asking): Promise<Answer> {
    if (this.#isHopeless(asking)) return Promise.resolve({ granted: false, waitMs: 0, away: false })
    return new Promise((answer) => {
      this.#asks.push({ ...asking, answer })
      this.#wake()
    })
  }

  /** A handler has really ended. */
  release(): void {
    if (!this.hasSlots) return
    this.#running--
    this.#wake()
  }

  /** A task that was refused is back in its queue, and waits to be called; forgotten after `ttl` milliseconds. */
  async enter(waiting: Waiting, ttl: number): Promise<void> {
    this.#entering++
    try {
      await this.#options.enter(this.#list.entering(waiting, ttl))
      this.#untold = earliest(this.#untold, waiting.place)
      // While there is no slot anyway, those who come one after the other are told of together.
      this.#telling ??= setTimeout(() => void this.#tell(), this.#full === NOT_FULL ? 0 : TELL_MS)
    } catch (cause) {
      this.#options.log.debug("a task could not be put on the list of a limit, and comes by itself", {
        limit: this.#options.key,
        cause: String(cause),
      })
    }
    this.#entering--
  }

  /** Says who was put on the list: to those who know its first ones, and to those who believe that nobody is so far ahead. */
  async #tell(): Promise<void> {
    this.#telling = undefined
    const first = this.#untold
    if (first === undefined) return
    this.#untold = undefined
    this.#entering++
    await this.#list.tell(first).catch((cause: unknown) => {
      this.#options.log.debug("nobody hears for now who waits", { limit: this.#options.key, cause: String(cause) })
    })
    this.#entering--
    this.#mind(first)
  }

  /** The head must not be behind this place. */
  #mind(place: string): void {
    this.#minded = { place: earliest(this.#minded?.place, place) }
    this.#look()
  }

  get key(): string {
    return this.#options.key
  }

  /** Whether it is about slots, which come back at no certain time. */
  get hasSlots(): boolean {
    return this.#options.limit.concurrency !== undefined
  }

  /** Whether those who are refused are called. */
  get calls(): boolean {
    return this.hasSlots && this.#options.hasten !== undefined
  }

  /** Whether entries of the list are on their way to the store. */
  get isEntering(): boolean {
    return this.#entering > 0
  }

  get running(): number {
    return this.#running
  }

  /** Whether somebody must look after those who wait. */
  get someWait(): boolean {
    return this.#someWait || this.#entering > 0 || this.#telling !== undefined
  }

  /** Whether nothing is to be remembered of it. */
  get isIdle(): boolean {
    return (
      this.#running === 0 &&
      !this.#owes &&
      !this.someWait &&
      this.#busy === undefined &&
      Math.max(this.line.end, this.#portion.until) < Date.now()
    )
  }

  /** How far apart those who wait for a rate should come again, in milliseconds. */
  get spacingMs(): number {
    // A little oversupply: of those who have an appointment some may have been cancelled.
    return (this.#options.limit.rate?.intervalMs ?? 0) * 0.75
  }

  /** Looks after those who wait, if it is time; returns whether it was. */
  attend(now: number): boolean {
    if (!this.#someWait || now < this.#lookAt || this.#busy !== undefined) return false
    this.#look()
    return true
  }

  /** Tells the store again what it may not know: after it was away, or when others may have taken our slots for free. */
  upkeep(lapsed: boolean): void {
    if (lapsed || (this.#running > 0 && Date.now() - this.#storedAt > HELD_TTL_MS / 2)) this.#stored = Number.NaN
    if (this.#owes) this.#wake()
  }

  /** Resolves when what was asked and given back is written, or could not be. */
  async settled(): Promise<void> {
    if (this.#telling !== undefined) {
      clearTimeout(this.#telling)
      await this.#tell()
    }
    while (this.#busy !== undefined) await this.#busy
  }

  /** A newcomer behind others for whom there is no slot. */
  #isHopeless({ place, returning }: Asking): boolean {
    const { at, head } = this.#full
    return this.calls && !returning && head !== undefined && place > head && Date.now() - at < BELIEVED_MS
  }

  get #owes(): boolean {
    return this.hasSlots && this.#stored !== this.#running
  }

  #look(): void {
    this.#looking = true
    this.#wake()
  }

  #wake(): void {
    this.#busy ??= new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => this.#work())
      .then((done) => {
        this.#busy = undefined
        if (this.#asks.length > 0 || (done && (this.#owes || this.#looking))) this.#wake()
      })
  }

  /** Resolves to whether the store could be reached. */
  async #work(): Promise<boolean> {
    while (this.#asks.length > 0 || this.#owes || this.#looking) {
      const asks = this.#asks.splice(0)
      this.#looking = false
      let round: Round = { admitted: new Set(), waitMs: AWAY_MS }
      let away = false
      try {
        round = this.hasSlots ? await this.#takeSlots(asks) : await this.#takeRate(asks)
      } catch (cause) {
        // Never unlimited: what cannot be asked waits.
        this.#options.log.debug("a limit cannot be asked now", { limit: this.#options.key, cause: String(cause) })
        this.#lookAt = Date.now() + AWAY_MS
        away = true
      }
      const admitted = new Set(round.admitted)
      const { waitMs } = round
      // Of two deliveries of one task only one was counted.
      for (const { place, answer } of asks)
        answer(admitted.delete(place) ? { granted: true } : { granted: false, waitMs, away })
      if (away) return false
    }
    return true
  }

  /** Reads the state, lets `decide` change it, and writes it; again where somebody else was first. */
  async #change<T>(
    decide: (state: LimitState, now: number) => Promise<Decision<T>> | Decision<T>,
  ): Promise<T | undefined> {
    const { key, store } = this.#options
    let wait = CONFLICT_MS
    for (let tries = 0; tries < TRIES; tries++) {
      const [entry, now] = await Promise.all([store.get(key), store.now()])
      const decision = await decide(decodeState(entry?.value), now)
      if (decision.state === undefined || (await this.#write(entry, decision.state, now))) {
        decision.done()
        return decision.answer
      }
      // Not all again at the same moment.
      await new Promise((resolve) => setTimeout(resolve, wait * Math.random()))
      wait = Math.min(wait * 2, 8 * CONFLICT_MS)
    }
    return undefined
  }

  async #write(entry: Entry | undefined, state: LimitState, now: number): Promise<boolean> {
    const { key, store } = this.#options
    const rateMs = Math.max(0, Math.ceil((state.tat ?? now) - now))
    const lasts = state.held.size > 0 || state.called.size > 0 || state.head !== undefined
    const ttl = Math.max(rateMs + LEAST_TTL_MS, lasts ? HELD_TTL_MS : 0)
    const expect = entry === undefined ? ("absent" as const) : { revision: entry.revision }
    return (await store.write([{ key, value: encodeState(state), expect, ttl }])) === "written"
  }

  /** Takes what a rate alone allows: a portion of a high one at a time. */
  async #takeRate(asks: ReadonlyArray<Ask>): Promise<Round> {
    const { rate } = this.#options.limit
    const left = this.#portion.until > Date.now() ? this.#portion.count : 0
    if (rate === undefined || left >= asks.length) {
      this.#portion = { ...this.#portion, count: left - asks.length }
      return { admitted: placesOf(asks), waitMs: 0 }
    }
    const round = await this.#change<Round>((state, now) => {
      const { granted, tat, waitMs } = take(rate, state.tat, now, Math.max(asks.length - left, burstOf(rate)))
      const admitted = placesOf(asks.slice(0, left + granted))
      return {
        state: granted === 0 ? undefined : { ...state, tat },
        answer: { admitted, waitMs },
        done: () => this.#keepPortion(left + granted - admitted.size, granted > 0),
      }
    })
    return round ?? { admitted: new Set(), waitMs: AWAY_MS * Math.random() }
  }

  #keepPortion(count: number, isNew: boolean): void {
    this.#portion = { count, until: isNew ? Date.now() + PORTION_LIFE_MS : this.#portion.until }
  }

  /** Takes slots for those who ask and are next, tells the store which were given back, and calls who is next else. */
  async #takeSlots(asks: ReadonlyArray<Ask>): Promise<Round> {
    const { presence } = this.#options
    // What was overlooked is to be known before the head is moved again.
    await this.#lookingBack
    // Who only looks holds nothing.
    if (asks.length > 0) await presence.begin()
    const round = await this.#change((state, now) => this.#turn(asks, state, now))
    if (round !== undefined) return round
    // Wherever so many write, one that waits a moment is not the one who is missing.
    if (asks.length === 0) throw new Error("too many write it at the same time")
    return { admitted: new Set(), waitMs: AWAY_MS * Math.random() }
  }

  async #turn(asks: ReadonlyArray<Ask>, state: LimitState, now: number): Promise<Decision<Round>> {
    const { limit, presence, isOver } = this.#options
    const { rate, concurrency = 0 } = limit
    const held = new Map(state.held)
    const running = this.#running
    const here = placesOf(asks)
    let free = concurrency - running - othersOf(held, presence.id)
    if (free < Math.max(1, here.size) && (await this.#bury(held)))
      free = concurrency - running - othersOf(held, presence.id)

    const left = this.#portion.until > Date.now() ? this.#portion.count : 0
    const allowed = rate === undefined ? undefined : take(rate, state.tat, now, concurrency)
    const slots = Math.max(0, allowed === undefined ? free : Math.min(free, left + allowed.granted))

    const { called, again, gone, someAreOver } = this.calls
      ? await review(state.called, here, now, this.#list, isOver)
      : NO_CALLS
    if (someAreOver) this.#someAreOver = true
    const expected = expectedOf(called)
    const minded = this.#minded
    let head = minded === undefined ? state.head : earliest(state.head, minded.place)
    const asking = [...here]
    const isBeforeHead = (place: string): boolean => head === undefined || place < head
    // Where all slots are kept for those who were called, others are looked at only for the sake of who asks.
    const unkept = slots - expected.length
    const mustLook = unkept > 0 || ![...turnOf(slots, { asking, expected, waiting: [] }).admitted].every(isBeforeHead)
    const front =
      head !== undefined && slots > 0 && mustLook && mayCall(called, slots)
        ? await this.#front(head, unkept > 0 ? unkept : slots, new Set([...asking, ...called.keys()]))
        : undefined
    const waiting = front?.waiting ?? []
    const { admitted, next } = turnOf(slots, { asking, expected, waiting: waiting.map(({ place }) => place) })
    const tokens = again.map(({ token }) => token)
    for (const { place, token } of waiting) {
      if (!next.includes(place)) continue
      called.set(place, { until: now + CALL_MS, tries: 1 })
      tokens.push(token)
    }
    if (front !== undefined) head = waiting.find(({ place }) => !next.includes(place))?.place ?? front.headAfter
    if (this.calls) for (const place of asking) if (!admitted.has(place)) head = earliest(head, place)

    const granted = admitted.size
    const missing = Math.max(0, granted - left)
    // Where others wait nobody keeps more of the rate than is used.
    const taken =
      rate === undefined || missing === 0
        ? undefined
        : take(rate, state.tat, now, head === undefined ? Math.max(missing, burstOf(rate)) : missing)
    const mine = running + granted
    if (mine === 0) held.delete(presence.id)
    else held.set(presence.id, mine)
    const ended = [
      ...asks.filter(({ place, returning }) => admitted.has(place) && (returning || state.called.has(place))),
      ...[...gone, ...(front?.gone ?? [])].map((place) => ({ place })),
    ]
    const changed: LimitState = { tat: taken?.tat ?? state.tat, held, head, called }
    const isSame =
      taken === undefined &&
      head === state.head &&
      tokens.length === 0 &&
      called.size === state.called.size &&
      held.get(presence.id) === state.held.get(presence.id) &&
      !Number.isNaN(this.#stored)
    return {
      state: isSame ? undefined : changed,
      answer: { admitted, waitMs: allowed?.waitMs ?? 0 },
      done: () => {
        this.#stored = mine
        this.#running += granted
        if (!isSame) this.#storedAt = Date.now()
        if (rate !== undefined) this.#keepPortion(left + (taken?.granted ?? 0) - granted, taken !== undefined)
        if (this.#minded === minded) this.#minded = undefined
        if (front !== undefined) this.#lookingBack = this.#lookBack(head)
        this.#full = head === undefined ? NOT_FULL : { at: Date.now(), head }
        this.#someWait = head !== undefined || called.size > 0
        this.#lookLater(now, { called, waitMs: free > 0 ? (allowed?.waitMs ?? 0) : 0, soon: front?.soon === true })
        this.#call(tokens)
        this.#leave(ended.map(({ place }) => place))
      },
    }
  }

  /** The first of those who wait and were not called. `soon`: fewer than there may be. */
  async #front(
    head: string,
    some: number,
    known: ReadonlySet<string>,
  ): Promise<{
    readonly waiting: ReadonlyArray<Waiting>
    readonly gone: ReadonlyArray<string>
    readonly headAfter: string | undefined
    readonly soon: boolean
  }> {
    const doubted = this.#someAreOver
    const front = await this.#list.from(head, doubted ? Math.max(MANY, some) : some)
    const last = front.places.at(-1)
    const places = front.places.filter((place) => !known.has(place))
    const found = [...(await this.#list.read(places)).values()]
    const isOver = doubted ? await Promise.all(found.map(({ id }) => this.#options.isOver(id))) : []
    const waiting = found.filter((_, at) => isOver[at] !== true)
    this.#someAreOver = isOver.includes(true)
    return {
      waiting,
      gone: found.flatMap(({ place }, at) => (isOver[at] === true ? [place] : [])),
      headAfter: front.headAfter(last ?? head),
      soon: last !== undefined && waiting.length < Math.min(some, front.places.length),
    }
  }

  /**
   * Whoever puts somebody on the list says so and then looks at the head; whoever moves the head then looks at what was
   * said: so one of the two notices when the head was moved behind somebody who came that moment.
   */
  async #lookBack(head: string | undefined): Promise<void> {
    const overlooked = await this.#list.overlooked(head).catch(() => undefined)
    if (overlooked !== undefined) this.#mind(overlooked)
  }

  #lookLater(
    now: number,
    {
      called,
      waitMs,
      soon,
    }: { readonly called: LimitState["called"]; readonly waitMs: number; readonly soon: boolean },
  ): void {
    let inMs = waitMs > 0 ? Math.min(waitMs, LOOK_MS) : LOOK_MS
    for (const { until } of called.values()) inMs = Math.min(inMs, until - now)
    this.#lookAt = Date.now() + (soon ? 0 : Math.max(0, inMs) + SPREAD_MS * Math.random())
    if (soon) this.#looking = true
  }

  /** Strikes off who waits no more. In nobody's way until then: the head is behind them. */
  #leave(places: ReadonlyArray<string>): void {
    for (const place of places) this.#options.enter(this.#list.leaving(place)).catch(() => undefined)
  }

  #call(tokens: ReadonlyArray<string>): void {
    const { hasten, log, key } = this.#options
    if (tokens.length === 0 || hasten === undefined) return
    // Whoever looks next calls again.
    hasten(tokens).catch((cause: unknown) => {
      log.debug("those who are next under a limit could not be called", { limit: key, cause: String(cause) })
    })
  }

  /** Takes the slots of workers that have died; returns whether there were any. */
  async #bury(held: Map<string, number>): Promise<boolean> {
    const { presence } = this.#options
    const ids = [...held.keys()]
    const alive = await Promise.all(ids.map((id) => presence.isAlive(id)))
    const dead = ids.filter((_, at) => alive[at] === false)
    for (const id of dead) held.delete(id)
    return dead.length > 0
  }
}

/** What becomes of the state; absent, it stays as it is. */
interface Decision<T> {
  readonly state: LimitState | undefined
  readonly answer: T
  /** Called once it is so. */
  readonly done: () => void
}

const NO_CALLS: Review = { called: new Map(), again: [], gone: [], someAreOver: false }

const placesOf = (asks: ReadonlyArray<Asking>): Set<string> => new Set(asks.map(({ place }) => place))

const earliest = (head: string | undefined, place: string): string =>
  head === undefined || place < head ? place : head

const othersOf = (held: ReadonlyMap<string, number>, own: string): number => {
  let others = 0
  for (const [id, count] of held) if (id !== own) others += count
  return others
}
