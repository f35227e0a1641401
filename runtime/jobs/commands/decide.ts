/**
 * Changes the record of a job from outside of a worker, by compare-and-set, with another try after each conflict; or the
 * records of many jobs, so many of a query per call, so that a call is bounded.
 */
import { beforeTry, MAX_TRIES } from "../../async/conflicts.ts"
import { countJobs } from "../../cluster/queue-states.ts"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { compact } from "../../protocol/compact.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal, type State } from "../../protocol/state.ts"
import { UnreadableRecord } from "../../transport/errors.ts"
import type { Decision, Found, RecordQuery } from "../../transport/job-store/transport.ts"
import { removeEdges } from "../dependencies/edges.ts"
import { afterEnds, memberOutcomesOf } from "../dependencies/ended.ts"
import type * as Lists from "../lists.ts"
import type { PartlyDone } from "../responses.ts"
import { findRecord } from "../tracking/finding.ts"
import { noteUnreported } from "../tracking/unreported.ts"

/** Jobs that are named one by one. */
export interface NamedJobs extends Pick<RecordQuery, "dead" | "until"> {
  readonly ids: ReadonlyArray<string>
}

/** Resolves with the record after the change. `change` returns `undefined` where the record needs none. */
export const decide = async (
  connection: Connection,
  id: string,
  change: (found: Found) => Omit<Decision, "id" | "expect"> | undefined,
): Promise<JobRecord> => {
  for (let tried = 0; tried < MAX_TRIES; tried++) {
    await beforeTry(tried)
    const found = await findRecord(connection, id)
    const wanted = change(found)
    if (wanted === undefined) return found.record
    if (!isTerminal(found.record.state) && isTerminal(wanted.record.state))
      await noteUnreported(connection.store, wanted.record)
    const [changed] = await connection.jobs.decide([{ id, expect: found.revision, ...wanted }])
    if (changed?.status === "decided") return wanted.record
    if (changed?.status === "failed") throw changed.error
  }
  throw new CallboardError("internal", `job ${id} keeps changing; try again`, { id })
}

/**
 * Removes the edges of a job that waits for no other job any more: best effort, since the sweep removes what is left.
 */
export const removeOwnEdges = async ({ store }: Connection, { id, after }: JobRecord): Promise<void> => {
  const edges = after?.waiting?.map((parent) => ({ parent, child: id })) ?? []
  await removeEdges(store, edges).catch(() => undefined)
}

export type BulkReport = Omit<Lists.BulkReport, "more">

/** Decisions that run at the same time. */
const AT_A_TIME = 32
/** Jobs that are read at a time, to be decided about before the next ones are. */
const READ_AT_A_TIME = 4 * AT_A_TIME
/** How long to count the jobs that are left, in milliseconds. */
const COUNT_MS = 500

/** Throws where the decision must not be made about the job of this record. */
export type Check = (record: JobRecord) => void

/**
 * Whether a job has been in its state since before the `until` of a query: a job that has changed since then is left as
 * it is.
 */
export const isUnchanged = (
  { timeline }: JobRecord,
  { until = Number.POSITIVE_INFINITY }: Pick<RecordQuery, "until">,
): boolean => (timeline.at(-1)?.at ?? 0) < until

const hasBecome = (id: string, what: string): CallboardError =>
  new CallboardError("matches-differ", `job ${id} is now ${what} and was not changed`, { id })

/** Fails with `matches-differ` where a job is in none of these states any more. */
export const stillIn =
  (states: ReadonlyArray<State>): Check =>
  ({ id, state }) => {
    if (!states.includes(state)) throw hasBecome(id, state)
  }

/** Checks a job again before it is decided about: since the page of the list was read it may have changed. */
const checkOf =
  (query: Pick<RecordQuery, "states" | "dead" | "reason" | "until">): Check =>
  (record) => {
    const { id, state, dead } = record
    const isDead = dead !== undefined
    const isOfReason = query.reason === undefined || dead === query.reason
    const isMeant = (query.states?.includes(state) ?? true) && (isDead || query.dead !== true) && isOfReason
    if (isUnchanged(record, query) && isMeant) return
    const what = query.dead && !isDead ? `${state} and not a dead letter` : state
    throw hasBecome(id, what)
  }

const without = (ids: ReadonlyArray<string>, refused: BulkReport["refused"]): ReadonlyArray<string> => {
  const left = new Set(refused.map(({ id }) => id))
  return ids.filter((id) => !left.has(id))
}

/** How many jobs match still. Jobs that were refused match mostly, and are counted as well. */
const leftOf = async (
  connection: Connection,
  { limit: _limit, after: _after, ...query }: RecordQuery,
): Promise<Pick<PartlyDone, "left" | "more">> => {
  const { count, more } = await countJobs(connection, { ...query, budget: COUNT_MS })
  return { left: count, ...compact({ more }) }
}

/**
 * Decides about every job on a page, or about each that is named. A page ends early once the budget of its query is over,
 * or when the signal fires. A job that cannot be changed, or that has changed since the page was read, is
 * reported, and the others go on. Fails as the transport does; the decisions until then stay.
 */
export const decideAll = async (
  connection: Connection,
  query: RecordQuery | NamedJobs,
  decide: (connection: Connection, id: string, check: Check) => Promise<JobRecord>,
): Promise<BulkReport> => {
  const check = checkOf(query)
  const decided: Array<string> = []
  const refused: Array<BulkReport["refused"][number]> = []
  const each = async (ids: ReadonlyArray<string>): Promise<void> => {
    for (let from = 0; from < ids.length; from += AT_A_TIME) {
      const some = ids.slice(from, from + AT_A_TIME)
      const changed = await Promise.all(
        some.map((id) =>
          decide(connection, id, check).catch((cause: unknown) => {
            if (cause instanceof UnreadableRecord) refused.push({ id, code: "internal", detail: cause.message })
            else if (cause instanceof CallboardError) refused.push({ id, code: cause.code, detail: cause.message })
            else throw cause
            return undefined
          }),
        ),
      )
      decided.push(...some)
      // Members of one chord are counted together. What is not counted now the sweep finds.
      const members = memberOutcomesOf(changed.flatMap((record) => record ?? []))
      await afterEnds(connection, new Map(), members).catch(() => undefined)
    }
  }
  const report = (): BulkReport => {
    const ids = without(decided, refused)
    return { changed: ids.length, ids, refused }
  }
  if ("ids" in query) {
    await each([...new Set(query.ids)])
    return report()
  }
  const { budget = Number.POSITIVE_INFINITY, signal } = query
  const end = performance.now() + budget
  let { after, limit: room } = query
  do {
    const page = { limit: Math.min(room, READ_AT_A_TIME), budget: end - performance.now() }
    const { records, next } = await connection.jobs.list({
      ...query,
      ...page,
      ...compact({ after }),
    })
    await each(records.filter((record) => isUnchanged(record, query)).map(({ id }) => id))
    after = next
    room -= records.length
  } while (after !== undefined && room > 0 && performance.now() < end && !signal?.aborted)
  if (after === undefined) return report()
  const done = report()
  return { ...done, next: after, partial: { done: done.changed, ...(await leftOf(connection, query)) } }
}
