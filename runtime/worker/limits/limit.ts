/**
 * One limit of a method and tenant, as this worker knows it: its own rate, its part of what all workers share, and the
 * tasks that wait here. {@link mayStart} decides by it whether a task may start.
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
  readonly reason: "rate-limit" | "concurrency-limit" | "tenant-limit"
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

export interface LimitOptions {
  /** Key of the state that all workers share. */
  readonly key: string
  readonly tenant: string
  readonly method: ErasedMethod
  readonly permits: Permits | undefined
  readonly local: LocalRate | undefined
  readonly waiting: WaitingTasks<ActiveDelivery>
  readonly connectivity: Pick<Connectivity, "connected">
  readonly buffer: Pick<DeliveryBuffer, "pullMs">
}

export class Limit implements LimitView<ActiveDelivery> {
  readonly backlog = new Backlog()
  readonly #options: LimitOptions
  /** The rate of this worker; it can be replaced while tasks wait. */
  local: LocalRate | undefined

  constructor(options: LimitOptions) {
    this.#options = options
    this.local = options.local
  }

  get key(): string {
    return this.#options.key
  }

  get permits(): Permits | undefined {
    return this.#options.permits
  }

  startsAt(now: number): number {
    const { local, permits } = this
    if (permits !== undefined && !this.#options.connectivity.connected) return Number.POSITIVE_INFINITY
    const own = local === undefined ? now : now + reserve(local.rate, local.tat, now, NOW).waitMs
    return Math.max(own, permits?.startsAt(now) ?? now)
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

  reasonAt(now: number): LimitReason {
    const { local } = this
    const { method, tenant } = this.#options
    if (local !== undefined && (method.limit === undefined || reserve(local.rate, local.tat, now, NOW).waitMs > 0))
      return { reason: "rate-limit", detail: `${spaced(local.rate)} on each worker` }
    const { rate, concurrency, key } = method.limit ?? {}
    const rules = [
      ...(concurrency === undefined ? [] : [`${concurrency} at a time`]),
      ...(rate === undefined ? [] : [spaced(rate)]),
    ]
    const all = `${rules.join(" and ")} across all workers`
    const isHidden = hidesKey(method.redact, typeof key === "string" ? key : undefined)
    if (tenant !== "")
      return { reason: "tenant-limit", detail: `${all} for ${isHidden ? HIDDEN : JSON.stringify(tenant)}` }
    return { reason: concurrency === undefined ? "rate-limit" : "concurrency-limit", detail: all }
  }

  /** Counts a task that starts. The returned function counts its end. */
  start(now: number): () => void {
    const { local, permits, backlog } = this
    if (local !== undefined) local.tat = reserve(local.rate, local.tat, now, ONE).tat
    permits?.start()
    backlog.started(now)
    return () => permits?.end()
  }

  /** Called after a task began or ceased to wait: the backlog counts starts only while tasks wait. */
  waitersChanged(now: number): void {
    this.backlog.setWaiting(this.first !== undefined, now)
  }

  /** Whether nothing needs to be remembered of it. */
  isIdle(now: number): boolean {
    return this.first === undefined && this.permits?.isIdle !== false && this.backlog.endsAt < now
  }
}

const NOW = { wanted: 0, aheadMs: 0 }
const ONE = { wanted: 1, aheadMs: 0 }

const spaced = ({ intervalMs }: Rate): string => `one every ${Number((intervalMs / 1_000).toPrecision(3))} s`
