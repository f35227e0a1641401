/** What a worker tells those who watch it: events, metrics, traces. None of them decides anything. */
import type { Log } from "../../log/log.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { AttemptEnd, JobDelivery } from "../../transport/lift/transport.ts"
import type { Held, Running } from "../delivery/delivery.ts"

/** Every part is optional; none may block, and what one throws is logged. */
export interface WorkerObserver {
  /** Deliveries came into the worker's hands. */
  received?(deliveries: ReadonlyArray<JobDelivery>): void
  /** A handler is about to be called. */
  started?(held: Held, run: Running): void
  /** A delivery was settled: `settlement` is what was stored. */
  settled?(held: Held, settlement: AttemptEnd): void
  /** A task was given back, uncounted. */
  handedBack?(held: Held): void
  /** An outcome came too late and was refused; without a record, where it was known before there was one. */
  refused?(held: Held, record: JobRecord | undefined): void
  /** How a delivery ended could not be stored (`lost`), or not any more: what is left of it comes again. */
  unsettled?(held: Held, how: "superseded" | "lost"): void
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
    this.#tell((observer) => observer.received?.(deliveries))
  }

  started(held: Held, run: Running): void {
    this.#tell((observer) => observer.started?.(held, run))
  }

  settled(held: Held, settlement: AttemptEnd): void {
    this.#tell((observer) => observer.settled?.(held, settlement))
  }

  handedBack(held: Held): void {
    this.#tell((observer) => observer.handedBack?.(held))
  }

  refused(held: Held, record: JobRecord | undefined): void {
    this.#tell((observer) => observer.refused?.(held, record))
  }

  unsettled(held: Held, how: "superseded" | "lost"): void {
    this.#tell((observer) => observer.unsettled?.(held, how))
  }

  listening(listening: boolean): void {
    this.#tell((observer) => observer.listening?.(listening))
  }

  #tell(what: (observer: WorkerObserver) => void): void {
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

export type SettledAs = (typeof OUTCOMES)[number]

const GOES_ON: Readonly<Record<string, SettledAs>> = { retry: "retried", repeat: "repeated", forwarded: "forwarded" }

/** `undefined` where somebody else had decided already: the task was only taken off the queue. */
export const settledAs = ({ run }: Held, { record }: AttemptEnd): SettledAs | undefined => {
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
