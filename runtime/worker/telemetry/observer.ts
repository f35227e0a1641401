/** What a worker tells those who watch it: events, metrics, traces. None of them decides anything. */
import type { Log } from "../../log/log.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { AttemptEnd, JobDelivery } from "../../transport/lift/transport.ts"
import type { InFlight, Run } from "../delivery/in-flight.ts"

/** Every part is optional; none may block, and what one throws is logged. */
export interface WorkerObserver {
  /** Deliveries came into the worker's hands. */
  received?(deliveries: ReadonlyArray<JobDelivery>): void
  /** A handler is about to be called. */
  started?(inFlight: InFlight, run: Run): void
  /** A delivery was settled: `settlement` is what was stored. */
  settled?(inFlight: InFlight, settlement: AttemptEnd): void
  /** A task was given back, uncounted. */
  handedBack?(inFlight: InFlight): void
  /** An outcome came too late and was refused; without a record, where it was known before there was one. */
  refused?(inFlight: InFlight, record: JobRecord | undefined): void
  /** How a delivery ended could not be stored (`lost`), or not any more: what is left of it comes again. */
  unsettled?(inFlight: InFlight, how: "superseded" | "lost"): void
  /** The worker consumes now, or does not any more. */
  listening?(listening: boolean): void
}

/** Tells several observers. */
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

/** `retried`, `repeated` and `forwarded`: the job goes on in a task of its own; the others are ends. */
export const OUTCOMES = ["succeeded", "failed", "retried", "repeated", "cancelled", "expired", "forwarded"] as const

export type OutcomeName = (typeof OUTCOMES)[number]

const GOES_ON: Readonly<Record<string, OutcomeName>> = { retry: "retried", repeat: "repeated", forwarded: "forwarded" }

/** `undefined` where somebody else had decided already: the task was only taken off the queue. */
export const outcomeNameOf = ({ run }: InFlight, { record }: AttemptEnd): OutcomeName | undefined => {
  // Who cancelled it has stored that; its run ended for it here.
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
