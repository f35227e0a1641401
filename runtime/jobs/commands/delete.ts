/** Deletes a job, and with `dependents` the jobs that wait for it. */
import { DEFAULT_QUEUE } from "../../cluster/directory.ts"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { parentOutcomeOf } from "../../protocol/dependencies.ts"
import { endedOutside, NO_FENCE } from "../../protocol/outside.ts"
import { type JobRecord, step, tombstoneOf, UNREADABLE } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { UnreadableRecord } from "../../transport/errors.ts"
import { COUNTED, type Decision } from "../../transport/job-store/transport.ts"
import { afterEnds, memberOutcomesOf } from "../dependencies/ended.ts"
import { waitingFor } from "../dependencies/release.ts"
import type { PartlyDone } from "../responses.ts"
import { goneError } from "../tracking/finding.ts"
import { forgetHistory, lapseHistory } from "../tracking/history.ts"
import { cancelCalled } from "./cancel.ts"
import { decide, removeOwnEdges } from "./decide.ts"
import { type Bounds, boundOf } from "./partial.ts"

type Change = Omit<Decision, "id" | "expect">

export interface DeleteOptions {
  /** Deletes the jobs that wait for it as well, and those that wait for them. Defaults to false. */
  readonly dependents?: boolean | undefined
}

/**
 * Deletes the record of a job; a waiting job will not run. Unless the deleted job had succeeded, a job that waits for it
 * fails, or starts where `allowFailure` is set; with `dependents` it is deleted as well. Where the bounds end that, the job is
 * cancelled and kept, and it resolves with how many dependents were deleted, and how many wait for the job itself still.
 * Fails with `job-exists` while it runs, `gone`, `not-found`.
 */
export const deleteJob = async (
  connection: Connection,
  id: string,
  { dependents = false, ...bounds }: DeleteOptions & Bounds = {},
): Promise<PartlyDone | undefined> => {
  if (dependents) {
    const isOver = boundOf(bounds)
    let done = 0
    await withdraw(connection, id).catch((cause: unknown) => {
      if (!(cause instanceof UnreadableRecord)) throw cause
    })
    for await (const dependent of dependentsOf(connection, id)) {
      if (isOver(done)) return { done, ...(await countWaitingFor(connection, id)) }
      await forget(connection, dependent)
      done++
    }
  }
  const tombstone = await replaceByTombstone(connection, id)
  await removeOwnEdges(connection, tombstone)
  await forgetHistory(connection.store, tombstone)
  await afterEnds(connection, new Map([[id, parentOutcomeOf(tombstone)]]), memberOutcomesOf([tombstone]))
  return undefined
}

/** How many jobs wait for a job itself, counted up to {@link COUNTED}. */
const countWaitingFor = async (connection: Connection, id: string): Promise<Pick<PartlyDone, "left" | "more">> => {
  let left = 0
  for await (const _child of waitingFor(connection, id)) if (++left === COUNTED) return { left, more: true }
  return { left }
}

/**
 * Cancels the job but keeps its record, so that the deletion can be asked for again if that of its dependents fails.
 */
const withdraw = (connection: Connection, id: string): Promise<JobRecord> =>
  decide(connection, id, ({ record }) => {
    if (record.tombstone) throw goneError(id)
    return isTerminal(record.state) ? undefined : cancelled(connection, record)
  })

const cancelled = ({ keepFailed }: Connection, record: JobRecord): Change => {
  const now = Date.now()
  return { record: endedOutside(withdrawn(record, now), now, keepFailed), withdraw: true }
}

/** The record of a waiting job, cancelled. Fails with `job-exists` while the job runs. */
const withdrawn = (record: JobRecord, now: number): JobRecord => {
  const { id, state } = record
  if (state === "started")
    throw new CallboardError("job-exists", `job ${id} is running: cancel it, then delete it`, { id })
  return { ...step(record, { at: now, state: "cancelled", reason: "deleted" }), fence: NO_FENCE }
}

/** Ids of all jobs that wait for a job, directly or through others; each comes after the jobs that wait for it. */
const dependentsOf = async function* (connection: Connection, id: string): AsyncGenerator<string> {
  const path = [{ id, waiting: waitingFor(connection, id) }]
  for (let last = path.at(-1); last !== undefined; last = path.at(-1)) {
    const next = await last.waiting.next()
    if (!next.done) path.push({ id: next.value, waiting: waitingFor(connection, next.value) })
    else {
      path.pop()
      if (path.length > 0) yield last.id
    }
  }
}

/** Deletes a dependent, unless it is deleted already or has been started. */
const forget = async (connection: Connection, id: string): Promise<void> => {
  try {
    const tombstone = await replaceByTombstone(connection, id)
    await removeOwnEdges(connection, tombstone)
    await forgetHistory(connection.store, tombstone)
  } catch (thrown) {
    if (!(thrown instanceof CallboardError)) throw thrown
  }
}

/**
 * The tombstone has no follow-ups, since their tasks carry the result, or the error, of the job. Those that are not
 * published yet go out while the record still has them: where this process dies in between, the job is not gone, and can
 * be deleted again.
 */
const replaceByTombstone = async (connection: Connection, id: string): Promise<JobRecord> => {
  try {
    return await replaceRecord(connection, id)
  } catch (cause) {
    if (!(cause instanceof UnreadableRecord)) throw cause
    return await replaceUnreadable(connection, cause)
  }
}

/** What the record of the job has said is lost: its tombstone has the id alone. */
const replaceUnreadable = async (connection: Connection, unread: UnreadableRecord): Promise<JobRecord> => {
  const { id, revision } = unread
  const now = Date.now()
  const record: JobRecord = {
    id,
    task: UNREADABLE,
    meth: null,
    name: UNREADABLE,
    queue: DEFAULT_QUEUE,
    priority: 0,
    state: "cancelled",
    run: 1,
    attempt: 0,
    retries: 0,
    fence: NO_FENCE,
    submittedAt: now,
    endedAt: now,
    timeline: [{ n: 1, run: 1, at: now, state: "cancelled", reason: "deleted" }],
    tombstone: true,
    keepMs: 0,
    deleted: true,
  }
  const [changed] = await connection.jobs.decide([{ id, expect: revision, record, withdraw: true }])
  if (changed?.status === "decided") return record
  throw changed?.status === "failed" ? changed.error : unread
}

const replaceRecord = async (connection: Connection, id: string): Promise<JobRecord> => {
  const before = await publishFollowUps(connection, id)
  const published = lastChangeOf(before)
  if (before.state !== "started") await lapseHistory(connection.store, before)
  let called: ReadonlyArray<string> = []
  const tombstone = await decide(connection, id, ({ record }) => {
    called = record.waits?.jobs ?? []
    if (record.tombstone) throw goneError(id)
    // A worker has stored an outcome since then.
    if (tombstoneOf(record).followUps !== undefined && lastChangeOf(record) !== published) return undefined
    const now = Date.now()
    const ended = isTerminal(record.state) ? record : withdrawn(record, now)
    const { followUps: _published, ...tombstone } = tombstoneOf(ended)
    return {
      record: {
        ...tombstone,
        // The timeline stays, so that a watcher of the job learns why it ended.
        timeline: ended.timeline,
        fence: NO_FENCE,
        endedAt: ended.endedAt ?? now,
        keepMs: 0,
        deleted: true,
      },
      withdraw: true,
    }
  })
  if (!tombstone.deleted) return replaceRecord(connection, id)
  await cancelCalled(connection, called).catch(() => undefined)
  return tombstone
}

const lastChangeOf = ({ timeline }: JobRecord): number => timeline.at(-1)?.n ?? 0

/** A worker may have died before it published what follows an outcome: each decision publishes what is missing of that. */
const publishFollowUps = (connection: Connection, id: string): Promise<JobRecord> =>
  decide(connection, id, ({ record }) => {
    if (record.tombstone || tombstoneOf(record).followUps === undefined) return undefined
    return isTerminal(record.state) ? { record: { ...record, fence: NO_FENCE } } : cancelled(connection, record)
  })
