/** Counters of a worker, for the list of workers and for the report of a stop. */
import type { AttemptEnd } from "../../transport/lift/transport.ts"
import type { InFlight } from "../delivery/in-flight.ts"
import { hasSuccessor } from "./failure-reporter.ts"
import type { WorkerObserver } from "./observer.ts"

export class Counts implements WorkerObserver {
  /** Settled deliveries, whatever their outcome. */
  processed = 0
  /** Jobs that failed without another attempt. */
  failed = 0
  handedBackTasks = 0
  /** Deliveries whose outcome could not be stored. */
  lostTasks = 0
  /** Outcomes that were refused because another delivery or a cancellation has the job. */
  superseded = 0

  /** Total running time of handlers, in milliseconds. */
  workingMs = 0

  settled({ run }: InFlight, { record }: AttemptEnd): void {
    this.processed++
    if (run !== undefined) this.workingMs += run.clock.monotonic() - run.beganAt
    if (record?.error !== undefined && record.state !== "succeeded" && !hasSuccessor(record)) this.failed++
  }

  handedBack(): void {
    this.handedBackTasks++
  }

  unsettled(_held: InFlight, how: "superseded" | "lost"): void {
    if (how === "lost") this.lostTasks++
  }

  refused(): void {
    this.superseded++
  }
}
