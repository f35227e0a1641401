/**
 * The limits of a worker's methods: how often a method may start on this worker (`rate`), and how often and how many at
 * a time across all workers, per tenant (`limit`). A task that may not start yet waits in the admission queue,
 * without a handler. When that is full, a task is given back to its broker queue with a delay, and the delivery does
 * not count as an attempt.
 */
import * as Result from "effect/Result"
import type { ErasedMethod } from "../../actor/actor.ts"
import type { Postponement } from "../../cluster/postponements.ts"
import { keepListening, LIMIT_TOPIC } from "../../connection/connection.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import type { Log } from "../../log/log.ts"
import { HIDDEN, hidesKey } from "../../log/redaction.ts"
import { type Rate, reserve, tenantOf } from "../../options/limit.ts"
import { decoder, encoder } from "../../protocol/text.ts"
import type { Broadcast } from "../../transport/mod.ts"
import type { Store } from "../../transport/store.ts"
import { MAX_TIMER_MS } from "../../transport/timers.ts"
import type { ActiveDelivery } from "../active-delivery.ts"
import { nameOf, type Target } from "../actors/actor-pool.ts"
import { precedes } from "../fetch/delivery-buffer.ts"
import { limitKey, Permits } from "./permits.ts"
import { Presence } from "./presence.ts"
import { Backlog, WaitingTasks } from "./waiting.ts"

export type Admission =
  /** The task may run. Call `release` once, when its handler has really ended or was never called. */
  | { readonly kind: "admitted"; readonly release: () => void }
  /** The task may not run yet: pass it to {@link Limiter.enqueue}. */
  | { readonly kind: "waits" }
  /** The tenant of the task cannot be determined. */
  | { readonly kind: "invalid"; readonly message: string }

/** A task that is deferred because the admission queue is full, and for how long. */
export interface LimitRefusal extends LimitReason {
  readonly active: ActiveDelivery
  readonly delayMs: number
}

/** The limit that holds a task up, with a text for people. */
interface LimitReason {
  readonly reason: "rate-limit" | "concurrency-limit" | "tenant-limit"
  readonly detail: string
}

export interface LimiterOptions {
  readonly store: Store
  readonly broadcast: Broadcast
  readonly log: Log
  /** False: nothing is limited. */
  readonly enabled: boolean
  /**
   * Length of a lease, in milliseconds. The worker's entry as a permit holder lives as long, since a worker that lost
   * its permits has lost its deliveries, too.
   */
  readonly leaseMs: number
  readonly isConnected: () => boolean
  /** Handlers that the worker may run at a time. */
  readonly handlers: () => number
  /** Largest number of tasks in the admission queue. */
  readonly limitCapacity: () => number
  /** Milliseconds that one task of a pull takes. */
  readonly pullMs: () => number
  /**
   * Called with the key of this worker's holder entry once it holds permits, so that the lease thread can keep the
   * entry alive while this thread is blocked.
   */
  readonly onHolding: (key: string, ttlMs: number) => void
  /** Called when a waiting task may start. */
  readonly onReady: () => void
  /** Whether a waiting task is to be processed without a permit, because it has expired or was revoked. */
  readonly isOver: (active: ActiveDelivery) => boolean
  /** Called with a task that has left the queue for that reason. */
  readonly onOver: (active: ActiveDelivery) => void
}

/** The limits of one method and tenant, with the backlog of its queue. */
interface Gate {
  readonly key: string
  readonly backlog: Backlog
  readonly local: LocalRate | undefined
  readonly permits: Permits | undefined
  readonly limit: ErasedMethod["limit"]
  readonly tenant: string
  /** Whether the method hides the tenant. */
  readonly isHidden: boolean
}

/** A rate that only this worker keeps. */
interface LocalRate {
  readonly rate: Rate
  tat: number | undefined
}

/** Shortest life of a worker's holder entry: a thread that is busy for a moment must not lose its permits. */
const MIN_PRESENCE_MS = 3_000
const TICK_MS = 500
const CLOSE_MS = 2_000
/** Largest number of limits that are synchronised with the store per tick. */
const MAX_TICKED = 50

export class Limiter {
  readonly #options: LimiterOptions
  readonly #presence: Presence
  readonly #gates = new Map<string, Gate>()
  readonly #queue: WaitingTasks<ActiveDelivery>
  /** The gate of each waiting task. */
  readonly #gateByTask = new WeakMap<ActiveDelivery, Gate>()
  readonly #local = new Map<string, LocalRate>()
  /** Rates that were set by remote control, by method; `null`: no rate. */
  readonly #rates = new Map<string, Rate | null>()
  readonly #ttlMs: number
  /** Set once there is a gate: a worker without limits has nothing to look at. */
  #timer: ReturnType<typeof setInterval> | undefined
  readonly #end = new AbortController()
  #alarm: ReturnType<typeof setTimeout> | undefined
  #alarmAt = Number.POSITIVE_INFINITY
  #isListening = false
  #beatAt = Number.NEGATIVE_INFINITY

  constructor(options: LimiterOptions) {
    this.#options = options
    this.#ttlMs = Math.max(MIN_PRESENCE_MS, options.leaseMs)
    this.#presence = new Presence(options.store, this.#ttlMs, () => options.onHolding(this.#presence.key, this.#ttlMs))
    this.#queue = new WaitingTasks({ capacity: options.limitCapacity, precedes })
  }

  /** Replaces the rate of a method on this worker; `null`: no rate. */
  setRate(name: string, rate: Rate | null): void {
    this.#rates.set(name, rate)
    this.#local.delete(name)
    // Tasks that wait already move to the new gate.
    for (const gate of [...this.#gates.values()]) {
      if (!gate.key.startsWith(limitKey(name, ""))) continue
      const waiting = this.#queue.tasksOf(gate.key)
      const next = { ...gate, local: this.#localOf(name, rate ?? undefined) }
      this.#gates.set(gate.key, next)
      for (const active of waiting) this.#gateByTask.set(active, next)
    }
    this.#options.onReady()
  }

  /** Whether a method has any limit, so that its tasks need to be admitted. */
  limits(target: Target): boolean {
    const { method } = target
    if (!this.#options.enabled) return false
    if (method.limit !== undefined || method.rate !== undefined) return true
    return this.#rates.size > 0 && this.#rateOf(nameOf(target), method) !== undefined
  }

  /**
   * Defers a task before its input is read, where it is certain that the queue has no space for its tenant. `hint`: the
   * tenant that the submitter sent.
   */
  refuseEarly(
    name: string,
    method: ErasedMethod,
    hint: string | undefined,
    active: ActiveDelivery,
  ): LimitRefusal | undefined {
    const tenant = method.limit?.key === undefined ? "" : hint
    if (tenant === undefined) return undefined
    const key = limitKey(name, tenant)
    const gate = this.#gates.get(key)
    if (gate === undefined || !this.#queue.isFullFor(key, active)) return undefined
    const now = performance.now()
    if (this.#startsAt(gate, now) <= now) return undefined
    if (active.delivery.deliveries > 1) gate.backlog.returned()
    return this.#refusal(gate, active, now)
  }

  /** Decides whether a task may run now. */
  admit(name: string, method: ErasedMethod, input: unknown, active: ActiveDelivery): Admission {
    const found = tenantIn(method, input)
    if (Result.isFailure(found)) return { kind: "invalid", message: found.failure }
    const gate = this.#gateOf(name, method, found.success)
    const now = performance.now()
    if (active.delivery.deliveries > 1) gate.backlog.returned()
    const first = this.#queue.first(gate.key)
    // A task does not overtake a waiting task of the same rank.
    if ((first === undefined || precedes(active, first)) && this.#startsAt(gate, now) <= now)
      return { kind: "admitted", release: this.#start(gate, now) }
    this.#gateByTask.set(active, gate)
    return { kind: "waits" }
  }

  /**
   * Adds a task that was not admitted to the queue. Returns the task that is deferred for it if the queue is full,
   * which may be the same task.
   */
  enqueue(active: ActiveDelivery): LimitRefusal | undefined {
    const gate = this.#gateByTask.get(active)
    if (gate === undefined) return undefined
    const now = performance.now()
    const deferred = this.#queue.add(gate.key, active)
    this.#updateBacklog(gate, now)
    gate.permits?.requestMissing(now)
    if (deferred === undefined) return undefined
    const other = this.#gateByTask.get(deferred) ?? gate
    this.#gateByTask.delete(deferred)
    this.#updateBacklog(other, now)
    return this.#refusal(other, deferred, now)
  }

  /** The first waiting task that may start now. */
  firstReady(): ActiveDelivery | undefined {
    let best: ActiveDelivery | undefined
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

  /** Takes the {@link firstReady} task out of the queue, with its permit. */
  grant(active: ActiveDelivery): void {
    const gate = this.#gateByTask.get(active)
    if (gate === undefined) return
    const now = performance.now()
    this.remove(active)
    active.permit = this.#start(gate, now)
    gate.permits?.requestMissing(now)
  }

  /** Removes a task from the queue. False if it did not wait. */
  remove(active: ActiveDelivery): boolean {
    const gate = this.#gateByTask.get(active)
    if (gate === undefined || !this.#queue.remove(gate.key, active)) return false
    this.#gateByTask.delete(active)
    this.#updateBacklog(gate, performance.now())
    return true
  }

  /** All waiting tasks. */
  get waiting(): ReadonlyArray<ActiveDelivery> {
    return [...this.#queue.keys].flatMap((key) => this.#queue.tasksOf(key))
  }

  /** Why tasks wait: the one with this id, or as many as `max`. */
  notes(id: string | undefined, max: number): ReadonlyArray<Postponement> {
    const now = performance.now()
    const notes: Array<Postponement> = []
    for (const key of this.#queue.keys)
      for (const [at, active] of this.#queue.tasksOf(key).entries()) {
        const { id: job = "", delivery } = active
        const gate = this.#gateByTask.get(active)
        if (gate === undefined || (id !== undefined && job !== id)) continue
        if (notes.length >= max) return notes
        const inMs = Math.max(TICK_MS, (at + 1) * gate.backlog.spacing(now))
        const until = Math.round(Date.now() + inMs)
        notes.push({ id: job, queue: delivery.queue, until, waits: true, ...this.#reasonOf(gate, now) })
      }
    return notes
  }

  /**
   * Called when no waiting task may start: requests missing permits, and sets a timer for the next start. `hasSlot`:
   * whether a handler is free.
   */
  scheduleNext(hasSlot: boolean): void {
    if (this.#queue.size === 0) return
    const now = performance.now()
    let next = Number.POSITIVE_INFINITY
    for (const key of this.#queue.keys) {
      const first = this.#queue.first(key)
      const gate = first === undefined ? undefined : this.#gateByTask.get(first)
      if (gate === undefined) continue
      const at = this.#startsAt(gate, now)
      // A task that may start but finds no free handler is started when a handler ends.
      if (at > now || hasSlot) next = Math.min(next, at)
      gate.permits?.requestMissing(now)
      const nextRequestAt = gate.permits?.nextRequestAt ?? Number.POSITIVE_INFINITY
      if (nextRequestAt > now) next = Math.min(next, nextRequestAt)
    }
    if (next === this.#alarmAt) return
    clearTimeout(this.#alarm)
    this.#alarmAt = next
    if (next === Number.POSITIVE_INFINITY) return
    this.#alarm = setTimeout(() => this.#onAlarm(), Math.min(MAX_TIMER_MS, Math.max(1, next - now)))
  }

  #onAlarm(): void {
    this.#alarmAt = Number.POSITIVE_INFINITY
    this.#options.onReady()
  }

  /** The connection is back. Notifications of other workers were missed meanwhile. */
  reconnected(): void {
    for (const { permits } of this.#gates.values()) permits?.sync()
    this.#options.onReady()
  }

  /** Called after this process was frozen: other workers may have taken its permits. */
  async resume(): Promise<void> {
    if (!this.#presence.hasBegun) return
    const lapsed = await this.#presence.beat().catch(() => true)
    if (lapsed) this.#surrender()
  }

  /**
   * Returns all permits. Resolves soon, even if the store cannot be reached: what is not returned expires by itself.
   */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    clearTimeout(this.#alarm)
    this.#end.abort()
    const all = [...this.#gates.values()].flatMap(({ permits }) => permits ?? [])
    const written = Promise.all(all.map((permits) => permits.close()))
      // Handlers that ignored their signal still run, so their permits are kept until this process ends.
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

  /** The backlog counts starts only while tasks wait. */
  #updateBacklog({ key, backlog }: Gate, now: number): void {
    backlog.setWaiting(this.#queue.first(key) !== undefined, now)
  }

  #refusal(gate: Gate, active: ActiveDelivery, now: number): LimitRefusal {
    return {
      active,
      delayMs: gate.backlog.postponedMs(now, active.delivery.deliveries, Math.random(), this.#options.pullMs()),
      ...this.#reasonOf(gate, now),
    }
  }

  #reasonOf({ local, limit, tenant, isHidden }: Gate, now: number): LimitReason {
    if (local !== undefined && (limit === undefined || reserve(local.rate, local.tat, now, NOW).waitMs > 0))
      return { reason: "rate-limit", detail: `${spaced(local.rate)} on each worker` }
    const { rate, concurrency } = limit ?? {}
    const rules = [
      ...(concurrency === undefined ? [] : [`${concurrency} at a time`]),
      ...(rate === undefined ? [] : [spaced(rate)]),
    ]
    const all = `${rules.join(" and ")} across all workers`
    if (tenant !== "")
      return { reason: "tenant-limit", detail: `${all} for ${isHidden ? HIDDEN : JSON.stringify(tenant)}` }
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
      backlog: new Backlog(),
      local,
      permits: this.#permitsOf(key, limit),
      limit,
      tenant,
      isHidden: hidesKey(method.redact, typeof limit?.key === "string" ? limit.key : undefined),
    }
    this.#gates.set(key, gate)
    this.#timer ??= setInterval(() => void this.#tick(), TICK_MS).unref()
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
      // A worker that misses the message synchronises at its next tick.
      notifyOthers: () =>
        void broadcast.send(LIMIT_TOPIC, encoder.encode(`${this.#presence.id} ${key}`)).catch(() => undefined),
    })
  }

  /** Listens for limits for which another worker requests permits or has returned some. */
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
    for (const active of this.waiting) {
      // A task that is over makes room, so that one after it may have been started in the meantime.
      if (this.#options.isOver(active) && this.remove(active)) this.#options.onOver(active)
    }
    const now = performance.now()
    const isDue = now - this.#beatAt >= this.#ttlMs / 3 - TICK_MS || !this.#presence.isFresh
    if (this.#presence.hasBegun && isDue && this.#options.isConnected()) {
      this.#beatAt = now
      const wasFresh = this.#presence.isFresh
      try {
        if (await this.#presence.beat()) this.#surrender()
        // While the entry was in doubt no task started by a permit that this worker has.
        else if (!wasFresh) this.#options.onReady()
      } catch (cause) {
        this.#beatAt = Number.NEGATIVE_INFINITY
        this.#options.log.debug("the entry with the permits of this worker could not be renewed", {
          cause: String(cause),
        })
      }
    }
    let ticked = 0
    for (const [key, gate] of [...this.#gates]) {
      const isEmpty = this.#queue.first(key) === undefined
      if (isEmpty && gate.permits?.isIdle !== false && gate.backlog.endsAt < performance.now()) {
        // Nothing is kept of tenants without tasks, since there may be very many.
        this.#gates.delete(key)
        continue
      }
      if (gate.permits === undefined || (isEmpty && gate.permits.isIdle) || ticked >= MAX_TICKED) continue
      ticked++
      gate.permits.tick()
      // Moves the gate behind the others, so that each gets its turn when there are more than one tick can handle.
      this.#gates.delete(key)
      this.#gates.set(key, gate)
    }
  }

  #surrender(): void {
    for (const { permits } of this.#gates.values()) permits?.recheck()
  }
}

/** The tenant of a job, or why it has none. */
const tenantIn = ({ limit }: ErasedMethod, input: unknown): Result.Result<string, string> => {
  try {
    return tenantOf(limit?.key, input)
  } catch (thrown) {
    return Result.fail(`limit.key failed: ${jobError(thrown).message}`)
  }
}

const NOW = { wanted: 0, aheadMs: 0 }
const ONE = { wanted: 1, aheadMs: 0 }

const spaced = ({ intervalMs }: Rate): string => `one each ${Number((intervalMs / 1_000).toPrecision(3))} s`
