/**
 * What tasks of one kind wait for, as this worker knows it: the limit of their method and tenant (its own rate, its part of
 * what all workers share), that of their queue, or both, and those that wait here. {@link mayStart} decides by it whether a task
 * may start.
 */

import type { ErasedMethod } from "../../actor/actor.ts"
import type { Connectivity } from "../../connection/connectivity.ts"
import { HIDDEN, hidesKey } from "../../log/redaction.ts"
import { type Rate, reserve } from "../../options/limit.ts"
import type { ActiveDelivery } from "../active-delivery.ts"
import { type DeliveryBuffer, precedes, type Ranked } from "../fetch/delivery-buffer.ts"
import type { Permits } from "./permits.ts"
import { Backlog, type WaitingTasks } from "./waiting.ts"

/** The rule that holds a task up, with a text for people. */
export interface LimitReason {
  readonly reason: "rate-limit" | "concurrency-limit" | "tenant-limit" | "queue-limit"
  readonly detail: string
}

/** The task goes back to its queue, because too many wait here. */
export interface Postponed extends LimitReason {
  /** When it is to be delivered again, by the monotonic clock. */
  readonly postponeUntil: number
}

/** What the decision about a task takes into account. Times are in milliseconds, by the monotonic clock. */
export interface LimitView<A> {
  /** When the limit lets the next task start, at the earliest; `Infinity`: unknown. */
  startsAt(now: number): number
  /** The first task that waits for it. */
  readonly first: A | undefined
  /** Whether too many tasks wait in this worker for this one to wait with them. */
  isFullFor(task: A): boolean
  /** When a task comes back that is postponed now. */
  returnsAt(task: A, now: number): number
  reasonAt(now: number): LimitReason
}

/**
 * Whether a task may start now, waits in this worker, or is postponed. A task does not overtake a waiting one of the same
 * rank, and is postponed only if none of the waiting ones must leave for it.
 */
export const mayStart = <A extends Ranked>(task: A, limit: LimitView<A>, now: number): "now" | "waits" | Postponed => {
  const { first } = limit
  const isNext = first === undefined || first === task || precedes(task, first)
  if (isNext && limit.startsAt(now) <= now) return "now"
  if (first === task || !limit.isFullFor(task)) return "waits"
  return { postponeUntil: limit.returnsAt(task, now), ...limit.reasonAt(now) }
}

/** A rate that only this worker keeps: one for all tenants of a method. */
export interface LocalRate {
  readonly rate: Rate
  tat: number | undefined
}

/** How many tasks of a queue may run at a time on all workers. */
export interface QueueLimit {
  readonly queue: string
  readonly permits: Permits
}

export interface LimitOptions {
  /** Names the line of waiting tasks. */
  readonly key: string
  /** Key of the limit of the method and tenant; where the queue alone is limited, that of the queue. */
  readonly limitKey: string
  readonly tenant: string
  /** Absent where the queue alone is limited. */
  readonly method?: ErasedMethod | undefined
  /** Permits of the method and tenant. */
  readonly permits?: Permits | undefined
  readonly inQueue: QueueLimit | undefined
  readonly local?: LocalRate | undefined
  readonly waiting: WaitingTasks<ActiveDelivery>
  readonly connectivity: Pick<Connectivity, "connected">
  readonly buffer: Pick<DeliveryBuffer, "pullMs">
}

export class Limit implements LimitView<ActiveDelivery> {
  readonly backlog = new Backlog()
  readonly #options: LimitOptions
  /** The permits that each task needs. */
  readonly permits: ReadonlyArray<Permits>
  /** The rate of this worker; it can be replaced while tasks wait. */
  local: LocalRate | undefined

  constructor(options: LimitOptions) {
    this.#options = options
    this.permits = [options.permits, options.inQueue?.permits].filter((each) => each !== undefined)
    this.local = options.local
  }

  get key(): string {
    return this.#options.key
  }

  get limitKey(): string {
    return this.#options.limitKey
  }

  get inQueue(): QueueLimit | undefined {
    return this.#options.inQueue
  }

  startsAt(now: number): number {
    const ofQueue = this.inQueue?.permits
    if (ofQueue === undefined || !ofQueue.isCapped) return this.#methodStartsAt(now)
    if (!this.#options.connectivity.connected) return Number.POSITIVE_INFINITY
    return Math.max(this.#methodStartsAt(now), ofQueue.startsAt(now))
  }

  #methodStartsAt(now: number): number {
    const { local } = this
    const { permits, connectivity } = this.#options
    if (permits !== undefined && !connectivity.connected) return Number.POSITIVE_INFINITY
    const own = local === undefined ? now : now + reserve(local.rate, local.tat, now, NOW).waitMs
    return Math.max(own, permits?.startsAt(now) ?? now)
  }

  /** Key of the limit that holds tasks up now: that of the queue, if the method lets them start. */
  heldBy(now: number): string {
    const { inQueue, limitKey } = this.#options
    return inQueue !== undefined && this.#methodStartsAt(now) <= now ? inQueue.permits.key : limitKey
  }

  /** Number of tasks that wait here. */
  get count(): number {
    return this.#options.waiting.tasksOf(this.key).length
  }

  /** Number of tasks that wait for their queue alone. */
  countInQueue(now: number): number {
    return this.inQueue !== undefined && this.#methodStartsAt(now) <= now ? this.count : 0
  }

  /**
   * Number of tasks that wait for one of the {@link permits}. A task asks for a permit of its queue only if its method lets it
   * start, so that no worker holds permits of a queue which it cannot use.
   */
  demandFor(permits: Permits, now: number): number {
    if (permits !== this.inQueue?.permits) return this.count
    return Math.min(this.countInQueue(now), this.#options.permits?.unused ?? Number.POSITIVE_INFINITY)
  }

  /** Requests permits that are missing. */
  requestMissing(now: number): void {
    for (const permits of this.permits) permits.requestMissing(now)
  }

  get first(): ActiveDelivery | undefined {
    return this.#options.waiting.first(this.key)
  }

  isFullFor(task: ActiveDelivery): boolean {
    return this.#options.waiting.isFullFor(this.key, task)
  }

  returnsAt({ delivery }: ActiveDelivery, now: number): number {
    return this.backlog.returnsAt(now, delivery.deliveries, Math.random(), this.#options.buffer.pullMs)
  }

  /** Whether its tasks wait for a handler of this worker, and not for the limit. */
  waitsForHandler(now: number): boolean {
    if (this.startsAt(now) <= now) return true
    const { local } = this
    if (!this.#options.connectivity.connected) return false
    if (local !== undefined && reserve(local.rate, local.tat, now, NOW).waitMs > 0) return false
    return this.permits.every((permits) => permits.isEnough(now))
  }

  reasonAt(now: number): LimitReason {
    const { local, inQueue } = this
    const { method, tenant } = this.#options
    if (inQueue !== undefined && this.#methodStartsAt(now) <= now)
      return { reason: "queue-limit", detail: `${inQueue.permits.concurrency} at a time across all workers` }
    if (local !== undefined && (method?.limit === undefined || reserve(local.rate, local.tat, now, NOW).waitMs > 0))
      return { reason: "rate-limit", detail: `${spaced(local.rate)} on each worker` }
    const { rate, concurrency, key } = method?.limit ?? {}
    const rules = [
      ...(concurrency === undefined ? [] : [`${concurrency} at a time`]),
      ...(rate === undefined ? [] : [spaced(rate)]),
    ]
    const all = `${rules.join(" and ")} across all workers`
    const isHidden = hidesKey(method?.redact, typeof key === "string" ? key : undefined)
    if (tenant !== "")
      return { reason: "tenant-limit", detail: `${all} for ${isHidden ? HIDDEN : JSON.stringify(tenant)}` }
    return { reason: concurrency === undefined ? "rate-limit" : "concurrency-limit", detail: all }
  }

  /** Counts a task that starts. The returned function counts its end. */
  start(now: number): () => void {
    const { local, permits, backlog } = this
    if (local !== undefined) local.tat = reserve(local.rate, local.tat, now, ONE).tat
    for (const each of permits) each.start()
    backlog.started(now)
    return () => {
      for (const each of permits) each.end()
    }
  }

  /** Called after a task began or ceased to wait: the backlog counts starts only while tasks wait. */
  waitersChanged(now: number): void {
    this.backlog.setWaiting(this.first !== undefined, now)
  }

  /** Whether nothing needs to be remembered of it. */
  isIdle(now: number): boolean {
    return this.first === undefined && this.#options.permits?.isIdle !== false && this.backlog.endsAt < now
  }
}

const NOW = { wanted: 0, aheadMs: 0 }
const ONE = { wanted: 1, aheadMs: 0 }

const spaced = ({ intervalMs }: Rate): string => `one every ${Number((intervalMs / 1_000).toPrecision(3))} s`
