/** Records as expired what waits past its time on a queue that nobody pulls: in slices, now and then. */
import type { Board } from "../board.ts"
import type { Log } from "../log.ts"
import { expire, isOverdue } from "../tracking.ts"

const EVERY_MS = 10_000
const SLICE = 100

/** Starts maintaining; returns how to stop. Several workers may do it at once: whoever is first records it. */
export const maintain = (board: Board, log: Log): (() => void) => {
  const { queue, records } = board
  if (queue.overdue === undefined) return () => undefined
  let busy = false
  const sweep = async () => {
    if (busy) return
    busy = true
    try {
      const now = Date.now()
      for (const id of (await queue.overdue?.(now, SLICE)) ?? []) {
        const found = await records.find(id)
        if (found !== undefined && isOverdue(found.record, now)) await expire(board, found)
      }
    } catch (cause) {
      log.debug("expired tasks could not be swept", { cause: cause instanceof Error ? cause.message : String(cause) })
    } finally {
      busy = false
    }
  }
  const timer = setInterval(() => void sweep(), EVERY_MS)
  return () => clearInterval(timer)
}
