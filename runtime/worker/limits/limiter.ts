/**
 * The limits of a worker's methods: how often a method may start on this worker (`rate`), and how often and how many at
 * a time across all workers, per tenant (`limit`). A task that may not start yet waits in the admission queue,
 * without a handler. When that is full, a task is given back to its broker queue with a delay, and the delivery does
 * not count as an attempt.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { ErasedMethod } from "../../actor/actor.ts"
import type { Clock } from "../../async/clock.ts"
import { isEffect, type MaybeEffect } from "../../async/maybe-effect.ts"
import { HeldTasksReport } from "../../cluster/held-tasks.ts"
import type { Postponement } from "../../cluster/postponements.ts"
import { type Connection, keepListening, LIMIT_TOPIC } from "../../connection/connection.ts"
import type { Connectivity } from "../../connection/connectivity.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import type { Log } from "../../log/log.ts"
import { type Rate, tenantOf } from "../../options/limit.ts"
import type { Task } from "../../protocol/headers.ts"
import { decoder, encoder } from "../../protocol/text.ts"
import { MAX_TIMER_MS, waitFor } from "../../transport/timers.ts"
import type { ActiveDelivery, InputRead } from "../active-delivery.ts"
import { type ActorPool, nameOf, type Target } from "../actors/actor-pool.ts"
import { type DeliveryBuffer, precedes } from "../fetch/delivery-buffer.ts"
import { limitCapacityOf } from "../fetch/pull-size.ts"
import { hasExpired, notDueMs, type ParsedDelivery, type ReadDelivery } from "../parsed-delivery.ts"
import { type BodyOptions, bodyRules, invalidInput, readInput } from "../run/handler-input.ts"
import { resolveTask } from "../run/unknown-tasks.ts"
import { Limit, type LocalRate, mayStart, type Postponed } from "./limit.ts"
import { type Holders, limitKey, Permits } from "./permits.ts"
import type { Postponements } from "./postponements.ts"
import { WaitingTasks } from "./waiting.ts"

/** What was read of a task to ask its limits, and their answer. The input is not needed to see that the task is postponed. */
export interface Admission extends ReadDelivery {
  /** Absent if the task has no tenant, or its body cannot be used: it starts, to fail. */
  readonly limit?: Limit
  readonly start: ReturnType<typeof mayStart>
}

/** A task that is postponed. */
export interface PostponedTask extends Postponed {
  readonly active: ActiveDelivery
  /** Key of the limit that holds it up. */
  readonly limit: string
}

/** The deliveries of a worker, as its limits use them. */
export interface LimitedDeliveries {
  /** Starts what may start now. */
  pump(): void
  /** Processes a task that waited and needs no permit, because it has expired or was revoked. */
  stopWaiting(active: ActiveDelivery): void
}

export interface LimiterOptions {
  readonly connection: Pick<Connection, "store" | "broadcast">
  readonly connectivity: Pick<Connectivity, "connected">
  readonly log: Log
  readonly pool: ActorPool
  readonly bodies: BodyOptions
  readonly clock: Clock
  /** False: nothing is limited. */
  readonly enabled: boolean
  readonly holders: Holders
  readonly buffer: Pick<DeliveryBuffer, "concurrency" | "pullMs" | "state">
  readonly deliveries: LimitedDeliveries
  readonly postponements: Pick<Postponements, "byLimit">
  readonly isRevoked: (task: Task) => boolean
}

const TICK_MS = 500
const CLOSE_MS = 2_000
/** Largest number of limits that are synchronised with the store per tick. */
const MAX_TICKED = 50

export class Limiter {
  readonly #options: LimiterOptions
  readonly #report: HeldTasksReport
  readonly #limits = new Map<string, Limit>()
  readonly #waiting: WaitingTasks<ActiveDelivery>
  /** What was read of each waiting task. */
  readonly #admissions = new Map<ActiveDelivery, Admission>()
  /** The rates that only this worker keeps, by method; `null`: remote control has removed it. */
  readonly #local = new Map<string, LocalRate | null>()
  /** Whether a method that the worker serves has a limit. */
  readonly #isDefined: boolean
  /** Set once there is a limit: a worker without limits has nothing to look at. */
  #timer: ReturnType<typeof setInterval> | undefined
  readonly #end = new AbortController()
  #alarm: ReturnType<typeof setTimeout> | undefined
  #alarmAt = Number.POSITIVE_INFINITY
  #isListening = false

  constructor(options: LimiterOptions) {
    this.#options = options
    const { connection, log, holders } = options
    this.#report = new HeldTasksReport(connection.store, log, holders.id, holders.lifeMs)
    this.#waiting = new WaitingTasks<ActiveDelivery>({
      capacity: () => limitCapacityOf(options.buffer.state),
      precedes,
    })
    const methods = options.pool.actors.flatMap((actor) => [...actor.methods.values()])
    this.#isDefined = methods.some(({ limit, rate }) => limit !== undefined || rate !== undefined)
    holders.own.onWritten = (ageMs) => this.#entryWritten(ageMs)
  }

  /** Replaces the rate of a method on this worker; `null`: no rate. */
  setRate(name: string, rate: Rate | null): void {
    const local = rate === null ? null : { rate, tat: undefined }
    this.#local.set(name, local)
    for (const limit of this.#limits.values())
      if (limit.key.startsWith(limitKey(name, ""))) limit.local = local ?? undefined
    this.#options.deliveries.pump()
  }

  /** Whether any task may have to be asked about. */
  get isUsed(): boolean {
    return this.#options.enabled && (this.#isDefined || this.#local.size > 0)
  }

  /**
   * Asks the limits of a task; `undefined`: it has none. A task that will not be run (it has expired, was revoked, is not
   * due, or its actor is not ready) needs no permit.
   */
  ask(active: ActiveDelivery, parsed: ParsedDelivery): MaybeEffect<Admission> | undefined {
    const { pool, bodies, clock } = this.#options
    const { task, posting, level } = parsed
    const target = resolveTask(pool, task)
    if (!target.found || !this.#isLimited(target)) return undefined
    const { actor, method } = target
    if (actor.condition !== "ready" || this.#isOver(active, parsed)) return undefined
    if (notDueMs(parsed, clock.transportNow()) > 0) return undefined
    active.level = level
    const name = nameOf(target)
    // The input of a task that is certain to be postponed is not read. Its submitter may have sent the tenant.
    const tenant = method.limit?.key === undefined ? "" : task.own.tenant
    const limit = tenant === undefined ? undefined : this.#limits.get(limitKey(name, tenant))
    if (limit !== undefined) {
      const start = mayStart(active, limit, performance.now())
      if (typeof start === "object") {
        noteReturn(active, limit)
        return { ...parsed, limit, start }
      }
    }
    const reading = readInput(posting, method, bodyRules(bodies, task))
    return isEffect(reading)
      ? Effect.map(reading, (read) => this.#admit(active, target, parsed, read))
      : this.#admit(active, target, parsed, reading)
  }

  #isLimited(target: Target): boolean {
    const { method } = target
    if (method.limit !== undefined || method.rate !== undefined) return true
    return this.#local.size > 0 && Boolean(this.#local.get(nameOf(target)))
  }

  #isOver({ delivery }: ActiveDelivery, { task }: ParsedDelivery): boolean {
    const { clock, isRevoked } = this.#options
    return hasExpired(task, delivery.fresh, clock.transportNow()) || isRevoked(task)
  }

  #admit(active: ActiveDelivery, target: Target, parsed: ParsedDelivery, read: InputRead): Admission {
    if (Result.isFailure(read)) return { ...parsed, read, start: "now" }
    const { method } = target
    const tenant = tenantIn(method, read.success.input)
    if (Result.isFailure(tenant)) {
      const error = invalidInput({ field: "limit-key", message: tenant.failure })
      return { ...parsed, read: Result.fail({ error, embed: read.success.embed }), start: "now" }
    }
    const limit = this.#limitOf(nameOf(target), method, tenant.success)
    const now = performance.now()
    noteReturn(active, limit)
    const start = mayStart(active, limit, now)
    if (start === "now") active.admit(limit.start(now))
    return { ...parsed, read, limit, start }
  }

  /**
   * Makes a task wait that may not start now. Returns the task that is postponed: this one, or one that has to leave for
   * it.
   */
  enqueue(active: ActiveDelivery, admission: Admission): PostponedTask | undefined {
    const { limit, start } = admission
    if (limit === undefined || start === "now") return undefined
    const now = performance.now()
    if (typeof start === "object") return postponed(active, limit, start, now)
    this.#admissions.set(active, admission)
    const evicted = this.#waiting.add(limit.key, active)
    limit.waitersChanged(now)
    limit.permits?.requestMissing(now)
    if (evicted === undefined) return undefined
    const other = this.#admissions.get(evicted)?.limit ?? limit
    this.#admissions.delete(evicted)
    other.waitersChanged(now)
    const postponeUntil = other.returnsAt(evicted, now)
    return postponed(evicted, other, { postponeUntil, ...other.reasonAt(now) }, now)
  }

  /** The first waiting task that may start now. */
  firstReady(): ActiveDelivery | undefined {
    let best: ActiveDelivery | undefined
    if (this.#waiting.size === 0) return undefined
    const now = performance.now()
    for (const key of this.#waiting.keys) {
      const limit = this.#limits.get(key)
      const first = limit?.first
      if (limit === undefined || first === undefined || mayStart(first, limit, now) !== "now") continue
      if (best === undefined || precedes(first, best)) best = first
    }
    return best
  }

  /** Takes the {@link firstReady} task out of the queue, with its permit. */
  grant(active: ActiveDelivery): Admission | undefined {
    const admission = this.#admissions.get(active)
    if (admission?.limit === undefined) return undefined
    const now = performance.now()
    this.remove(active)
    active.admit(admission.limit.start(now))
    admission.limit.permits?.requestMissing(now)
    return admission
  }

  /** Removes a task from the queue. False if it did not wait. */
  remove(active: ActiveDelivery): boolean {
    const limit = this.#admissions.get(active)?.limit
    if (limit === undefined || !this.#waiting.remove(limit.key, active)) return false
    this.#admissions.delete(active)
    limit.waitersChanged(performance.now())
    return true
  }

  /** All waiting tasks. */
  get waiting(): ReadonlyArray<ActiveDelivery> {
    return [...this.#admissions.keys()]
  }

  /** Why tasks wait: the one with this id, or as many as `max`. */
  notes(id: string | undefined, max: number): ReadonlyArray<Postponement> {
    const now = performance.now()
    const notes: Array<Postponement> = []
    for (const key of this.#waiting.keys)
      for (const [at, { id: job = "", delivery }] of this.#waiting.tasksOf(key).entries()) {
        const limit = this.#limits.get(key)
        if (limit === undefined || (id !== undefined && job !== id)) continue
        if (notes.length >= max) return notes
        const inMs = Math.max(TICK_MS, (at + 1) * limit.backlog.spacing(now))
        const until = Math.round(Date.now() + inMs)
        notes.push({ id: job, queue: delivery.queue, until, waits: true, ...limit.reasonAt(now) })
      }
    return notes
  }

  /**
   * Called when no waiting task may start: requests missing permits, and sets a timer for the next start. `hasSlot`:
   * whether a handler is free.
   */
  scheduleNext(hasSlot: boolean): void {
    if (this.#waiting.size === 0) return
    const now = performance.now()
    let next = Number.POSITIVE_INFINITY
    for (const key of this.#waiting.keys) {
      const limit = this.#limits.get(key)
      if (limit === undefined) continue
      const at = limit.startsAt(now)
      // A task that may start but finds no free handler is started when a handler ends.
      if (at > now || hasSlot) next = Math.min(next, at)
      limit.permits?.requestMissing(now)
      const nextRequestAt = limit.permits?.nextRequestAt ?? Number.POSITIVE_INFINITY
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
    this.#options.deliveries.pump()
  }

  /** The connection is back. Notifications of other workers were missed meanwhile. */
  reconnected(): void {
    for (const { permits } of this.#limits.values()) permits?.sync()
    this.#options.deliveries.pump()
  }

  /** Called after this process was frozen: other workers may have taken its permits. */
  async resume(): Promise<void> {
    if (this.#limits.size > 0) await this.#options.holders.own.beat()
  }

  #entryWritten(ageMs: number): void {
    const { holders, deliveries } = this.#options
    if (ageMs >= holders.lifeMs) for (const { permits } of this.#limits.values()) permits?.recheck()
    // While the entry was in doubt no task started by a permit that this worker has.
    else if (this.#waiting.size > 0) deliveries.pump()
  }

  /**
   * Returns all permits. Resolves soon, even if the store cannot be reached: what is not returned expires by itself.
   */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    clearTimeout(this.#alarm)
    this.#end.abort()
    const all = [...this.#limits.values()].flatMap(({ permits }) => permits ?? [])
    const written = [this.#report.end(), ...all.map((permits) => permits.close())]
    await waitFor(Promise.all(written), CLOSE_MS)
  }

  #localOf(name: string, { rate }: ErasedMethod): LocalRate | undefined {
    const known = this.#local.get(name)
    if (known !== undefined || rate === undefined) return known ?? undefined
    const local = { rate, tat: undefined }
    this.#local.set(name, local)
    return local
  }

  #limitOf(name: string, method: ErasedMethod, tenant: string): Limit {
    const key = limitKey(name, tenant)
    const known = this.#limits.get(key)
    if (known !== undefined) return known
    const { connectivity, buffer } = this.#options
    const [permits, local] = [this.#permitsOf(key, method.limit), this.#localOf(name, method)]
    const limit = new Limit({ key, tenant, method, permits, local, waiting: this.#waiting, connectivity, buffer })
    this.#limits.set(key, limit)
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref()
    return limit
  }

  #permitsOf(key: string, rule: ErasedMethod["limit"]): Permits | undefined {
    if (rule === undefined) return undefined
    const { connection, log, buffer, deliveries, holders } = this.#options
    const { rate, concurrency = Number.POSITIVE_INFINITY } = rule
    if (concurrency !== Number.POSITIVE_INFINITY) this.#listen()
    return new Permits({
      key,
      concurrency,
      ...(rate === undefined ? {} : { rate }),
      store: connection.store,
      log,
      handlers: () => buffer.concurrency,
      holders,
      waiting: () => this.#waiting.tasksOf(key).length,
      onChange: () => deliveries.pump(),
      // A worker that misses the message synchronises at its next tick.
      notifyOthers: () =>
        void connection.broadcast
          .send(LIMIT_TOPIC, encoder.encode(`${senderOf(holders)} ${key}`))
          .catch(() => undefined),
    })
  }

  /** Listens for limits for which another worker requests permits or has returned some. */
  #listen(): void {
    if (this.#isListening) return
    this.#isListening = true
    const { connection, log, holders } = this.#options
    const heard = (payload: Uint8Array) => {
      const text = decoder.decode(payload)
      const at = text.indexOf(" ")
      if (text.slice(0, at) !== senderOf(holders)) this.#limits.get(text.slice(at + 1))?.permits?.sync()
    }
    void keepListening(connection.broadcast, LIMIT_TOPIC, heard, { log, signal: this.#end.signal })
  }

  #tick(): void {
    const { holders, connectivity, deliveries } = this.#options
    for (const [active, task] of [...this.#admissions]) {
      // A task that has expired makes room, so that one after it may have been started in the meantime.
      if (this.#isOver(active, task) && this.remove(active)) deliveries.stopWaiting(active)
    }
    if (!holders.isFresh && connectivity.connected) void holders.own.beat()
    if (connectivity.connected) this.#report.report(() => this.#held())
    let ticked = 0
    for (const [key, limit] of [...this.#limits]) {
      const { permits } = limit
      // Nothing is kept of tenants without tasks, since there may be very many.
      if (limit.isIdle(performance.now())) this.#limits.delete(key)
      else if (permits !== undefined && ticked < MAX_TICKED && !(limit.first === undefined && permits.isIdle)) {
        ticked++
        permits.tick()
        // Moves the limit behind the others, so that each gets its turn when there are more than one tick can handle.
        this.#limits.delete(key)
        this.#limits.set(key, limit)
      }
    }
  }

  /** How many tasks each limit holds up: those that wait here, and those that were postponed. */
  #held(): ReadonlyMap<string, number> {
    const { postponements, clock } = this.#options
    const held = postponements.byLimit(clock.now())
    for (const key of this.#waiting.keys) held.set(key, (held.get(key) ?? 0) + this.#waiting.tasksOf(key).length)
    return held
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

/** Names the worker in a message, without spaces. */
const senderOf = ({ id }: Holders): string => id.slice(0, id.indexOf("/"))

/** A task that was delivered before may have been postponed. */
const noteReturn = ({ delivery }: ActiveDelivery, { backlog }: Limit): void => {
  if (delivery.deliveries > 1) backlog.returned()
}

const postponed = (active: ActiveDelivery, limit: Limit, start: Postponed, now: number): PostponedTask => {
  limit.backlog.postponed(start.postponeUntil, now)
  return { ...start, active, limit: limit.key }
}
