/** Notifications of a worker for events, metrics, traces and counters. An observer decides nothing. */
import type { Log } from "../../log/log.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { AttemptEnd, JobDelivery } from "../../transport/lift/transport.ts"
import type { InFlight, Run } from "../delivery/in-flight.ts"

/** An observer. Each method is optional and must not block; an error that it throws is logged. */
export interface WorkerObserver {
  /** Deliveries were pulled. */
  received?(deliveries: ReadonlyArray<JobDelivery>): void
  /** A handler is about to be called. */
  started?(inFlight: InFlight, run: Run): void
  /** A delivery was settled: `settlement` is what was stored. */
  settled?(inFlight: InFlight, settlement: AttemptEnd): void
  /** A task was given back; the delivery does not count as an attempt. */
  handedBack?(inFlight: InFlight): void
  /**
   * An outcome came too late and was refused. `record` is the one that was refused; absent where there was none yet.
   */
  refused?(inFlight: InFlight, record: JobRecord | undefined): void
  /**
   * A settlement could not be stored (`lost`), or another delivery has the job (`superseded`). In either case the task
   * is delivered again if it is still queued.
   */
  unsettled?(inFlight: InFlight, how: "superseded" | "lost"): void
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

  started(inFlight: InFlight, run: Run): void {
    this.#notify((observer) => observer.started?.(inFlight, run))
  }

  settled(inFlight: InFlight, settlement: AttemptEnd): void {
    this.#notify((observer) => observer.settled?.(inFlight, settlement))
  }

  handedBack(inFlight: InFlight): void {
    this.#notify((observer) => observer.handedBack?.(inFlight))
  }

  refused(inFlight: InFlight, record: JobRecord | undefined): void {
    this.#notify((observer) => observer.refused?.(inFlight, record))
  }

  unsettled(inFlight: InFlight, how: "superseded" | "lost"): void {
    this.#notify((observer) => observer.unsettled?.(inFlight, how))
  }

  listening(listening: boolean): void {
    this.#notify((observer) => observer.listening?.(listening))
  }

  #notify(what: (observer: WorkerObserver) => void): void {
    for (const observer of this.#observers) {
      try {
        what(observer)
      } catch (cause) {
        this.#log.error("an observer of the worker failed", { cause: String(cause) })
      }
    }
  }
}

/**
 * Names of the outcomes. With `retried`, `repeated` and `forwarded` the job continues in another task; the others are
 * final.
 */
export const OUTCOMES = ["succeeded", "failed", "retried", "repeated", "cancelled", "expired", "forwarded"] as const

export type OutcomeName = (typeof OUTCOMES)[number]

const GOES_ON: Readonly<Record<string, OutcomeName>> = { retry: "retried", repeat: "repeated", forwarded: "forwarded" }

/**
 * The name of a settlement's outcome. `undefined` where the job had been decided elsewhere and the task was only taken
 * off its queue.
 */
export const outcomeNameOf = ({ run }: InFlight, { record }: AttemptEnd): OutcomeName | undefined => {
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
