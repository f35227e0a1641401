/** Runs an ended job again. */
import * as Result from "effect/Result"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { partsIn } from "../../protocol/chord.ts"
import { parseTask, postingOfTask, renderCompact } from "../../protocol/headers.ts"
import { type AddressedTask, FRONT_LEVEL, type Message } from "../../protocol/message.ts"
import { NO_FENCE } from "../../protocol/outside.ts"
import { earlierWith, type JobRecord, outcomeOfRun, step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { lookAtChord } from "../dependencies/chord-sweep.ts"
import { reopenChord, reopenMember } from "../dependencies/chords.ts"
import { findRecord, goneError } from "../tracking/finding.ts"
import { type Check, decide } from "./decide.ts"

/** The message of a job's next run: new run, no retries used, due now. */
const nextRun = (record: JobRecord, message: Message, run: number, now: number): AddressedTask => {
  const parsed = parseTask(message)
  const task = Result.map(parsed, (before) => {
    const { hops: _hops, ...own } = before.own
    return { ...before, eta: null, expires: null, retries: 0, own: { ...own, run, submittedAt: now } }
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
): Promise<JobRecord> => {
  const { record } = await findRecord(connection, id)
  const { chord, state } = record
  // Before the body waits again, so that it does not fail by how the members have ended before.
  if (chord?.waiting && isTerminal(state)) {
    check(record)
    await reopenChord(connection.store, id, chord.size)
  }
  const again = await rerun(connection, id, check)
  // Once the job runs again: before that the sweep would note again how it had ended.
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
      ? `job ${id} ${state}, and its input is not kept: submit it anew`
      : `job ${id} could not be decoded and cannot run again as it is: submit it anew`
  return new CallboardError("unsupported", why, { id })
}

const rerun = (connection: Connection, id: string, check: Check): Promise<JobRecord> =>
  decide(connection, id, ({ record }) => {
    const refused = whyNotRerun(record)
    if (refused !== undefined) throw refused
    check(record)
    const { message } = record
    // `whyNotRerun` has refused a job without one.
    if (message === undefined) return undefined
    const now = Date.now()
    const run = record.run + 1
    const posting = nextRun(record, message, run, now)
    const waits = record.chord?.waiting === true
    const {
      result: _result,
      error: _error,
      fingerprint: _fingerprint,
      dead: _dead,
      progress: _progress,
      startedAt: _started,
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
        ...(posting.level >= FRONT_LEVEL ? { front: true } : {}),
        ...(after === undefined ? {} : { after: released(after) }),
        message: posting.message,
      },
      ...(waits ? {} : { post: [posting] }),
    }
  })
