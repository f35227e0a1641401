/**
 * One limit and tenant across the cluster, as this worker takes part in it. What is asked in one turn of the event loop is
 * one compare-and-set of the state that all workers share; slots that are given back and taken again at once, and what
 * is left of a portion of a high rate, cost none.
 */
import type { Log } from "../../log.ts"
import { burstOf, type Rate, take } from "../../rate.ts"
import type { Entry, Store } from "../../transport.ts"
import { Line } from "./line.ts"
import type { Presence } from "./presence.ts"
import { decodeState, encodeState, type LimitState } from "./state.ts"

export interface Limit {
  readonly rate?: Rate
  readonly concurrency?: number
}

/** `granted`: one may run. Else when the rate allows the next at the earliest, in milliseconds from now. */
export type Answer = { readonly granted: true } | { readonly granted: false; readonly waitMs: number }

export interface SharedLimitOptions {
  readonly key: string
  readonly limit: Limit
  readonly store: Store
  readonly presence: Presence
  readonly log: Log
}

/** Tries to write while others write the same. */
const TRIES = 12
/** Before the first is tried again; grows up to eightfold. */
const CONFLICT_MS = 4
/** What could not be asked is asked again after about so long. */
const AWAY_MS = 1_000
/** What is left of a portion lapses. */
const PORTION_LIFE_MS = 1_000
/** State with slots in use is kept for so long, and written anew while they are: longer runs keep theirs. */
const HELD_TTL_MS = 3_600_000
const LEAST_TTL_MS = 1_000

/** A task that waits for a slot comes so many times in the time that a slot is held. */
const LOOKS_PER_RUN = 8
const SHORTEST_LOOK_MS = 5
const LONGEST_LOOK_MS = 10_000
/** Weight of the latest run in the average. */
const LATEST = 0.2

export class SharedLimit {
  readonly line = new Line()
  readonly #options: SharedLimitOptions
  #asks: Array<(answer: Answer) => void> = []
  #busy: Promise<void> | undefined
  /** Handlers that run here under this limit. */
  #running = 0
  /** Slots that are ours as far as the store knows; `NaN`: not known. */
  #stored = 0
  #storedAt = 0
  #portion = { count: 0, until: 0 }
  /** How long slots are held, on the average. */
  #heldMs: number | undefined
  /** When anything about this limit changed last. */
  #changedAt = Date.now()
  #revision = ""

  constructor(options: SharedLimitOptions) {
    this.#options = options
  }

  /** May one more run? What is granted must be given back with {@link release} if there is a `concurrency`. */
  ask(): Promise<Answer> {
    return new Promise((resolve) => {
      this.#asks.push(resolve)
      this.#wake()
    })
  }

  /** A handler has really ended that ran for so many milliseconds. */
  release(ranMs: number): void {
    if (this.#options.limit.concurrency === undefined) return
    this.#running--
    this.#heldMs = this.#heldMs === undefined ? ranMs : this.#heldMs * (1 - LATEST) + ranMs * LATEST
    this.#wake()
  }

  /** Whether it is about slots, which come back at no certain time. */
  get hasSlots(): boolean {
    return this.#options.limit.concurrency !== undefined
  }

  get running(): number {
    return this.#running
  }

  /** Whether nothing is to be remembered of it. */
  get isIdle(): boolean {
    return (
      this.#running === 0 &&
      !this.#owes &&
      this.#busy === undefined &&
      Math.max(this.line.end, this.#portion.until) < Date.now()
    )
  }

  /** How far apart those who wait should come again, in milliseconds. */
  get spacingMs(): number {
    const { rate, concurrency } = this.#options.limit
    // A little oversupply: of those who have an appointment some may have been cancelled.
    const byRate = rate === undefined ? 0 : rate.intervalMs * 0.75
    if (concurrency === undefined) return byRate
    const held = Math.max(this.#heldMs ?? 0, Date.now() - this.#changedAt)
    const look = held / (LOOKS_PER_RUN * concurrency)
    return Math.max(byRate, Math.min(LONGEST_LOOK_MS, Math.max(SHORTEST_LOOK_MS, look)))
  }

  /** Tells the store again what it may not know: after it was away, or when others may have taken our slots for free. */
  upkeep(lapsed: boolean): void {
    if (lapsed || (this.#running > 0 && Date.now() - this.#storedAt > HELD_TTL_MS / 2)) this.#stored = Number.NaN
    if (this.#owes) this.#wake()
  }

  /** Resolves when what was asked and given back is written, or could not be. */
  async settled(): Promise<void> {
    while (this.#busy !== undefined) await this.#busy
  }

  get #owes(): boolean {
    return this.#options.limit.concurrency !== undefined && this.#stored !== this.#running
  }

  #wake(): void {
    this.#busy ??= new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => this.#work())
      .then((done) => {
        this.#busy = undefined
        if (this.#asks.length > 0 || (done && this.#owes)) this.#wake()
      })
  }

  /** Resolves to whether the store could be reached. */
  async #work(): Promise<boolean> {
    while (this.#asks.length > 0 || this.#owes) {
      const asks = this.#asks.splice(0)
      let granted = 0
      let waitMs = 0
      let failed = false
      try {
        const answer = await this.#take(asks.length)
        granted = answer.granted
        waitMs = answer.waitMs
      } catch (cause) {
        // Never unlimited: what cannot be asked waits.
        this.#options.log.debug("a limit cannot be asked now", { limit: this.#options.key, cause: String(cause) })
        waitMs = AWAY_MS
        failed = true
      }
      for (const [at, answer] of asks.entries()) answer(at < granted ? { granted: true } : { granted: false, waitMs })
      if (failed) return false
    }
    return true
  }

  /** Takes up to `wanted`, and tells the store what was given back. */
  async #take(wanted: number): Promise<{ readonly granted: number; readonly waitMs: number }> {
    const { key, limit, store, presence } = this.#options
    const { rate, concurrency } = limit
    const portion = this.#portion.until > Date.now() ? this.#portion.count : 0
    const ours = presence.isSure ? this.#stored - this.#running : 0
    if (wanted > 0 && (concurrency === undefined || ours >= wanted) && (rate === undefined || portion >= wanted)) {
      this.#portion = { ...this.#portion, count: portion - wanted }
      return this.#grant(wanted, this.#stored)
    }
    if (concurrency !== undefined) await presence.begin()
    let wait = CONFLICT_MS
    for (let tries = 0; tries < TRIES; tries++) {
      const entry = await store.get(key)
      const now = await store.now()
      const state = decodeState(entry?.value)
      this.#look(entry)
      const running = this.#running
      const held = new Map(state.held)
      let slots = Number.POSITIVE_INFINITY
      if (concurrency !== undefined) {
        slots = concurrency - running - othersOf(held, presence.id)
        if (slots < wanted && (await this.#bury(held))) slots = concurrency - running - othersOf(held, presence.id)
      }
      const may = Math.max(0, Math.min(wanted, slots))
      const missing = may > portion ? may - portion : 0
      const taken =
        rate === undefined || (wanted > 0 && missing === 0)
          ? undefined
          : take(rate, state.tat, now, may === 0 ? 0 : Math.max(missing, burstOf(rate)))
      const granted = rate === undefined ? may : Math.min(may, portion + (taken?.granted ?? 0))
      const mine = running + granted
      if (concurrency !== undefined) {
        if (mine === 0) held.delete(presence.id)
        else held.set(presence.id, mine)
      }
      const tookSome = taken !== undefined && taken.granted > 0
      const answer = () => {
        this.#portion = {
          count: portion + (taken?.granted ?? 0) - granted,
          until: tookSome ? Date.now() + PORTION_LIFE_MS : this.#portion.until,
        }
        return { ...this.#grant(granted, mine), waitMs: taken?.waitMs ?? 0 }
      }
      const next: LimitState = { tat: tookSome ? taken.tat : state.tat, held }
      if (!tookSome && held.get(presence.id) === state.held.get(presence.id) && !this.#isOld) return answer()
      const expect = entry === undefined ? ("absent" as const) : { revision: entry.revision }
      const rateMs = Math.max(0, Math.ceil((next.tat ?? now) - now))
      const ttl = Math.max(rateMs + LEAST_TTL_MS, held.size > 0 ? HELD_TTL_MS : 0)
      if ((await store.write([{ key, value: encodeState(next), expect, ttl }])) === "written") {
        this.#storedAt = Date.now()
        return answer()
      }
      // Somebody else was first: not all again at the same moment.
      await new Promise((resolve) => setTimeout(resolve, wait * Math.random()))
      wait = Math.min(wait * 2, 8 * CONFLICT_MS)
    }
    // Wherever so many write, one that waits a moment is not the one who is missing.
    if (wanted === 0) throw new Error("too many write it at the same time")
    return { granted: 0, waitMs: AWAY_MS * Math.random() }
  }

  #grant(granted: number, stored: number): { readonly granted: number; readonly waitMs: number } {
    if (this.#options.limit.concurrency !== undefined) {
      this.#stored = stored
      this.#running += granted
    }
    if (granted > 0) this.#changedAt = Date.now()
    return { granted, waitMs: 0 }
  }

  get #isOld(): boolean {
    return Number.isNaN(this.#stored)
  }

  /** Others who run tasks under this limit are a change, too: who waits here need not wait for longer and longer. */
  #look(entry: Entry | undefined): void {
    const revision = entry?.revision ?? ""
    if (revision !== this.#revision) this.#changedAt = Date.now()
    this.#revision = revision
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

const othersOf = (held: ReadonlyMap<string, number>, own: string): number => {
  let others = 0
  for (const [id, count] of held) if (id !== own) others += count
  return others
}
