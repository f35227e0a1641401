/**
 * Ends deliveries: stores the settlement of each, then drops the delivery from the buffer and tells observers what
 * became of it. No failure escapes, because a delivery that is not dropped would keep its place for ever.
 */
import type { Connectivity } from "../../connection/connectivity.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import { isSameTask } from "../../jobs/same-task.ts"
import type { Log } from "../../log/log.ts"
import { NO_FENCE } from "../../protocol/outside.ts"
import { type JobRecord, step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Jobs, Settlement } from "../../transport/lift/transport.ts"
import type { DeliveryBuffer } from "../fetch/delivery-buffer.ts"
import type { ForeignTasks, InFlight, Run } from "../in-flight.ts"
import type { Observers } from "../telemetry/observer.ts"
import type { EarlyAcks } from "./early-acks.ts"
import { type SettleListener, SettlementWriter, type SettleResult } from "./settlement-writer.ts"

export interface DeliveryEnderOptions {
  readonly jobs: Jobs
  readonly buffer: DeliveryBuffer
  readonly early: EarlyAcks
  readonly connectivity: Connectivity
  readonly observers: Observers
  readonly foreign: ForeignTasks | undefined
  readonly log: Log
  /** The settlement that replaces one which could not be made or stored because of an error of the worker itself. */
  readonly afterFault: (inFlight: InFlight, cause: unknown) => Settlement | undefined
  /** Called with each record that was stored. */
  readonly onStored: (record: JobRecord) => void
}

export class DeliveryEnder {
  readonly #options: DeliveryEnderOptions
  readonly #settlements: SettlementWriter
  readonly #end = new AbortController()

  constructor(options: DeliveryEnderOptions) {
    this.#options = options
    this.#settlements = new SettlementWriter(options.jobs, options.log, options.connectivity)
  }

  /** Stores the settlement of a delivery and drops the delivery. */
  end(inFlight: InFlight, settlement: Settlement): void {
    const { progressStored } = inFlight
    if (progressStored === undefined) this.#complete(inFlight, settlement)
    else void progressStored.then(() => this.#complete(inFlight, settlement))
  }

  /** Gives a task back, uncounted, to be delivered again after `delay` milliseconds. */
  giveBack(inFlight: InFlight, delay = 0): void {
    this.end(inFlight, { token: inFlight.delivery.token, then: { kind: "release", delay } })
  }

  /** Takes the task of a job that has ended already off its queue. */
  ack(inFlight: InFlight): void {
    this.end(inFlight, { token: inFlight.delivery.token, then: { kind: "ack" } })
  }

  /** Stores a settlement while its delivery goes on: that of an early ack. */
  settle(settlement: Settlement): Promise<SettleResult> {
    return new Promise((stored, failed) =>
      this.#settlements.settle(settlement, this.#end.signal, undefined, { stored, failed }),
    )
  }

  /** Drops a task that never ran here and belongs to another worker. It does not count towards `maxJobs`. */
  dropUnstarted(inFlight: InFlight): void {
    const { buffer } = this.#options
    buffer.handedBack()
    buffer.drop(inFlight)
  }

  /** Handles an outcome that came too late, because another delivery or a cancellation has the job. */
  refused(inFlight: InFlight, record: JobRecord | undefined): void {
    const { log, observers } = this.#options
    log.debug("an outcome was refused: another delivery, or a cancellation, has the job", { job: inFlight.id })
    observers.refused(inFlight, record)
    if (record !== undefined) this.#noteRun(inFlight, true)
  }

  /** Notes in the record of a job that was decided from outside that it ran here, if it did. */
  #noteRun({ run, called }: InFlight, refused: boolean): void {
    const { jobs, log } = this.#options
    if (run === undefined || !called) return
    noteLateDecision(jobs, run, refused).catch((cause: unknown) =>
      log.debug("the record of a cancelled job could not tell that it ran", {
        job: run.posting.id,
        cause: String(cause),
      }),
    )
  }

  /** Logs an error of the worker itself. */
  fault(inFlight: InFlight, cause: unknown): void {
    this.#options.log.error("an internal error while a task was settled", {
      job: inFlight.id,
      cause: jobError(cause).message,
    })
  }

  /** Stores no more settlements from now on: those that the transport does not accept are given up. */
  stop(): void {
    this.#end.abort()
  }

  #complete(inFlight: InFlight, settlement: Settlement): void {
    const completing = this.#options.foreign?.completing(inFlight, settlement)
    if (completing === undefined) this.#store(inFlight, settlement)
    else void completing.then((completed) => this.#store(inFlight, completed))
  }

  #store(inFlight: InFlight, settlement: Settlement): void {
    const ending = new Ending(this, inFlight, settlement)
    try {
      const alone = this.#options.buffer.inFlight.size === 1
      this.#settlements.settle(settlement, this.#end.signal, inFlight.refused, ending, alone)
    } catch (thrown) {
      ending.failed(thrown)
    }
  }

  /** Tells what became of a delivery, and drops it. */
  finish(inFlight: InFlight, settlement: Settlement, stored: SettleResult): void {
    try {
      this.#stored(inFlight, settlement, stored)
    } catch (cause) {
      this.fault(inFlight, cause)
    } finally {
      this.#options.buffer.drop(inFlight)
    }
  }

  /** Stores that the job has failed by an error of the worker itself. */
  storeFault(inFlight: InFlight, settlement: Settlement, cause: unknown): void {
    const giveUp = (thrown: unknown) => {
      this.fault(inFlight, thrown)
      this.#options.buffer.drop(inFlight)
    }
    try {
      const failed = this.#options.afterFault(inFlight, cause)
      if (failed === undefined) giveUp(cause)
      else
        this.#settlements.settle(failed, this.#end.signal, undefined, {
          stored: (result) => this.finish(inFlight, settlement, result),
          failed: giveUp,
        })
    } catch (thrown) {
      giveUp(thrown)
    }
  }

  #stored(inFlight: InFlight, settlement: Settlement, stored: SettleResult): void {
    const { early, buffer, observers, onStored, log } = this.#options
    // A job whose outcome could not be stored stays on the list of early acks, because nothing else would end it.
    if (inFlight.offQueue && stored !== "lost" && settlement.then.kind === "ack") early.done(inFlight.delivery.token)
    if (typeof stored === "object" && stored.record !== undefined) {
      onStored(stored.record)
      const { id } = stored.record
      inFlight.run?.flow
        ?.stored(stored.record)
        .catch((cause: unknown) =>
          log.debug("the journal of an ended job is kept for now", { job: id, cause: String(cause) }),
        )
    }
    if (settlement.record === undefined && inFlight.run?.stop === "cancelled") this.#noteRun(inFlight, false)
    if (stored === "superseded" && settlement.record !== undefined) this.refused(inFlight, settlement.record)
    else if (stored === "superseded" || stored === "lost") observers.unsettled(inFlight, stored)
    else if (stored.then.kind === "release") {
      buffer.handedBack()
      observers.handedBack(inFlight)
    } else observers.settled(inFlight, stored)
  }
}

/** One delivery whose settlement is being stored. */
class Ending implements SettleListener {
  readonly #ender: DeliveryEnder
  readonly #inFlight: InFlight
  readonly #settlement: Settlement

  constructor(ender: DeliveryEnder, inFlight: InFlight, settlement: Settlement) {
    this.#ender = ender
    this.#inFlight = inFlight
    this.#settlement = settlement
  }

  get job(): string | undefined {
    return this.#inFlight.id
  }

  stored(result: SettleResult): void {
    this.#ender.finish(this.#inFlight, this.#settlement, result)
  }

  failed(cause: unknown): void {
    this.#ender.storeFault(this.#inFlight, this.#settlement, cause)
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
const noteLateDecision = async (jobs: Jobs, run: Run, refused: boolean): Promise<void> => {
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
