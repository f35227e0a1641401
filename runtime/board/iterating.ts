/** Finds the jobs of a board: all of them one by one or in pages, how many there are, and one by its id. */
import { refuseCursor } from "../options/refuse.ts"
import { BOARD_PRIORITIES, liveClaim } from "../protocol/board.ts"
import { checkCallOptions } from "./call-options.ts"
import type { Known } from "./entries.ts"
import { missing } from "./failure.ts"
import { type GivenJob, idOf } from "./handles.ts"
import type { BoardJob } from "./job.ts"
import type { ReadAfter } from "./reading.ts"
import { checkLimit } from "./requests.ts"
import type { InSession, Session } from "./session.ts"
import { type BoardJobView, viewOf } from "./view.ts"

export interface IterateOptions {
  /** Only jobs that can be claimed now. Defaults to false. */
  readonly onlyUnclaimed?: boolean | undefined
  /** Whether each job is read again right before it is handed over, instead of once for each bucket of 256. */
  readonly fresh?: boolean | undefined
}

export interface ListOptions extends Pick<IterateOptions, "onlyUnclaimed"> {
  /** Most jobs, 1 to 1,000. Defaults to 100. */
  readonly limit?: number | undefined
  /** `next` of the page before. */
  readonly after?: string | undefined
}

export interface BoardPage {
  readonly jobs: ReadonlyArray<BoardJobView>
  /** Absent on the last page. */
  readonly next?: string
  /** Keys of entries that could not be read, and were skipped. */
  readonly unreadable: ReadonlyArray<string>
}

/** `unreadable` collects the keys of entries that could not be read. */
export async function* iterate(
  run: InSession,
  { onlyUnclaimed, fresh }: Required<IterateOptions>,
  unreadable: Array<string>,
): AsyncGenerator<BoardJob, void, undefined> {
  const { reader, entries, board } = await run(async (session) => session)
  const noted = (key: string): void => void (unreadable.includes(key) || unreadable.push(key))
  const jobs = reader.jobs(undefined, noted)
  for (;;) {
    const next = await run(async () => {
      const { value: listed } = await jobs.next()
      if (listed === undefined) return undefined
      const now = await entries.now()
      const known = fresh ? await entries.job(listed.record.id) : listed
      const isLeftOut = known === undefined || (onlyUnclaimed && liveClaim(known.record, now) !== undefined)
      return isLeftOut ? ("left out" as const) : board.handles.handle(known)
    })
    if (next === undefined) return
    if (next !== "left out") yield next
  }
}

const cursorOf = (text: string): ReadAfter => {
  const [, name, sequence] = /^([A-Z_]+)\.(\d{1,16})$/.exec(text) ?? []
  const priority = BOARD_PRIORITIES.find((each) => each === name)
  return priority === undefined ? refuseCursor("cursor") : { priority, sequence: Number(sequence) }
}

export const list = async (run: InSession, options: ListOptions): Promise<BoardPage> => {
  checkCallOptions("list", options)
  const { limit = 100, onlyUnclaimed = false, after } = options
  const from = after === undefined ? undefined : cursorOf(after)
  checkLimit(limit)
  return run(async ({ reader, entries }) => {
    const unreadable: Array<string> = []
    const found: Array<Known> = []
    const now = await entries.now()
    for await (const known of reader.jobs(from, (key) => unreadable.push(key))) {
      if (onlyUnclaimed && liveClaim(known.record, now) !== undefined) continue
      if (found.push(known) > limit) break
    }
    const page = found.slice(0, limit)
    const last = page.at(-1)?.record
    return {
      jobs: page.map(({ record }) => viewOf(record, now)),
      ...(found.length > limit && last !== undefined ? { next: `${last.priority}.${last.sequence}` } : {}),
      unreadable: [...new Set(unreadable)],
    }
  })
}

export const count = async ({ reader }: Session): Promise<number> => {
  let count = 0
  for await (const _ of reader.jobs()) count++
  return count
}

/** The job as it is now; of a job that is not on the board any more the last known view, with the state `COMPLETE`. */
export const find = async ({ entries, board }: Session, job: GivenJob): Promise<BoardJobView> => {
  const id = idOf(job)
  const [known, now] = await Promise.all([entries.job(id), entries.now()])
  const held = board.handles.knownOf(job)
  if (known !== undefined) {
    if (held !== undefined) Object.assign(held, { known, last: known.record })
    return viewOf(known.record, now)
  }
  if (held === undefined) return missing(id)
  const { claim: _claim, ...last } = held.last
  return viewOf(last, now, "COMPLETE")
}
