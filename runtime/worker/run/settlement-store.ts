/**
 * Stores settlements in batches, and keeps trying while that makes sense: an unreachable transport is asked again, and a
 * settlement that the transport refuses is replaced by the next rung of a ladder.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import { Turn } from "../../async/batcher.ts"
import { FIRST_WAIT_MS, OUTAGE, untilConnectedEach } from "../../async/outage-waits.ts"
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

/** Makes the settlement that replaces a result which the transport can never store. */
type Replace = (error: JobError) => Settlement

/** What is known of a settlement beside it. */
export interface Settling {
  /** Id of the job, for the log. */
  readonly job?: string | undefined
  readonly replace?: Replace | undefined
}

/** A settlement of this turn, and what takes the answer to the first try. */
interface Added {
  readonly settlement: Settlement
  readonly answered: (answer: SettleAnswer) => void
}

/** Waits after the second and third internal error of the transport for one settlement. */
const FAULTS = Schedule.exponential(2 * FIRST_WAIT_MS).pipe(Schedule.upTo({ times: 2 }))

export class SettlementStore {
  readonly #jobs: Jobs
  readonly #turn = new Turn<Added>((added) => void this.#settleAll(added))
  readonly #log: Log
  readonly #connectivity: Connectivity
  readonly #end = new AbortController()

  constructor(jobs: Jobs, log: Log, connectivity: Connectivity) {
    this.#jobs = jobs
    this.#log = log
    this.#connectivity = connectivity
  }

  /**
   * Tries to store a settlement, together with others of this turn. `answered` must not throw. `alone`: no other
   * delivery is here that could be settled together with it.
   */
  add(settlement: Settlement, answered: Added["answered"], alone = false): void {
    this.#turn.add({ settlement, answered }, alone)
  }

  /** Stores a settlement. */
  store(settlement: Settlement, settling: Settling = {}): Effect.Effect<SettleResult> {
    return Effect.flatMap(this.#ask(settlement), (answer) => this.insist(settlement, answer, settling))
  }

  /** Goes on from the answer to the first try. */
  insist(settlement: Settlement, answer: SettleAnswer, settling: Settling): Effect.Effect<SettleResult> {
    if (answer.status !== "failed") return Effect.succeed(resultOf(settlement, answer))
    return Effect.catch(this.#again(settlement, answer.error), (error) => {
      const isOther = error.reason !== answer.error.reason && isTransient(error)
      if (isOther && !this.#end.signal.aborted) return this.insist(settlement, { status: "failed", error }, settling)
      // An error inside the transport is a refusal only if it was asked several times.
      const isRefused = isRefusal(error) && !(error.reason === "internal" && this.#end.signal.aborted)
      for (const rung of isRefused ? LADDER : []) {
        const next = rung(settlement, error, settling.replace)
        if (next !== undefined) return this.store(next, rung === replaced ? { job: settling.job } : settling)
      }
      this.#log.error(`${notDone(settlement)}; the task will be delivered again`, {
        job: settling.job ?? settlement.record?.id,
        cause: error.message,
      })
      return Effect.succeed("lost" as const)
    })
  }

  /** Gives up from now on what the transport does not accept at once: such tasks are delivered again. */
  stop(): void {
    this.#end.abort()
  }

  #ask(settlement: Settlement): Effect.Effect<SettleAnswer> {
    return Effect.callback((resume) => this.add(settlement, (answer) => resume(Exit.succeed(answer))))
  }

  async #settleAll(added: ReadonlyArray<Added>): Promise<void> {
    const answers = await this.#settle(added.map(({ settlement }) => settlement))
    for (const [at, { settlement, answered }] of added.entries()) {
      try {
        answered(answers[at] ?? NO_ANSWER)
      } catch (cause) {
        // The deliveries of the other settlements must end all the same.
        const job = settlement.record?.id
        this.#log.error("an internal error after a settlement was answered", { job, cause: String(cause) })
      }
    }
  }

  /** One answer for each settlement. A transport may throw instead of rejecting. */
  async #settle(settlements: ReadonlyArray<Settlement>): Promise<ReadonlyArray<SettleAnswer>> {
    try {
      return await this.#jobs.settle(settlements)
    } catch (cause) {
      return settlements.map(() => failedOf(cause))
    }
  }

  /** Tries a settlement again that has failed with `error`, as long as that makes sense. */
  #again(settlement: Settlement, error: TransportError): Effect.Effect<SettleResult, TransportError> {
    const { reason } = error
    if (!isTransient(error) || this.#end.signal.aborted) return Effect.fail(error)
    // After an internal error it is tried alone, because another settlement of the batch may have caused that.
    const ask = reason === "unavailable" ? this.#ask(settlement) : this.#askAlone(settlement)
    const tried = Effect.flatMap(ask, (answer) =>
      answer.status === "failed" ? Effect.fail(answer.error) : Effect.succeed(resultOf(settlement, answer)),
    )
    const connected = (ms: number) => this.#connectivity.untilConnected(ms, this.#end.signal)
    const schedule = untilConnectedEach(reason === "unavailable" ? OUTAGE : FAULTS, connected)
    const isSame = (latest: TransportError) => latest.reason === reason && !this.#end.signal.aborted
    const first = Effect.promise(() => connected(FIRST_WAIT_MS))
    return Effect.andThen(first, Effect.retry(tried, { schedule, while: isSame }))
  }

  #askAlone(settlement: Settlement): Effect.Effect<SettleAnswer> {
    return Effect.promise(async () => (await this.#settle([settlement]))[0] ?? NO_ANSWER)
  }
}

const failedOf = (cause: unknown): SettleAnswer => ({ status: "failed", error: asTransportError(cause) })

const NO_ANSWER = failedOf("the transport did not answer")

const resultOf = (settlement: Settlement, { status }: SettleAnswer): SettleResult =>
  status === "superseded" ? status : settlement

const notDone = ({ then }: Settlement): string =>
  then.kind === "hand-back" ? "a task could not be handed back" : "an outcome could not be stored"

const isTransient = ({ reason }: TransportError): boolean => reason === "unavailable" || reason === "internal"

/** Whether something else can be stored in place of the settlement. */
const isRefusal = ({ reason }: TransportError): boolean =>
  reason === "too-large" || reason === "invalid" || reason === "internal"

/** What can be stored in place of a settlement that is refused; `undefined` if it has no such form, or had it before. */
type Rung = (settlement: Settlement, error: TransportError, replace: Replace | undefined) => Settlement | undefined

/** The error of a job whose result the transport refuses. */
const refusal = (error: TransportError): JobError =>
  error.reason === "too-large"
    ? {
        name: "ResultTooLarge",
        message: `${error.message}; store large results elsewhere and return their address`,
        reason: "result-too-large",
      }
    : error.reason === "internal"
      ? outcomeLost(error.message)
      : { name: "UnserialisableResult", message: error.message, reason: "result-unserialisable" }

/**
 * The failed record without its errbacks, as a dead letter for that reason: without a stored outcome the job would run
 * again and again. `undefined` if that was tried already.
 */
const withoutFollowUps: Rung = (settlement, { message: why }) => {
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
const withoutDetail: Rung = (settlement, { reason }) => {
  const { record } = settlement
  if (reason !== "too-large") return undefined
  if (record?.progress === undefined || record.progress.detail === undefined) return undefined
  const { detail: _detail, ...progress } = record.progress
  return { ...settlement, record: { ...record, progress } }
}

/**
 * A failed record without the fields that may be large: message, raw data, metadata and traceback. `undefined` if that
 * was tried already.
 */
const withoutLargeFields: Rung = (settlement) => {
  const { record } = settlement
  if (record?.message === undefined && record?.raw === undefined) return undefined
  const { message: _message, raw: _raw, meta: _meta, progress: _progress, ...kept } = record
  if (record.error === undefined) return { ...settlement, record: kept }
  const { traceback: _traceback, ...error } = record.error
  return { ...settlement, record: { ...kept, error: { ...error, message: cut(error.message, 1_000) } } }
}

const replaced: Rung = (_settlement, error, replace) => replace?.(refusal(error))

/** What is tried in place of a settlement that is refused, in this order. */
const LADDER: ReadonlyArray<Rung> = [withoutDetail, replaced, withoutLargeFields, withoutFollowUps]
