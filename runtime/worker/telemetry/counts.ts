/** Counters of a worker: for the list of workers, for the report of a stop, and for the statistics. */
import type { ErasedMethod } from "../../actor/actor.ts"
import type { Clock } from "../../async/clock.ts"
import { enqueuedAt } from "../../jobs/view.ts"
import { messageOf } from "../../log/redaction.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { FailureTally } from "../../statistics/failures.ts"
import type { End, Tally } from "../../statistics/tally.ts"
import type { Settlement } from "../../transport/job-store/transport.ts"
import type { ActiveDelivery } from "../active-delivery.ts"
import { hasSuccessor } from "./failure-reporter.ts"
import { type OutcomeName, outcomeNameOf, type TaskNames, type WorkerObserver } from "./observer.ts"

export class WorkerCounts implements WorkerObserver {
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

  settled({ run }: ActiveDelivery, { record }: Settlement): void {
    this.processed++
    if (run !== undefined) this.workingMs += run.clock.monotonic() - run.beganAt
    if (record?.error !== undefined && record.state !== "succeeded" && !hasSuccessor(record)) this.failed++
  }

  handedBack(): void {
    this.handedBackTasks++
  }

  unsettled(_held: ActiveDelivery, how: "superseded" | "lost"): void {
    if (how === "lost") this.lostTasks++
  }

  refused(): void {
    this.superseded++
  }
}

const ENDS: Readonly<Record<OutcomeName, End | undefined>> = {
  succeeded: "succeeded",
  failed: "failed",
  retried: "retried",
  repeated: "succeeded",
  suspended: undefined,
  cancelled: "cancelled",
  expired: "expired",
  forwarded: undefined,
}

/** Counts attempts for the statistics that workers keep in the store. */
export class StatisticsCounter implements WorkerObserver {
  readonly #tally: Tally
  readonly #failures: FailureTally
  readonly #names: TaskNames
  readonly #clock: Pick<Clock, "monotonic" | "transportNow">

  constructor(
    tally: Tally,
    failures: FailureTally,
    names: TaskNames,
    clock: Pick<Clock, "monotonic" | "transportNow">,
  ) {
    this.#tally = tally
    this.#failures = failures
    this.#names = names
    this.#clock = clock
  }

  settled(active: ActiveDelivery, settlement: Settlement): void {
    const outcome = outcomeNameOf(active, settlement)
    const end = outcome === undefined ? undefined : ENDS[outcome]
    if (end === undefined) return
    const { run, called, delivery } = active
    const now = this.#clock.transportNow()
    const ran = run === undefined || !called ? undefined : this.#clock.monotonic() - run.beganAt
    const record = run?.record ?? settlement.record
    if ((end === "failed" || end === "retried") && settlement.record !== undefined)
      this.#failed(now, settlement.record, active.method)
    this.#tally.count(now, {
      task: this.#names.of(active, settlement.record) ?? UNKNOWN,
      queue: delivery.queue,
      end,
      ran,
      waited: run === undefined ? undefined : waited(run.record, now - (ran ?? 0)),
      submittedAt: record !== undefined && isFirst(record, run !== undefined) ? record.submittedAt : undefined,
    })
  }

  /** Counts a job that was lost with another worker. */
  lost(record: JobRecord): void {
    const now = this.#clock.transportNow()
    this.#failed(now, record, this.#names.method(record.task, record.meth))
    const task = this.#names.nameOf(record.task, record.meth) ?? UNKNOWN
    this.#tally.count(now, { task, queue: record.queue, end: "failed" })
  }

  #failed(now: number, record: JobRecord, method: ErasedMethod | undefined): void {
    const { id, error, fingerprint, dead, queue, attempt } = record
    if (error === undefined || fingerprint === undefined) return
    this.#failures.count(now, {
      id,
      fingerprint,
      error,
      message: messageOf(error, method?.redact),
      task: this.#names.nameOf(record.task, record.meth) ?? UNKNOWN,
      queue,
      attempt,
      then: dead === undefined ? (hasSuccessor(record) ? "retrying" : "failed") : "dead",
    })
  }
}

/** Tasks that this worker does not serve have one name, so that submitters cannot make up ever more. */
const UNKNOWN = "(unknown)"

/** Whether this is the first outcome of the job. */
const isFirst = ({ run, attempt }: JobRecord, ran: boolean): boolean => run === 1 && attempt === (ran ? 1 : 0)

/** How long an attempt had waited at its start: since the job came into its queue, or was due there. */
const waited = (record: JobRecord, startedAt: number): number | undefined => {
  const { attempt, run, after, chord, dueAt, submittedAt, timeline } = record
  // A job that was suspended, or was run before its time, has a longer history.
  const isSimple = attempt === 1 && run === 1 && after === undefined && chord === undefined && timeline.length <= 2
  const since = isSimple ? (dueAt ?? submittedAt) : enqueuedAt(record)
  return since === undefined ? undefined : Math.max(0, startedAt - since)
}
