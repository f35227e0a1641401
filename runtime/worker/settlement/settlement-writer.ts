/**
 * Stores settlements in batches, and keeps trying while that makes sense: an unreachable transport is tried again, and
 * a record that the transport can never take is replaced by one that says so.
 */

import { type Batched, Batcher } from "../../async/batcher.ts"
import type { Connectivity } from "../../connection/connectivity.ts"
import { asTransportError } from "../../errors.ts"
import { outcomeLost } from "../../jobs/outcome/job-error.ts"
import type { Log } from "../../log/log.ts"
import type { JobError } from "../../protocol/record.ts"
import { cut } from "../../protocol/text.ts"
import type { Jobs, SettleAnswer, Settlement } from "../../transport/job-store/transport.ts"
import type { TransportError } from "../../transport/mod.ts"

/** The settlement that was stored, which need not be the first that was tried, or why none was. */
export type SettleResult = Settlement | "superseded" | "lost"

/** Is told what becomes of a settlement: one of its methods is called, once. */
export interface SettleListener {
  /** Id of the job, for the log. */
  readonly job?: string | undefined
  stored(result: SettleResult): void
  failed(cause: unknown): void
}

const FIRST_WAIT_MS = 100
const MAX_WAIT_MS = 5_000

/** Attempts for a settlement that fails with an internal error of the transport. */
const MAX_FAULTS = 3

export class SettlementWriter {
  readonly #jobs: Jobs
  readonly #batcher: Batcher<Settlement, SettleAnswer>
  readonly #log: Log
  readonly #connectivity: Connectivity

  constructor(jobs: Jobs, log: Log, connectivity: Connectivity) {
    this.#jobs = jobs
    this.#batcher = new Batcher((items) => jobs.settle(items))
    this.#log = log
    this.#connectivity = connectivity
  }

  /**
   * Stores a settlement, and tells `listener` the result, or what was thrown on the way.
   * `refused` makes the settlement that replaces a result which the transport can never take. `signal` ends trying: a task
   * that is not settled then is delivered again. `alone`: no other delivery is here that could be settled together with it.
   */
  settle(
    settlement: Settlement,
    signal: AbortSignal,
    refused: ((error: JobError) => Settlement) | undefined,
    listener: SettleListener,
    alone = false,
  ): void {
    this.#batcher.push(new FirstTry(this, settlement, signal, refused, listener), alone)
  }

  /** Handles every answer but the success of the first attempt. */
  async retry(
    settlement: Settlement,
    answer: SettleAnswer,
    signal: AbortSignal,
    refused?: (error: JobError) => Settlement,
    job = settlement.record?.id,
  ): Promise<SettleResult> {
    let settled = answer
    let current = settlement
    let replacement = refused
    let wait = FIRST_WAIT_MS
    let faults = 0
    const retry = async () => {
      settled = await this.#batcher.add(current).catch(failedOf)
    }
    while (true) {
      if (settled.status === "ended" || settled.status === "gone") return current
      if (settled.status === "superseded") return "superseded"
      const { error } = settled
      if (error.reason === "internal" && faults < MAX_FAULTS && !signal.aborted) {
        faults++
        await this.#connectivity.untilConnected(wait, signal)
        wait *= 2
        // Tried alone, because another settlement of the batch may have caused the error.
        settled = await this.#settleAlone(current)
        continue
      }
      if (error.reason === "too-large" || error.reason === "invalid" || error.reason === "internal") {
        const bare = error.reason === "too-large" ? withoutDetail(current) : undefined
        if (bare !== undefined) {
          current = bare
          await retry()
          continue
        }
        const next: Settlement | undefined =
          replacement?.(refusal(error)) ?? withoutLargeFields(current) ?? withoutFollowUps(current, error)
        replacement = undefined
        if (next !== undefined) {
          current = next
          await retry()
          continue
        }
      }
      if (error.reason !== "unavailable" || signal.aborted) {
        const what =
          current.then.kind === "hand-back" ? "a task could not be handed back" : "an outcome could not be stored"
        this.#log.error(`${what}; the task will be delivered again`, {
          job,
          cause: error.message,
        })
        return "lost"
      }
      await this.#connectivity.untilConnected(wait, signal)
      wait = Math.min(MAX_WAIT_MS, wait * 2)
      await retry()
    }
  }

  async #settleAlone(settlement: Settlement): Promise<SettleAnswer> {
    try {
      const [settled] = await this.#jobs.settle([settlement])
      return settled ?? failedOf("the transport gave no answer")
    } catch (cause) {
      return failedOf(cause)
    }
  }
}

/** The first try to store a settlement. Nearly all are stored by it, and then cost no promise. */
class FirstTry implements Batched<Settlement, SettleAnswer> {
  readonly item: Settlement
  readonly #writer: SettlementWriter
  readonly #signal: AbortSignal
  readonly #refused: ((error: JobError) => Settlement) | undefined
  readonly #listener: SettleListener

  constructor(
    writer: SettlementWriter,
    settlement: Settlement,
    signal: AbortSignal,
    refused: ((error: JobError) => Settlement) | undefined,
    listener: SettleListener,
  ) {
    this.item = settlement
    this.#writer = writer
    this.#signal = signal
    this.#refused = refused
    this.#listener = listener
  }

  resolve(answer: SettleAnswer): void {
    if (answer.status === "ended") this.#listener.stored(this.item)
    else this.#retry(answer)
  }

  reject(cause: unknown): void {
    this.#retry(failedOf(cause))
  }

  #retry(answer: SettleAnswer): void {
    this.#writer.retry(this.item, answer, this.#signal, this.#refused, this.#listener.job).then(
      (result) => this.#listener.stored(result),
      (cause: unknown) => this.#listener.failed(cause),
    )
  }
}

const failedOf = (cause: unknown): SettleAnswer => ({ status: "failed", error: asTransportError(cause) })

/** The error of a job whose result the transport refuses. */
const refusal = (error: TransportError): JobError =>
  error.reason === "too-large"
    ? {
        name: "ResultTooLarge",
        message: `${error.message}; store large results elsewhere and return where they are`,
        reason: "result-too-large",
      }
    : error.reason === "internal"
      ? outcomeLost(error.message)
      : { name: "UnserialisableResult", message: error.message, reason: "result-unserialisable" }

/**
 * The failed record without its errbacks, as a dead letter for that reason: without a stored outcome the job would run
 * again and again. `undefined` if that was tried already.
 */
const withoutFollowUps = (settlement: Settlement, { message: why }: TransportError): Settlement | undefined => {
  const { record, followUps, ...kept } = settlement
  if (followUps === undefined || record?.error === undefined || record.state !== "failed") return undefined
  const { followUps: _followUps, ...rest } = record
  const message = `${record.error.message} (and its ${followUps.length} errbacks cannot be submitted: ${why})`
  return { ...kept, record: { ...rest, error: { ...record.error, message }, dead: "errbacks-refused" } }
}

/**
 * The same outcome without the detail of the last progress, which must never decide an outcome. `undefined` if that was
 * tried already.
 */
const withoutDetail = (settlement: Settlement): Settlement | undefined => {
  const { record } = settlement
  if (record?.progress === undefined || record.progress.detail === undefined) return undefined
  const { detail: _detail, ...progress } = record.progress
  return { ...settlement, record: { ...record, progress } }
}

/**
 * A failed record without the fields that may be large: message, raw data, metadata and traceback. `undefined` if that
 * was tried already.
 */
const withoutLargeFields = (settlement: Settlement): Settlement | undefined => {
  const { record } = settlement
  if (record?.message === undefined && record?.raw === undefined) return undefined
  const { message: _message, raw: _raw, meta: _meta, progress: _progress, ...kept } = record
  if (record.error === undefined) return { ...settlement, record: kept }
  const { traceback: _traceback, ...error } = record.error
  return { ...settlement, record: { ...kept, error: { ...error, message: cut(error.message, 1_000) } } }
}
