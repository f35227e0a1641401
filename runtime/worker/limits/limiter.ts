/**
 * The limits of a worker's methods: how often one may start here (`rate`), and how often and how many at a time in the whole
 * cluster, per tenant (`limit`). A task that may not run now is not waited for: it goes back to the queue with a delay,
 * uncounted, so that others run.
 */
import type { ErasedMethod } from "../../actor.ts"
import type { Log } from "../../log.ts"
import { type Rate, take } from "../../rate.ts"
import type { Delivery, Posting, Store, StoreOperation } from "../../transport.ts"
import { Batcher } from "../outcome/batcher.ts"
import { jobError } from "../outcome/job-error.ts"
import { isPromiseLike } from "../running/invocation.ts"
import { Line } from "./line.ts"
import { placeOf } from "./place.ts"
import { Presence } from "./presence.ts"
import { RateLimit } from "./rate-limit.ts"
import { SlotLimit } from "./slot-limit.ts"
import { limitKey } from "./state.ts"

export type Admission =
  /** It may run; `release` is to be called once, when its handler has really ended or was never called. */
  | { readonly kind: "admitted"; readonly release: () => void }
  /** Not now: it comes again after so many milliseconds. */
  | Refusal
  /** Its tenant cannot be told. */
  | { readonly kind: "invalid"; readonly message: string }

export interface Refusal {
  readonly kind: "refused"
  readonly delayMs: number
  readonly by: RefusedBy
  /** To be called once the task is back in its queue: it then waits on a list, to be called before that. */
  readonly whenBack?: () => void
}

/** Which limit said no, and what it is, for people. */
export interface RefusedBy {
  readonly reason: "rate-limit" | "concurrency-limit" | "tenant-limit"
  readonly detail: string
}

export interface LimiterOptions {
  readonly store: Store
  /** Makes tasks that were put off due at once; absent where the transport cannot. */
  readonly hasten?: (tokens: ReadonlyArray<string>) => Promise<void>
  /** Whether a job is over. */
  readonly isOver: (id: string) => Promise<boolean>
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
  readonly delivery: Pick<Delivery, "token" | "sequence" | "deliveries">
  readonly posting: Pick<Posting, "id" | "queue" | "level">
}

/** Shortest life of a worker's entry: a thread that is busy for a moment must not lose its slots. */
const LEAST_PRESENCE_MS = 3_000
const UPKEEP_MS = 1_000
/** How often is looked which limits are due to be looked after, as long as some wait, and how many at a time at most. */
const ATTEND_MS = 100
const MOST_ATTENDED = 20
/**
 * Who waits on a list is called; should nobody call, it comes by itself after so long, then after twice as long, and so on,
 * so that thousands who wait cost nothing. Where nobody can call it comes much sooner.
 */
const UNCALLED_MS = 30_000
const LONGEST_UNCALLED_MS = 300_000
const SOON_MS = 500
const LONGEST_SOON_MS = 10_000
/** An entry of the list outlives the delay of its task by so much. */
const ENTRY_MS = 60_000
/** A task that is handed back comes again after this long at least. */
const LEAST_DELAY_MS = 5
const CLOSE_MS = 2_000
/** Entries that are written together. */
const MOST_ENTRIES = 128
const MAX_TENANT_BYTES = 255

const NOTHING_TO_RELEASE = () => undefined

type Limit = NonNullable<ErasedMethod["limit"]>

/** A rate of this worker alone. */
interface LocalRate {
  readonly rate: Rate
  tat: number | undefined
  readonly line: Line
}

export class Limiter {
  readonly #options: LimiterOptions
  readonly #presence: Presence
  /** Limits that the cluster shares: those with slots, and those of a rate alone. */
  readonly #slots = new Map<string, SlotLimit>()
  readonly #sharedRates = new Map<string, RateLimit>()
  readonly #local = new Map<string, LocalRate>()
  /** Rates that were set while it runs; `null`: none. */
  readonly #rates = new Map<string, Rate | null>()
  readonly #timer: ReturnType<typeof setInterval>
  readonly #ttlMs: number
  readonly #entries: Batcher<StoreOperation, true>
  #attending: ReturnType<typeof setInterval> | undefined
  #beatAt = 0

  constructor(options: LimiterOptions) {
    this.#options = options
    this.#ttlMs = Math.max(LEAST_PRESENCE_MS, options.leaseMs)
    this.#presence = new Presence(options.store, this.#ttlMs, () => options.onHolding(this.#presence.key, this.#ttlMs))
    this.#timer = setInterval(() => void this.#upkeep(), Math.min(UPKEEP_MS, this.#ttlMs / 3))
    this.#timer.unref()
    this.#entries = new Batcher(async (operations) => {
      await options.store.write(operations)
      return operations.map(() => true)
    }, MOST_ENTRIES)
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
    const admission = await this.#ask(limitKey(name, tenant), limit, applicant, () => byLimit(limit, tenant))
    // What it did not use is another's.
    if (admission.kind !== "admitted" && local?.tat !== undefined) local.tat -= local.rate.intervalMs
    return admission
  }

  /** Whether tasks that were put off are not on their list yet. */
  get isEntering(): boolean {
    return [...this.#slots.values()].some((limit) => limit.isEntering)
  }

  /** Gives everything back. Resolves soon, whether or not the store can be reached: what is left lapses by itself. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    clearInterval(this.#attending)
    const slots = [...this.#slots.values()]
    const written = Promise.all([...slots, ...this.#sharedRates.values()].map((limit) => limit.settled()))
      // Handlers that ignored their signal still run: their slots end with this process.
      .then(() => (slots.some(({ running }) => running > 0) ? undefined : this.#presence.end()))
      .catch(() => undefined)
    let timer: ReturnType<typeof setTimeout> | undefined
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS)
    })
    await Promise.race([written, patience])
    clearTimeout(timer)
  }

  async #ask(key: string, limit: Limit, applicant: Applicant, by: () => RefusedBy): Promise<Admission> {
    const { rate, concurrency } = limit
    if (concurrency !== undefined)
      return this.#askForSlot(
        this.#slotsOf(key, { concurrency, ...(rate === undefined ? {} : { rate }) }),
        applicant,
        by,
      )
    if (rate !== undefined) return this.#askForRate(this.#sharedRateOf(key, rate), applicant, by)
    return { kind: "admitted", release: NOTHING_TO_RELEASE }
  }

  async #askForRate(limit: RateLimit, { delivery, posting }: Applicant, by: () => RefusedBy): Promise<Admission> {
    const { spacingMs } = limit
    const returning = delivery.deliveries > 1
    const join = (waitMs: number): Admission => {
      const leastMs = Math.max(waitMs, LEAST_DELAY_MS)
      return refused(limit.line.join({ now: Date.now(), leastMs, spacingMs, returning, random: Math.random() }), by())
    }
    // Others wait already: whoever comes first must not be served before them, and need not be asked for.
    if (!returning && limit.line.end > Date.now() + spacingMs) return join(0)
    const answer = await limit.ask({ place: posting.id, returning })
    return answer.granted ? { kind: "admitted", release: NOTHING_TO_RELEASE } : join(answer.waitMs)
  }

  async #askForSlot(limit: SlotLimit, { delivery, posting }: Applicant, by: () => RefusedBy): Promise<Admission> {
    const { token, sequence, deliveries } = delivery
    const { id, queue } = posting
    const place = placeOf({ ...posting, sequence })
    const answer = await limit.ask({ place, returning: deliveries > 1 })
    if (answer.granted) return { kind: "admitted", release: () => limit.release() }
    this.#attend()
    const doubled = 2 ** Math.min(deliveries - 1, 10)
    if (!limit.calls || answer.away) {
      const delayMs = Math.min(LONGEST_SOON_MS, SOON_MS * doubled) * (0.75 + Math.random() / 2)
      return refused(Math.max(delayMs, answer.waitMs), by())
    }
    const delayMs = Math.min(LONGEST_UNCALLED_MS, UNCALLED_MS * doubled) * (0.75 + Math.random() / 2)
    const whenBack = () => {
      // It may have been forgotten as idle meanwhile.
      const known = this.#slots.get(limit.key) ?? limit
      this.#slots.set(limit.key, known)
      void known.enter({ place, token, id, queue }, delayMs + ENTRY_MS)
      this.#attend()
    }
    return { ...refused(delayMs, by()), whenBack }
  }

  /** Looks after those who wait, as long as there are some. */
  #attend(): void {
    this.#attending ??= setInterval(() => {
      const now = Date.now()
      let looks = 0
      let some = false
      for (const [key, limit] of this.#slots) {
        if (!limit.someWait) continue
        some = true
        if (looks >= MOST_ATTENDED || !limit.attend(now)) continue
        looks++
        // Behind the others: of very many none is passed over again and again.
        this.#slots.delete(key)
        this.#slots.set(key, limit)
      }
      if (some) return
      clearInterval(this.#attending)
      this.#attending = undefined
    }, ATTEND_MS)
    this.#attending.unref()
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

  #slotsOf(key: string, limit: { readonly concurrency: number; readonly rate?: Rate }): SlotLimit {
    let slots = this.#slots.get(key)
    if (slots === undefined) {
      const { store, log, hasten, isOver } = this.#options
      const enter = (operation: StoreOperation) => this.#entries.add(operation)
      const calls = hasten === undefined ? {} : { hasten }
      slots = new SlotLimit({ ...limit, key, store, log, presence: this.#presence, enter, isOver, ...calls })
      this.#slots.set(key, slots)
    }
    return slots
  }

  #sharedRateOf(key: string, rate: Rate): RateLimit {
    let shared = this.#sharedRates.get(key)
    if (shared === undefined) {
      const { store, log } = this.#options
      shared = new RateLimit({ key, rate, store, log })
      this.#sharedRates.set(key, shared)
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
    for (const [key, limit] of this.#slots) {
      limit.upkeep(lapsed)
      if (limit.isIdle) this.#slots.delete(key)
    }
    for (const [key, limit] of this.#sharedRates) if (limit.isIdle) this.#sharedRates.delete(key)
  }
}

const refused = (delayMs: number, by: RefusedBy): Refusal => ({
  kind: "refused",
  delayMs: Math.max(LEAST_DELAY_MS, delayMs),
  by,
})

const spaced = ({ intervalMs }: Rate): string => `one each ${Number((intervalMs / 1_000).toPrecision(3))} s`

const byRate = (rate: Rate): RefusedBy => ({ reason: "rate-limit", detail: `${spaced(rate)} on each worker` })

const byLimit = ({ rate, concurrency }: Limit, tenant: string): RefusedBy => {
  const rules = [
    ...(concurrency === undefined ? [] : [`${concurrency} at a time`]),
    ...(rate === undefined ? [] : [spaced(rate)]),
  ]
  const all = `${rules.join(" and ")} on all workers together`
  if (tenant !== "") return { reason: "tenant-limit", detail: `${all} for ${JSON.stringify(tenant)}` }
  return { reason: concurrency === undefined ? "rate-limit" : "concurrency-limit", detail: all }
}

/** Takes one of this worker's own rate, or says when to come again. */
const takeLocal = (local: LocalRate, { delivery }: Applicant): number | undefined => {
  const returning = delivery.deliveries > 1
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
