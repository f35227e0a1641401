/**
 * One limit of a method and tenant that all workers share, as this worker takes part in it. The worker holds permits
 * and tokens of the rate. Starting and ending tasks within those costs nothing; the shared state is written only to
 * hold more or fewer.
 */
import type { Log } from "../../log/log.ts"
import { type Rate, reserve } from "../../options/limit.ts"
import type { Store } from "../../transport/store.ts"
import { nextTurn, sleep } from "../../transport/timers.ts"
import type { Presence } from "./presence.ts"
import { decidePermits, isSame, RateTokens } from "./share.ts"
import { decodeState, encodeState, type LimitState } from "./state.ts"

export interface PermitsOptions {
  readonly key: string
  /** Tasks that may run at a time on all workers; `Infinity`: only the rate counts. */
  readonly concurrency: number
  readonly rate?: Rate
  readonly store: Store
  readonly presence: Presence
  readonly log: Log
  /** Number of tasks that wait on this worker. */
  readonly waiting: () => number
  /** Handlers that this worker may run at a time. */
  readonly handlers: () => number
  /** Called when the time of the next start may have changed. */
  readonly onChange: () => void
  /** Notifies the other workers that this limit changed. */
  readonly notifyOthers: () => void
}

/**
 * Tokens are taken this long before they are due: long enough that not each start costs a write, and short enough that
 * few tokens are lost with a worker.
 */
const AHEAD_MS = 250
/** Delay before an unreachable store is asked again. */
const AWAY_MS = 1_000
/**
 * Attempts to write while other workers write the same state; the delay before the second one, which then grows up to
 * eightfold.
 */
const TRIES = 12
const CONFLICT_MS = 4
/** Time for which a state with permits is kept. It is written again at half of that. */
const LASTING_MS = 3_600_000
const MIN_TTL_MS = 1_000
/** Ticks in a row without use of all permits after which some are returned. */
const IDLE_TICKS = 2

export class Permits {
  readonly #options: PermitsOptions
  readonly #tokens: RateTokens | undefined
  #held = 0
  #running = 0
  /** Permits that may be used while other workers request some, as of the last synchronisation. */
  #share = Number.POSITIVE_INFINITY
  /** The worker has requested more permits than it got. Another worker notifies it when some are free. */
  #isShort = false
  #othersHold = false
  /** When the rate has more tokens, by `performance.now()`. */
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

  /** Whether nothing needs to be remembered of this limit. */
  get isIdle(): boolean {
    const now = performance.now()
    const rests = this.#tokens === undefined || (this.#tokens.left(now) === 0 && this.#nextRequestAt <= now)
    return (
      this.#held === 0 && this.#running === 0 && !this.#isShort && !this.#isUnsure && this.#busy === undefined && rests
    )
  }

  /** When the next task may start, by `performance.now()`; `Infinity`: unknown. */
  startsAt(now: number): number {
    const { concurrency, presence } = this.#options
    if (concurrency !== Number.POSITIVE_INFINITY) {
      if (this.#running >= Math.min(this.#held, this.#share) || !presence.isFresh) return Number.POSITIVE_INFINITY
    }
    return this.#tokens === undefined ? now : (this.#tokens.next(now) ?? Number.POSITIVE_INFINITY)
  }

  /** Counts a task that starts, as {@link startsAt} allows. */
  start(): void {
    this.#running++
    this.#tokens?.use()
  }

  /** Counts a task whose handler has really ended. */
  end(): void {
    this.#running--
    if (this.#running < this.#held && this.#held > this.#share) this.sync()
  }

  /** Requests missing permits or tokens, unless that was done. Called when a task begins to wait or has started. */
  requestMissing(now: number): void {
    const { waiting, concurrency } = this.#options
    if (waiting() === 0 || this.#busy !== undefined) return
    const hasPermit = concurrency === Number.POSITIVE_INFINITY || this.#running < Math.min(this.#held, this.#share)
    const isSlow = hasPermit && now >= this.#nextRequestAt && this.#missing(this.#held, now) > 0
    // A worker with a permit for each of its handlers waits for a handler, not for a permit.
    const wantsPermit = !hasPermit && !this.#isShort && this.#wanted > this.#held
    if (wantsPermit || isSlow) this.sync()
  }

  /** When {@link requestMissing} must be called again. */
  get nextRequestAt(): number {
    return this.#tokens === undefined ? Number.POSITIVE_INFINITY : this.#nextRequestAt
  }

  /** Called regularly: requests again while tasks wait, and returns unused permits. */
  tick(): void {
    const isUsed = this.#options.waiting() > 0 || this.#held <= this.#running
    this.#idleTicks = isUsed ? 0 : this.#idleTicks + 1
    const isOld = this.#held > 0 && performance.now() - this.#writtenAt > LASTING_MS / 2
    // Workers that hold permits may have missed the notification.
    if (this.#isShort && this.#othersHold) this.#options.notifyOthers()
    if (this.#isUnsure || isOld || this.#isShort || this.#idleTicks >= IDLE_TICKS) this.sync()
    else this.requestMissing(performance.now())
  }

  /** Called when other workers may have taken this worker's permits: only permits in use are certain. */
  recheck(): void {
    this.#held = Math.min(this.#held, this.#running)
    this.#isUnsure = true
    this.sync()
  }

  /** Synchronises with the shared state: reads it and writes what has to change. */
  sync(): void {
    this.#again = true
    this.#busy ??= this.#run().finally(() => {
      this.#busy = undefined
      if (this.#again) this.sync()
      // Tasks that came meanwhile may need more.
      this.requestMissing(performance.now())
    })
  }

  /** Returns all unused permits. Resolves when that was written, or could not be. */
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
    // Requests of one turn of the event loop are handled together.
    await nextTurn()
    const { log, key, onChange } = this.#options
    while (this.#again) {
      this.#again = false
      try {
        const isWritten = await this.#syncOnce()
        this.#isUnsure = !isWritten
        if (!isWritten) this.#nextRequestAt = performance.now() + CONFLICT_MS * TRIES
      } catch (cause) {
        // Without an answer tasks wait: a limit is never ignored.
        log.debug("the state of a limit could not be read or written", { limit: key, cause: String(cause) })
        this.#isUnsure = true
        this.#nextRequestAt = performance.now() + AWAY_MS
        this.#again = false
      }
      onChange()
    }
  }

  /** Resolves to false when another worker wrote first at each attempt. */
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
      // Returned permits are not used from now on, whatever becomes of the write.
      this.#held = Math.min(this.#held, decision.held)
      this.#share = decision.share
      if (!isSame(found, next)) {
        const expect = entry?.revision ?? ""
        const written = await store.write([{ key, value: encodeState(next), expect, ttl: ttlOf(next, now) }])
        if (written === "conflict") {
          // A random delay keeps the workers from trying again at the same moment.
          await sleep(wait * Math.random())
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
        // After a partial grant the next request waits for the rate, at least half of the time that is taken ahead.
        this.#nextRequestAt = taken.count < taken.wanted ? at + Math.max(taken.waitMs, AHEAD_MS / 2) : at
      }
      if (decision.mustNotify) this.#options.notifyOthers()
      return true
    }
    return false
  }

  /** Tokens that waiting tasks could use, with `held` permits, beyond those that are there. */
  #missing(held: number, now: number): number {
    const { waiting, concurrency } = this.#options
    if (this.#tokens === undefined) return 0
    const isCapped = concurrency !== Number.POSITIVE_INFINITY
    // A task without a permit needs no token.
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

  /** The state without dead workers. Another worker is looked up only where it holds or requests permits. */
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
  return Math.max(rateMs + MIN_TTL_MS, held.size > 0 || asking.size > 0 ? LASTING_MS : 0)
}
