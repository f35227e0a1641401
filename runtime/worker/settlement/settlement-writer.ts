/**
 * Stores how deliveries end, in batches, and does not give up while that makes sense: an unreachable transport is tried
 * again, a record that the transport can never take is replaced by one that says so.
 */

import { Batcher } from "../../async/batcher.ts"
import type { Connectivity } from "../../connection/connectivity.ts"
import { asTransportError } from "../../errors.ts"
import { outcomeLost } from "../../jobs/outcome/job-error.ts"
import type { Log } from "../../log/log.ts"
import type { JobError } from "../../protocol/record.ts"
import type { AttemptEnd, EndAnswer, Jobs } from "../../transport/lift/transport.ts"
import type { TransportError } from "../../transport/mod.ts"

/** How it ended: the settlement that was stored, which need not be the one that was tried first; or why there is none. */
export type SettleResult = AttemptEnd | "superseded" | "lost"

const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 5_000

/** How often a settlement is tried again that the transport fails at without saying that it is unreachable. */
const MOST_FAULTS = 3

export class SettlementWriter {
  readonly #jobs: Jobs
  readonly #batcher: Batcher<AttemptEnd, EndAnswer>
  readonly #log: Log
  readonly #connectivity: Connectivity

  constructor(jobs: Jobs, log: Log, connectivity: Connectivity) {
    this.#jobs = jobs
    this.#batcher = new Batcher((items) => jobs.end(items))
    this.#log = log
    this.#connectivity = connectivity
  }

  /**
   * Resolves when it is over. `refused` makes the settlement that takes the place of a result which the transport can
   * never take; `signal` ends trying: what is not settled then is delivered again.
   */
  settle(
    settlement: AttemptEnd,
    signal: AbortSignal,
    refused?: (error: JobError) => AttemptEnd,
  ): Promise<SettleResult> {
    return this.#batcher.add(settlement).then(
      (settled) => (settled.status === "settled" ? settlement : this.#retry(settlement, settled, signal, refused)),
      (cause: unknown) => this.#retry(settlement, failedOf(cause), signal, refused),
    )
  }

  /** Everything but the plain success of the first try. */
  async #retry(
    settlement: AttemptEnd,
    answer: EndAnswer,
    signal: AbortSignal,
    refused?: (error: JobError) => AttemptEnd,
  ): Promise<SettleResult> {
    let settled = answer
    let current = settlement
    let instead = refused
    let wait = FIRST_WAIT_MS
    let faults = 0
    const again = async () => {
      settled = await this.#batcher.add(current).catch(failedOf)
    }
    while (true) {
      if (settled.status === "settled" || settled.status === "gone") return current
      if (settled.status === "superseded") return "superseded"
      const { error } = settled
      if (error.reason === "internal" && faults < MOST_FAULTS && !signal.aborted) {
        faults++
        await this.#connectivity.untilConnected(wait, signal)
        wait *= 2
        // Alone: what one settlement of a batch makes the transport throw is no fault of the others.
        settled = await this.#settleAlone(current)
        continue
      }
      if (error.reason === "too-large" || error.reason === "invalid" || error.reason === "internal") {
        const bare = error.reason === "too-large" ? withoutDetail(current) : undefined
        if (bare !== undefined) {
          current = bare
          await again()
          continue
        }
        const next: AttemptEnd | undefined =
          instead?.(refusal(error)) ?? withoutLargeFields(current) ?? withoutFollowUps(current, error)
        instead = undefined
        if (next !== undefined) {
          current = next
          await again()
          continue
        }
      }
      if (error.reason !== "unavailable" || signal.aborted) {
        this.#log.error("an outcome could not be stored; the task will be delivered again", {
          job: current.record?.id,
          cause: error.message,
        })
        return "lost"
      }
      await this.#connectivity.untilConnected(wait, signal)
      wait = Math.min(LONGEST_WAIT_MS, wait * 2)
      await again()
    }
  }

  async #settleAlone(settlement: AttemptEnd): Promise<EndAnswer> {
    try {
      const [settled] = await this.#jobs.end([settlement])
      return settled ?? failedOf("the transport gave no answer")
    } catch (cause) {
      return failedOf(cause)
    }
  }
}

const failedOf = (cause: unknown): EndAnswer => ({ status: "failed", error: asTransportError(cause) })

/** Why a job fails whose result the transport refuses. */
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
 * A failed record without what should follow from it, and a dead letter for that: an outcome that is never stored would run
 * its job again and again. Nothing once that was tried.
 */
const withoutFollowUps = (settlement: AttemptEnd, { message: why }: TransportError): AttemptEnd | undefined => {
  const { record, followUps, ...kept } = settlement
  if (followUps === undefined || record?.error === undefined || record.state !== "failed") return undefined
  const { followUps: _followUps, ...rest } = record
  const message = `${record.error.message} (and its ${followUps.length} errbacks cannot be submitted: ${why})`
  return { ...kept, record: { ...rest, error: { ...record.error, message }, dead: "errbacks-refused" } }
}

/** The same outcome without what was said beside the last progress: that never decides it. Nothing once that was tried. */
const withoutDetail = (settlement: AttemptEnd): AttemptEnd | undefined => {
  const { record } = settlement
  if (record?.progress === undefined || record.progress.detail === undefined) return undefined
  const { detail: _detail, ...progress } = record.progress
  return { ...settlement, record: { ...record, progress } }
}

/** A failed record without what may be large: its message, its data and its traceback. Nothing once that was tried. */
const withoutLargeFields = (settlement: AttemptEnd): AttemptEnd | undefined => {
  const { record } = settlement
  if (record?.message === undefined && record?.raw === undefined) return undefined
  const { message: _message, raw: _raw, meta: _meta, progress: _progress, ...kept } = record
  if (record.error === undefined) return { ...settlement, record: kept }
  const { traceback: _traceback, ...error } = record.error
  return { ...settlement, record: { ...kept, error: { ...error, message: error.message.slice(0, 1_000) } } }
}
