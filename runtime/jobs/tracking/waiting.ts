/** Waits for the end of a job. */
import type { Connection } from "../../connection/connection.ts"
import { CallboardError, WaitTimeout } from "../../errors.ts"
import { isId } from "../../protocol/name.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { findRecord, notFound, POLL_MS } from "./finding.ts"

/**
 * Waits for the end of a job's current run. Resolves with its terminal record (a tombstone if it is gone).
 * Fails with `WaitTimeout` after `timeoutMs`, and with `not-found`.
 */
export const waitForEnd = async (
  connection: Connection,
  id: string,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<JobRecord> => {
  if (!isId(id)) throw notFound(id)
  const stop = new AbortController()
  const began = performance.now()
  return new Promise<JobRecord>((resolve, reject) => {
    let look: ReturnType<typeof setInterval> | undefined
    const timer = Number.isFinite(timeoutMs)
      ? setTimeout(() => finish(() => reject(new WaitTimeout(id, timeoutMs))), Math.min(timeoutMs, 2 ** 31 - 1))
      : undefined
    const aborted = () => finish(() => reject(signal?.reason ?? new WaitTimeout(id, performance.now() - began)))
    const finish = (then: () => void) => {
      if (stop.signal.aborted) return
      stop.abort()
      clearTimeout(timer)
      clearInterval(look)
      signal?.removeEventListener("abort", aborted)
      then()
    }
    const seen = (record: JobRecord) => {
      if (isTerminal(record.state)) finish(() => resolve(record))
    }
    const lookNow = () => findRecord(connection, id).then((found) => seen(found.record))
    if (signal?.aborted) return aborted()
    signal?.addEventListener("abort", aborted, { once: true })
    // The watch begins before the first read, so that an end in between is seen by one of them.
    connection.jobs
      .watch({ id }, seen, stop.signal)
      .then(lookNow)
      .then(() => {
        if (stop.signal.aborted) return
        look = setInterval(() => {
          // A transport that is down may be back at the next read; the timeout bounds the wait.
          lookNow().catch((cause: unknown) => {
            if (cause instanceof CallboardError) finish(() => reject(cause))
          })
        }, POLL_MS)
      })
      .catch((cause: unknown) => finish(() => reject(cause)))
  })
}
