/**
 * The limits of a worker's methods: how often one may start here (`rate`), and how often and how many at a time in the whole
 * cluster, per tenant (`limit`). A task that may not run now is not waited for: it goes back to the queue with a delay,
 * uncounted, so that others run.
 */
import type { ErasedMethod } from "../../actor.ts"
import type { Log } from "../../log.ts"
import { type Rate, take } from "../../rate.ts"
import type { Store } from "../../transport.ts"
import { jobError } from "../outcome/job-error.ts"
import { isPromiseLike } from "../running/invocation.ts"
import { Line } from "./line.ts"
import { Presence } from "./presence.ts"
import { SharedLimit } from "./shared-limit.ts"
import { limitKey } from "./state.ts"

export type Admission =
  /** It may run; `release` is to be called once, when its handler has really ended or was never called. */
  | { readonly kind: "admitted"; readonly release: () => void }
  /** Not now: it comes again after so many milliseconds. */
  | { readonly kind: "refused"; readonly delayMs: number; readonly by: RefusedBy }
  /** Its tenant cannot be told. */
  | { readonly kind: "invalid"; readonly message: string }

/** Which limit said no, and what it is, for people. */
export interface RefusedBy {
  readonly reason: "rate-limit" | "concurrency-limit" | "tenant-limit"
  readonly detail: string
}

export interface LimiterOptions {
  readonly store: Store
  readonly log: Log
  /** Off: nothing is limited. */
  readonly enabled: boolean
  /** Length of a lease: a worker that lost its slots has lost its deliveries, too. */
  readonly leaseMs: number
  /** Called with the key of this worker's entry, once it holds slots; whoever can keeps it alive if this thread blocks. */
  readonly onHolding: (key: string, ttlMs: number) => void
}

/** A task that asks. */
export interface Applicant {
  /** Actor and method, joined by a dot. */
  readonly name: string
  readonly method: ErasedMethod
  /** What the handler would get; of an isolated method, before its schema. */
  readonly input: unknown
  /** Whether it was delivered before. */
  readonly returning: boolean
}

/** Shortest life of a worker's entry: a thread that is busy for a moment must not lose its slots. */
const LEAST_PRESENCE_MS = 3_000
const UPKEEP_MS = 1_000
/** A task that is handed back comes again after this long at least. */
const LEAST_DELAY_MS = 5
const CLOSE_MS = 2_000
const MAX_TENANT_BYTES = 255

const NOTHING_TO_RELEASE = () => undefined

/** A rate of this worker alone. */
interface LocalRate {
  readonly rate: Rate
  tat: number | undefined
  readonly line: Line
}

export class Limiter {
  readonly #options: LimiterOptions
  readonly #presence: Presence
  readonly #shared = new Map<string, SharedLimit>()
  readonly #local = new Map<string, LocalRate>()
  /** Rates that were set while it runs; `null`: none. */
  readonly #rates = new Map<string, Rate | null>()
  readonly #timer: ReturnType<typeof setInterval>
  readonly #ttlMs: number
  #beatAt = 0

  constructor(options: LimiterOptions) {
    this.#options = options
    this.#ttlMs = Math.max(LEAST_PRESENCE_MS, options.leaseMs)
    this.#presence = new Presence(options.store, this.#ttlMs, () => options.onHolding(this.#presence.key, this.#ttlMs))
    this.#timer = setInterval(() => void this.#upkeep(), Math.min(UPKEEP_MS, this.#ttlMs / 3))
    this.#timer.unref()
  }

  /** Replaces the rate of a method on this worker; `null`: none any more. */
  setRate(name: string, rate: Rate | null): void {
    this.#rates.set(name, rate)
    this.#local.delete(name)
  }

  /** Whether tasks of a method need to be admitted. */
  limits(method: ErasedMethod, name: () => string): boolean {
    if (!this.#options.enabled) return false
    if (method.limit !== undefined || method.rate !== undefined) return true
    return this.#rates.size > 0 && this.#rateOf(name(), method) !== undefined
  }

  /** Whether a task may run now. Never fails: where the store cannot be asked, a task waits. */
  async admit(applicant: Applicant): Promise<Admission> {
    const { name, method, input } = applicant
    const { limit } = method
    const tenant = limit?.key === undefined ? "" : tenantOf(limit.key, input)
    if (typeof tenant !== "string") return { kind: "invalid", message: tenant.problem }
    const local = this.#localOf(name, method)
    const delayMs = local === undefined ? undefined : takeLocal(local, applicant)
    if (local !== undefined && delayMs !== undefined) return refused(delayMs, byRate(local.rate))
    if (limit === undefined) return { kind: "admitted", release: NOTHING_TO_RELEASE }
    const admission = await this.#ask(this.#sharedOf(limitKey(name, tenant), limit), applicant, () =>
      byLimit(limit, tenant),
    )
    // What it did not use is another's.
    if (admission.kind !== "admitted" && local?.tat !== undefined) local.tat -= local.rate.intervalMs
    return admission
  }

  /** Gives everything back. Resolves soon, whether or not the store can be reached: what is left lapses by itself. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    const shared = [...this.#shared.values()]
    const written = Promise.all(shared.map((each) => each.settled()))
      // Handlers that ignored their signal still run: their slots end with this process.
      .then(() => (shared.some((each) => each.running > 0) ? undefined : this.#presence.end()))
      .catch(() => undefined)
    let timer: ReturnType<typeof setTimeout> | undefined
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS)
    })
    await Promise.race([written, patience])
    clearTimeout(timer)
  }

  async #ask(shared: SharedLimit, { returning }: Applicant, by: () => RefusedBy): Promise<Admission> {
    const join = (waitMs: number): Admission => {
      const { spacingMs } = shared
      const leastMs = Math.max(waitMs, LEAST_DELAY_MS, shared.hasSlots ? spacingMs : 0)
      return refused(shared.line.join({ now: Date.now(), leastMs, spacingMs, returning, random: Math.random() }), by())
    }
    // Others wait already: whoever comes first must not be served before them, and need not be asked for.
    if (!returning && shared.line.end > Date.now() + shared.spacingMs) return join(0)
    const answer = await shared.ask()
    if (!answer.granted) return join(answer.waitMs)
    const from = Date.now()
    return { kind: "admitted", release: () => shared.release(Date.now() - from) }
  }

  #rateOf(name: string, method: ErasedMethod): Rate | undefined {
    const set = this.#rates.get(name)
    return set === undefined ? method.rate : (set ?? undefined)
  }

  #localOf(name: string, method: ErasedMethod): LocalRate | undefined {
    const rate = this.#rateOf(name, method)
    if (rate === undefined) return undefined
    let local = this.#local.get(name)
    if (local === undefined) {
      local = { rate, tat: undefined, line: new Line() }
      this.#local.set(name, local)
    }
    return local
  }

  #sharedOf(key: string, limit: NonNullable<ErasedMethod["limit"]>): SharedLimit {
    let shared = this.#shared.get(key)
    if (shared === undefined) {
      const { store, log } = this.#options
      shared = new SharedLimit({ key, limit, store, log, presence: this.#presence })
      this.#shared.set(key, shared)
    }
    return shared
  }

  async #upkeep(): Promise<void> {
    let lapsed = false
    const now = Date.now()
    if (this.#presence.hasBegun && now - this.#beatAt >= this.#ttlMs / 3) {
      this.#beatAt = now
      try {
        lapsed = await this.#presence.beat()
      } catch (cause) {
        this.#beatAt = 0
        this.#options.log.debug("the slots of limits could not be kept alive now", { cause: String(cause) })
      }
    }
    // Tenants come and go: of those who are gone nothing is kept.
    for (const [key, shared] of this.#shared) {
      shared.upkeep(lapsed)
      if (shared.isIdle) this.#shared.delete(key)
    }
  }
}

const refused = (delayMs: number, by: RefusedBy): Admission => ({
  kind: "refused",
  delayMs: Math.max(LEAST_DELAY_MS, delayMs),
  by,
})

const spaced = ({ intervalMs }: Rate): string => `one each ${Number((intervalMs / 1_000).toPrecision(3))} s`

const byRate = (rate: Rate): RefusedBy => ({ reason: "rate-limit", detail: `${spaced(rate)} on each worker` })

const byLimit = ({ rate, concurrency }: NonNullable<ErasedMethod["limit"]>, tenant: string): RefusedBy => {
  const rules = [
    ...(concurrency === undefined ? [] : [`${concurrency} at a time`]),
    ...(rate === undefined ? [] : [spaced(rate)]),
  ]
  const all = `${rules.join(" and ")} on all workers together`
  if (tenant !== "") return { reason: "tenant-limit", detail: `${all} for ${JSON.stringify(tenant)}` }
  return { reason: concurrency === undefined ? "rate-limit" : "concurrency-limit", detail: all }
}

/** Takes one of this worker's own rate, or says when to come again. */
const takeLocal = (local: LocalRate, { returning }: Applicant): number | undefined => {
  const now = performance.now()
  const { rate, line } = local
  const spacingMs = rate.intervalMs * 0.75
  const waits = !returning && line.end > now + spacingMs
  const taken = take(rate, local.tat, now, waits ? 0 : 1)
  if (taken.granted === 1) {
    local.tat = taken.tat
    return undefined
  }
  return line.join({ now, leastMs: taken.waitMs, spacingMs, returning, random: Math.random() })
}

const tenantOf = (key: (input: unknown) => unknown, input: unknown): string | { readonly problem: string } => {
  const rule = `limit.key must give text of 1 to ${MAX_TENANT_BYTES} bytes`
  try {
    const tenant = key(input)
    // Its failure is nobody's: it is refused all the same.
    if (isPromiseLike(tenant)) tenant.then(undefined, () => undefined)
    if (typeof tenant !== "string") return { problem: `${rule}, not ${tenant === null ? "null" : typeof tenant}` }
    const bytes = Buffer.byteLength(tenant)
    if (bytes < 1 || bytes > MAX_TENANT_BYTES || !tenant.isWellFormed())
      return { problem: `${rule}, not ${bytes} bytes` }
    return tenant
  } catch (thrown) {
    return { problem: `limit.key failed: ${jobError(thrown).message}` }
  }
}
