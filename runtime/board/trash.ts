/** The trash of a board: its jobs, and how one comes back. */
import { CallboardError } from "../errors.ts"
import { refuseCursor } from "../options/refuse.ts"
import { boardPlaceOf, hasRestored, restored } from "../protocol/board.ts"
import { checkCallOptions } from "./call-options.ts"
import type { Known } from "./entries.ts"
import type { BoardJob } from "./job.ts"
import { checkLimit } from "./requests.ts"
import type { InSession, Session } from "./session.ts"
import { type BoardJobView, viewOf } from "./view.ts"

export interface TrashOptions {
  readonly limit?: number | undefined
  readonly after?: string | undefined
}

export const trashed = async (run: InSession, options: TrashOptions = {}): Promise<ReadonlyArray<BoardJobView>> => {
  checkCallOptions("trashed", options)
  const { limit = 100, after } = options
  checkLimit(limit)
  if (after !== undefined && boardPlaceOf(after) === undefined) refuseCursor("cursor")
  return run(async ({ entries, board }) => {
    const prefix = entries.trashed()
    const now = await entries.now()
    const jobs: Array<BoardJobView> = []
    for (let last = after === undefined ? undefined : entries.trashed(after); ; ) {
      const range = { prefix, limit: limit - jobs.length, ...(last === undefined ? {} : { after: last }) }
      const found = await entries.store.list(range)
      for (const entry of found) {
        const known = entries.decode(entry)
        if (known === undefined) board.listeners.unreadable(entry.key)
        else jobs.push(viewOf(known.record, now, "COMPLETE"))
      }
      last = found.at(-1)?.key
      // A page is short only at the end: entries that cannot be read do not count.
      if (found.length < range.limit || jobs.length >= limit) return jobs
    }
  })
}

export const trashedJob = async (session: Session, id: string): Promise<BoardJobView> => {
  const [known, now] = await Promise.all([inTrash(session, id), session.entries.now()])
  return viewOf(known.record, now, "COMPLETE")
}

export const restore = async (session: Session, id: string): Promise<BoardJob> => {
  const { entries, candidates, notifications, board } = session
  const found = await inTrash(session, id)
  const { priority } = found.record
  // The index is changed before the job is written, so that readers look for restored jobs once there is one.
  await entries.changeIndex((index) => hasRestored(index, priority))
  const record = { ...restored(found.record, await entries.now()), sequence: found.record.sequence }
  const key = entries.restored(priority, id)
  const written = await entries.store.write([
    { key, value: entries.encode(record), expect: "" },
    { key: found.key, value: null, expect: found.revision },
  ])
  if (written === "conflict") return missingIn(board.name, id)
  candidates.clear()
  notifications.announce("POSTED", record)
  return board.handles.handle({ key, record, revision: written[0] ?? "" })
}

const inTrash = async ({ entries, board }: Session, id: string): Promise<Known> => {
  const [found] = boardPlaceOf(id) === undefined ? [] : await entries.store.get([entries.trashed(id)])
  return (found === undefined ? undefined : entries.decode(found)) ?? missingIn(board.name, id)
}

const missingIn = (board: string, id: string): never => {
  throw new CallboardError("not-found", `job ${id} is not in the trash of board ${board}`, { id })
}
