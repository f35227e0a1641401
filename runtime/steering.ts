/** The deciding side: cancel, run again, forget. Each is a compare-and-set on the record, tried again when outrun. */
import { Result } from "effect"
import { type Board, CANCEL_TOPIC } from "./board.ts"
import { removeEdges } from "./dependencies/edges.ts"
import { release, waitingFor } from "./dependencies/release.ts"
import { CallboardError } from "./errors.ts"
import { endingOf } from "./protocol/dependencies.ts"
import { parseTask, postingOfTask, renderCompact } from "./protocol/headers.ts"
import { FRONT_LEVEL, type Message, type Posting } from "./protocol/message.ts"
import { type JobRecord, step, tombstoneOf } from "./protocol/record.ts"
import { isTerminal } from "./protocol/state.ts"
import { isPlainObject } from "./protocol/value.ts"
import { findRecord, keepOf, NO_FENCE } from "./tracking.ts"
import type { Change, Found } from "./transport.ts"

/** Somebody else may decide about the same job at the same time; more often than this in a row is not chance. */
const TRIES = 10

/** Resolves with the record as it is then. `change` says nothing where the record is as it shall be. */
const decide = async (
  board: Board,
  id: string,
  change: (found: Found) => Omit<Change, "id" | "expect"> | undefined,
): Promise<JobRecord> => {
  for (let tried = 0; tried < TRIES; tried++) {
    const found = await findRecord(board, id)
    const wanted = change(found)
    if (wanted === undefined) return found.record
    const [changed] = await board.records.change([{ id, expect: found.revision, ...wanted }])
    if (changed?.status === "changed") return wanted.record
    if (changed?.status === "failed") throw changed.error
  }
  throw new CallboardError("internal", `job ${id} changes too fast to decide about; try again`, { id })
}

const gone = (id: string): CallboardError => new CallboardError("gone", `job ${id} is not kept any more`, { id })

export interface CancelOptions {
  /** Ends the handler at once, where it runs in a process of its own; an inline one only has its signal. Defaults to false. */
  readonly terminate?: boolean
  /** Jobs that wait for it need not wait for it any more. Defaults to false: they stay deferred. */
  readonly release?: boolean
}

export interface DeleteOptions {
  /** Also forgets the jobs that wait for it, and those that wait for them. Defaults to false. */
  readonly dependents?: boolean
}

/**
 * Cancels a job. Waiting: it will not run. Running: its handler's signal fires and its outcome is refused; the reason on
 * record is `stopped`. Jobs that wait for it stay deferred, unless they are released: with `release` a job that was cancelled
 * before is no failure.
 * Fails with `already-terminal`, `gone`, `not-found`.
 */
export const cancelJob = async (board: Board, id: string, options: CancelOptions = {}): Promise<JobRecord> => {
  const { terminate = false, release: lets = false } = options
  const cancelled = await decide(board, id, ({ record }) => {
    if (record.tombstone) throw gone(id)
    // Cancelled before, and those that wait for it not released, or not all of them.
    if (lets && record.state === "cancelled") return undefined
    if (isTerminal(record.state)) {
      throw new CallboardError("already-terminal", `job ${id} is already ${record.state}`, { id })
    }
    const now = Date.now()
    const cancelled = step(record, {
      at: now,
      state: "cancelled",
      ...(record.state === "started" ? { reason: "stopped" } : {}),
    })
    return {
      record: { ...cancelled, fence: NO_FENCE, endedAt: now, keepMs: keepOf(record) },
      withdraw: true,
    }
  })
  // The record decides; the news only spares a worker the rest of the run.
  const news = JSON.stringify({ id, run: cancelled.run, terminate })
  await board.broadcast.send(CANCEL_TOPIC, new TextEncoder().encode(news)).catch(() => undefined)
  await unlink(board, cancelled)
  if (lets) await release(board, new Map([[id, "released"]]))
  return cancelled
}

/** It waits for nobody any more: best effort, since a sweep removes what is left. */
const unlink = async ({ store }: Board, { id, after }: JobRecord): Promise<void> => {
  const edges = after?.waiting?.map((parent) => ({ parent, child: id })) ?? []
  await removeEdges(store, edges).catch(() => undefined)
}

/**
 * Takes a waiting job off its queue: cancelled, with the reason `purged`. Resolves with whether it was still waiting;
 * what runs, or has ended, is left as it is.
 */
export const purgeJob = async (board: Board, id: string): Promise<boolean> => {
  try {
    await decide(board, id, ({ record }) => {
      if (record.tombstone || isTerminal(record.state) || record.state === "started") throw NOT_WAITING
      const now = Date.now()
      const cancelled = step(record, { at: now, state: "cancelled", reason: "purged" })
      return { record: { ...cancelled, fence: NO_FENCE, endedAt: now, keepMs: keepOf(record) }, withdraw: true }
    })
    return true
  } catch (thrown) {
    if (thrown === NOT_WAITING || (thrown instanceof CallboardError && thrown.code === "not-found")) return false
    throw thrown
  }
}

const NOT_WAITING = new CallboardError("already-terminal", "the job does not wait any more")

/** The message of a job's next run: new run, no retries used, due now. */
const nextRun = (record: JobRecord, message: Message, run: number, now: number): Posting => {
  const parsed = parseTask(message)
  const task = Result.map(parsed, (before) => {
    const { hops: _hops, ...own } = before.own
    return { ...before, eta: null, expires: null, retries: 0, own: { ...own, run, submittedAt: now } }
  })
  const posting = Result.flatMap(task, (next) =>
    postingOfTask(next, { ...message, headers: renderCompact(next) }, record.queue),
  )
  if (Result.isFailure(posting)) {
    throw new CallboardError("unsupported", `job ${record.id} cannot run again: ${posting.failure.message}`, {
      id: record.id,
    })
  }
  return posting.success
}

/** Who runs a job again wants it to run now. */
const released = ({ waiting: _waiting, ...after }: NonNullable<JobRecord["after"]>) => after

/**
 * Runs an ended job again, as its next run; one that waited for others does not wait for them again. Fails with
 * `unsupported` when its message is not kept (succeeded jobs), `job-exists` when it has not ended, `gone`, `not-found`.
 */
export const rerunJob = (board: Board, id: string): Promise<JobRecord> =>
  decide(board, id, ({ record }) => {
    if (record.tombstone) throw gone(id)
    if (!isTerminal(record.state)) {
      throw new CallboardError("job-exists", `job ${id} is ${record.state}: only an ended job can run again`, { id })
    }
    const { message, raw } = record
    if (message === undefined) {
      throw new CallboardError(
        "unsupported",
        raw === undefined
          ? `job ${id} ${record.state}, and its input is not kept: submit it anew`
          : `job ${id} could not be decoded and cannot run again as it is: submit it anew`,
        { id },
      )
    }
    const now = Date.now()
    const run = record.run + 1
    const posting = nextRun(record, message, run, now)
    const {
      result: _result,
      error: _error,
      dead: _dead,
      progress: _progress,
      startedAt: _started,
      endedAt: _ended,
      expiresAt: _expires,
      dueAt: _due,
      claims: _claims,
      acked: _acked,
      successor: _successor,
      message: _message,
      keepMs: _keep,
      front: _front,
      after,
      // With the follow-ups of the run before, until this one starts: its worker may have died before they were published.
      ...kept
    } = record
    return {
      record: {
        ...step(kept, { run, at: now, state: "queued", reason: "rerun" }),
        fence: NO_FENCE,
        retries: 0,
        ...(posting.level >= FRONT_LEVEL ? { front: true } : {}),
        ...(after === undefined ? {} : { after: released(after) }),
        message: posting.message,
      },
      post: [posting],
    }
  })

/**
 * Forgets a job's record; a waiting job will not run. A job that waits for it fails, or starts if a failure will do, unless
 * the deleted one had succeeded; with `dependents` it is deleted as well.
 * Fails with `job-exists` while it runs, `gone`, `not-found`.
 */
export const deleteJob = async (board: Board, id: string, options: DeleteOptions = {}): Promise<void> => {
  if (options.dependents) {
    await withdraw(board, id)
    for await (const dependent of dependentsOf(board, id)) await forget(board, dependent)
  }
  const buried = await bury(board, id)
  await unlink(board, buried)
  await release(board, new Map([[id, endingOf(buried)]]))
}

/** From now on it cannot run, and is still there: should the deletion of its dependents fail, it can be asked for again. */
const withdraw = (board: Board, id: string): Promise<JobRecord> =>
  decide(board, id, ({ record }) => {
    if (record.tombstone) throw gone(id)
    if (isTerminal(record.state)) return undefined
    const now = Date.now()
    return { record: { ...withdrawn(record, now), endedAt: now, keepMs: keepOf(record) }, withdraw: true }
  })

/** A job that waits, and is not to run any more. Fails with `job-exists` while it runs. */
const withdrawn = (record: JobRecord, now: number): JobRecord => {
  const { id, state } = record
  if (state === "started") throw new CallboardError("job-exists", `job ${id} runs: cancel it, then delete it`, { id })
  return { ...step(record, { at: now, state: "cancelled", reason: "deleted" }), fence: NO_FENCE }
}

/** Ids of those that wait for a job, and of those that wait for them: none before those that wait for it. */
const dependentsOf = async function* (board: Board, id: string): AsyncGenerator<string> {
  const line = [{ id, waiting: waitingFor(board, id) }]
  for (let last = line.at(-1); last !== undefined; last = line.at(-1)) {
    const next = await last.waiting.next()
    if (!next.done) line.push({ id: next.value, waiting: waitingFor(board, next.value) })
    else {
      line.pop()
      if (line.length > 0) yield last.id
    }
  }
}

/** Deletes it, unless somebody else has done so, or it has been started. */
const forget = async (board: Board, id: string): Promise<void> => {
  try {
    await unlink(board, await bury(board, id))
  } catch (thrown) {
    if (!(thrown instanceof CallboardError)) throw thrown
  }
}

const bury = (board: Board, id: string): Promise<JobRecord> =>
  decide(board, id, ({ record }) => {
    if (record.tombstone) throw gone(id)
    const now = Date.now()
    const ended = isTerminal(record.state) ? record : withdrawn(record, now)
    const grave = tombstoneOf(ended)
    return {
      record: {
        ...grave,
        // Who watches the job hears why it ended.
        timeline: ended.timeline,
        fence: NO_FENCE,
        endedAt: ended.endedAt ?? now,
        keepMs: 0,
      },
      // Where a worker died with the outcome stored, its task comes again for the sake of what follows.
      withdraw: grave.followUps === undefined,
    }
  })

/** A merge patch (RFC 7396): `null` removes. */
const mergePatch = (
  target: Readonly<Record<string, unknown>>,
  patch: Readonly<Record<string, unknown>>,
): Record<string, unknown> => {
  // Without a prototype, `__proto__` and `constructor` are keys like any other.
  const merged: Record<string, unknown> = Object.assign(Object.create(null), target)
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else if (isMap(value)) {
      const before = merged[name]
      merged[name] = mergePatch(isMap(before) ? before : {}, value)
    } else merged[name] = value
  }
  return merged
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && isPlainObject(value)

/**
 * Changes the meta data of an ended job by a merge patch. Fails with `unsupported` before: until then its meta data
 * travels with the task, and the outcome would be written over it. Fails with `gone`, `not-found`.
 */
export const patchMeta = (board: Board, id: string, patch: Readonly<Record<string, unknown>>): Promise<JobRecord> =>
  decide(board, id, ({ record }) => {
    if (record.tombstone) throw gone(id)
    if (!isTerminal(record.state)) {
      throw new CallboardError(
        "unsupported",
        `job ${id} is ${record.state}: its meta data can be changed once it has ended`,
        { id },
      )
    }
    return { record: { ...record, meta: mergePatch(record.meta ?? {}, patch) } }
  })
