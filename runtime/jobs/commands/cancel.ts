/** Cancels a job, and the jobs that it has called. */
import { inLanes } from "../../async/timers.ts"
import { CANCEL_TOPIC, type Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { isObject } from "../../protocol/guards.ts"
import { endedOutside } from "../../protocol/outside.ts"
import { type JobRecord, step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { decoder, encoder } from "../../protocol/text.ts"
import { isSuspended } from "../../protocol/waits.ts"
import { afterEnds, memberOutcomesOf } from "../dependencies/ended.ts"
import { startedNow } from "../outcome/run-now.ts"
import { goneError } from "../tracking/finding.ts"
import { type Check, decide, removeOwnEdges } from "./decide.ts"

export interface CancelOptions {
  /**
   * Ends the handler at once, where it runs in a process of its own; an inline one has its signal, and if it blocks the
   * thread of its worker the process of the worker ends, within ten seconds. Also where the job was cancelled before,
   * while it ran. Defaults to false.
   */
  readonly terminate?: boolean | undefined
  /** Lets the jobs that wait for this one start without it. Defaults to false: they stay deferred. */
  readonly release?: boolean | undefined
}

/**
 * Cancels a job. A waiting job will not run. Of a running job the handler's signal fires and the outcome is refused;
 * the reason in its record is `stopped`. A job whose durable steps have a revert ends once these are reverted, unless it
 * is terminated. The jobs that it has called and waits for are cancelled as well. Jobs that wait for the job stay
 * deferred; with `release` they are released, also when it was cancelled before.
 *
 * Fails with `already-terminal`, `gone`, `not-found`, and as `check` does.
 */
export const cancelJob = async (
  connection: Connection,
  id: string,
  options: CancelOptions = {},
  check?: Check,
): Promise<JobRecord> => {
  const cancelled = await cancelAlone(connection, id, options, check)
  const released = new Map(options.release ? [[id, "released" as const]] : [])
  const moved = afterEnds(connection, released, memberOutcomesOf([cancelled]))
  // The job is cancelled; that a chord has lost a member is found by the sweep as well.
  await (options.release ? moved : moved.catch(() => undefined))
  return cancelled
}

/** Why a job cannot be cancelled; `undefined` where it can. */
export const whyNotCancel = ({ id, tombstone, state }: JobRecord): CallboardError | undefined => {
  if (tombstone) return goneError(id)
  return isTerminal(state)
    ? new CallboardError("already-terminal", `job ${id} has already ended (${state})`, { id })
    : undefined
}

/** Whether the handler of a job that was cancelled may go on, and nothing is to end it. */
const mayStillRun = ({ state, tombstone, timeline, terminated }: JobRecord): boolean =>
  state === "cancelled" && !tombstone && !terminated && timeline.at(-1)?.reason === "stopped"

/**
 * The cancelled job while it has steps to revert. It ends when they are reverted: by the delivery that runs it, or by its
 * next one, which begins at once.
 */
export const toBeReverted = (record: JobRecord, at: number): ReturnType<Parameters<typeof decide>[2]> => {
  // Its steps are being reverted already.
  if (record.reverting !== undefined) return undefined
  const wanted = { ...record, reverting: { why: "cancelled" } as const }
  const soon = record.state === "scheduled" || isSuspended(record) ? startedNow(wanted, at) : undefined
  return soon ?? { record: step(wanted, { at, state: record.state, reason: "cancelling" }) }
}

/** {@link cancelJob} without what follows for chords and for the jobs that wait for it. */
export const cancelAlone = async (
  connection: Connection,
  id: string,
  options: CancelOptions = {},
  check: Check = () => undefined,
): Promise<JobRecord> => {
  const { terminate = false, release: releasesDependents = false } = options
  let called: ReadonlyArray<string> = []
  const cancelled = await decide(connection, id, ({ record }) => {
    called = record.waits?.jobs ?? []
    // The job was cancelled before: its dependents may not have been released, or not all of them.
    if (releasesDependents && record.state === "cancelled" && !record.tombstone) return undefined
    if (terminate && mayStillRun(record)) return { record: { ...record, terminated: true } }
    const refused = whyNotCancel(record)
    if (refused !== undefined) throw refused
    check(record)
    const now = Date.now()
    if (record.reverts && !terminate) return toBeReverted(record, now)
    const { terminated: _before, ...kept } = record
    const cancelled = step(terminate ? { ...kept, terminated: true } : kept, {
      at: now,
      state: "cancelled",
      ...(record.state === "started" ? { reason: "stopped" } : {}),
    })
    return { record: endedOutside(cancelled, now, connection.keepFailed), withdraw: true }
  })
  await announceCancellation(connection, cancelled, terminate)
  await removeOwnEdges(connection, cancelled)
  // The sweep over the journals of ended jobs finds what is left.
  await cancelCalled(connection, called, terminate).catch(() => undefined)
  return cancelled
}

/** Called jobs that are cancelled at the same time. */
const AT_A_TIME = 16

/**
 * Cancels jobs that were called by a job which has ended or reverts its steps, and the jobs that they have called. One that
 * cannot be cancelled any more stays as it is. Fails as the transport does.
 */
export const cancelCalled = async (
  connection: Connection,
  ids: ReadonlyArray<string>,
  terminate = false,
): Promise<void> => {
  await inLanes(AT_A_TIME, ids, async (id) => {
    try {
      await cancelJob(connection, id, { terminate })
    } catch (cause) {
      if (!(cause instanceof CallboardError) || cause.code === "transport-unavailable") throw cause
    }
  })
}

/**
 * Tells workers that a job was cancelled. The record decides; the broadcast only lets a worker stop the handler at once, so
 * it may be lost.
 */
export const announceCancellation = async (
  { broadcast }: Connection,
  { id, run, reverting }: JobRecord,
  terminate: boolean,
): Promise<void> => {
  const payload = encoder.encode(JSON.stringify({ id, run, terminate, ...(reverting && { reverting: true }) }))
  await broadcast.send(CANCEL_TOPIC, payload).catch(() => undefined)
}

/** A cancellation. Without `run` (sent by an older version) it means whichever run the worker has. */
export interface Cancellation {
  readonly id: string
  readonly run: number | undefined
  readonly terminate: boolean
  /** The job has steps to revert, and ends when they are reverted. */
  readonly reverting: boolean
}

/** Reads the payload of `CANCEL_TOPIC`; `undefined` for anything else. */
export const cancellationOf = (payload: Uint8Array): Cancellation | undefined => {
  try {
    const message: unknown = JSON.parse(decoder.decode(payload))
    if (!isObject(message) || !("id" in message) || typeof message.id !== "string") return undefined
    return {
      id: message.id,
      run: "run" in message && typeof message.run === "number" ? message.run : undefined,
      terminate: "terminate" in message && message.terminate === true,
      reverting: "reverting" in message && message.reverting === true,
    }
  } catch {
    return undefined
  }
}
