/**
 * Posts what is due of one schedule, together with any number of other processes that do the same at the same time: each
 * change is a compare-and-set, and a posting is in the entry before it is published.
 */
import * as Result from "effect/Result"
import type { Connection } from "../connection/connection.ts"
import { CallboardError } from "../errors.ts"
import { generateId } from "../id.ts"
import { isSameTask } from "../jobs/same-task.ts"
import type { ParsedSubmission } from "../jobs/submission/submission.ts"
import { decodeEnvelope, encodeEnvelope } from "../protocol/envelope.ts"
import { decodeBase64, encodeBase64 } from "../protocol/exact.ts"
import { postingOf } from "../protocol/headers.ts"
import { isUndecodable, type JobPosting } from "../protocol/message.ts"
import { isTerminal } from "../protocol/state.ts"
import {
  collectDue,
  jobIdOf,
  nextStepOf,
  posted,
  posting,
  REPAIR_MS,
  refused,
  SCHEDULES,
  type ScheduleEntry,
  skipped,
  unplanned,
  withWake,
} from "./entry.ts"
import { submissionOf } from "./fields.ts"

/** The posting of a submission. Fails with `CallboardError`, as a submission does, and as the store does. */
export type PlanTask = (submission: ParsedSubmission, id: string, now: number) => Promise<JobPosting>

export interface PostingParts {
  readonly connection: Connection
  readonly plan: PlanTask
  /** Called with each task that was stored. Never rejects. */
  readonly sent?: (posting: JobPosting) => Promise<void>
}

/** Shortest and longest pause before a running job is looked at again. It grows with the time for which the due time has waited. */
const WAIT_MS = { min: 1_000, max: 10_000 }

/** The wait after another process has changed the entry in between: it is at work on the same due time. */
const CONFLICT_MS = 1_000

/** Most bytes of a message: as base64 and together with its schedule it has to fit into one entry of the store. */
const MAX_FRAME = 512 * 1024

type Pending = NonNullable<ScheduleEntry["pending"]>

/** An entry as it is in the store. */
interface StoredSchedule {
  readonly entry: ScheduleEntry
  readonly revision: string
}

/**
 * Posts the due times of a schedule up to `now`, by the store's clock, or counts them as missed. Resolves with the time at which the
 * schedule has to be looked at again, or `null`. Fails as the transport does; a later call, of this process or another, does the rest.
 */
export const postDue = async (parts: PostingParts, name: string, now: number): Promise<number | null> => {
  const { store } = parts.connection
  const found = await SCHEDULES.get(store, name)
  // An entry that a newer version wrote is left to workers of that version.
  if (found?.value === undefined) return null
  let held: StoredSchedule = { entry: found.value, revision: found.revision }
  if (held.entry.pending !== undefined) {
    const { at } = held.entry.pending
    if (now - at < REPAIR_MS) return at + REPAIR_MS
    // The scheduler that wrote the posting has died, before it published the posting or after that.
    held = { ...held, entry: await publish(parts, held.entry, true) }
  }
  // Each round takes one due time out of a line that is bounded.
  for (;;) {
    const { next, waits } = await turn(parts, name, held.entry, now)
    const isChanged = next !== found.value
    const since = Date.now()
    const written = isChanged ? await write(parts, name, next, held.revision) : held
    if (written === undefined) return now + CONFLICT_MS
    if (next.pending === undefined) return waits ? waitingUntil(next, now) : written.entry.wake
    held = { ...written, entry: await publish(parts, written.entry, stoodStill(since)) }
  }
}

/** The entry after its next turn: with the next posting in it, or without any where nothing is to be posted now. */
const turn = async (
  parts: PostingParts,
  name: string,
  entry: ScheduleEntry,
  now: number,
): Promise<{ readonly next: ScheduleEntry; readonly waits: boolean }> => {
  let next = collectDue(name, entry, now)
  if (next.paused) return { next, waits: false }
  let hasEnded = true
  if (next.line.length > 0 && next.rules.overlap !== "allow") {
    const runs = await seenToEnd(parts, next.runs)
    hasEnded = runs !== undefined
    if (runs !== undefined) next = { ...next, runs }
  }
  for (;;) {
    const what = nextStepOf(next, hasEnded)
    const [due] = next.line
    if (what === "none" || what === "wait" || due === undefined) return { next, waits: what === "wait" }
    if (what === "skip") {
      next = skipped(next)
      continue
    }
    try {
      return { next: posting(next, await pendingOf(parts, name, next, due, now), due), waits: false }
    } catch (cause) {
      if (!(cause instanceof CallboardError)) throw cause
      // The error of the transport itself says whether it is away: the due time is then tried again soon.
      if (cause.code === "transport-unavailable") throw cause.details.cause ?? cause
      next = unplanned(next, cause.message)
    }
  }
}

const waitingUntil = ({ line, wake }: ScheduleEntry, now: number): number => {
  const waited = now - (line[0] ?? now)
  return Math.max(wake ?? now, now + Math.min(WAIT_MS.max, Math.max(WAIT_MS.min, waited / 4)))
}

/** The runs, with the note that all of their jobs have ended; `undefined` while one of the jobs has not. */
const seenToEnd = async (
  { connection }: PostingParts,
  runs: ScheduleEntry["runs"],
): Promise<ScheduleEntry["runs"] | undefined> => {
  for (const { id, ended } of runs) {
    const found = ended ? undefined : await connection.jobs.find(id)
    if (found !== undefined && !isTerminal(found.record.state)) return undefined
  }
  return runs.map((run) => ({ ...run, ended: true }))
}

/**
 * Plans the task of a due time. Anybody can tell the id of its job: where another job has that id, this one gets one that nobody
 * knows. Fails as the store does, and with `CallboardError`.
 */
export const pendingOf = async (
  { plan, connection }: PostingParts,
  name: string,
  { fields }: ScheduleEntry,
  due: number,
  now: number,
): Promise<Pending> => {
  const told = jobIdOf(name, due)
  const id = (await connection.jobs.find(told)) === undefined ? told : `${told}-${generateId(now)}`
  const { message, queue } = await plan(submissionOf(fields), id, now)
  const frame = encodeEnvelope(message)
  if (Result.isFailure(frame)) throw new CallboardError("invalid-input", frame.failure.message)
  const { length } = frame.success
  if (length > MAX_FRAME)
    throw new CallboardError(
      "too-large",
      `its message has ${length} bytes; at most ${MAX_FRAME} are allowed in a schedule`,
    )
  return { id, at: now, queue, frame: encodeBase64(frame.success) }
}

/** Writes an entry over the revision; `undefined` where another process has changed it. */
export const write = async (
  { connection }: PostingParts,
  name: string,
  entry: ScheduleEntry,
  revision: string,
): Promise<StoredSchedule | undefined> => {
  const timed = withWake(name, entry)
  const written = await connection.store.write([{ ...SCHEDULES.put(name, timed), expect: revision }])
  return written === "conflict" ? undefined : { entry: timed, revision: written[0] ?? "" }
}

/**
 * Whether this process may have stood still since it began to write a posting: for so long that another one has taken it for
 * dead, and has published it.
 */
export const stoodStill = (since: number): boolean => Math.abs(Date.now() - since) >= REPAIR_MS

/**
 * Publishes the posting that the entry holds, and resolves with the entry without it. `again`: it may have been
 * published before. The publish key of a posting is not remembered for ever, but its job is: a posting whose job
 * exists, or existed, is not published again.
 */
export const publish = async (parts: PostingParts, entry: ScheduleEntry, again: boolean): Promise<ScheduleEntry> => {
  const { pending } = entry
  if (pending === undefined) return entry
  const { jobs } = parts.connection
  const message = decodeEnvelope(decodeBase64(pending.frame))
  const task = isUndecodable(message) ? undefined : postingOf(message, pending.queue)
  if (task === undefined || Result.isFailure(task)) return refused(entry, "its posting cannot be read")
  const earlier = again ? await jobs.find(pending.id) : undefined
  const [receipt] = earlier === undefined ? await jobs.publish([task.success]) : [{ status: "duplicate" as const }]
  if (receipt?.status === "stored") await parts.sent?.(task.success)
  if (receipt?.status === "duplicate") {
    const found = earlier ?? (await jobs.find(pending.id))
    if (found !== undefined && !isSameTask(found.record, task.success))
      return refused(entry, `another job has its id, ${pending.id}`)
  }
  if (receipt?.status !== "failed") return posted(entry)
  if (receipt.error.retryable) throw receipt.error
  return refused(entry, receipt.error.message)
}
