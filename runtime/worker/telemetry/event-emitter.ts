/**
 * Emits events in Celery's format: about tasks, and about the worker itself. Task events that report normal progress
 * are sent only while events are enabled; `task-superseded` is always sent.
 */

import { loadavg, type as operatingSystem } from "node:os"
import * as Result from "effect/Result"
import type { ErasedMethod } from "../../actor/actor.ts"
import { HEARTBEAT_MS } from "../../cluster/directory.ts"
import type { EventSender } from "../../cluster/events.ts"
import { cutShort, messageOf, redactedText, taskEventFields } from "../../log/redaction.ts"
import type { WorkerEvents, WorkerLoad } from "../../protocol/celery/event.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import type { JobDelivery, Settlement } from "../../transport/job-store/transport.ts"
import { VERSION } from "../../version.ts"
import type { ActiveDelivery, HandlerRun, StepChange } from "../active-delivery.ts"
import { parseDelivery } from "../parsed-delivery.ts"
import type { WorkerObserver } from "./observer.ts"

/** Where events go. */
export type EventEmitter = Pick<EventSender, "enabled" | "emit">

/** The method of a task; `undefined` where it is not served here. */
type MethodLookup = (task: string, meth: string | null) => ErasedMethod | undefined

/** An error as text, by its name and message. */
type ShowError = (name: string, message: string) => string

const shownError: ShowError = (name, message) => `${name}(${JSON.stringify(message)})`

/** Number of the signal that ends isolated handlers. */
const SIGKILL = 9

export class TaskEventEmitter implements WorkerObserver {
  readonly #events: EventEmitter
  readonly #methodOf: MethodLookup
  readonly #shown: ShowError

  /**
   * `methodOf`: the method of a task, whose redaction rules apply to the arguments in events. `shown` defaults to the name with the
   * message in double quotes.
   */
  constructor(events: EventEmitter, methodOf: MethodLookup, shown: ShowError = shownError) {
    this.#events = events
    this.#methodOf = methodOf
    this.#shown = shown
  }

  received(deliveries: ReadonlyArray<JobDelivery>): void {
    if (!this.#events.enabled) return
    for (const delivery of deliveries) {
      const read = parseDelivery(delivery)
      // An unreadable message is reported as rejected, once that is stored.
      if (Result.isFailure(read)) continue
      const { task, posting } = read.success
      const method = this.#methodOf(task.task, task.meth)
      this.#events.emit("task-received", taskEventFields(task, posting.message, method))
    }
  }

  started(_held: ActiveDelivery, run: HandlerRun): void {
    if (this.#events.enabled) this.#events.emit("task-started", { uuid: run.posting.id })
  }

  step(active: ActiveDelivery, change: StepChange): void {
    if (!this.#events.enabled) return
    const fields: Record<string, unknown> = { uuid: active.id ?? "", step: change.name }
    if ("took" in change) {
      const { took, tries, failure: why } = change
      Object.assign(fields, { took: took / 1_000, tries })
      if (why !== undefined) {
        const { names, message, traceback = "" } = why
        const error = { name: names[0] ?? "Error", message, traceback, reason: "handler" }
        Object.assign(fields, this.#failure(error, active.method))
      }
    }
    this.#events.emit(`step-${change.state}`, fields)
  }

  settled(active: ActiveDelivery, { record }: Settlement): void {
    if (!this.#events.enabled) return
    if (record !== undefined) this.#ended(active, record)
    // A cancelled job has no record here, because the cancellation itself has stored it.
    else if (active.stop === "cancelled") this.#revoked(active, false)
  }

  handedBack(active: ActiveDelivery): void {
    if (!this.#events.enabled) return
    if (active.run !== undefined) this.#events.emit("task-cancelled", { uuid: active.run.posting.id })
    else if (active.id !== undefined && !isAwaited(active))
      this.#events.emit("task-rejected", { uuid: active.id, requeue: true })
  }

  refused(active: ActiveDelivery, record: JobRecord | undefined): void {
    const of = active.run?.record
    this.#events.emit("task-superseded", {
      uuid: active.id ?? "",
      name: record?.name ?? of?.name ?? "",
      queue: active.delivery.queue,
      attempt: record?.attempt ?? of?.attempt ?? 0,
      /** The state that was refused; null for an attempt that was superseded before it had an outcome. */
      state: record?.state ?? null,
    })
  }

  #ended(active: ActiveDelivery, record: JobRecord): void {
    const uuid = record.id
    const { error } = record
    // The job may continue in its next attempt, its next run, or another queue.
    const reason = record.timeline.at(-1)?.reason
    if (record.state === "succeeded" || reason === "repeat") this.#succeeded(active, record)
    else if (record.state === "cancelled" || record.state === "expired")
      this.#revoked(active, record.state === "expired")
    else if (reason === "retry") this.#events.emit("task-retried", { uuid, ...this.#failure(error, active.method) })
    else if (reason === "suspended") this.#events.emit("task-suspended", { uuid })
    else if (record.state !== "failed") return
    else if (record.dead === "rejected" || error?.name === "Unreadable")
      this.#events.emit("task-rejected", { uuid, requeue: false })
    else this.#events.emit("task-failed", { uuid, ...this.#failure(error, active.method) })
  }

  #succeeded({ run }: ActiveDelivery, record: JobRecord): void {
    const endedAt = record.timeline.at(-1)?.at ?? Date.now()
    this.#events.emit("task-succeeded", {
      uuid: record.id,
      result: redactedText(record.result ?? null, run?.method ?? {}),
      runtime: Math.max(0, endedAt - (run?.startedAt ?? endedAt)) / 1000,
    })
  }

  #revoked({ run, id, killed }: ActiveDelivery, expired: boolean): void {
    this.#events.emit("task-revoked", {
      uuid: run?.posting.id ?? id ?? "",
      terminated: run !== undefined,
      signum: run !== undefined && killed ? SIGKILL : null,
      expired,
    })
  }

  /** The error fields of an event. A task that no worker serves has no `traceback` field at all, as in Celery. */
  #failure(error: JobError | undefined, method: ErasedMethod | undefined) {
    return {
      exception: error === undefined ? "None" : cutShort(this.#shown(error.name, messageOf(error, method?.redact))),
      ...(error?.reason === "unknown-actor" ? {} : { traceback: error?.traceback ?? null }),
    }
  }
}

/**
 * Whether a task was handed back to wait for its eta in the transport: to monitors it is one that its worker holds until
 * then.
 */
const isAwaited = ({ delivery }: ActiveDelivery): boolean => {
  const read = parseDelivery(delivery)
  return Result.isSuccess(read) && (read.success.posting.due ?? 0) > Date.now()
}

export class WorkerEventEmitter implements WorkerObserver {
  readonly #events: EventEmitter
  readonly #load: () => Pick<WorkerLoad, "active" | "processed">
  #heartbeat: ReturnType<typeof setInterval> | undefined

  /** `load` is called for each event. */
  constructor(events: EventEmitter, load: () => Pick<WorkerLoad, "active" | "processed">) {
    this.#events = events
    this.#load = load
  }

  /** Reports the worker as online, also after an outage, since monitors may have declared it dead. */
  listening(listening: boolean): void {
    if (!listening) return
    this.#emit("worker-online")
    this.#heartbeat ??= setInterval(() => this.#emit("worker-heartbeat"), HEARTBEAT_MS)
  }

  /** Sends a heartbeat now, as at each interval. */
  beat(): void {
    this.#emit("worker-heartbeat")
  }

  /** Reports the worker as offline, if it was ever reported as online. */
  end(): void {
    if (this.#heartbeat === undefined) return
    clearInterval(this.#heartbeat)
    this.#heartbeat = undefined
    this.#emit("worker-offline")
  }

  #emit(type: keyof WorkerEvents): void {
    const load: WorkerLoad = {
      freq: HEARTBEAT_MS / 1000,
      ...this.#load(),
      loadavg: loadavg().map((value) => Math.round(value * 100) / 100),
      sw_ident: "callboard",
      sw_ver: VERSION,
      sw_sys: operatingSystem(),
    }
    this.#events.emit(type, { ...load })
  }
}
