/**
 * What the lease thread does in the place of a main thread that a handler blocks.
 *
 * It tells of the worker: that it lives and which job blocks it, in its entry of the directory; and that its jobs run. As the
 * last resort, for a handler that blocks past its hard limit or although its job was cancelled to be ended at once, it ends
 * the process: a job past its limit is recorded as timed out, and the other tasks of the worker are given back, uncounted.
 */

import { writeSync } from "node:fs"
import { HEARTBEAT_MS, MAX_RUNNING, WORKERS, type WorkerDescription } from "../../cluster/directory.ts"
import { listRevocations, revocationOfMessage } from "../../cluster/revocation.ts"
import { connectionOf } from "../../connection/connection.ts"
import { cancelJob } from "../../jobs/commands/cancel.ts"
import { lostJobFailure, lostJobHandedBack } from "../../jobs/outcome/lost-job.ts"
import { type Log, type LogSettings, makeLog } from "../../log/log.ts"
import { NO_LIMIT_MS } from "../../options/duration.ts"
import { compact } from "../../protocol/compact.ts"
import { type JobError, type JobRecord, started } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Settlement, Transport } from "../../transport/job-store/transport.ts"
import type { Revision } from "../../transport/store.ts"
import { sleep } from "../../transport/timers.ts"
import { BLOCKED_MS, GRACE_MS, type ListedRun, type RunDetails } from "./lease-protocol.ts"

/**
 * Writes directly to standard output, because Bun routes the output of a thread through the main thread, which is
 * blocked.
 */
export const lastWords = (settings: LogSettings = { level: "none" }): Log =>
  makeLog(settings, (...parts) => writeSync(1, `${parts.join(" ")}\n`)).with({ logger: "callboard.worker" })

// ── Telling of the worker ─────────────────────────────────────────────────────────────────────────────────────────────

export interface BlockWatchOptions {
  readonly transport: Transport
  /** Name of the worker. */
  readonly worker: string
  /** The worker as it described itself last. Absent: it has not been in the directory yet, and is not told of. */
  readonly described: WorkerDescription | undefined
  /** Length of a lease, in milliseconds. */
  readonly lease: number
  readonly log: Log
  /** The runs that are known. */
  readonly runs: ReadonlyArray<ListedRun>
  /** The run whose handler blocks the main thread at a time, in milliseconds since the epoch, where that is known. */
  readonly runAt: (now: number) => RunDetails | undefined
  /** Called with the tokens of runs that were told of as started. */
  readonly onReported: (tokens: ReadonlyArray<string>) => void
  /** Called when the process is to end, since the job of this run was cancelled. */
  readonly onEnd: (run: RunDetails) => void
}

type RunningJob = NonNullable<WorkerDescription["jobs"]>[number]

/** Looks at intervals, from when the main thread gives no sign of life until it does again. */
export class BlockWatch {
  readonly #options: BlockWatchOptions
  readonly #run: RunDetails | undefined
  /** The revision of the worker's entry; `undefined` while that is not known, or the entry belongs to another worker. */
  #revision: Revision | undefined
  /** Since when the main thread is blocked, in milliseconds since the epoch; `undefined` while that may be a moment. */
  #since: number | undefined
  #busy = false
  #isOver = false
  /** When this was last told, by `performance.now()`. */
  #toldAt = Number.NEGATIVE_INFINITY
  /** When each run was last told of as started, by token. */
  readonly #reportedAt = new Map<string, number>()
  /** The run whose job was cancelled to be ended at once, and when that was seen, by `performance.now()`. */
  #cancelled: { readonly run: RunDetails; readonly at: number } | undefined
  #isSilent = false

  constructor(options: BlockWatchOptions) {
    this.#options = options
    this.#run = options.runAt(Date.now())
  }

  /** Does what is due. `stillMs`: for how long the main thread has given no sign of life. Never rejects. */
  async look(stillMs: number, now: number): Promise<void> {
    if (this.#isOver) return
    if (this.#cancelled !== undefined && now - this.#cancelled.at >= GRACE_MS) {
      this.#isOver = true
      this.#options.onEnd(this.#cancelled.run)
      return
    }
    if (this.#busy) return
    this.#busy = true
    try {
      if (stillMs < BLOCKED_MS) return
      this.#begin(stillMs)
      if (now - this.#toldAt < HEARTBEAT_MS) return
      this.#toldAt = now
      await this.#announce(now)
    } catch (cause) {
      if (!this.#isSilent)
        this.#options.log.debug("it could not be reported that this worker is blocked", { cause: String(cause) })
      this.#isSilent = true
    } finally {
      this.#busy = false
    }
  }

  /** The main thread gives signs of life again. Returns for how long it was blocked, and by which job; `undefined`: for a moment. */
  end(): { readonly seconds: number; readonly job: string | undefined } | undefined {
    this.#isOver = true
    if (this.#since === undefined) return undefined
    return { seconds: Math.round((Date.now() - this.#since) / 100) / 10, job: this.#run?.id }
  }

  #begin(stillMs: number): void {
    if (this.#since !== undefined) return
    this.#since = Date.now() - Math.round(stillMs)
    const job = this.#run?.id ?? "unknown"
    this.#options.log.warn("a handler blocks this worker: nothing else runs here until it yields", { job })
  }

  async #announce(now: number): Promise<void> {
    const { transport, runs } = this.#options
    const run = this.#run
    const known: ReadonlyArray<RunDetails> =
      run === undefined || runs.some(({ token }) => token === run.token) ? runs : [...runs, run]
    const shown = known.slice(0, MAX_RUNNING)
    const found = await Promise.all(shown.map(async (each) => (await transport.jobs.find(each.id))?.record))
    const records = new Map(
      shown.flatMap((each, at): Array<[RunDetails, JobRecord]> => {
        const record = found[at]
        return record === undefined ? [] : [[each, record]]
      }),
    )
    this.#lookForCancelled(records, now)
    await this.#report(records, now)
    await this.#writeEntry(shown, records)
    await this.#revoke(records)
  }

  /** Cancels the jobs that a revocation matches, as the main thread would. What is cancelled is found by the next look. */
  async #revoke(records: ReadonlyMap<RunDetails, JobRecord>): Promise<void> {
    const { transport, log } = this.#options
    const revocations = await listRevocations(transport.store)
    for (const [{ id, keepMs }, { state, message }] of records) {
      if (message === undefined || isTerminal(state)) continue
      const matching = revocationOfMessage(message, revocations)
      if (matching === undefined) continue
      const connection = connectionOf(transport, () => keepMs)
      await cancelJob(connection, id, { terminate: matching.terminate }).catch((cause: unknown) =>
        log.debug("a revoked job could not be cancelled", { job: id, cause: String(cause) }),
      )
    }
  }

  /** Tells of the jobs as running, since their runs may not have been told of, or long ago. Never rejects. */
  async #report(records: ReadonlyMap<RunDetails, JobRecord>, now: number): Promise<void> {
    const { transport, worker, onReported, log } = this.#options
    const due = [...records].filter(([each, record]) => isOwn(record, each) && this.#isDue(each, now))
    if (due.length === 0 || this.#isOver) return
    try {
      await transport.jobs.report(
        due.map(([each, record]) => ({ token: each.token, record: begun(record, each, worker), onBehalf: true })),
      )
      for (const [{ token }] of due) this.#reportedAt.set(token, now)
      onReported(due.map(([{ token }]) => token))
    } catch (cause) {
      log.debug("the running jobs of this blocked worker could not be reported", { cause: String(cause) })
    }
  }

  /** What was told of a run is kept for three leases. */
  #isDue({ token }: RunDetails, now: number): boolean {
    return now - (this.#reportedAt.get(token) ?? Number.NEGATIVE_INFINITY) >= this.#options.lease
  }

  #lookForCancelled(records: ReadonlyMap<RunDetails, JobRecord>, now: number): void {
    if (this.#cancelled !== undefined) return
    const run = this.#run
    const { runs } = this.#options
    const mayBlock = run === undefined ? runs.filter(({ inline }) => inline) : [run]
    const terminated = [...records].find(
      ([{ token }, { state, terminated }]) =>
        terminated === true && state === "cancelled" && mayBlock.some((each) => each.token === token),
    )
    if (terminated !== undefined) this.#cancelled = { run: terminated[0], at: now }
  }

  async #readRevision({ pid, host, instance }: WorkerDescription): Promise<void> {
    const { transport, worker } = this.#options
    const found = await WORKERS.get(transport.store, worker)
    const { value } = found ?? {}
    const isOwn = value?.pid === pid && value.host === host && value.instance === instance
    // An entry that has expired is written anew.
    this.#revision = found === undefined ? "" : isOwn ? found.revision : undefined
  }

  async #writeEntry(shown: ReadonlyArray<RunDetails>, records: ReadonlyMap<RunDetails, JobRecord>): Promise<void> {
    const { transport, worker, described } = this.#options
    if (described === undefined) return
    const run = this.#run
    if (this.#revision === undefined) await this.#readRevision(described)
    // The second time after the entry has expired, or the main thread has written it.
    for (let tried = 0; tried < 2; tried++) {
      const expect = this.#revision
      if (expect === undefined || this.#since === undefined || this.#isOver) return
      const jobs = shown.flatMap((each) => {
        const record = records.get(each)
        return described.jobs?.find(({ id }) => id === each.id) ?? (record === undefined ? [] : jobOf(each, record))
      })
      const written = await WORKERS.replace(
        transport.store,
        worker,
        {
          ...described,
          state: described.state === "stopping" ? "stopping" : "blocked",
          blocked: { since: iso(this.#since), ...compact({ job: run?.id }) },
          running: shown.map(({ id }) => id),
          jobs,
          heartbeatAt: iso(Date.now()),
        },
        expect,
      )
      if (written !== "conflict") {
        this.#revision = written
        return
      }
      await this.#readRevision(described)
    }
  }
}

const iso = (ms: number): string => new Date(ms).toISOString()

/** Whether a job still belongs to a run that has begun it. */
const isOwn = ({ state, fence }: JobRecord, run: RunDetails): boolean =>
  !isTerminal(state) && (state !== "started" || fence === run.fence)

const jobOf = ({ id, startedAt, hardSeconds }: RunDetails, record: JobRecord): RunningJob => ({
  id,
  name: record.name,
  queue: record.queue,
  attempt: record.state === "started" ? record.attempt : record.attempt + 1,
  startedAt: iso(startedAt),
  ...(hardSeconds * 1_000 < NO_LIMIT_MS ? { deadline: iso(startedAt + hardSeconds * 1_000) } : {}),
})

// ── Ending the process ────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Longest wait for the transport: a process whose main thread is blocked must end, even if the transport does not
 * answer.
 */
const PATIENCE_MS = 5_000

export interface BlockedWorker {
  readonly worker: string
  /** The run that blocks the process at a time, in milliseconds since the epoch, as far as it is known. */
  readonly runAt: (now: number) => RunDetails | undefined
  /** The run that blocks the process although its job was cancelled. Absent: it is one past its hard limit. */
  readonly cancelled?: RunDetails | undefined
  /** Tokens of all deliveries that have a lease. */
  readonly held: ReadonlyArray<string>
  /** The runs that are known. */
  readonly runs: ReadonlyArray<ListedRun>
}

const WHY = {
  timeout: "a handler blocks this worker past its hard time limit: the process exits, and its other jobs run elsewhere",
  cancelled:
    "a job was cancelled, but its handler blocks this worker: the process exits, and its other jobs run elsewhere",
}

export const endBlocked = async (open: Promise<Transport>, blocked: BlockedWorker, log: Log): Promise<void> => {
  const { cancelled, runAt } = blocked
  const run = cancelled ?? runAt(Date.now())
  log.error(cancelled === undefined ? WHY.timeout : WHY.cancelled, { job: run?.id ?? "unknown" })
  const work = (async () => {
    const transport = await open
    await transport.jobs.settle(await endsOf(transport, run, blocked))
  })()
  await Promise.race([
    work.catch((cause: unknown) => log.error("the last settlement failed", { cause: String(cause) })),
    sleep(PATIENCE_MS),
  ])
}

const endsOf = async (
  transport: Transport,
  run: RunDetails | undefined,
  blocked: BlockedWorker,
): Promise<ReadonlyArray<Settlement>> => {
  const { cancelled, held, worker } = blocked
  const runs = new Map(blocked.runs.map((each) => [each.token, each]))
  const back = held
    .filter((token) => token !== run?.token)
    .map((token) => {
      const other = runs.get(token)
      // The handler that blocks may be any of these, so that each counts as one that its worker died of.
      const isSuspect = run === undefined && other?.inline === true
      return isSuspect ? release(token) : handedBackSettlement(transport, token, other)
    })
  const own = run === undefined || cancelled !== undefined ? run && acked(run.token) : timedOut(transport, run, worker)
  return (await Promise.all([own, ...back])).filter((end) => end !== undefined)
}

const release = (token: string): Settlement => ({ token, then: { kind: "hand-back", delay: 0 } })

/** The record of a cancelled job has its outcome. */
const acked = (token: string): Settlement => ({ token, then: { kind: "ack" } })

/** Gives a task back. The record of one that was told as started says so, or the worker would count as lost with it. */
const handedBackSettlement = async (
  transport: Transport,
  token: string,
  run: RunDetails | undefined,
): Promise<Settlement> => {
  if (run === undefined || run.once) return release(token)
  const { id, fence, keepMs } = run
  const record = (await transport.jobs.find(id))?.record
  if (record?.state !== "started" || record.fence !== fence) return release(token)
  return lostJobHandedBack(record, { token, fence, now: Date.now(), keepMs }) ?? release(token)
}

const timedOut = async (transport: Transport, run: RunDetails, worker: string): Promise<Settlement | undefined> => {
  const found = await transport.jobs.find(run.id)
  if (found === undefined || isTerminal(found.record.state)) return undefined
  const error: JobError = {
    name: "TimeLimitExceeded",
    message: `it blocked its worker past its hard time limit of ${run.hardSeconds} s`,
    reason: "timeout",
  }
  return lostJobFailure(begun(found.record, run, worker), error, {
    token: run.token,
    fence: run.fence,
    now: Date.now(),
    keepMs: run.keepMs,
    ...(run.rejects ? { dead: error.reason } : {}),
  })
}

/** The record of a run, which its worker may not have told of as started. */
const begun = (record: JobRecord, run: RunDetails, worker: string): JobRecord =>
  record.state === "started"
    ? { ...record, fence: run.fence }
    : started(record, { fence: run.fence, worker, at: run.startedAt })
