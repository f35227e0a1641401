/** Cancels a job. */
import { CANCEL_TOPIC, type Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { endedOutside } from "../../protocol/outside.ts"
import { type JobRecord, step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { release } from "../dependencies/release.ts"
import { decide, goneError, removeOwnEdges } from "./decide.ts"

export interface CancelOptions {
  /** Ends the handler at once, where it runs in a process of its own; an inline one only has its signal. Defaults to false. */
  readonly terminate?: boolean
  /** Jobs that wait for it need not wait for it any more. Defaults to false: they stay deferred. */
  readonly release?: boolean
}

/**
 * Cancels a job. Waiting: it will not run. Running: its handler's signal fires and its outcome is refused; the reason on
 * record is `stopped`. Jobs that wait for it stay deferred, unless they are released: with `release` a job that was cancelled
 * before is no failure.
 * Fails with `already-terminal`, `gone`, `not-found`.
 */
export const cancelJob = async (
  connection: Connection,
  id: string,
  options: CancelOptions = {},
): Promise<JobRecord> => {
  const { terminate = false, release: releasesDependents = false } = options
  const cancelled = await decide(connection, id, ({ record }) => {
    if (record.tombstone) throw goneError(id)
    // Cancelled before, and those that wait for it not released, or not all of them.
    if (releasesDependents && record.state === "cancelled") return undefined
    if (isTerminal(record.state)) {
      throw new CallboardError("already-terminal", `job ${id} is already ${record.state}`, { id })
    }
    const now = Date.now()
    const cancelled = step(record, {
      at: now,
      state: "cancelled",
      ...(record.state === "started" ? { reason: "stopped" } : {}),
    })
    return { record: endedOutside(cancelled, now, connection.keepFailed), withdraw: true }
  })
  // The record decides; the news only spares a worker the rest of the run.
  const payload = JSON.stringify({ id, run: cancelled.run, terminate })
  await connection.broadcast.send(CANCEL_TOPIC, new TextEncoder().encode(payload)).catch(() => undefined)
  await removeOwnEdges(connection, cancelled)
  if (releasesDependents) await release(connection, new Map([[id, "released"]]))
  return cancelled
}
