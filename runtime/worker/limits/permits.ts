/**
 * One limit that the cluster shares, of one method and tenant, as this worker takes part in it. The worker holds permits and
 * moments of the rate: to start and to end within those is its own affair. Only to hold more or fewer it writes the state.
 */
import type { Log } from "../../log/log.ts"
import { type Rate, reserve } from "../../options/rate.ts"
import type { Store } from "../../transport/store.ts"
import type { Presence } from "./presence.ts"
import { RateTokens } from "./rate-tokens.ts"
import { decidePermits, isSame } from "./share.ts"
import { decodeState, encodeState, type LimitState } from "./state.ts"

export interface PermitsOptions {
  readonly key: string
  /** How many may run at a time; `Infinity`: only the rate counts. */
  readonly concurrency: number
  readonly rate?: Rate
  readonly store: Store
  readonly presence: Presence
  readonly log: Log
  /** How many tasks wait here. */
  readonly waiting: () => number
  /** How many handlers this worker has. */
  readonly handlers: () => number
  /** Called when more may start than before, or later than was said. */
  readonly onChange: () => void
  /** Tells the other workers to look at this limit. */
  readonly notifyOthers: () => void
}

/** Moments of a rate are taken so long before they come: not at each start, and few are lost with a worker. */
const AHEAD_MS = 250
/** A store that is away is asked again after about so long. */
const AWAY_MS = 1_000
/** Tries to write while others write the same; before the first is tried again, growing up to eightfold. */
const TRIES = 12
const CONFLICT_MS = 4
/** State with permits that are held is kept for so long, and written again at half of it. */
const LASTING_MS = 3_600_000
const LEAST_TTL_MS = 1_000
/** The worker has not used all that it holds, so many times that it was looked at. */
const IDLE_TICKS = 2

export class Permits {
  readonly #options: PermitsOptions
  readonly #tokens: RateTokens | undefined
  #held = 0
  #running = 0
  /** How many may run while others ask for some, as the last look has shown. */
  #share = Number.POSITIVE_INFINITY
  /** It has asked for more than it got: others will say when some are free. */
  #isShort = false
  #othersHold = false
  /** When the rate has more, by the clock of `performance`. */
  #nextRequestAt = 0
  #idleTicks = 0
  #isUnsure = false
  #writtenAt = Number.NEGATIVE_INFINITY
  #busy: Promise<void> | undefined
  #again = false

  constructor(options: PermitsOptions) {
    this.#options = options
    this.#tokens = options.rate === undefined ? undefined : new RateTokens(options.rate)
  }

  get running(): number {
    return this.#running
  }

  /** Nothing is to be remembered of it. */
  get isIdle(): boolean {
    const now = performance.now()
    const rests = this.#tokens === undefined || (this.#tokens.left(now) === 0 && this.#nextRequestAt <= now)
    return (
      this.#held === 0 && this.#running === 0 && !this.#isShort && !this.#isUnsure && this.#busy === undefined && rests
    )
  }

  /** When a task may start, by the clock of `performance`; `Infinity`: it is not known yet. */
  startsAt(now: number): number {
    const { concurrency, presence } = this.#options
    if (concurrency !== Number.POSITIVE_INFINITY) {
      if (this.#running >= Math.min(this.#held, this.#share) || !presence.isFresh) return Number.POSITIVE_INFINITY
    }
    return this.#tokens === undefined ? now : (this.#tokens.next(now) ?? Number.POSITIVE_INFINITY)
  }

  /** One starts, which {@link startsAt} allows. */
  start(): void {
    this.#running++
    this.#tokens?.use()
  }

  /** Its handler has really ended. */
  end(): void {
    this.#running--
    if (this.#running < this.#held && this.#held > this.#share) this.sync()
  }

  /** One more waits, or has started: asks for what is missing, unless that was done. */
  requestMissing(now: number): void {
    const { waiting, concurrency } = this.#options
    if (waiting() === 0 || this.#busy !== undefined) return
    const hasPermit = concurrency === Number.POSITIVE_INFINITY || this.#running < Math.min(this.#held, this.#share)
    const isSlow = hasPermit && now >= this.#nextRequestAt && this.#missing(this.#held, now) > 0
    // A worker that has a permit for each of its handlers waits for a handler, not for a permit.
    const wantsPermit = !hasPermit && !this.#isShort && this.#wanted > this.#held
    if (wantsPermit || isSlow) this.sync()
  }

  /** When {@link requestMissing} is to be called at the latest. */
  get nextRequestAt(): number {
    return this.#tokens === undefined ? Number.POSITIVE_INFINITY : this.#nextRequestAt
  }

  /** Now and then: asks again while some wait, and gives back what is not used. */
  tick(): void {
    const isUsed = this.#options.waiting() > 0 || this.#held <= this.#running
    this.#idleTicks = isUsed ? 0 : this.#idleTicks + 1
    const isOld = this.#held > 0 && performance.now() - this.#writtenAt > LASTING_MS / 2
    // Those that hold some may have missed that this one asks.
    if (this.#isShort && this.#othersHold) this.#options.notifyOthers()
    if (this.#isUnsure || isOld || this.#isShort || this.#idleTicks >= IDLE_TICKS) this.sync()
    else this.requestMissing(performance.now())
  }

  /** Others may have taken its permits: only those in use are sure. */
  recheck(): void {
    this.#held = Math.min(this.#held, this.#running)
    this.#isUnsure = true
    this.sync()
  }

  /** Looks at the state, and changes what is to be changed. */
  sync(): void {
    this.#again = true
    this.#busy ??= this.#run().finally(() => {
      this.#busy = undefined
      if (this.#again) this.sync()
      // What came meanwhile may need more.
      this.requestMissing(performance.now())
    })
  }

  /** Gives back all that is not used, and resolves when that is written, or could not be. */
  async close(): Promise<void> {
    if (this.#held === 0 && !this.#isShort) return
    this.#idleTicks = IDLE_TICKS
    this.sync()
    await this.#busy
  }

  get #wanted(): number {
    const { waiting, handlers } = this.#options
    return Math.max(this.#running, Math.min(this.#running + waiting(), handlers()))
  }

  async #run(): Promise<void> {
    // What comes in one turn of the event loop is looked at together.
    await new Promise<void>((resolve) => setImmediate(resolve))
    const { log, key, onChange } = this.#options
    while (this.#again) {
      this.#again = false
      try {
        const isWritten = await this.#syncOnce()
        this.#isUnsure = !isWritten
        if (!isWritten) this.#nextRequestAt = performance.now() + CONFLICT_MS * TRIES
      } catch (cause) {
        // Never unlimited: what cannot be asked waits.
        log.debug("a limit cannot be asked now", { limit: key, cause: String(cause) })
        this.#isUnsure = true
        this.#nextRequestAt = performance.now() + AWAY_MS
        this.#again = false
      }
      onChange()
    }
  }

  /** Resolves to false when others wrote first each time. */
  async #syncOnce(): Promise<boolean> {
    const { store, key, concurrency, presence } = this.#options
    if (concurrency !== Number.POSITIVE_INFINITY && this.#wanted > 0) await presence.begin()
    let wait = CONFLICT_MS
    for (let tries = 0; tries < TRIES; tries++) {
      const [[entry], now] = await Promise.all([store.get([key]), store.now()])
      const found = decodeState(entry?.value)
      const living = await this.#living(found)
      const at = performance.now()
      const own = {
        id: presence.id,
        held: this.#held,
        running: this.#running,
        wanted: this.#wanted,
        isIdle: this.#idleTicks >= IDLE_TICKS,
      }
      const decision =
        concurrency === Number.POSITIVE_INFINITY
          ? { held: 0, share: concurrency, state: living, mustNotify: false }
          : decidePermits(living, own, concurrency, now)
      const taken = this.#take(decision.state.tat, decision.held, now, at)
      const next: LimitState = taken === undefined ? decision.state : { ...decision.state, tat: taken.tat }
      // What is given back is not used from now on, whatever becomes of the write.
      this.#held = Math.min(this.#held, decision.held)
      this.#share = decision.share
      if (!isSame(found, next)) {
        const expect = entry?.revision ?? ""
        const written = await store.write([{ key, value: encodeState(next), expect, ttl: ttlOf(next, now) }])
        if (written === "conflict") {
          // Not all again at the same moment.
          await new Promise((resolve) => setTimeout(resolve, wait * Math.random()))
          wait = Math.min(wait * 2, 8 * CONFLICT_MS)
          continue
        }
        this.#writtenAt = performance.now()
      }
      this.#held = decision.held
      this.#othersHold = [...living.held.keys()].some((id) => id !== presence.id)
      this.#isShort = own.wanted > decision.held && concurrency !== Number.POSITIVE_INFINITY
      if (taken !== undefined) {
        this.#tokens?.add(at + taken.first - now, taken.count)
        // Where it has more at once, half of what was taken is used up first.
        this.#nextRequestAt = taken.count < taken.wanted ? at + Math.max(taken.waitMs, AHEAD_MS / 2) : at
      }
      if (decision.mustNotify) this.#options.notifyOthers()
      return true
    }
    return false
  }

  /** How many more moments of the rate could be used by those that wait, with so many permits. */
  #missing(held: number, now: number): number {
    const { waiting, concurrency } = this.#options
    if (this.#tokens === undefined) return 0
    const isCapped = concurrency !== Number.POSITIVE_INFINITY
    // What finds no permit takes nothing of the rate.
    if (isCapped && this.#running >= held) return 0
    return Math.min(waiting(), isCapped ? held : waiting()) - this.#tokens.left(now)
  }

  #take(tat: number | undefined, held: number, now: number, at: number) {
    const { rate } = this.#options
    const missing = this.#missing(held, at)
    if (rate === undefined || this.#tokens === undefined || missing <= 0) return undefined
    const wanted = Math.max(missing, this.#tokens.grantSize)
    return { ...reserve(rate, tat, now, { wanted, aheadMs: AHEAD_MS }), wanted }
  }

  /** The state without workers that have died; they are looked for only where others matter. */
  async #living({ tat, held, asking }: LimitState): Promise<LimitState> {
    const { presence } = this.#options
    const others = [...new Set([...held.keys(), ...asking.keys()])].filter((id) => id !== presence.id)
    const alive = await Promise.all(others.map((id) => presence.isAlive(id)))
    const dead = new Set(others.filter((_, at) => alive[at] !== true))
    const lives = ([id]: readonly [string, unknown]): boolean => !dead.has(id)
    return { tat, held: new Map([...held].filter(lives)), asking: new Map([...asking].filter(lives)) }
  }
}

const ttlOf = ({ tat, held, asking }: LimitState, now: number): number => {
  const rateMs = Math.max(0, Math.ceil((tat ?? now) - now))
  return Math.max(rateMs + LEAST_TTL_MS, held.size > 0 || asking.size > 0 ? LASTING_MS : 0)
}
