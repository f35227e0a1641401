/**
 * The limits of a worker's methods: how often one may start here (`rate`), and how often and how many at a time in the whole
 * cluster, per tenant (`limit`). A task that may not start yet waits in the room, without a handler; one that finds no room
 * goes back to its queue with a delay, uncounted.
 */
import type { ErasedMethod } from "../../actor/actor.ts"
import type { Deferral } from "../../cluster/deferrals.ts"
import { LIMIT_TOPIC } from "../../connection/connection.ts"
import { keepListening } from "../../connection/listening.ts"
import type { Log } from "../../log/log.ts"
import { type Rate, reserve } from "../../options/rate.ts"
import type { Broadcast } from "../../transport/mod.ts"
import type { Store } from "../../transport/store.ts"
import type { InFlight } from "../delivery/in-flight.ts"
import { precedes } from "../fetch/delivery-buffer.ts"
import { AdmissionQueue, BacklogEstimate } from "./admission-queue.ts"
import { Permits } from "./permits.ts"
import { Presence } from "./presence.ts"
import { limitKey, tenantOf } from "./state.ts"

export type Admission =
  /** It may run; `release` is to be called once, when its handler has really ended or was never called. */
  | { readonly kind: "admitted"; readonly release: () => void }
  /** Not now: it is to {@link Limiter.enqueue}. */
  | { readonly kind: "waits" }
  /** Its tenant cannot be told. */
  | { readonly kind: "invalid"; readonly message: string }

/** A task that found no room, and is to be handed back for so long. */
export interface LimitRefusal extends LimitReason {
  readonly inFlight: InFlight
  readonly delayMs: number
}

/** Which limit said no, and what it is, for people. */
interface LimitReason {
  readonly reason: "rate-limit" | "concurrency-limit" | "tenant-limit"
  readonly detail: string
}

export interface LimiterOptions {
  readonly store: Store
  readonly broadcast: Broadcast
  readonly log: Log
  /** Off: nothing is limited. */
  readonly enabled: boolean
  /** Length of a lease: a worker that lost its permits has lost its deliveries, too. */
  readonly leaseMs: number
  readonly isConnected: () => boolean
  /** How many handlers the worker has. */
  readonly handlers: () => number
  /** How many tasks may wait in the room. */
  readonly limitCapacity: () => number
  /** Called with the key of this worker's entry, once it holds permits; whatever can keeps it alive if this thread blocks. */
  readonly onHolding: (key: string, ttlMs: number) => void
  /** Called when more may start than before. */
  readonly onReady: () => void
  /** Whether a task that waits is to be looked at without its permit: it has expired, or was revoked. */
  readonly isOver: (inFlight: InFlight) => boolean
  /** Takes a task that has left the room for that. */
  readonly onOver: (inFlight: InFlight) => void
}

/** What stands between the tasks of one method and tenant and their handlers. */
interface Gate {
  readonly key: string
  readonly backlog: BacklogEstimate
  readonly local: LocalRate | undefined
  readonly permits: Permits | undefined
  readonly limit: ErasedMethod["limit"]
  readonly tenant: string
}

/** A rate of this worker alone. */
interface LocalRate {
  readonly rate: Rate
  tat: number | undefined
}

/** Shortest life of a worker's entry: a thread that is busy for a moment must not lose its permits. */
const LEAST_PRESENCE_MS = 3_000
const TICK_MS = 500
const CLOSE_MS = 2_000
/** Timers that are to wait for longer fire at once. */
const LONGEST_ALARM_MS = 2 ** 31 - 1
/** Limits that are looked at in the store with each tick. */
const MOST_TICKED = 50

export class Limiter {
  readonly #options: LimiterOptions
  readonly #presence: Presence
  readonly #gates = new Map<string, Gate>()
  readonly #queue: AdmissionQueue<InFlight>
  /** Where those stand that wait. */
  readonly #gateByTask = new WeakMap<InFlight, Gate>()
  readonly #local = new Map<string, LocalRate>()
  /** Rates that were set while it runs; `null`: none. */
  readonly #rates = new Map<string, Rate | null>()
  readonly #ttlMs: number
  readonly #timer: ReturnType<typeof setInterval>
  readonly #end = new AbortController()
  #alarm: ReturnType<typeof setTimeout> | undefined
  #alarmAt = Number.POSITIVE_INFINITY
  #isListening = false
  #beatAt = Number.NEGATIVE_INFINITY

  constructor(options: LimiterOptions) {
    this.#options = options
    this.#ttlMs = Math.max(LEAST_PRESENCE_MS, options.leaseMs)
    this.#presence = new Presence(options.store, this.#ttlMs, () => options.onHolding(this.#presence.key, this.#ttlMs))
    this.#queue = new AdmissionQueue({ capacity: options.limitCapacity, precedes })
    this.#timer = setInterval(() => void this.#tick(), TICK_MS)
    this.#timer.unref()
  }

  /** Replaces the rate that a method has on this worker; `null`: none. */
  setRate(name: string, rate: Rate | null): void {
    this.#rates.set(name, rate)
    this.#local.delete(name)
    // Those that wait stand before a gate that is no more: they go through the new one.
    for (const gate of [...this.#gates.values()]) {
      if (!gate.key.startsWith(limitKey(name, ""))) continue
      const waiting = this.#queue.tasksOf(gate.key)
      const next = { ...gate, local: this.#localOf(name, rate ?? undefined) }
      this.#gates.set(gate.key, next)
      for (const inFlight of waiting) this.#gateByTask.set(inFlight, next)
    }
    this.#options.onReady()
  }

  /** Whether tasks of a method need to be admitted. */
  limits(method: ErasedMethod, name: () => string): boolean {
    if (!this.#options.enabled) return false
    if (method.limit !== undefined || method.rate !== undefined) return true
    return this.#rates.size > 0 && this.#rateOf(name(), method) !== undefined
  }

  /**
   * Says no to a task whose input nobody has read yet, where that is certain: there is no room for its tenant. `hint`: the
   * tenant as the submitter knew it.
   */
  refuseEarly(
    name: string,
    method: ErasedMethod,
    hint: string | undefined,
    inFlight: InFlight,
  ): LimitRefusal | undefined {
    const tenant = method.limit?.key === undefined ? "" : hint
    if (tenant === undefined) return undefined
    const key = limitKey(name, tenant)
    const gate = this.#gates.get(key)
    if (gate === undefined || !this.#queue.isFullFor(key, inFlight)) return undefined
    const now = performance.now()
    if (this.#startsAt(gate, now) <= now) return undefined
    if (inFlight.delivery.deliveries > 1) gate.backlog.returned()
    return this.#refusal(gate, inFlight, now)
  }

  /** Whether a task may run now, as far as this worker knows. */
  admit(name: string, method: ErasedMethod, input: unknown, inFlight: InFlight): Admission {
    const tenant = tenantOf(method.limit?.key, input)
    if (typeof tenant !== "string") return { kind: "invalid", message: tenant.problem }
    const gate = this.#gateOf(name, method, tenant)
    const now = performance.now()
    if (inFlight.delivery.deliveries > 1) gate.backlog.returned()
    const first = this.#queue.first(gate.key)
    // Equals are not overtaken.
    if ((first === undefined || precedes(inFlight, first)) && this.#startsAt(gate, now) <= now)
      return { kind: "admitted", release: this.#start(gate, now) }
    this.#gateByTask.set(inFlight, gate)
    return { kind: "waits" }
  }

  /** Lets a task into the room that was not admitted. DeferralNotes what has to leave it, if it is full: that may be the task itself. */
  enqueue(inFlight: InFlight): LimitRefusal | undefined {
    const gate = this.#gateByTask.get(inFlight)
    if (gate === undefined) return undefined
    const now = performance.now()
    const out = this.#queue.add(gate.key, inFlight)
    this.#updateBacklog(gate, now)
    gate.permits?.requestMissing(now)
    if (out === undefined) return undefined
    const other = this.#gateByTask.get(out) ?? gate
    this.#gateByTask.delete(out)
    this.#updateBacklog(other, now)
    return this.#refusal(other, out, now)
  }

  /** The first of those that wait and may start now. */
  firstReady(): InFlight | undefined {
    let best: InFlight | undefined
    if (this.#queue.size === 0) return undefined
    const now = performance.now()
    for (const key of this.#queue.keys) {
      const first = this.#queue.first(key)
      const gate = first === undefined ? undefined : this.#gateByTask.get(first)
      if (first === undefined || gate === undefined || this.#startsAt(gate, now) > now) continue
      if (best === undefined || precedes(first, best)) best = first
    }
    return best
  }

  /** Lets a task that is {@link firstReady} out of the room, with what it needs to start. */
  grant(inFlight: InFlight): void {
    const gate = this.#gateByTask.get(inFlight)
    if (gate === undefined) return
    const now = performance.now()
    this.remove(inFlight)
    inFlight.permit = this.#start(gate, now)
    gate.permits?.requestMissing(now)
  }

  /** It waits no more. False if it did not. */
  remove(inFlight: InFlight): boolean {
    const gate = this.#gateByTask.get(inFlight)
    if (gate === undefined || !this.#queue.remove(gate.key, inFlight)) return false
    this.#gateByTask.delete(inFlight)
    this.#updateBacklog(gate, performance.now())
    return true
  }

  /** Those that wait. */
  get waiting(): ReadonlyArray<InFlight> {
    return [...this.#queue.keys].flatMap((key) => this.#queue.tasksOf(key))
  }

  /** What holds up those that wait, of one job, or of as many as are asked for. */
  notes(id: string | undefined, most: number): ReadonlyArray<Deferral> {
    const now = performance.now()
    const notes: Array<Deferral> = []
    for (const key of this.#queue.keys)
      for (const [at, inFlight] of this.#queue.tasksOf(key).entries()) {
        const { id: job = "", delivery } = inFlight
        const gate = this.#gateByTask.get(inFlight)
        if (gate === undefined || (id !== undefined && job !== id)) continue
        if (notes.length >= most) return notes
        const inMs = Math.max(TICK_MS, (at + 1) * gate.backlog.spacing(now))
        const until = Math.round(Date.now() + inMs)
        notes.push({ id: job, queue: delivery.queue, until, waits: true, ...this.#reasonOf(gate, now) })
      }
    return notes
  }

  /** Called when all that may have started: asks for what is missing, and sets the alarm for the next one. `hasSlot`: a handler is free. */
  scheduleNext(hasSlot: boolean): void {
    if (this.#queue.size === 0) return
    const now = performance.now()
    let next = Number.POSITIVE_INFINITY
    for (const key of this.#queue.keys) {
      const first = this.#queue.first(key)
      const gate = first === undefined ? undefined : this.#gateByTask.get(first)
      if (gate === undefined) continue
      const at = this.#startsAt(gate, now)
      // One that may start by now waits for a handler, and is started when one ends.
      if (at > now || hasSlot) next = Math.min(next, at)
      gate.permits?.requestMissing(now)
      const nextRequestAt = gate.permits?.nextRequestAt ?? Number.POSITIVE_INFINITY
      if (nextRequestAt > now) next = Math.min(next, nextRequestAt)
    }
    if (next === this.#alarmAt) return
    clearTimeout(this.#alarm)
    this.#alarmAt = next
    if (next === Number.POSITIVE_INFINITY) return
    this.#alarm = setTimeout(() => this.#onAlarm(), Math.min(LONGEST_ALARM_MS, Math.max(1, next - now)))
  }

  #onAlarm(): void {
    this.#alarmAt = Number.POSITIVE_INFINITY
    this.#options.onReady()
  }

  /** The connection is back: what was told meanwhile was missed. */
  reconnected(): void {
    for (const { permits } of this.#gates.values()) permits?.sync()
    this.#options.onReady()
  }

  /** This process stood still for so long that others may have taken its permits. */
  async resume(): Promise<void> {
    if (!this.#presence.hasBegun) return
    const lapsed = await this.#presence.beat().catch(() => true)
    if (lapsed) this.#surrender()
  }

  /** Gives everything back. Resolves soon, whether or not the store can be reached: what is left lapses by itself. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    clearTimeout(this.#alarm)
    this.#end.abort()
    const all = [...this.#gates.values()].flatMap(({ permits }) => permits ?? [])
    const written = Promise.all(all.map((permits) => permits.close()))
      // Handlers that ignored their signal still run: their permits end with this process.
      .then(() => (all.some(({ running }) => running > 0) ? undefined : this.#presence.end()))
      .catch(() => undefined)
    let timer: ReturnType<typeof setTimeout> | undefined
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS)
    })
    await Promise.race([written, patience])
    clearTimeout(timer)
  }

  #startsAt({ local, permits }: Gate, now: number): number {
    if (!this.#options.isConnected() && permits !== undefined) return Number.POSITIVE_INFINITY
    const own = local === undefined ? now : now + reserve(local.rate, local.tat, now, NOW).waitMs
    return Math.max(own, permits?.startsAt(now) ?? now)
  }

  #start({ local, permits, backlog }: Gate, now: number): () => void {
    if (local !== undefined) local.tat = reserve(local.rate, local.tat, now, ONE).tat
    permits?.start()
    backlog.started(now)
    return () => permits?.end()
  }

  /** Whether tasks wait at a gate decides what its line learns of its starts. */
  #updateBacklog({ key, backlog }: Gate, now: number): void {
    backlog.setWaiting(this.#queue.first(key) !== undefined, now)
  }

  #refusal(gate: Gate, inFlight: InFlight, now: number): LimitRefusal {
    return {
      inFlight,
      delayMs: gate.backlog.deferralMs(now, inFlight.delivery.deliveries, Math.random()),
      ...this.#reasonOf(gate, now),
    }
  }

  #reasonOf({ local, limit, tenant }: Gate, now: number): LimitReason {
    if (local !== undefined && (limit === undefined || reserve(local.rate, local.tat, now, NOW).waitMs > 0))
      return { reason: "rate-limit", detail: `${spaced(local.rate)} on each worker` }
    const { rate, concurrency } = limit ?? {}
    const rules = [
      ...(concurrency === undefined ? [] : [`${concurrency} at a time`]),
      ...(rate === undefined ? [] : [spaced(rate)]),
    ]
    const all = `${rules.join(" and ")} on all workers together`
    if (tenant !== "") return { reason: "tenant-limit", detail: `${all} for ${JSON.stringify(tenant)}` }
    return { reason: concurrency === undefined ? "rate-limit" : "concurrency-limit", detail: all }
  }

  #rateOf(name: string, method: ErasedMethod): Rate | undefined {
    const set = this.#rates.get(name)
    return set === undefined ? method.rate : (set ?? undefined)
  }

  #localOf(name: string, rate: Rate | undefined): LocalRate | undefined {
    if (rate === undefined) return undefined
    const local = this.#local.get(name) ?? { rate, tat: undefined }
    this.#local.set(name, local)
    return local
  }

  #gateOf(name: string, method: ErasedMethod, tenant: string): Gate {
    const key = limitKey(name, tenant)
    const known = this.#gates.get(key)
    if (known !== undefined) return known
    const { limit } = method
    const local = this.#localOf(name, this.#rateOf(name, method))
    const gate: Gate = {
      key,
      backlog: new BacklogEstimate(),
      local,
      permits: this.#permitsOf(key, limit),
      limit,
      tenant,
    }
    this.#gates.set(key, gate)
    return gate
  }

  #permitsOf(key: string, limit: ErasedMethod["limit"]): Permits | undefined {
    if (limit === undefined) return undefined
    const { store, log, handlers, onReady, broadcast } = this.#options
    const { rate, concurrency = Number.POSITIVE_INFINITY } = limit
    if (concurrency !== Number.POSITIVE_INFINITY) this.#listen()
    return new Permits({
      key,
      concurrency,
      ...(rate === undefined ? {} : { rate }),
      store,
      log,
      handlers,
      presence: this.#presence,
      waiting: () => this.#queue.tasksOf(key).length,
      onChange: onReady,
      // Who does not hear it looks by itself, a little later.
      notifyOthers: () =>
        void broadcast.send(LIMIT_TOPIC, encoder.encode(`${this.#presence.id} ${key}`)).catch(() => undefined),
    })
  }

  /** Listens for limits of which others ask for permits, or have given some back. */
  #listen(): void {
    if (this.#isListening) return
    this.#isListening = true
    const { broadcast, log } = this.#options
    const heard = (payload: Uint8Array) => {
      const text = decoder.decode(payload)
      const at = text.indexOf(" ")
      if (text.slice(0, at) !== this.#presence.id) this.#gates.get(text.slice(at + 1))?.permits?.sync()
    }
    void keepListening(broadcast, LIMIT_TOPIC, heard, { log, signal: this.#end.signal })
  }

  async #tick(): Promise<void> {
    for (const inFlight of this.waiting) {
      if (!this.#options.isOver(inFlight)) continue
      this.remove(inFlight)
      this.#options.onOver(inFlight)
    }
    const now = performance.now()
    const isDue = now - this.#beatAt >= this.#ttlMs / 3 - TICK_MS || !this.#presence.isFresh
    if (this.#presence.hasBegun && isDue && this.#options.isConnected()) {
      this.#beatAt = now
      try {
        if (await this.#presence.beat()) this.#surrender()
      } catch (cause) {
        this.#beatAt = Number.NEGATIVE_INFINITY
        this.#options.log.debug("the permits of limits could not be kept alive now", { cause: String(cause) })
      }
    }
    let ticked = 0
    for (const [key, gate] of [...this.#gates]) {
      const isEmpty = this.#queue.first(key) === undefined
      if (isEmpty && gate.permits?.isIdle !== false && gate.backlog.endsAt < performance.now()) {
        // Tenants come and go: of those that are gone nothing is kept.
        this.#gates.delete(key)
        continue
      }
      if (gate.permits === undefined || (isEmpty && gate.permits.isIdle) || ticked >= MOST_TICKED) continue
      ticked++
      gate.permits.tick()
      // Behind the others: of very many none is passed over again and again.
      this.#gates.delete(key)
      this.#gates.set(key, gate)
    }
  }

  #surrender(): void {
    for (const { permits } of this.#gates.values()) permits?.recheck()
  }
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const NOW = { wanted: 0, aheadMs: 0 }
const ONE = { wanted: 1, aheadMs: 0 }

const spaced = ({ intervalMs }: Rate): string => `one each ${Number((intervalMs / 1_000).toPrecision(3))} s`
