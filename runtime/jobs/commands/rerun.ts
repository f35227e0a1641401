/** Runs an ended job again, or a scheduled one at once. */
import * as Result from "effect/Result"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { partsIn } from "../../protocol/chord.ts"
import {
  type FromStepHeader,
  MAX_FROM,
  parseTask,
  postingOfTask,
  renderCompact,
  withFromStep,
} from "../../protocol/headers.ts"
import { FRONT_LEVEL, type JobPosting, type Message } from "../../protocol/message.ts"
import { NO_FENCE } from "../../protocol/outside.ts"
import { earlierWith, type JobRecord, outcomeOfRun, step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { lookAtChord } from "../dependencies/chord-sweep.ts"
import { reopenChord, reopenMember } from "../dependencies/chords.ts"
import { startedNow } from "../outcome/run-now.ts"
import { findRecord, goneError } from "../tracking/finding.ts"
import { type Check, decide } from "./decide.ts"

export interface RetryOptions {
  /**
   * `start`: the job runs every durable step again, as it does after its steps were reverted. By default completed steps are
   * kept; a job whose reverting was not finished goes on reverting.
   */
  readonly from?: "start" | undefined
  /** Name of a durable step, or of a wait, of the job: it runs again, and so does all that had not ended before it. */
  readonly fromStep?: string | undefined
}

/** What the next run of a job keeps of its durable steps: by default all that are completed. */
interface Kept {
  readonly from?: RetryOptions["from"]
  readonly fromStep?: FromStepHeader
}

/** The message of a job's next run: new run, no retries used, due now. */
const nextRun = (record: JobRecord, message: Message, run: number, now: number, kept: Kept): JobPosting => {
  const parsed = parseTask(message)
  const task = Result.map(parsed, (before) => {
    const { hops: _hops, forwards: _forwards, from = [], ...own } = before.own
    const isFromStart = kept.from === "start"
    const runs = isFromStart ? {} : { from: [record.run, ...from].slice(0, MAX_FROM) }
    // A run that has kept nothing yet, because no worker had begun it, is passed over for the one before.
    const next = withFromStep(own, isFromStart ? undefined : (kept.fromStep ?? own.fromStep))
    return { ...before, eta: null, expires: null, retries: 0, own: { ...next, ...runs, run, submittedAt: now } }
  })
  const posting = Result.flatMap(task, (next) =>
    postingOfTask(next, { ...message, headers: renderCompact(next) }, record.queue),
  )
  if (Result.isFailure(posting)) {
    throw new CallboardError("unsupported", `job ${record.id} cannot run again: ${posting.failure.message}`, {
      id: record.id,
    })
  }
  return posting.success
}

/** The `after` of the next run, which waits for no job. */
const released = ({ waiting: _waiting, ...after }: NonNullable<JobRecord["after"]>) => after

/**
 * Runs an ended job again, as its next run. A job that waited for other jobs does not wait for them again. The body of a chord
 * that has not got its results waits for the members that have not succeeded, and for a member that runs again. Fails with
 * `unsupported` when its message is not kept (succeeded jobs), `job-exists` when it has not ended, `gone`, `not-found`.
 */
export const rerunJob = async (
  connection: Connection,
  id: string,
  check: Check = () => undefined,
  kept: Kept = {},
): Promise<JobRecord> => {
  const { record } = await findRecord(connection, id)
  const { chord, state } = record
  // The counts of the members are reset before the body waits again: else it would fail by their earlier ends.
  if (chord?.waiting && isTerminal(state)) {
    check(record)
    await reopenChord(connection.store, id, chord.size)
  }
  const again = await rerun(connection, id, check, kept)
  // The count of a member is reset once its job runs again: before that the sweep would count its earlier end again.
  if (again.member !== undefined) await reopenMember(connection.store, again.member).catch(() => undefined)
  if (again.chord?.waiting) {
    const parts = partsIn(again.chord.size)
    await lookAtChord(connection, { body: id, parts, at: again.submittedAt }, Date.now()).catch(() => undefined)
  }
  return again
}

/** Why a job cannot run again; `undefined` where it can. */
export const whyNotRerun = ({ id, tombstone, state, message, raw }: JobRecord): CallboardError | undefined => {
  if (tombstone) return goneError(id)
  if (!isTerminal(state)) {
    return new CallboardError("job-exists", `job ${id} is ${state}: only an ended job can run again`, { id })
  }
  if (message !== undefined) return undefined
  const why =
    raw === undefined
      ? `job ${id} ${state} and its input is not kept: submit a new job`
      : `job ${id} could not be decoded and cannot run again: submit a new job`
  return new CallboardError("unsupported", why, { id })
}

const rerun = (connection: Connection, id: string, check: Check, keeping: Kept): Promise<JobRecord> =>
  decide(connection, id, ({ record }) => {
    const refused = whyNotRerun(record)
    if (refused !== undefined) throw refused
    check(record)
    const { message } = record
    // `whyNotRerun` has refused a job without one.
    if (message === undefined) return undefined
    const now = Date.now()
    const run = record.run + 1
    const posting = nextRun(record, message, run, now, keeping)
    const waits = record.chord?.waiting === true
    const {
      result: _result,
      error: _error,
      fingerprint: _fingerprint,
      dead: _dead,
      progress: _progress,
      startedAt: _started,
      worker: _worker,
      endedAt: _ended,
      expiresAt: _expires,
      dueAt: _due,
      claims: _claims,
      acked: _acked,
      successor: _successor,
      message: _message,
      keepMs: _keep,
      front: _front,
      metaChange: _change,
      // The members of a chord may give its body other results.
      digest: _digest,
      reverts,
      reverting: _reverting,
      terminated: _terminated,
      reverted,
      unreverted: _unreverted,
      after,
      // The follow-ups of the run before stay until this one starts: its worker may have died before it published them.
      ...kept
    } = record
    return {
      record: {
        ...step(kept, { run, at: now, state: waits ? "deferred" : "queued", reason: "rerun" }),
        fence: NO_FENCE,
        retries: 0,
        ...earlierWith(record, outcomeOfRun(record)),
        // The steps that the next run keeps are reverted as well where it fails or is cancelled.
        ...(reverts && !reverted && keeping.from !== "start" ? { reverts } : {}),
        ...(posting.level >= FRONT_LEVEL ? { front: true } : {}),
        ...(after === undefined ? {} : { after: released(after) }),
        message: posting.message,
      },
      ...(waits ? {} : { post: [posting] }),
    }
  })

/**
 * Puts a job that is scheduled, also for its next attempt, into its queue at once. One that is in its queue stays as it is. Fails
 * with `job-exists` while it runs or waits for other jobs, with `already-terminal`, `gone` and `not-found`.
 */
export const runJobNow = (connection: Connection, id: string): Promise<JobRecord> =>
  decide(connection, id, ({ record }) => {
    const { state, message, tombstone } = record
    if (tombstone) throw goneError(id)
    if (state === "queued") return undefined
    if (isTerminal(state)) {
      throw new CallboardError("already-terminal", `job ${id} has already ended (${state}): retry it instead`, { id })
    }
    if (state !== "scheduled" || message === undefined) {
      const why =
        state === "deferred"
          ? "it waits for other jobs; to release it, cancel them with `release`"
          : "it is already running"
      throw new CallboardError("job-exists", `job ${id} is ${state}: ${why}`, { id })
    }
    return startedNow(record, Date.now())
  })
