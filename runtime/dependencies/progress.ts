/** Moves jobs on that wait for others, by compare-and-set, when it is known how those have ended. */
import type { Board } from "../board.ts"
import { advance, type Ending } from "../protocol/dependencies.ts"
import type { JobError, JobRecord } from "../protocol/record.ts"
import { step } from "../protocol/record.ts"
import { keepOf, NO_FENCE } from "../tracking.ts"
import { type Change, type Found, TransportError } from "../transport.ts"
import { failedInAbsence } from "../worker/upkeep/obituary.ts"
import { type Edge, removeEdges } from "./edges.ts"
import { findAll } from "./find-all.ts"

/** Several parents may end at the same time; more often than this in a row is not chance. */
const TRIES = 10
const AT_A_TIME = 100

/** A job that waits, with what is known of some of those that it waits for. */
export type Endings = ReadonlyMap<string, Ending>

/**
 * Moves each of these jobs (by id) on, as far as its `endings` say, and removes the edges that have served. Fails as the
 * transport does: what was not done then is found again by {@link sweep}.
 */
export const progress = async (board: Board, children: ReadonlyMap<string, Endings>): Promise<void> => {
  let open = children
  for (let tried = 0; open.size > 0; tried++) {
    if (tried === TRIES) {
      throw new TransportError(
        "unavailable",
        "jobs that wait for others change too fast; they are looked at again later",
      )
    }
    const found = await findAll(board.records, open.keys())
    const again = new Map<string, Endings>()
    const served: Array<Edge> = []
    const steps = [...open].flatMap(([child, endings]) => {
      const there = found.get(child)
      // Not there: it is being submitted this moment, or was never accepted.
      if (there === undefined) return []
      const change = changeOf(there, endings)
      if (change === undefined) served.push(...servedBy(there.record, child, endings))
      return change === undefined ? [] : [{ child, endings, change }]
    })
    for (let from = 0; from < steps.length; from += AT_A_TIME) {
      const some = steps.slice(from, from + AT_A_TIME)
      const changed = await board.records.change(some.map(({ change }) => change))
      for (const [at, { child, endings, change }] of some.entries()) {
        const answer = changed[at]
        if (answer?.status === "changed") served.push(...servedBy(change.record, child, endings))
        else if (answer?.status === "failed") throw answer.error
        else again.set(child, endings)
      }
    }
    await removeEdges(board.store, served)
    open = again
  }
}

/** Edges to the job that it does not need any more. */
const servedBy = ({ state, after }: JobRecord, child: string, endings: Endings): ReadonlyArray<Edge> => {
  const waiting = new Set(state === "deferred" ? after?.waiting : [])
  return [...endings.keys()].filter((parent) => !waiting.has(parent)).map((parent) => ({ parent, child }))
}

const changeOf = ({ record, revision }: Found, endings: Endings): Change | undefined => {
  const now = Date.now()
  const { id } = record
  const next = advance(record, endings, now)
  switch (next?.kind) {
    case undefined:
      return undefined
    case "fewer":
      return { id, expect: revision, record: next.record }
    case "released":
      return { id, expect: revision, record: next.record, post: [next.posting] }
    case "never":
      return { id, expect: revision, ...failed(record, gone(next.parent), now) }
    case "invalid":
      return { id, expect: revision, ...failed(record, unreadable(next.why.message), now) }
  }
}

const gone = (parent: string): JobError => ({
  name: "DependencyGone",
  message: `job ${parent}, for which it waited, is not kept any more and has not succeeded; run this one all the same by retrying it`,
  reason: "dependency-gone",
})

const unreadable = (why: string): JobError => ({ name: "InvalidTask", message: why, reason: "invalid-task" })

const failed = (record: JobRecord, error: JobError, now: number): Pick<Change, "record" | "post"> => {
  const keepMs = keepOf(record)
  const keep = { resultMs: keepMs, failureMs: keepMs }
  const { after, ...kept } = record
  const ended: JobRecord = after === undefined ? kept : { ...kept, after: withoutWaiting(after) }
  const settlement = failedInAbsence(ended, error, { token: "", fence: NO_FENCE, now, keep, dead: error.reason })
  if (settlement?.record !== undefined) return { record: settlement.record, post: settlement.followUps ?? [] }
  const over = step(ended, { at: now, state: "failed", reason: error.reason })
  return { record: { ...over, fence: NO_FENCE, endedAt: now, error, dead: error.reason, keepMs } }
}

const withoutWaiting = ({ waiting: _waiting, ...after }: NonNullable<JobRecord["after"]>) => after
