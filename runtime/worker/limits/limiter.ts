/**
 * The limits of a worker: how often a method may start on this worker (`rate`), how often and how many at a time across all
 * workers, per tenant (`limit`), and how many tasks of a queue at a time (`maxInFlight`). A task that may not start yet waits
 * in the admission queue, without a handler. When that is full, a task is given back to its broker queue with a delay, and the
 * delivery does not count as an attempt.
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
import { type MethodLimit, type Rate, tenantOf } from "../../options/limit.ts"
import type { Task } from "../../protocol/headers.ts"
import { decoder, encoder } from "../../protocol/text.ts"
import { MAX_TIMER_MS, waitFor } from "../../transport/timers.ts"
import type { ActiveDelivery, InputRead } from "../active-delivery.ts"
import { type ActorPool, nameOf, type Target } from "../actors/actor-pool.ts"
import { type DeliveryBuffer, precedes } from "../fetch/delivery-buffer.ts"
import { limitCapacityOf } from "../fetch/pull-size.ts"
import type { QueueSubscription } from "../fetch/queue-subscription.ts"
import { hasExpired, notDueMs, type ParsedDelivery, type ReadDelivery } from "../parsed-delivery.ts"
import { type BodyOptions, invalidInput, readInput } from "../run/handler-input.ts"
import type { MethodSettingsCache } from "../run/method-settings.ts"
import { resolveTask } from "../run/unknown-tasks.ts"
import { Limit, type LocalRate, mayStart, type Postponed } from "./limit.ts"
import { type Holders, limitKey, Permits, queueLimitKey } from "./permits.ts"
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
  /** Processes a task that waited, and has expired, was revoked, or has other limits now. */
  stopWaiting(active: ActiveDelivery): void
  /** Gives back those for which there is no place in this worker. */
  handBackSurplus(): void
  /** Those of a queue whose runs have begun. */
  runningIn(queue: string): ReadonlyArray<ActiveDelivery>
}

export interface LimiterOptions {
  readonly connection: Pick<Connection, "store" | "broadcast">
  readonly connectivity: Pick<Connectivity, "connected">
  readonly log: Log
  readonly pool: ActorPool
  readonly bodies: BodyOptions
  readonly settings: Pick<MethodSettingsCache, "hardMsOf">
  readonly clock: Clock
  /** False: the limits of methods do not count. Those of queues do. */
  readonly enabled: boolean
  readonly holders: Holders
  readonly buffer: Pick<DeliveryBuffer, "concurrency" | "hasSlot" | "pullMs" | "state">
  readonly deliveries: LimitedDeliveries
  readonly postponements: Pick<Postponements, "byLimit">
  readonly subscription: Pick<QueueSubscription, "setFull">
  readonly isRevoked: (task: Task) => boolean
}

const TICK_MS = 500
const CLOSE_MS = 2_000
/** Largest number of limits that are synchronised with the store per tick. */
const MAX_TICKED = 50
/**
 * Parts of the limit capacity: once so many tasks wait for the limit of their queue no more are pulled of it, and there is room
 * again below the other part. What waits then lasts for the time of a pull. Full queues share the capacity.
 */
const FULL = 0.75
const ROOM = 0.2

/** What all workers share of a limit, and what needs it here: for a queue the limits of several methods, and the other way round. */
interface SharedPermits {
  readonly permits: Permits
  readonly limits: Set<Limit>
}

export class Limiter {
  readonly #options: LimiterOptions
  readonly #report: HeldTasksReport
  readonly #limits = new Map<string, Limit>()
  readonly #shared = new Map<string, SharedPermits>()
  /**
   * How many tasks may run at a time, by queue. After its limit was removed it is `Infinity` until none of its tasks runs, so
   * that these count if a limit is set again.
   */
  readonly #queues = new Map<string, number>()
  /** Queues of which no more tasks are to be pulled. */
  readonly #full = new Set<string>()
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
      if (limit.limitKey.startsWith(limitKey(name, ""))) limit.local = local ?? undefined
    this.#options.deliveries.pump()
  }

  /** Replaces the limits of queues: how many tasks may run at a time, by queue. */
  limitQueues(limits: ReadonlyMap<string, number>): void {
    for (const [queue, count] of limits) {
      const isNew = !this.#queues.has(queue)
      this.#queues.set(queue, count)
      if (isNew) this.#queueLimited(queue, count)
      else this.#shared.get(queueLimitKey(queue))?.permits.setConcurrency(count)
    }
    for (const queue of this.#queues.keys()) {
      if (limits.has(queue)) continue
      this.#queues.set(queue, Number.POSITIVE_INFINITY)
      this.#shared.get(queueLimitKey(queue))?.permits.setConcurrency(Number.POSITIVE_INFINITY)
    }
    this.#options.deliveries.pump()
  }

  /** Counts what runs already, and looks again at what waits. */
  #queueLimited(queue: string, count: number): void {
    const { deliveries } = this.#options
    const running = deliveries.runningIn(queue)
    if (running.length > 0) {
      const { permits } = this.#queuePermits(queue, count)
      for (const active of running) {
        permits.start()
        active.admit(() => permits.end())
      }
      permits.recheck()
    }
    for (const active of this.waiting) {
      if (active.delivery.queue === queue && this.remove(active)) deliveries.stopWaiting(active)
    }
  }

  /** Whether a task of this queue may have to be asked about. */
  concerns(queue: string): boolean {
    return (this.#queues.size > 0 && this.#queues.has(queue)) || this.#limitsMethods
  }

  get #limitsMethods(): boolean {
    return this.#options.enabled && (this.#isDefined || this.#local.size > 0)
  }

  /**
   * Asks the limits of a task; `undefined`: it has none. A task that will not be run (it has expired, was revoked, is not
   * due, or its actor is not ready) needs no permit.
   */
  ask(active: ActiveDelivery, parsed: ParsedDelivery): MaybeEffect<Admission> | undefined {
    const { pool, bodies, settings, clock } = this.#options
    const { task, level } = parsed
    const target = resolveTask(pool, task)
    if (!target.found) return undefined
    const { queue } = active.delivery
    const isLimited = this.#isLimited(target)
    if (!isLimited && !this.#queues.has(queue)) return undefined
    const { actor, method } = target
    if (actor.condition !== "ready" || this.#isOver(active, parsed)) return undefined
    if (notDueMs(parsed, clock.transportNow()) > 0) return undefined
    active.level = level
    if (!isLimited) return this.#decide(active, this.#limitOf(target, undefined, queue), parsed)
    // The input of a task that is certain to be postponed is not read. Its submitter may have sent the tenant.
    const tenant = method.limit?.key === undefined ? "" : task.own.tenant
    const limit = tenant === undefined ? undefined : this.#limits.get(this.#lineOf(nameOf(target), tenant, queue))
    if (limit !== undefined) {
      const start = mayStart(active, limit, performance.now())
      if (typeof start === "object") {
        noteReturn(active, limit)
        return { ...parsed, limit, start }
      }
    }
    const reading = readInput(active, parsed, method, bodies, settings)
    return isEffect(reading)
      ? Effect.map(reading, (read) => this.#admit(active, target, parsed, read))
      : this.#admit(active, target, parsed, reading)
  }

  #isLimited(target: Target): boolean {
    const { method } = target
    if (!this.#limitsMethods) return false
    if (method.limit !== undefined || method.rate !== undefined) return true
    return this.#local.size > 0 && Boolean(this.#local.get(nameOf(target)))
  }

  #isOver({ delivery }: ActiveDelivery, { task }: ParsedDelivery): boolean {
    const { clock, isRevoked } = this.#options
    return hasExpired(task, delivery.fresh, clock.transportNow()) || isRevoked(task)
  }

  #admit(active: ActiveDelivery, target: Target, parsed: ParsedDelivery, read: InputRead): Admission {
    // A delivery that was ended meanwhile is settled without its handler.
    if (Result.isFailure(read) || active.stop !== undefined) return { ...parsed, read, start: "now" }
    const { method } = target
    const tenant = tenantIn(method, read.success.input)
    if (Result.isFailure(tenant)) {
      const error = invalidInput({ field: "limit-key", message: tenant.failure })
      return { ...parsed, read: Result.fail({ error, embed: read.success.embed }), start: "now" }
    }
    const limit = this.#limitOf(target, tenant.success, active.delivery.queue)
    return this.#decide(active, limit, { ...parsed, read })
  }

  #decide(active: ActiveDelivery, limit: Limit, read: ReadDelivery): Admission {
    const now = performance.now()
    noteReturn(active, limit)
    const start = mayStart(active, limit, now)
    if (start === "now") active.admit(limit.start(now))
    return { ...read, limit, start }
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
    this.#waitersChanged(limit, now)
    limit.requestMissing(now)
    if (evicted === undefined) return undefined
    const other = this.#admissions.get(evicted)?.limit ?? limit
    this.#admissions.delete(evicted)
    this.#waitersChanged(other, now)
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
    admission.limit.requestMissing(now)
    return admission
  }

  /** Removes a task from the queue. False if it did not wait. */
  remove(active: ActiveDelivery): boolean {
    const limit = this.#admissions.get(active)?.limit
    if (limit === undefined || !this.#waiting.remove(limit.key, active)) return false
    this.#admissions.delete(active)
    this.#waitersChanged(limit, performance.now())
    return true
  }

  #waitersChanged(limit: Limit, now: number): void {
    limit.waitersChanged(now)
    if (limit.inQueue !== undefined) this.#updateFull(limit.inQueue.queue, now)
  }

  #updateFull(queue: string, now: number): void {
    let waiting = 0
    for (const each of this.#shared.get(queueLimitKey(queue))?.limits ?? []) waiting += each.countInQueue(now)
    const wasFull = this.#full.has(queue)
    const others = this.#full.size - (wasFull ? 1 : 0)
    const isFull = waiting >= ((wasFull ? ROOM : FULL) * limitCapacityOf(this.#options.buffer.state)) / (1 + others)
    if (isFull === wasFull) return
    if (isFull) this.#full.add(queue)
    else this.#full.delete(queue)
    this.#options.subscription.setFull(queue, isFull)
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
        if (limit === undefined || (id !== undefined && job !== id) || limit.waitsForHandler(now)) continue
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
      limit.requestMissing(now)
      for (const { nextRequestAt } of limit.permits) if (nextRequestAt > now) next = Math.min(next, nextRequestAt)
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
    for (const { permits } of this.#shared.values()) permits.sync()
    this.#options.deliveries.pump()
  }

  /** Called after this process was frozen: other workers may have taken its permits. */
  async resume(): Promise<void> {
    if (this.#shared.size > 0) await this.#options.holders.own.beat()
  }

  #entryWritten(ageMs: number): void {
    const { holders, deliveries } = this.#options
    if (ageMs >= holders.lifeMs) for (const { permits } of this.#shared.values()) permits.recheck()
    // While the entry was in doubt no task started by a permit that this worker has.
    else if (this.#waiting.size > 0) deliveries.pump()
  }

  /**
   * Returns all permits, those of handlers that still run once these have ended. Resolves within two seconds, even if a handler
   * ignores its signal or the store cannot be reached: what is not returned is free when the worker has left the directory.
   */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    clearTimeout(this.#alarm)
    this.#end.abort()
    const closed = [...this.#shared.values()].map(({ permits }) => permits.close())
    await waitFor(Promise.all([this.#report.end(), ...closed]), CLOSE_MS)
  }

  #localOf(name: string, { rate }: ErasedMethod): LocalRate | undefined {
    const known = this.#local.get(name)
    if (known !== undefined || rate === undefined) return known ?? undefined
    const local = { rate, tat: undefined }
    this.#local.set(name, local)
    return local
  }

  /** Names the line of waiting tasks. */
  #lineOf(method: string, tenant: string, queue: string): string {
    const key = limitKey(method, tenant)
    if (this.#queues.size === 0 || !this.#queues.has(queue)) return key
    // A tenant may be any text: with the length in front no two lines have one name.
    return `${key.length} ${key} ${queueLimitKey(queue)}`
  }

  /** `tenant`: `undefined` where the queue alone is limited. */
  #limitOf(target: Target, tenant: string | undefined, queue: string): Limit {
    const name = nameOf(target)
    const key = tenant === undefined ? queueLimitKey(queue) : this.#lineOf(name, tenant, queue)
    const known = this.#limits.get(key)
    if (known !== undefined) return known
    const { connectivity, buffer } = this.#options
    const { method } = target
    const shared =
      tenant === undefined || method.limit === undefined
        ? undefined
        : this.#permitsOf(limitKey(name, tenant), method.limit)
    const concurrency = this.#queues.get(queue)
    const inQueue = concurrency === undefined ? undefined : this.#queuePermits(queue, concurrency)
    const limit = new Limit({
      key,
      limitKey: tenant === undefined ? key : limitKey(name, tenant),
      tenant: tenant ?? "",
      ...(tenant === undefined ? {} : { method, permits: shared?.permits, local: this.#localOf(name, method) }),
      inQueue: inQueue && { queue, permits: inQueue.permits },
      waiting: this.#waiting,
      connectivity,
      buffer,
    })
    this.#limits.set(key, limit)
    for (const each of [shared, inQueue]) each?.limits.add(limit)
    this.#startTicking()
    return limit
  }

  #queuePermits(queue: string, concurrency: number): SharedPermits {
    // Also without a limit, since one may be set while these permits are there.
    this.#listen()
    return this.#permitsOf(queueLimitKey(queue), { concurrency })
  }

  #permitsOf(key: string, rule: Pick<MethodLimit, "rate" | "concurrency">): SharedPermits {
    const known = this.#shared.get(key)
    if (known !== undefined) return known
    const { connection, log, buffer, deliveries, holders } = this.#options
    const { rate, concurrency = Number.POSITIVE_INFINITY } = rule
    if (concurrency !== Number.POSITIVE_INFINITY) this.#listen()
    const limits = new Set<Limit>()
    const permits: Permits = new Permits({
      key,
      concurrency,
      ...(rate === undefined ? {} : { rate }),
      store: connection.store,
      log,
      handlers: () => buffer.concurrency,
      holders,
      waiting: () => {
        let waiting = 0
        for (const limit of limits) waiting += limit.demandFor(permits, performance.now())
        return waiting
      },
      onChange: () => deliveries.pump(),
      // A worker that misses the message synchronises at its next tick.
      notifyOthers: () =>
        void connection.broadcast
          .send(LIMIT_TOPIC, encoder.encode(`${senderOf(holders)} ${key}`))
          .catch(() => undefined),
    })
    const shared = { permits, limits }
    this.#shared.set(key, shared)
    this.#startTicking()
    return shared
  }

  #startTicking(): void {
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref()
  }

  /** Listens for limits for which another worker requests permits or has returned some. */
  #listen(): void {
    if (this.#isListening) return
    this.#isListening = true
    const { connection, log, holders } = this.#options
    const heard = (payload: Uint8Array) => {
      const text = decoder.decode(payload)
      const at = text.indexOf(" ")
      if (text.slice(0, at) !== senderOf(holders)) this.#shared.get(text.slice(at + 1))?.permits.sync()
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
    // Tasks that have waited for their queue may wait for their method now.
    for (const queue of this.#full) this.#updateFull(queue, performance.now())
    if (!this.#options.buffer.hasSlot) this.#releaseUnlimited()
    // Nothing is kept of tenants without tasks, since there may be very many.
    for (const [key, limit] of this.#limits) if (limit.isIdle(performance.now())) this.#forget(key, limit)
    let ticked = 0
    for (const [key, shared] of [...this.#shared]) {
      const { permits, limits } = shared
      if (permits.isIdle && limits.size === 0) this.#shared.delete(key)
      else if (ticked < MAX_TICKED && !(permits.isIdle && isEmpty(limits))) {
        ticked++
        permits.tick()
        // Moves it behind the others, so that each gets its turn when there are more than one tick can handle.
        this.#shared.delete(key)
        this.#shared.set(key, shared)
      }
    }
    for (const [queue, count] of this.#queues)
      if (count === Number.POSITIVE_INFINITY && !this.#shared.has(queueLimitKey(queue))) this.#queues.delete(queue)
  }

  /**
   * Tasks that wait for a handler and not for their limit take the places of those that are fetched ahead. The others go back,
   * since another worker may have a handler for them.
   */
  #releaseUnlimited(): void {
    const { deliveries } = this.#options
    const now = performance.now()
    const free = [...this.#waiting.keys].flatMap((key) =>
      this.#limits.get(key)?.waitsForHandler(now) ? this.#waiting.tasksOf(key) : [],
    )
    for (const active of free) if (this.remove(active)) deliveries.stopWaiting(active)
    if (free.length > 0) deliveries.handBackSurplus()
  }

  /** How many tasks each limit holds up: those that wait here, and those that were postponed. */
  #held(): ReadonlyMap<string, number> {
    const { postponements, clock } = this.#options
    const held = postponements.byLimit(clock.now())
    const now = performance.now()
    for (const line of this.#waiting.keys) {
      const key = this.#limits.get(line)?.heldBy(now) ?? line
      held.set(key, (held.get(key) ?? 0) + this.#waiting.tasksOf(line).length)
    }
    return held
  }

  #forget(key: string, limit: Limit): void {
    this.#limits.delete(key)
    for (const permits of limit.permits) this.#shared.get(permits.key)?.limits.delete(limit)
  }
}

/** Whether no task waits for these limits. */
const isEmpty = (limits: ReadonlySet<Limit>): boolean => {
  for (const { first } of limits) if (first !== undefined) return false
  return true
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
  return { ...start, active, limit: limit.heldBy(now) }
}
