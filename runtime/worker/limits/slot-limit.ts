/**
 * The slots that the cluster shares, of one method and tenant, and perhaps a rate with them, as this worker takes part in
 * them. Those who find no slot wait on a list. Whoever writes the state, because a slot was given back or because it is time
 * to look, also calls those who are next: in the same write, so that nobody is called twice.
 */
import type { Log } from "../../log.ts"
import { burstOf, type Rate, take } from "../../rate.ts"
import type { Store, StoreOperation } from "../../transport.ts"
import { type Choice, Choosing } from "./choosing.ts"
import { Entrance } from "./entrance.ts"
import { earliest } from "./place.ts"
import { Portion } from "./portion.ts"
import type { Presence } from "./presence.ts"
import { type Answer, type Asking, AWAY_MS, placesOf, type Round, Rounds, tooBusy } from "./rounds.ts"
import type { LimitState } from "./state.ts"
import { type Change, changeState, LASTING_MS } from "./state-change.ts"
import { type Waiting, WaitingList } from "./waiting.ts"

export interface SlotLimitOptions {
  readonly key: string
  readonly concurrency: number
  readonly rate?: Rate
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

/** Whoever knows of some who wait looks about so often whether a worker has died that holds slots. */
const LOOK_MS = 600
/** So long it is believed that others wait for whom there is no slot: newcomers behind them need not ask then. */
const BELIEVED_MS = 50
/** Not all workers at the same moment. */
const SPREAD_MS = 150

const NOT_FULL = { at: 0, head: undefined }

export class SlotLimit {
  readonly #options: SlotLimitOptions
  readonly #list: WaitingList
  readonly #entrance: Entrance
  readonly #choosing: Choosing
  readonly #rounds: Rounds
  readonly #portion = new Portion()
  /** Handlers that run here under this limit. */
  #running = 0
  /** Slots that are ours as far as the store knows; `NaN`: not known. */
  #stored = 0
  #storedAt = 0
  /** The first place that the head may have been moved behind. A new one with each change. */
  #minded: { readonly place: string } | undefined
  /** Some wait, or were called, when the state was last looked at. */
  #someWait = false
  /** When some waited for whom there was no slot as the state was last looked at, and the head then. */
  #full: { readonly at: number; readonly head: string | undefined } = NOT_FULL
  #lookAt = 0
  #looking = false
  /** Never rejects. */
  #lookingBack: Promise<void> | undefined

  constructor(options: SlotLimitOptions) {
    const { key, store, log, enter, isOver } = options
    this.#options = options
    this.#list = new WaitingList(store, key)
    this.#entrance = new Entrance({ key, list: this.#list, log, enter, onTold: (first) => this.#mind(first) })
    this.#choosing = new Choosing(this.#list, isOver)
    this.#rounds = new Rounds({
      key,
      log,
      decide: (asking) => this.#decide(asking),
      isDue: () => this.#owes || this.#looking,
      onAway: () => {
        this.#lookAt = Date.now() + AWAY_MS
      },
    })
  }

  get key(): string {
    return this.#options.key
  }

  /** May it run? What is granted must be given back with {@link release}. */
  ask(asking: Asking): Promise<Answer> {
    return this.#isHopeless(asking)
      ? Promise.resolve({ granted: false, waitMs: 0, away: false })
      : this.#rounds.ask(asking)
  }

  /** A handler has really ended. */
  release(): void {
    this.#running--
    this.#rounds.wake()
  }

  /** A task that was refused is back in its queue, and waits to be called; forgotten after `ttl` milliseconds. */
  enter(waiting: Waiting, ttl: number): Promise<void> {
    // While there is no slot anyway, those who come one after the other are told of together.
    return this.#entrance.enter(waiting, ttl, this.#full === NOT_FULL)
  }

  /** Whether those who are refused are called. */
  get calls(): boolean {
    return this.#options.hasten !== undefined
  }

  /** Whether entries of the list are on their way to the store. */
  get isEntering(): boolean {
    return this.#entrance.isBusy
  }

  get running(): number {
    return this.#running
  }

  /** Whether somebody must look after those who wait. */
  get someWait(): boolean {
    return this.#someWait || !this.#entrance.isDone
  }

  /** Whether nothing is to be remembered of it. */
  get isIdle(): boolean {
    return this.#running === 0 && !this.#owes && !this.someWait && !this.#rounds.isBusy && this.#portion.hasLapsed
  }

  /** Looks after those who wait, if it is time; returns whether it was. */
  attend(now: number): boolean {
    if (!this.#someWait || now < this.#lookAt || this.#rounds.isBusy) return false
    this.#look()
    return true
  }

  /** Tells the store again what it may not know: after it was away, or when others may have taken our slots for free. */
  upkeep(lapsed: boolean): void {
    // The state lapses, should nobody write it while slots are in use.
    if (lapsed || (this.#running > 0 && Date.now() - this.#storedAt > LASTING_MS / 2)) this.#stored = Number.NaN
    if (this.#owes) this.#rounds.wake()
  }

  /** Resolves when what was asked and given back is written, or could not be. */
  async settled(): Promise<void> {
    await this.#entrance.flush()
    await this.#rounds.settled()
  }

  /** A newcomer behind others for whom there is no slot. */
  #isHopeless({ place, returning }: Asking): boolean {
    const { at, head } = this.#full
    return this.calls && !returning && head !== undefined && place > head && Date.now() - at < BELIEVED_MS
  }

  /** The store does not know how many slots are ours. */
  get #owes(): boolean {
    return this.#stored !== this.#running
  }

  #look(): void {
    this.#looking = true
    this.#rounds.wake()
  }

  /** The head must not be behind this place. */
  #mind(place: string): void {
    this.#minded = { place: earliest(this.#minded?.place, place) }
    this.#look()
  }

  /** Takes slots for those who ask and are next, tells the store which were given back, and calls who is next else. */
  async #decide(asking: ReadonlyArray<Asking>): Promise<Round> {
    const { store, key, presence } = this.#options
    this.#looking = false
    // What was overlooked is to be known before the head is moved again.
    await this.#lookingBack
    // Who only looks holds nothing.
    if (asking.length > 0) await presence.begin()
    const round = await changeState(store, key, (state, now) => this.#turn(asking, state, now))
    // Wherever so many write, one that waits a moment is not the one who is missing.
    if (round === undefined && asking.length === 0) throw new Error("too many write it at the same time")
    return round ?? tooBusy()
  }

  async #turn(asking: ReadonlyArray<Asking>, state: LimitState, now: number): Promise<Change<Round>> {
    const { concurrency, rate, presence } = this.#options
    const places = [...placesOf(asking)]
    const running = this.#running
    const held = await this.#living(state.held, places.length)
    const free = this.#freeOf(held)
    const { left } = this.#portion
    const allowed = rate === undefined ? undefined : take(rate, state.tat, now, concurrency)
    const slots = Math.max(0, allowed === undefined ? free : Math.min(free, left + allowed.granted))

    const minded = this.#minded
    const known = {
      head: minded === undefined ? state.head : earliest(state.head, minded.place),
      calls: state.called,
    }
    const choice = await this.#choosing.choose(places, slots, known, now)
    const { admitted, called, tokens, gone } = choice
    const head = this.calls ? choice.head : undefined

    const missing = Math.max(0, admitted.size - left)
    // Where others wait nobody keeps more of the rate than is used.
    const taken =
      rate === undefined || missing === 0
        ? undefined
        : take(rate, state.tat, now, head === undefined ? Math.max(missing, burstOf(rate)) : missing)
    const mine = running + admitted.size
    if (mine === 0) held.delete(presence.id)
    else held.set(presence.id, mine)
    const isSame =
      taken === undefined &&
      head === state.head &&
      tokens.length === 0 &&
      called.size === state.called.size &&
      held.get(presence.id) === state.held.get(presence.id) &&
      !Number.isNaN(this.#stored)
    const served = asking.filter(
      ({ place, returning }) => admitted.has(place) && (returning || state.called.has(place)),
    )
    const waitMs = allowed?.waitMs ?? 0
    return {
      state: isSame ? undefined : { tat: taken?.tat ?? state.tat, held, head, called },
      answer: { admitted, waitMs },
      done: () => {
        this.#stored = mine
        this.#running += admitted.size
        if (!isSame) this.#storedAt = Date.now()
        if (rate !== undefined) this.#portion.keep(left + (taken?.granted ?? 0) - admitted.size, taken !== undefined)
        if (this.#minded === minded) this.#minded = undefined
        this.#full = head === undefined ? NOT_FULL : { at: Date.now(), head }
        this.#someWait = head !== undefined || called.size > 0
        if (choice.hasLooked) this.#lookingBack = this.#lookBack(head)
        this.#lookLater(choice, now, free > 0 ? waitMs : 0)
        this.#call(tokens)
        this.#leave([...served.map(({ place }) => place), ...gone])
      },
    }
  }

  #freeOf(held: ReadonlyMap<string, number>): number {
    const { concurrency, presence } = this.#options
    return concurrency - this.#running - othersOf(held, presence.id)
  }

  /** Who holds slots; where not so many are free as are wanted, without the workers that have died. */
  async #living(held: ReadonlyMap<string, number>, wanted: number): Promise<Map<string, number>> {
    if (this.#freeOf(held) >= Math.max(1, wanted)) return new Map(held)
    const { presence } = this.#options
    const all = [...held]
    const alive = await Promise.all(all.map(([id]) => presence.isAlive(id)))
    return new Map(all.filter((_, at) => alive[at] === true))
  }

  /**
   * Whoever puts somebody on the list says so and then looks at the head; whoever moves the head then looks at what was
   * said: so one of the two notices when the head was moved behind somebody who came that moment.
   */
  async #lookBack(head: string | undefined): Promise<void> {
    const overlooked = await this.#list.overlooked(head).catch(() => undefined)
    if (overlooked !== undefined) this.#mind(overlooked)
  }

  /** `waitMs`: until the rate allows the next. */
  #lookLater({ called, soon }: Choice, now: number, waitMs: number): void {
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
}

const othersOf = (held: ReadonlyMap<string, number>, own: string): number => {
  let others = 0
  for (const [id, count] of held) if (id !== own) others += count
  return others
}
