/** Empties a queue: each job that waits in it ends as cancelled, so that no caller waits for its result for ever. */
import * as Result from "effect/Result"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { checkQueueName } from "../../protocol/name.ts"
import { endedOutside } from "../../protocol/outside.ts"
import { step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { tellCancelled } from "./cancel.ts"
import { decide } from "./decide.ts"
import { deleteJob } from "./delete.ts"

export interface PurgeOptions {
  /** Deletes the records of the jobs as well. Defaults to false. */
  readonly forget?: boolean
}

const PAGE = 500
/** Decisions that run at the same time. */
const AT_A_TIME = 32

/**
 * Resolves with the number of tasks taken off the queue. Tasks that are submitted meanwhile may be among them. Running jobs
 * go on. Fails with `unsupported` where the transport cannot list the tasks that wait.
 */
export const purgeQueue = async (
  connection: Connection,
  queue: string,
  { forget = false }: PurgeOptions = {},
): Promise<number> => {
  const checked = checkQueueName(queue)
  if (Result.isFailure(checked)) throw new CallboardError("invalid-input", checked.failure.message, { field: "queue" })
  const { waiting } = connection.jobs
  if (waiting === undefined) {
    throw new CallboardError("unsupported", `transport ${connection.transport.name} cannot tell what waits in a queue`)
  }
  const began = performance.now()
  let purged = 0
  // Bounded, because a client that submits without end could keep the queue from ever being empty.
  while (performance.now() - began < MAX_PURGE_MS) {
    const ids = await waiting.call(connection.jobs, { queue }, PAGE)
    let taken = 0
    for (let from = 0; from < ids.length; from += AT_A_TIME) {
      const done = await Promise.all(ids.slice(from, from + AT_A_TIME).map((id) => purge(connection, id, forget)))
      taken += done.filter(Boolean).length
    }
    purged += taken
    if (taken === 0) break
  }
  return purged
}

const MAX_PURGE_MS = 60_000

const purge = async (connection: Connection, id: string, forget: boolean): Promise<boolean> => {
  const purged = await purgeJob(connection, id)
  if (purged && forget) await deleteJob(connection, id)
  return purged
}

/**
 * Cancels a waiting job, with the reason `purged`. Resolves with whether it was still waiting; a job that runs or has ended is
 * left as it is.
 */
const purgeJob = async (connection: Connection, id: string): Promise<boolean> => {
  try {
    const purged = await decide(connection, id, ({ record }) => {
      if (record.tombstone || isTerminal(record.state) || record.state === "started") throw NOT_WAITING
      const now = Date.now()
      const cancelled = step(record, { at: now, state: "cancelled", reason: "purged" })
      return { record: endedOutside(cancelled, now, connection.keepFailed), withdraw: true }
    })
    // A worker may have just started it, which no record shows yet.
    await tellCancelled(connection, purged, false)
    return true
  } catch (thrown) {
    if (thrown === NOT_WAITING || (thrown instanceof CallboardError && thrown.code === "not-found")) return false
    throw thrown
  }
}

const NOT_WAITING = new CallboardError("already-terminal", "the job does not wait any more")
