/** Cancels a job. */
import { CANCEL_TOPIC, type Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { endedOutside } from "../../protocol/outside.ts"
import { type JobRecord, step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { afterEnds, memberOutcomesOf } from "../dependencies/ended.ts"
import { goneError } from "../tracking/finding.ts"
import { type Check, decide, removeOwnEdges } from "./decide.ts"

export interface CancelOptions {
  /**
   * Ends the handler at once, where it runs in a process of its own; an inline one only has its signal. Defaults to
   * false.
   */
  readonly terminate?: boolean
  /** Lets the jobs that wait for this one start without it. Defaults to false: they stay deferred. */
  readonly release?: boolean
}

/**
 * Cancels a job. A waiting job will not run. Of a running job the handler's signal fires and the outcome is refused; the
 * reason in its record is `stopped`. Jobs that wait for it stay deferred; with `release` they are released, also when the job
 * was cancelled before.
 * Fails with `already-terminal`, `gone`, `not-found`.
 */
export const cancelJob = async (
  connection: Connection,
  id: string,
  options: CancelOptions = {},
): Promise<JobRecord> => {
  const cancelled = await cancelAlone(connection, id, options)
  const released = new Map(options.release ? [[id, "released" as const]] : [])
  const moved = afterEnds(connection, released, memberOutcomesOf([cancelled]))
  // The job is cancelled; that a chord has lost a member is found by the sweep as well.
  await (options.release ? moved : moved.catch(() => undefined))
  return cancelled
}

/** Why a job cannot be cancelled; `undefined` where it can. */
export const whyNotCancel = ({ id, tombstone, state }: JobRecord): CallboardError | undefined => {
  if (tombstone) return goneError(id)
  return isTerminal(state) ? new CallboardError("already-terminal", `job ${id} is already ${state}`, { id }) : undefined
}

/** {@link cancelJob} without what follows for chords and for the jobs that wait for it. */
export const cancelAlone = async (
  connection: Connection,
  id: string,
  options: CancelOptions = {},
  check: Check = () => undefined,
): Promise<JobRecord> => {
  const { terminate = false, release: releasesDependents = false } = options
  const cancelled = await decide(connection, id, ({ record }) => {
    // The job was cancelled before: its dependents may not have been released, or not all of them.
    if (releasesDependents && record.state === "cancelled" && !record.tombstone) return undefined
    const refused = whyNotCancel(record)
    if (refused !== undefined) throw refused
    check(record)
    const now = Date.now()
    const cancelled = step(record, {
      at: now,
      state: "cancelled",
      ...(record.state === "started" ? { reason: "stopped" } : {}),
    })
    return { record: endedOutside(cancelled, now, connection.keepFailed), withdraw: true }
  })
  await tellCancelled(connection, cancelled, terminate)
  await removeOwnEdges(connection, cancelled)
  return cancelled
}

/**
 * Tells workers that a job was cancelled. The record decides; the broadcast only lets a worker stop the handler at once, so
 * it may be lost.
 */
export const tellCancelled = async (
  { broadcast }: Connection,
  { id, run }: JobRecord,
  terminate: boolean,
): Promise<void> => {
  const payload = new TextEncoder().encode(JSON.stringify({ id, run, terminate }))
  await broadcast.send(CANCEL_TOPIC, payload).catch(() => undefined)
}
