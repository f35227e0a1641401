/**
 * Ends deliveries: stores the settlement of each, then drops the delivery from the buffer and tells observers what
 * became of it. No failure escapes, because a delivery that is not dropped would keep its place for ever.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { jobError } from "../../jobs/outcome/job-error.ts"
import { isSameTask } from "../../jobs/same-task.ts"
import type { Log } from "../../log/log.ts"
import { NO_FENCE } from "../../protocol/outside.ts"
import { type JobRecord, step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Jobs, SettleAnswer, Settlement } from "../../transport/job-store/transport.ts"
import type { ActiveDelivery, ExternalTasks, HandlerRun } from "../active-delivery.ts"
import type { DeliveryBuffer } from "../fetch/delivery-buffer.ts"
import type { Observers } from "../telemetry/observer.ts"
import type { OutcomeDecider } from "./decide.ts"
import type { EarlyAcks } from "./early-acks.ts"
import type { SettlementStore, SettleResult } from "./settlement-store.ts"

export interface EnderParts {
  readonly jobs: Jobs
  readonly store: SettlementStore
  readonly decider: OutcomeDecider
  readonly buffer: DeliveryBuffer
  readonly early: EarlyAcks
  readonly observers: Observers
  /** Gets each record that was stored. */
  readonly dependents: { stored(record: JobRecord): void }
  readonly external: ExternalTasks | undefined
  readonly log: Log
}

export class DeliveryEnder {
  readonly #parts: EnderParts

  constructor(parts: EnderParts) {
    this.#parts = parts
  }

  /** Stores the settlement of a delivery and drops the delivery. Does not throw. */
  end(active: ActiveDelivery, settlement: Settlement): void {
    const { external } = this.#parts
    if (active.progressStored === undefined && external === undefined) this.#store(active, settlement)
    else
      Effect.runFork(
        Effect.catchCause(this.#endLater(active, settlement), (cause) =>
          Effect.sync(() => this.#storeFault(active, settlement, Cause.squash(cause))),
        ),
      )
  }

  /** Settles once the progress of the job is stored, and the submitter of an external task knows the outcome. */
  readonly #endLater = Effect.fnUntraced(function* (
    this: DeliveryEnder,
    active: ActiveDelivery,
    settlement: Settlement,
  ): Effect.fn.Return<void> {
    const { progressStored } = active
    if (progressStored !== undefined) yield* Effect.promise(() => progressStored)
    const completing = this.#parts.external?.completing(active, settlement)
    this.#store(active, completing === undefined ? settlement : yield* Effect.promise(() => completing))
  })

  /** Drops a delivery that has nothing to settle. */
  leave(active: ActiveDelivery): void {
    if (active.run !== undefined && active.stop === "superseded") this.#refused(active, undefined)
    this.#parts.buffer.drop(active)
  }

  /** Gives a task back, uncounted, to be delivered again after `delay` milliseconds. */
  handBack(active: ActiveDelivery, delay = 0): void {
    this.end(active, { token: active.delivery.token, then: { kind: "hand-back", delay } })
  }

  /** Takes the task of a job that has ended already off its queue. */
  ack(active: ActiveDelivery): void {
    this.end(active, { token: active.delivery.token, then: { kind: "ack" } })
  }

  /** Drops a task that never ran here and belongs to another worker. It does not count towards `maxJobs`. */
  dropUnstarted(active: ActiveDelivery): void {
    const { buffer } = this.#parts
    buffer.handedBack()
    buffer.drop(active)
  }

  /** Handles an outcome that came too late, because another delivery or a cancellation has the job. */
  #refused(active: ActiveDelivery, record: JobRecord | undefined): void {
    const { log, observers } = this.#parts
    log.debug("an outcome was refused, because another delivery or a cancellation has taken over the job", {
      job: active.id,
    })
    observers.refused(active, record)
    if (record !== undefined) this.#noteRun(active, true)
  }

  /** Notes in the record of a job that was decided from outside that it ran here, if it did. */
  #noteRun({ run, called }: ActiveDelivery, refused: boolean): void {
    const { jobs, log } = this.#parts
    if (run === undefined || !called) return
    noteLateDecision(jobs, run, refused).catch((cause: unknown) =>
      log.debug("the record of a cancelled job could not be marked as having run", {
        job: run.posting.id,
        cause: String(cause),
      }),
    )
  }

  /** Logs an error of the worker itself. */
  fault(active: ActiveDelivery, cause: unknown): void {
    this.#parts.log.error("internal error while a task was settled", {
      job: active.id,
      cause: jobError(cause).message,
    })
  }

  #store(active: ActiveDelivery, settlement: Settlement): void {
    const { buffer, store } = this.#parts
    const alone = buffer.held.size === 1
    try {
      store.add(settlement, (answer) => this.#answered(active, settlement, answer), alone)
    } catch (thrown) {
      this.#storeFault(active, settlement, thrown)
    }
  }

  /** Goes on from the answer to the first try to store a settlement. Nearly all are stored by it. */
  #answered(active: ActiveDelivery, settlement: Settlement, answer: SettleAnswer): void {
    if (answer.status === "ended") {
      this.#finish(active, settlement, settlement)
      return
    }
    const settling = { job: active.id, replace: active.refused }
    const storing = () => this.#parts.store.insist(settlement, answer, settling)
    this.#finishAfter(active, settlement, storing, (cause) => this.#storeFault(active, settlement, cause))
  }

  /** Stores that the job has failed by an error of the worker itself. */
  #storeFault(active: ActiveDelivery, settlement: Settlement, cause: unknown): void {
    const giveUp = (thrown: unknown) => {
      this.fault(active, thrown)
      this.#parts.buffer.drop(active)
    }
    const storing = () => {
      const failed = this.#parts.decider.afterFault(active, cause)
      return failed === undefined ? Effect.die(cause) : this.#parts.store.store(failed, { job: active.id })
    }
    this.#finishAfter(active, settlement, storing, giveUp)
  }

  /** Finishes a delivery once it is known what was stored. `failed` is called with what was thrown on the way. */
  #finishAfter(
    active: ActiveDelivery,
    settlement: Settlement,
    storing: () => Effect.Effect<SettleResult>,
    failed: (cause: unknown) => void,
  ): void {
    Effect.runFork(
      Effect.suspend(storing).pipe(
        Effect.map((stored) => this.#finish(active, settlement, stored)),
        Effect.catchCause((cause) => Effect.sync(() => failed(Cause.squash(cause)))),
      ),
    )
  }

  /** Tells what became of a delivery, and drops it. */
  #finish(active: ActiveDelivery, settlement: Settlement, stored: SettleResult): void {
    try {
      this.#stored(active, settlement, stored)
    } catch (cause) {
      this.fault(active, cause)
    } finally {
      this.#parts.buffer.drop(active)
    }
  }

  #stored(active: ActiveDelivery, settlement: Settlement, stored: SettleResult): void {
    const { early, buffer, observers, dependents, log } = this.#parts
    // A job whose outcome could not be stored stays on the list of early acks, because nothing else would end it.
    if (active.offQueue && stored !== "lost" && settlement.then.kind === "ack") early.done(active.delivery.token)
    if (typeof stored === "object" && stored.record !== undefined) {
      dependents.stored(stored.record)
      const { id } = stored.record
      active.run?.steps
        ?.stored(stored.record)
        .catch((cause: unknown) =>
          log.debug("the journal of an ended job is kept for now", { job: id, cause: String(cause) }),
        )
    }
    if (settlement.record === undefined && active.run?.stop === "cancelled") this.#noteRun(active, false)
    if (stored === "superseded" && settlement.record !== undefined) this.#refused(active, settlement.record)
    else if (stored === "superseded" || stored === "lost") observers.unsettled(active, stored)
    else if (stored.then.kind === "hand-back") {
      buffer.handedBack()
      observers.handedBack(active)
    } else observers.settled(active, stored)
  }
}

/** Another decision may change the record meanwhile, but hardly more often. */
const TRIES = 3

/**
 * Notes in the record of a job that it ran here, although a decision from outside (a cancellation, a purge) ended the
 * job before its attempt was known to have begun. The decision stands.
 *
 * `refused`: the handler had ended, and its outcome was refused; otherwise it was stopped. Fails as the transport does.
 * A record that shows the attempt already, or belongs to another run or worker, is left as it is.
 */
const noteLateDecision = async (jobs: Jobs, run: HandlerRun, refused: boolean): Promise<void> => {
  const { attempt, worker } = run.record
  for (let tried = 0; tried < TRIES; tried++) {
    const found = await jobs.find(run.posting.id)
    if (found === undefined) return
    const { record, revision } = found
    const wasDecided = record.run === run.posting.run && isTerminal(record.state) && record.fence === NO_FENCE
    if (!wasDecided || record.tombstone || !isSameTask(record, run.posting)) return
    const isKnown = record.timeline.some((each) => each.run === record.run && each.attempt === attempt)
    if (isKnown && !refused) return
    const by = worker === undefined ? {} : { worker }
    const reason = refused ? "outcome-refused" : "stopped"
    const noted = {
      ...step(record, { at: run.clock.now(), state: record.state, reason, attempt, ...by }),
      ...by,
      attempt: Math.max(record.attempt, attempt),
      startedAt: record.startedAt ?? run.startedAt,
    }
    const [decided] = await jobs.decide([{ id: record.id, expect: revision, record: noted }])
    if (decided?.status !== "conflict") return
  }
}
