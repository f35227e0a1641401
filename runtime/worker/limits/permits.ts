/**
 * One limit of a method and tenant that all workers share: its state in the store, how its permits are divided among the
 * workers, and how this worker takes part in it. The worker holds permits and tokens of the rate. Starting and ending tasks
 * within those costs nothing; the shared state is written only to hold more or fewer.
 */
import { createHash } from "node:crypto"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { WORKER_TTL_MS, WORKERS, type WorkerDescription } from "../../cluster/directory.ts"
import type { Log } from "../../log/log.ts"
import { type Rate, RateTokens, reserve } from "../../options/limit.ts"
import { decoder, encoder } from "../../protocol/text.ts"
import type { Store } from "../../transport/store.ts"
import { nextTurn, sleep } from "../../transport/timers.ts"

const State = Schema.Struct({
  /** Time of the first token of the rate that no worker has taken, by the store's clock. */
  tat: Schema.optionalKey(Schema.Finite),
  /** Permits, by the id of the worker that holds them. They count while that worker is alive. */
  held: Schema.optionalKey(Schema.Record(Schema.String, Schema.Int)),
  /** Requests, by worker id: since when, by the store's clock, and how many permits in all. */
  asking: Schema.optionalKey(Schema.Record(Schema.String, Schema.Tuple([Schema.Finite, Schema.Int]))),
})

/** A worker's request for permits. */
export interface PermitRequest {
  readonly since: number
  /** Permits that it could use in all, including those that it holds. */
  readonly wanted: number
}

export interface LimitState {
  readonly tat: number | undefined
  readonly held: ReadonlyMap<string, number>
  readonly asking: ReadonlyMap<string, PermitRequest>
}

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(State))

/** Decodes the state. A state that is missing or cannot be read is that of a limit that was never used. */
export const decodeState = (value: Uint8Array | undefined): LimitState => {
  const decoded = value === undefined ? undefined : Result.getOrUndefined(decode(decoder.decode(value)))
  const asking = Object.entries(decoded?.asking ?? {}).map(([id, [since, wanted]]) => [id, { since, wanted }] as const)
  return { tat: decoded?.tat, held: new Map(Object.entries(decoded?.held ?? {})), asking: new Map(asking) }
}

export const encodeState = ({ tat, held, asking }: LimitState): Uint8Array => {
  const requests = [...asking].map(([id, { since, wanted }]) => [id, [since, wanted]])
  return encoder.encode(
    JSON.stringify({
      ...(tat === undefined ? {} : { tat }),
      ...(held.size === 0 ? {} : { held: Object.fromEntries(held) }),
      ...(asking.size === 0 ? {} : { asking: Object.fromEntries(requests) }),
    }),
  )
}

export const LIMIT_PREFIX = "limit/"

/** Longest tenant that is used in a key as it is, in bytes: a key may have 512. Longer ones are hashed. */
const MAX_TENANT = 200

/** Key of a method's limit in the store; `tenant` is "" where the limit has no tenants. */
export const limitKey = (method: string, tenant: string): string => {
  const plain = Buffer.byteLength(tenant) <= MAX_TENANT && !tenant.startsWith("#")
  return `${LIMIT_PREFIX}${method}/${plain ? tenant : `#${createHash("sha256").update(tenant).digest("hex")}`}`
}

/** Key of a queue's limit in the store: no method has an empty name. */
export const queueLimitKey = (queue: string): string => limitKey("", queue)

/** A worker's own view of its permits and demand. */
interface Holder {
  readonly id: string
  readonly held: number
  /** Permits in use. */
  readonly running: number
  /** Permits that it could use now, including those in use. */
  readonly wanted: number
  /** Whether it has not used all its permits for a while. */
  readonly isIdle: boolean
}

interface PermitDecision {
  /** Permits that the worker holds from now on. */
  readonly held: number
  /** Permits that it may use while other workers request some, or more are held than there are; else `Infinity`. */
  readonly share: number
  readonly state: LimitState
  /**
   * Whether other workers must be notified: permits that they requested are free, or this worker requests permits that
   * they hold.
   */
  readonly mustNotify: boolean
}

/**
 * Where there are fewer permits than workers that need one, a worker keeps its permits this long before another gets
 * them.
 */
const TURN_MS = 500

interface Contender {
  readonly id: string
  readonly held: number
  readonly demand: number
  /** Since when the worker requests permits; absent where it does not. */
  readonly since: number | undefined
}

/**
 * The share of a worker. All workers get the same number, but none more than it can use. The remainder goes to workers
 * that hold permits already, for a while, then to the worker that has waited for the longest time.
 */
export const shareOf = (
  { held, asking }: LimitState,
  own: Pick<Holder, "id" | "held" | "wanted">,
  limit: number,
  now: number,
): number => {
  const others = [...new Set([...held.keys(), ...asking.keys()])].filter((id) => id !== own.id)
  const parties: ReadonlyArray<Contender> = [
    { id: own.id, held: own.held, demand: own.wanted, since: asking.get(own.id)?.since ?? now },
    ...others.map((id) => {
      const request = asking.get(id)
      const holds = held.get(id) ?? 0
      return { id, held: holds, demand: Math.max(holds, request?.wanted ?? 0), since: request?.since }
    }),
  ].sort((a, b) => a.demand - b.demand)
  let left = limit
  for (const [at, { id, demand }] of parties.entries()) {
    const rest = parties.slice(at)
    const even = Math.floor(left / rest.length)
    if (demand > even) {
      const order = rest.sort((a, b) => rankOf(a, even, now) - rankOf(b, even, now) || before(a, b))
      const place = order.findIndex((party) => party.id === own.id)
      return even + (place < left % rest.length ? 1 : 0)
    }
    if (id === own.id) return demand
    left -= demand
  }
  return own.wanted
}

const rankOf = ({ held, since }: Contender, even: number, now: number): number => {
  if (held <= even) return 1
  if (since === undefined) return 0
  const age = now - since
  // The clock may have been set back since the request.
  return age >= 0 && age < TURN_MS ? 0 : 2
}

const before = (a: Contender, b: Contender): number => (a.since ?? 0) - (b.since ?? 0) || (a.id < b.id ? -1 : 1)

/** Decides the permits of a worker. `state` contains only workers that are alive. */
export const decidePermits = (state: LimitState, own: Holder, limit: number, now: number): PermitDecision => {
  const { id, running, wanted } = own
  const request = state.asking.get(id)
  // Permits that the state does not show were given to other workers meanwhile. Only those in use cannot be taken back.
  const before = Math.max(running, Math.min(own.held, state.held.get(id) ?? 0))
  let others = 0
  for (const [holder, count] of state.held) if (holder !== id) others += count
  const free = limit - others - before
  const isContested = [...state.asking.keys()].some((asker) => asker !== id)
  // The limit was lowered.
  const isExceeded = free < 0
  const share = shareOf(state, { id, held: before, wanted }, limit, now)
  let held = before
  if (held < share) held += Math.max(0, Math.min(free, share - held))
  else if (isContested || isExceeded) held = Math.max(running, Math.min(held, share))
  else if (own.isIdle) held = Math.max(running, Math.min(held, wanted))

  const isStarved = wanted > held
  const mustForget = request !== undefined && !isStarved
  const asking = new Map(state.asking)
  if (mustForget) asking.delete(id)
  else if (isStarved && mustAsk(request, wanted, held !== before)) asking.set(id, { since: now, wanted })
  const holders = new Map(state.held)
  if (held > 0) holders.set(id, held)
  else holders.delete(id)
  const asksAnew = isStarved && request === undefined && others > 0
  return {
    held,
    share: isContested || isExceeded ? share : Number.POSITIVE_INFINITY,
    state: { tat: state.tat, held: holders, asking },
    mustNotify: asksAnew || (isContested && (held < before || mustForget)),
  }
}

/** The decision where any number may run: the worker needs no permit, and gives back those that it holds. */
const withoutPermits = ({ tat, held, asking }: LimitState, id: string): PermitDecision => {
  const isOther = ([holder]: readonly [string, unknown]): boolean => holder !== id
  const others = { tat, held: new Map([...held].filter(isOther)), asking: new Map([...asking].filter(isOther)) }
  return { held: 0, share: Number.POSITIVE_INFINITY, state: others, mustNotify: false }
}

/** A small change of a request is not worth a write. A worker that got permits goes to the end of the waiting order. */
const mustAsk = (request: PermitRequest | undefined, wanted: number, hasChanged: boolean): boolean =>
  request === undefined || hasChanged || wanted >= 2 * request.wanted || 2 * wanted <= request.wanted

/** Names a worker in the state of limits. With each start it is another one, which does not own the permits before it. */
export const holderOf = ({ instance, name }: Pick<WorkerDescription, "instance" | "name">): string =>
  `${instance ?? ""}/${name}`

/** Time for which the answer about another worker is cached. */
const BELIEVED_MS = 500
/** Part of the time after which other workers count this one as dead; the rest allows for late timers and answers. */
const FRESH = 0.8

/** This worker's entry in the directory. */
export interface OwnEntry {
  /** Milliseconds since it was last written, at most; `Infinity`: never. */
  readonly ageMs: number
  /** Called after each write, with the age that it had before. */
  onWritten: ((ageMs: number) => void) | undefined
  /** Writes it. Never rejects. */
  beat(): Promise<void>
}

/**
 * Milliseconds after which a worker with such a lease is dead, if it does not write its entry: with a short lease, once its entry
 * has been missing for as long as one lives.
 */
const lifeOf = (leaseMs: number): number => Math.max(2 * WORKER_TTL_MS, leaseMs)

/** What another worker's entry showed at the last look. */
interface Look {
  readonly at: number
  /** Since when the entry has been missing. */
  readonly missingSince: number | undefined
  readonly lifeMs: number
}

/**
 * The workers that hold permits, by their entries in the directory. A worker is dead once its entry has not been written
 * for as long as its lease, and at least for twice the life of an entry: after an outage, in which all entries expire, each worker
 * has what is left of this time to write its own again.
 */
export class Holders {
  /** Names this worker. */
  readonly id: string
  /** Milliseconds after which a worker that does not write its entry is dead. */
  readonly lifeMs: number
  readonly own: OwnEntry
  readonly #store: Store
  readonly #looks = new Map<string, Look>()

  constructor(store: Store, id: string, own: OwnEntry, leaseMs: number) {
    this.#store = store
    this.id = id
    this.own = own
    this.lifeMs = lifeOf(leaseMs)
  }

  /** Whether other workers certainly know that this one is alive. Only then are its permits its own. */
  get isFresh(): boolean {
    return this.own.ageMs < FRESH * this.lifeMs
  }

  /** Whether a worker is alive. Fails as the store does. */
  async isAlive(id: string): Promise<boolean> {
    const now = performance.now()
    const last = this.#looks.get(id)
    if (last !== undefined && last.missingSince === undefined && now - last.at < BELIEVED_MS) return true
    const name = id.slice(id.indexOf("/") + 1)
    const found = await WORKERS.get(this.#store, name)
    const isThere = found !== undefined && (found.value === undefined || holderOf(found.value) === id)
    // Between two looks that are further apart, the entry may have been written again.
    const isWatched = last !== undefined && now - last.at < WORKER_TTL_MS
    const missingSince = isThere ? undefined : ((isWatched ? last.missingSince : undefined) ?? now)
    const lease = isThere ? found.value?.lease : undefined
    const lifeMs = lease === undefined ? (last?.lifeMs ?? this.lifeMs) : lifeOf(1_000 * lease)
    this.#looks.set(id, { at: now, missingSince, lifeMs })
    return missingSince === undefined || now - missingSince < lifeMs - WORKER_TTL_MS
  }
}

export interface PermitsOptions {
  readonly key: string
  /** Tasks that may run at a time on all workers; `Infinity`: any number. */
  readonly concurrency: number
  readonly rate?: Rate
  readonly store: Store
  readonly holders: Holders
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
  #concurrency: number
  #held = 0
  #running = 0
  /** Permits that may be used while there are too few, as of the last synchronisation. */
  #share = Number.POSITIVE_INFINITY
  /** The worker has requested more permits than it got. Another worker notifies it when some are free. */
  #isShort = false
  #othersHold = false
  /** When the rate has more tokens, by `performance.now()`. */
  #nextRequestAt = 0
  /** When the store may be asked again after it could not be read or written. */
  #retryAt = 0
  #idleTicks = 0
  #isUnsure = false
  #writtenAt = Number.NEGATIVE_INFINITY
  #busy: Promise<void> | undefined
  #again = false
  /** Called when no task runs any more, once the worker stops. */
  #onAllEnded: (() => void) | undefined

  constructor(options: PermitsOptions) {
    this.#options = options
    this.#concurrency = options.concurrency
    this.#tokens = options.rate === undefined ? undefined : new RateTokens(options.rate)
  }

  get key(): string {
    return this.#options.key
  }

  /** Tasks that may run at a time on all workers; `Infinity`: any number. */
  get concurrency(): number {
    return this.#concurrency
  }

  /** Changes how many tasks may run at a time on all workers; those that run go on. */
  setConcurrency(concurrency: number): void {
    if (concurrency === this.#concurrency) return
    this.#concurrency = concurrency
    this.#isUnsure = true
    this.sync()
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
    if (this.isCapped && (this.unused <= 0 || !this.#options.holders.isFresh)) return Number.POSITIVE_INFINITY
    return this.#tokens === undefined ? now : (this.#tokens.next(now) ?? Number.POSITIVE_INFINITY)
  }

  /** Tasks that may start without more permits. */
  get unused(): number {
    if (!this.isCapped) return Number.POSITIVE_INFINITY
    return Math.min(this.#held, this.#share, this.#concurrency) - this.#running
  }

  /** Whether each handler that this worker could use for its tasks has a permit, and the rate lets the next one start. */
  isEnough(now: number): boolean {
    if (this.#tokens !== undefined && (this.#tokens.next(now) ?? Number.POSITIVE_INFINITY) > now) return false
    return !this.isCapped || Math.min(this.#held, this.#share, this.#concurrency) >= this.#wanted
  }

  /** Whether not any number may run. */
  get isCapped(): boolean {
    return this.#concurrency !== Number.POSITIVE_INFINITY
  }

  /** Counts a task that starts, as {@link startsAt} allows. */
  start(): void {
    this.#running++
    this.#tokens?.use()
  }

  /** Counts a task whose handler has really ended. */
  end(): void {
    this.#running--
    if (this.#running === 0) this.#onAllEnded?.()
    if (this.#running < this.#held && this.#held > this.#share) this.sync()
  }

  /** Requests missing permits or tokens, unless that was done. Called when a task begins to wait or has started. */
  requestMissing(now: number): void {
    if (this.#busy !== undefined || now < this.#retryAt || this.#options.waiting() === 0) return
    const hasPermit = this.unused > 0
    const isSlow = hasPermit && now >= this.#nextRequestAt && this.#missing(this.#held, now) > 0
    // A worker with a permit for each of its handlers waits for a handler, not for a permit.
    const wantsPermit = !hasPermit && !this.#isShort && this.#wanted > this.#held
    if (wantsPermit || isSlow) this.sync()
  }

  /** When {@link requestMissing} must be called again. */
  get nextRequestAt(): number {
    return Math.max(this.#tokens === undefined ? 0 : this.#nextRequestAt, this.#retryAt)
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

  /**
   * Returns the unused permits at once, and those in use when all their handlers have ended. Resolves when that was written, or
   * could not be.
   */
  async close(): Promise<void> {
    if (this.#held === 0 && !this.#isShort) return
    this.#idleTicks = IDLE_TICKS
    this.sync()
    await this.#busy
    if (this.#running === 0) return
    await new Promise<void>((resolve) => {
      this.#onAllEnded = resolve
    })
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
        if (!isWritten) this.#retryAt = performance.now() + CONFLICT_MS * TRIES
      } catch (cause) {
        // Without an answer tasks wait: a limit is never ignored.
        log.debug("the state of a limit could not be read or written", { limit: key, cause: String(cause) })
        this.#isUnsure = true
        this.#retryAt = performance.now() + AWAY_MS
        this.#again = false
      }
      onChange()
    }
  }

  /** Resolves to false when another worker wrote first at each attempt. */
  async #syncOnce(): Promise<boolean> {
    const { store, key, holders } = this.#options
    let wait = CONFLICT_MS
    for (let tries = 0; tries < TRIES; tries++) {
      const [[entry], now] = await Promise.all([store.get([key]), store.now()])
      const found = decodeState(entry?.value)
      const living = await this.#living(found)
      const at = performance.now()
      const own = {
        id: holders.id,
        held: this.#held,
        running: this.#running,
        wanted: this.#wanted,
        isIdle: this.#idleTicks >= IDLE_TICKS,
      }
      const decision = this.isCapped
        ? decidePermits(living, own, this.#concurrency, now)
        : withoutPermits(living, holders.id)
      const taken = this.#take(decision.state.tat, decision.held, now, at)
      const next: LimitState = taken === undefined ? decision.state : { ...decision.state, tat: taken.tat }
      // Returned permits are not used from now on, whatever becomes of the write.
      this.#held = Math.min(this.#held, decision.held)
      this.#share = decision.share
      const value = encodeState(next)
      const mustLast = decision.held > 0 && at - this.#writtenAt > LASTING_MS / 2
      if (mustLast || Buffer.compare(value, encodeState(found)) !== 0) {
        const expect = entry?.revision ?? ""
        const written = await store.write([{ key, value, expect, ttl: ttlOf(next, now) }])
        if (written === "conflict") {
          // A random delay keeps the workers from trying again at the same moment.
          await sleep(wait * Math.random())
          wait = Math.min(wait * 2, 8 * CONFLICT_MS)
          continue
        }
        this.#writtenAt = performance.now()
      }
      this.#held = decision.held
      this.#othersHold = [...living.held.keys()].some((id) => id !== holders.id)
      this.#isShort = own.wanted > decision.held && this.isCapped
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
    if (this.#tokens === undefined) return 0
    // A task without a permit needs no token.
    if (this.isCapped && this.#running >= held) return 0
    const waiting = this.#options.waiting()
    return Math.min(waiting, this.isCapped ? held : waiting) - this.#tokens.left(now)
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
    const { holders } = this.#options
    const others = [...new Set([...held.keys(), ...asking.keys()])].filter((id) => id !== holders.id)
    const alive = await Promise.all(others.map((id) => holders.isAlive(id)))
    const dead = new Set(others.filter((_, at) => alive[at] !== true))
    const lives = ([id]: readonly [string, unknown]): boolean => !dead.has(id)
    return { tat, held: new Map([...held].filter(lives)), asking: new Map([...asking].filter(lives)) }
  }
}

const ttlOf = ({ tat, held, asking }: LimitState, now: number): number => {
  const rateMs = Math.max(0, Math.ceil((tat ?? now) - now))
  return Math.max(rateMs + MIN_TTL_MS, held.size > 0 || asking.size > 0 ? LASTING_MS : 0)
}
