/**
 * Decides how many permits of a limit a worker is to hold, and keeps the tokens of a rate that it has taken. Pure: the same
 * state gives every worker the same division, and the clock is passed in.
 */

import { burstOf, latenessOf, type Rate, spacingOf } from "../../options/limit.ts"
import type { LimitState, PermitRequest } from "./state.ts"

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
  /** Permits that it may use while other workers request some; `Infinity` while none does. */
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
  return since === undefined || now - since < TURN_MS ? 0 : 2
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
  const share = shareOf(state, { id, held: before, wanted }, limit, now)
  let held = before
  if (held < share) held += Math.max(0, Math.min(free, share - held))
  else if (isContested) held = Math.max(running, Math.min(held, share))
  else if (own.isIdle) held = Math.max(running, Math.min(held, wanted))

  const isStarved = wanted > held
  const mustForget = request !== undefined && !isStarved && (own.isIdle || held !== state.held.get(id))
  const asking = new Map(state.asking)
  if (mustForget) asking.delete(id)
  else if (isStarved && mustAsk(request, wanted, held !== before)) asking.set(id, { since: now, wanted })
  const holders = new Map(state.held)
  if (held > 0) holders.set(id, held)
  else holders.delete(id)
  const asksAnew = isStarved && request === undefined && others > 0
  return {
    held,
    share: isContested ? share : Number.POSITIVE_INFINITY,
    state: { tat: state.tat, held: holders, asking },
    mustNotify: asksAnew || (isContested && (held < before || mustForget)),
  }
}

/** A small change of a request is not worth a write. A worker that got permits goes to the end of the waiting order. */
const mustAsk = (request: PermitRequest | undefined, wanted: number, hasChanged: boolean): boolean =>
  request === undefined || hasChanged || wanted >= 2 * request.wanted || 2 * wanted <= request.wanted

/** Whether two states are equal, so that no write is needed. */
export const isSame = (a: LimitState, b: LimitState): boolean =>
  a.tat === b.tat && sameCounts(a.held, b.held) && sameRequests(a.asking, b.asking)

const sameCounts = (a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>): boolean =>
  a.size === b.size && [...a].every(([id, count]) => b.get(id) === count)

const sameRequests = (a: LimitState["asking"], b: LimitState["asking"]): boolean =>
  a.size === b.size &&
  [...a].every(([id, { since, wanted }]) => b.get(id)?.since === since && b.get(id)?.wanted === wanted)

/** Tokens of a rate that this worker has taken from the shared state for its next starts. */
export class RateTokens {
  readonly #spacing: number
  readonly #lateness: number
  readonly #burst: number
  /** Grants of tokens, ordered by time: the time of the first token, and how many follow at the rate's spacing. */
  #grants: Array<{ readonly at: number; readonly count: number }> = []
  #grantSize = 0

  constructor(rate: Rate) {
    this.#spacing = spacingOf(rate)
    this.#lateness = latenessOf(rate)
    this.#burst = burstOf(rate)
  }

  /** Adds a grant whose first token is due at `at`. */
  add(at: number, count: number): void {
    if (count > 0) this.#grants.push({ at, count })
  }

  /** Number of tokens that have not expired. */
  left(now: number): number {
    this.#forget(now)
    return this.#grants.reduce((sum, { count }) => sum + count, 0)
  }

  /** When the next token is due; `undefined`: there is none. */
  next(now: number): number | undefined {
    this.#forget(now)
    return this.#grants[0]?.at
  }

  /** Uses the first token. */
  use(): void {
    this.#drop(1)
  }

  /**
   * Tokens to take at least with the next write. It doubles while all tokens are used, so that a high rate costs few
   * writes.
   */
  get grantSize(): number {
    this.#grantSize = Math.min(this.#burst, Math.max(1, this.#grantSize * 2))
    return this.#grantSize
  }

  #forget(now: number): void {
    for (let first = this.#grants[0]; first !== undefined; first = this.#grants[0]) {
      const lapsed = Math.ceil((now - this.#lateness - first.at) / this.#spacing)
      if (lapsed <= 0) return
      this.#grantSize = 0
      this.#drop(Math.min(lapsed, first.count))
    }
  }

  #drop(some: number): void {
    const [first, ...rest] = this.#grants
    if (first === undefined) return
    const count = first.count - some
    this.#grants = count > 0 ? [{ at: first.at + some * this.#spacing, count }, ...rest] : rest
  }
}
