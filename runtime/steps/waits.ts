/** Decides which waits of a job are over, and what it still waits for. Pure. */
import type { JobRecord } from "../protocol/record.ts"
import { isTerminal } from "../protocol/state.ts"
import type { Signal, Waits } from "../protocol/waits.ts"
import { failureNamed } from "./failure.ts"
import type { Folded } from "./fold.ts"
import type { Noted, StepEntry, StepFailure, WaitEntry } from "./page.ts"

/** How often a job that waits for a signal or another job looks by itself, in milliseconds: so nothing has to wake it. */
const LOOK_MS = 86_400_000

/** What has come for the waits of a job. */
export interface Arrived {
  /** Milliseconds since the epoch, by the clock of the transport. */
  readonly now: number
  /** How often the job was retried: a call that failed is made again after another retry. */
  readonly retries: number
  readonly signals: ReadonlyArray<Signal>
  /** The records of the jobs that it has called and that have ended; `null`: the record is not kept any more. */
  readonly jobs: ReadonlyMap<string, JobRecord | null>
}

/**
 * The outcomes of the waits that are over, in the order in which they ended. A signal that is there counts also after the time
 * of its wait. Each signal ends one wait, the oldest one first.
 */
export const endedWaits = (
  { waits, taken }: Pick<Folded, "waits" | "taken">,
  { now, retries, signals, jobs }: Arrived,
): ReadonlyArray<StepEntry> => {
  const used = new Set(taken)
  const ended: Array<StepEntry> = []
  for (const wait of waits.values()) {
    const noted = (at: number): Noted => ({ step: wait.step, at, took: Math.max(0, at - wait.at), tries: 1 })
    const job = wait.job === undefined ? undefined : jobs.get(wait.job)
    const signal = signals.find(({ n, name }) => name === wait.signal && !used.has(n))
    if (job !== undefined) ended.push(outcomeOf(wait, job, retries, noted(job?.endedAt ?? now)))
    else if (signal !== undefined) {
      used.add(signal.n)
      const value = { signal: signal.value }
      ended.push({ kind: "ok", ...noted(Math.max(signal.at, wait.at)), value, signal: signal.n })
    } else if (wait.until !== undefined && wait.until <= now)
      ended.push({ kind: "ok", ...noted(wait.until), value: null })
  }
  return ended.sort((one, other) => one.at - other.at)
}

const outcomeOf = ({ job = "" }: WaitEntry, record: JobRecord | null, retries: number, noted: Noted): StepEntry =>
  record?.state === "succeeded" && !record.tombstone
    ? { kind: "ok", ...noted, value: record.result ?? null }
    : { kind: "err", ...noted, failure: failureOfJob(job, record), retries }

const failureOfJob = (job: string, record: JobRecord | null): StepFailure => {
  if (record === null || record.tombstone)
    return failureNamed("JobGone", `the job ${job}, which was called, is not kept any more`)
  const { error, state } = record
  if (error === undefined)
    return failureNamed(
      state === "cancelled" ? "JobCancelled" : "JobExpired",
      `the job ${job}, which was called, was ${state}`,
    )
  const { name, message, traceback } = error
  return { names: [name, "JobFailed"], message, ...(traceback === undefined ? {} : { traceback }) }
}

/** What a job with these waits waits for, for its record. */
export const waitsOf = (waits: Iterable<WaitEntry>, now: number): Waits => {
  const all = [...waits]
  const signals = [...new Set(all.flatMap(({ signal }) => signal ?? []))]
  const jobs = all.flatMap(({ job }) => job ?? [])
  const times = all.flatMap(({ until }) => until ?? [])
  return {
    until: Math.min(...times, ...(signals.length + jobs.length > 0 || times.length === 0 ? [now + LOOK_MS] : [])),
    ...(signals.length === 0 ? {} : { signals }),
    ...(jobs.length === 0 ? {} : { jobs }),
  }
}

/** The jobs that are called and are not known to have ended. */
export const calledJobs = ({ waits }: Pick<Folded, "waits">): ReadonlyArray<string> =>
  [...waits.values()].flatMap(({ job }) => job ?? [])

/** Whether the jobs that a job has called, and that have not ended, end with it: it has not succeeded, or reverts its steps. */
export const endsCalled = ({ state, reverting }: Pick<JobRecord, "state" | "reverting">): boolean =>
  reverting !== undefined || (isTerminal(state) && state !== "succeeded")

/** The record without the signals that the handler has taken. */
export const withoutTaken = (record: JobRecord, taken: ReadonlySet<number>): JobRecord => {
  const { signals, ...rest } = record
  if (signals === undefined || taken.size === 0) return record
  const left = signals.filter(({ n }) => !taken.has(n))
  return left.length === 0 ? rest : { ...rest, signals: left }
}
