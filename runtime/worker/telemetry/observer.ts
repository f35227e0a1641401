/**
 * Notifications of a worker for events, metrics, traces and counters, with the names of tasks and outcomes that they use. An
 * observer decides nothing.
 */

import type { ActorDefinition, ErasedMethod } from "../../actor/actor.ts"
import type { Log } from "../../log/log.ts"
import { DEFAULT_METHOD, resolveName } from "../../protocol/name.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { JobDelivery, Settlement } from "../../transport/job-store/transport.ts"
import type { ActiveDelivery, HandlerRun, StepChange } from "../active-delivery.ts"

/** An observer. Each method is optional and must not block; an error that it throws is logged. */
export interface WorkerObserver {
  /** Deliveries were pulled. */
  received?(deliveries: ReadonlyArray<JobDelivery>): void
  /** A handler is about to be called. */
  started?(active: ActiveDelivery, run: HandlerRun): void
  /** A durable step of its handler has begun, or its outcome is stored. */
  step?(active: ActiveDelivery, change: StepChange): void
  /** A delivery was settled: `settlement` is what was stored. */
  settled?(active: ActiveDelivery, settlement: Settlement): void
  /** A task was given back; the delivery does not count as an attempt. */
  handedBack?(active: ActiveDelivery): void
  /**
   * An outcome came too late and was refused. `record` is the one that was refused; absent where there was none yet.
   */
  refused?(active: ActiveDelivery, record: JobRecord | undefined): void
  /**
   * A settlement could not be stored (`lost`), or another delivery has the job (`superseded`). In either case the task
   * is delivered again if it is still queued.
   */
  unsettled?(active: ActiveDelivery, how: "superseded" | "lost"): void
  /** The worker started or stopped consuming. */
  listening?(listening: boolean): void
}

/** Notifies several observers. */
export class Observers implements Required<WorkerObserver> {
  readonly #observers: ReadonlyArray<WorkerObserver>
  readonly #log: Log

  constructor(observers: ReadonlyArray<WorkerObserver>, log: Log) {
    this.#observers = observers
    this.#log = log
  }

  received(deliveries: ReadonlyArray<JobDelivery>): void {
    this.#notify((observer) => observer.received?.(deliveries))
  }

  // Of each job two are told, so that these two make no function for it.
  started(active: ActiveDelivery, run: HandlerRun): void {
    for (const observer of this.#observers) {
      try {
        observer.started?.(active, run)
      } catch (cause) {
        this.#failed(cause)
      }
    }
  }

  step(active: ActiveDelivery, change: StepChange): void {
    this.#notify((observer) => observer.step?.(active, change))
  }

  settled(active: ActiveDelivery, settlement: Settlement): void {
    for (const observer of this.#observers) {
      try {
        observer.settled?.(active, settlement)
      } catch (cause) {
        this.#failed(cause)
      }
    }
  }

  handedBack(active: ActiveDelivery): void {
    this.#notify((observer) => observer.handedBack?.(active))
  }

  refused(active: ActiveDelivery, record: JobRecord | undefined): void {
    this.#notify((observer) => observer.refused?.(active, record))
  }

  unsettled(active: ActiveDelivery, how: "superseded" | "lost"): void {
    this.#notify((observer) => observer.unsettled?.(active, how))
  }

  listening(listening: boolean): void {
    this.#notify((observer) => observer.listening?.(listening))
  }

  #notify(what: (observer: WorkerObserver) => void): void {
    for (const observer of this.#observers) {
      try {
        what(observer)
      } catch (cause) {
        this.#failed(cause)
      }
    }
  }

  #failed(cause: unknown): void {
    this.#log.error("an observer of the worker failed", { cause: String(cause) })
  }
}

/**
 * Names of the outcomes. With `retried`, `repeated`, `suspended` and `forwarded` the job continues in another task; the others are
 * final.
 */
export const OUTCOMES = [
  "succeeded",
  "failed",
  "retried",
  "repeated",
  "suspended",
  "cancelled",
  "expired",
  "forwarded",
] as const

export type OutcomeName = (typeof OUTCOMES)[number]

const GOES_ON: Readonly<Record<string, OutcomeName>> = {
  retry: "retried",
  repeat: "repeated",
  suspended: "suspended",
  forwarded: "forwarded",
}

/**
 * The name of a settlement's outcome. `undefined` where the job had been decided elsewhere and the task was only taken
 * off its queue.
 */
export const outcomeNameOf = ({ run }: ActiveDelivery, { record }: Settlement): OutcomeName | undefined => {
  // The cancellation has stored the record itself; here only the run ended.
  if (record === undefined) return run?.stop === "cancelled" ? "cancelled" : undefined
  switch (record.state) {
    case "succeeded":
    case "failed":
    case "cancelled":
    case "expired":
      return record.state
    default:
      return GOES_ON[record.timeline.at(-1)?.reason ?? ""]
  }
}

/** Names of a worker's tasks for metrics and spans: `actor.method`, so that their number is bounded whatever submitters send. */
export class TaskNames {
  /** All names, in the order of the actors. */
  readonly all: ReadonlyArray<string>
  readonly #byMethod = new Map<ErasedMethod, string>()
  readonly #actors = new Set<string>()
  readonly #byName: ReadonlyMap<string, ErasedMethod>
  readonly #mapping: ReadonlyMap<string, string>

  /** `mapping`: task names that are mapped to an actor's method. */
  constructor(actors: ReadonlyArray<ActorDefinition>, mapping: ReadonlyMap<string, string>) {
    for (const actor of actors) {
      this.#actors.add(actor.name)
      for (const method of actor.methods.values()) this.#byMethod.set(method, `${actor.name}.${method.name}`)
    }
    this.all = [...this.#byMethod.values()]
    this.#byName = new Map([...this.#byMethod].map(([method, name]) => [name, method]))
    this.#mapping = mapping
  }

  /** Name of the method that ran a delivery, or would have; `undefined` where it is not served here. */
  of(active: ActiveDelivery, record: JobRecord | undefined): string | undefined {
    if (active.run !== undefined) return this.#byMethod.get(active.run.method)
    if (record === undefined) return undefined
    return this.nameOf(record.task, record.meth)
  }

  /** Name of the method that a task is for; `undefined` where it is not served here. */
  nameOf(task: string, meth: string | null): string | undefined {
    const method = this.method(task, meth)
    return method === undefined ? undefined : this.#byMethod.get(method)
  }

  /** The method that a task is for; `undefined` where it is not served here. */
  method(task: string, meth: string | null): ErasedMethod | undefined {
    const target = resolveName(task, meth, (name) => this.#actors.has(name), this.#mapping)
    return this.#byName.get(`${target.actor}.${target.meth ?? DEFAULT_METHOD}`)
  }
}
