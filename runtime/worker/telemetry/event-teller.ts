/**
 * Tells what happens to tasks as events, in Celery's words. Those that say what goes well with every task only while they
 * are wanted; `task-superseded` always.
 */

import { loadavg, type as operatingSystem } from "node:os"
import { Result } from "effect"
import type { ErasedMethod } from "../../actor/actor.ts"
import { HEARTBEAT_MS } from "../../cluster/directory.ts"
import type { EventSender } from "../../cluster/events.ts"
import { cutShort, messageOf, textOf } from "../../log/redaction.ts"
import { taskEventFields } from "../../log/task-event-fields.ts"
import type { WorkerEvents, WorkerLoad } from "../../protocol/celery/event.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import type { AttemptEnd, JobDelivery } from "../../transport/lift/transport.ts"
import { VERSION } from "../../version.ts"
import type { ActorPool } from "../actors/actor-pool.ts"
import { readTask } from "../attempt/intake.ts"
import type { Held, Running } from "../delivery/delivery.ts"
import type { WorkerObserver } from "./observer.ts"

/** What isolated handlers are ended with. */
const SIGKILL = 9

export class EventTeller implements WorkerObserver {
  readonly #events: EventSender
  readonly #pool: Pick<ActorPool, "resolve">

  /** `pool` tells which method a task means: what that says about its arguments is kept to. */
  constructor(events: EventSender, pool: Pick<ActorPool, "resolve">) {
    this.#events = events
    this.#pool = pool
  }

  received(deliveries: ReadonlyArray<JobDelivery>): void {
    if (!this.#events.enabled) return
    for (const delivery of deliveries) {
      const read = readTask(delivery)
      // What is no task is told as rejected, once that is stored.
      if (Result.isFailure(read)) continue
      const { task, posting } = read.success
      const target = this.#pool.resolve(task.task, task.meth)
      const method = target.found ? target.method : undefined
      this.#events.tell("task-received", taskEventFields(task, posting.message, method))
    }
  }

  started(_held: Held, run: Running): void {
    if (this.#events.enabled) this.#events.tell("task-started", { uuid: run.posting.id })
  }

  settled(held: Held, { record }: AttemptEnd): void {
    if (!this.#events.enabled) return
    if (record !== undefined) this.#ended(held, record)
    // Whoever cancelled it wrote the record.
    else if (held.stop === "cancelled") this.#revoked(held, false)
  }

  handedBack(held: Held): void {
    if (!this.#events.enabled) return
    if (held.run !== undefined) this.#events.tell("task-cancelled", { uuid: held.run.posting.id })
    else if (held.id !== undefined) this.#events.tell("task-rejected", { uuid: held.id, requeue: true })
  }

  refused(held: Held, record: JobRecord | undefined): void {
    const of = held.run?.record
    this.#events.tell("task-superseded", {
      uuid: held.id ?? "",
      name: record?.name ?? of?.name ?? "",
      queue: held.delivery.queue,
      attempt: record?.attempt ?? of?.attempt ?? 0,
      /** The state that was refused; null for an attempt that was told so before it had one. */
      state: record?.state ?? null,
    })
  }

  #ended(held: Held, record: JobRecord): void {
    const uuid = record.id
    const { error } = record
    // What goes on does so as its next attempt, its next run, or in another queue.
    const reason = record.timeline.at(-1)?.reason
    if (record.state === "succeeded" || reason === "repeat") this.#succeeded(held, record)
    else if (record.state === "cancelled" || record.state === "expired") this.#revoked(held, record.state === "expired")
    else if (reason === "retry") this.#events.tell("task-retried", { uuid, ...failure(error, held.method) })
    else if (record.state !== "failed") return
    else if (record.dead === "rejected" || error?.name === "Unreadable")
      this.#events.tell("task-rejected", { uuid, requeue: false })
    else this.#events.tell("task-failed", { uuid, ...failure(error, held.method) })
  }

  #succeeded({ run }: Held, record: JobRecord): void {
    const endedAt = record.timeline.at(-1)?.at ?? Date.now()
    this.#events.tell("task-succeeded", {
      uuid: record.id,
      result: textOf(record.result ?? null, run?.method ?? {}),
      runtime: Math.max(0, endedAt - (run?.startedAt ?? endedAt)) / 1000,
    })
  }

  #revoked({ run, id, killed }: Held, expired: boolean): void {
    this.#events.tell("task-revoked", {
      uuid: run?.posting.id ?? id ?? "",
      terminated: run !== undefined,
      signum: run !== undefined && killed ? SIGKILL : null,
      expired,
    })
  }
}

/** What an attempt failed with. A task that nobody serves has no traceback, not even an empty one: as Celery tells it. */
const failure = (error: JobError | undefined, method: ErasedMethod | undefined) => ({
  exception:
    error === undefined ? "None" : cutShort(`${error.name}(${JSON.stringify(messageOf(error, method?.redact))})`),
  ...(error?.reason === "unknown-actor" ? {} : { traceback: error?.traceback ?? null }),
})

export class WorkerNews implements WorkerObserver {
  readonly #events: EventSender
  readonly #load: () => Pick<WorkerLoad, "active" | "processed">
  #heartbeat: ReturnType<typeof setInterval> | undefined

  /** `load` is asked for with each event. */
  constructor(events: EventSender, load: () => Pick<WorkerLoad, "active" | "processed">) {
    this.#events = events
    this.#load = load
  }

  /** Also after an outage: monitors may have given it up. */
  listening(listening: boolean): void {
    if (!listening) return
    this.#tell("worker-online")
    this.#heartbeat ??= setInterval(() => this.#tell("worker-heartbeat"), HEARTBEAT_MS)
  }

  /** It works no more: tells so, if it ever said that it does. */
  end(): void {
    if (this.#heartbeat === undefined) return
    clearInterval(this.#heartbeat)
    this.#heartbeat = undefined
    this.#tell("worker-offline")
  }

  #tell(type: keyof WorkerEvents): void {
    const load: WorkerLoad = {
      freq: HEARTBEAT_MS / 1000,
      ...this.#load(),
      loadavg: loadavg().map((value) => Math.round(value * 100) / 100),
      sw_ident: "callboard",
      sw_ver: VERSION,
      sw_sys: operatingSystem(),
    }
    this.#events.tell(type, { ...load })
  }
}
