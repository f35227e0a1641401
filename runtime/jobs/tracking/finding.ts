/**
 * Finds records of jobs, and waits for their ends. Finding also expires a job: the first process that looks at a waiting
 * job past its `expires` records that.
 */
import { mayRun } from "../../cluster/roster.ts"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError, WaitTimeout } from "../../errors.ts"
import { isId } from "../../protocol/name.ts"
import { endedOutside } from "../../protocol/outside.ts"
import { type JobRecord, step } from "../../protocol/record.ts"
import { isTerminal, type State } from "../../protocol/state.ts"
import { isExpired } from "../../protocol/time.ts"
import type { Found, Jobs } from "../../transport/job-store/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import { MAX_TIMER_MS } from "../../transport/timers.ts"
import { findPromised } from "./promises.ts"
import { noteUnreported } from "./unreported.ts"

/** A watch may miss changes, so a caller that waits reads the record this often. */
export const POLL_MS = 5_000

/**
 * A worker reports a run only after a moment, so a job that started just in time still looks queued. The worker judges expiry
 * to the millisecond; every other process allows this much more.
 */
export const REPORT_DELAY_MS = 500

/** There is no record of the job. */
export const notFound = (id: string): CallboardError => new CallboardError("not-found", `there is no job ${id}`, { id })

/** The job was promised, and will not come. */
const brokenPromise = (id: string, before: string): CallboardError =>
  new CallboardError(
    "not-found",
    `there is no job ${id} and there will be none: the job before it ${before === "gone" ? "is no longer kept" : before}`,
    { id },
  )

/** Only the tombstone of a job is left. Where that is given, it says when the job ended, and for how long it was kept. */
export const goneError = (id: string, tombstone?: JobRecord): CallboardError =>
  new CallboardError("gone", `job ${id} is no longer kept${tombstone === undefined ? "" : storyOf(tombstone)}`, {
    id,
  })

const storyOf = ({ state, endedAt, keepMs = 0, deleted = false }: JobRecord): string => {
  const ended = endedAt === undefined ? "" : `: it ended as ${state} at ${new Date(endedAt).toISOString()}`
  if (deleted) return `${ended}${ended === "" ? ":" : ", and"} was deleted`
  const setting = state === "succeeded" ? "resultTtl" : "failureTtl"
  return ended === "" ? "" : `${ended}, and its ${setting} was ${keepMs / 1_000} s`
}

/** The record of a job, expiry judged. Fails with `not-found`. */
export const findRecord = async (connection: Connection, id: string): Promise<Found> => {
  // No job can have such an id, and a transport need not be able to look for it.
  const found = isId(id) ? await connection.jobs.find(id) : undefined
  if (found === undefined) throw notFound(id)
  if (!isOverdue(found.record, Date.now())) return found
  // What this machine's clock says is not enough to end a job: it may be wrong.
  return isOverdue(found.record, await connection.store.now()) ? expire(connection, found) : found
}

/**
 * Whether a job waits past its `expires`, as far as a process can tell that does not hold its task. A job with steps that
 * can be reverted does not expire, since nothing would revert them.
 */
export const isOverdue = ({ state, expiresAt, reverts }: JobRecord, now: number): boolean =>
  (state === "queued" || state === "scheduled" || state === "deferred") &&
  !reverts &&
  isExpired(expiresAt, now, REPORT_DELAY_MS)

/**
 * Records that a waiting job has expired. Done by the first process that notices: a worker, a client or maintenance. A task
 * that a worker may run is left to it: one that was cut off from the transport could not say that it has begun.
 */
export const expire = async (connection: Connection, found: Found): Promise<Found> => {
  const { taken } = found
  if (taken === "now" || (taken === "before" && (await mayRun(connection.store, found.record.id)))) return found
  const now = Date.now()
  const record = endedOutside(step(found.record, { at: now, state: "expired" }), now, connection.keepFailed)
  await noteUnreported(connection.store, record)
  const [changed] = await connection.jobs.decide([{ id: record.id, expect: found.revision, record, withdraw: true }])
  if (changed?.status === "decided") return { record, revision: found.revision }
  return (await connection.jobs.find(record.id)) ?? found
}

/** Records of many jobs are read a few at a time. */
const AT_A_TIME = 64

/**
 * The records of a list, expiry judged as by {@link findRecord}. Those that are not kept any more by that, or have no more one
 * of the states that were asked for, are left out.
 */
export const judged = async (
  connection: Connection,
  records: ReadonlyArray<JobRecord>,
  states?: ReadonlyArray<State>,
): Promise<ReadonlyArray<JobRecord>> => {
  const ids = records.flatMap((record) => (isOverdue(record, Date.now()) ? [record.id] : []))
  if (ids.length === 0) return records
  const now = new Map<string, JobRecord | undefined>()
  const judge = async (id: string) => {
    try {
      now.set(id, (await findRecord(connection, id)).record)
    } catch (cause) {
      // A list is shown as it was read where nothing can be written.
      if (cause instanceof CallboardError && cause.code === "not-found") now.set(id, undefined)
      else if (!(cause instanceof TransportError)) throw cause
    }
  }
  for (let from = 0; from < ids.length; from += AT_A_TIME)
    await Promise.all(ids.slice(from, from + AT_A_TIME).map(judge))
  return records.flatMap((listed) => {
    if (!now.has(listed.id)) return [listed]
    const record = now.get(listed.id)
    const isMeant = record !== undefined && !record.tombstone && (states?.includes(record.state) ?? true)
    return isMeant ? [record] : []
  })
}

/**
 * What `take` returns for each record, by id; without jobs that do not exist. Only that is kept, as records may be
 * large.
 */
export const findAll = async <A>(
  jobs: Pick<Jobs, "find">,
  ids: Iterable<string>,
  take: (found: Found) => A,
): Promise<ReadonlyMap<string, A>> => {
  const taken = new Map<string, A>()
  const all = [...new Set(ids)]
  for (let from = 0; from < all.length; from += AT_A_TIME) {
    const found = await Promise.all(
      all.slice(from, from + AT_A_TIME).map(async (id) => ({ id, there: await jobs.find(id) })),
    )
    for (const { id, there } of found) if (there !== undefined) taken.set(id, take(there))
  }
  return taken
}

/**
 * Does work that needs the transport, once it can be reached. The signal that the work gets fires when it has failed, and with
 * `signal`. Resolves with `undefined` where `signal` fires first. Fails as the work does, but not because the transport is away.
 */
export const whenReachable = async <A>(
  { transport }: Pick<Connection, "transport">,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<A>,
): Promise<A | undefined> => {
  while (!signal.aborted) {
    const tried = new AbortController()
    const over = () => tried.abort(OVER)
    signal.addEventListener("abort", over, { once: true })
    try {
      return await work(tried.signal)
    } catch (cause) {
      signal.removeEventListener("abort", over)
      over()
      if (!isAway(cause)) throw cause
    }
    if (signal.aborted) break
    await new Promise<void>((resolve) => {
      const next = () => {
        clearTimeout(timer)
        off()
        signal.removeEventListener("abort", next)
        resolve()
      }
      const timer = setTimeout(next, POLL_MS)
      const off = transport.onStatus((status) => status === "connected" && next())
      signal.addEventListener("abort", next)
    })
  }
  return undefined
}

export const isAway = (cause: unknown): boolean => cause instanceof TransportError && cause.retryable

/** Without a reason, `abort` makes an exception with its stack for each wait, which takes several times as long. */
const OVER = "the wait has ended"

/**
 * Waits for the end of a job's current run. Resolves with its terminal record (a tombstone if it is gone).
 * Waits also while the transport cannot be reached. Fails with `WaitTimeout` after `timeoutMs`, and with `not-found`. `isNew`: the job was submitted so short a
 * while ago that it exists, and cannot be called expired yet.
 */
export const waitForEnd = async (
  connection: Connection,
  id: string,
  timeoutMs: number,
  signal?: AbortSignal,
  isNew = false,
): Promise<JobRecord> => {
  if (!isId(id)) throw notFound(id)
  const stop = new AbortController()
  const began = performance.now()
  return new Promise<JobRecord>((resolve, reject) => {
    let look: ReturnType<typeof setTimeout> | undefined
    const timer = Number.isFinite(timeoutMs)
      ? setTimeout(() => finish(() => reject(new WaitTimeout(id, timeoutMs))), Math.min(timeoutMs, MAX_TIMER_MS))
      : undefined
    const aborted = () => finish(() => reject(signal?.reason ?? new WaitTimeout(id, performance.now() - began)))
    const finish = (then: () => void) => {
      if (stop.signal.aborted) return
      stop.abort(OVER)
      clearTimeout(timer)
      clearTimeout(look)
      signal?.removeEventListener("abort", aborted)
      then()
    }
    const seen = (record: JobRecord) => {
      if (isTerminal(record.state)) finish(() => resolve(record))
    }
    // A job that nothing serves has expired only once a process looks at it: the caller looks when that time has come.
    const lookLater = (expiresAt = Number.POSITIVE_INFINITY): void => {
      if (stop.signal.aborted) return
      clearTimeout(look)
      const left = expiresAt + REPORT_DELAY_MS - Date.now()
      look = setTimeout(
        () => {
          lookLater()
          // A transport that is down may be back at the next read; the timeout bounds the wait.
          lookNow().catch((cause: unknown) => {
            if (cause instanceof CallboardError) finish(() => reject(cause))
          })
        },
        left > 0 ? Math.min(left, POLL_MS) : POLL_MS,
      )
    }
    const lookNow = async () => {
      try {
        const { record } = await findRecord(connection, id)
        seen(record)
        lookLater(record.expiresAt)
      } catch (cause) {
        if (!(cause instanceof CallboardError) || cause.code !== "not-found") throw cause
        const promised = (await findPromised(connection, [id])).get(id)
        if (promised === undefined) throw cause
        if (promised !== "open") throw brokenPromise(id, promised)
      }
    }
    if (signal?.aborted) return aborted()
    signal?.addEventListener("abort", aborted, { once: true })
    const lookFirst = async () => {
      const ended = await connection.jobs.ended(id)
      if (ended !== undefined) return seen(ended)
      lookLater()
      if (!isNew && !stop.signal.aborted) await lookNow()
    }
    // The watch begins before the first read, so that an end in between is seen by one of them.
    const begin = (until: AbortSignal): Promise<void> =>
      connection.jobs
        .watch({ id, ends: true, isNew }, seen, until)
        .then(() => (stop.signal.aborted ? undefined : lookFirst()))
    begin(stop.signal)
      .catch((cause: unknown) => {
        if (!isAway(cause)) throw cause
        return whenReachable(connection, stop.signal, begin)
      })
      .catch((cause: unknown) => finish(() => reject(cause)))
  })
}
