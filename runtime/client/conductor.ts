/**
 * A conductor takes jobs from a job board, and has the task of each run as a job of a queue. The id of that job follows from the
 * board's job, so that every conductor that takes the board's job awaits the same one: there is no second engine.
 */
import { hostname } from "node:os"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type Deferred, deferred } from "../async/deferred.ts"
import { stayAlive } from "../async/timers.ts"
import type { Board, BoardOptions } from "../board/board.ts"
import type { BoardClaim } from "../board/claiming.ts"
import type { BoardJob } from "../board/job.ts"
import type { Connection } from "../connection/connection.ts"
import { Connectivity } from "../connection/connectivity.ts"
import { CallboardError } from "../errors.ts"
import { rerunJob } from "../jobs/commands/rerun.ts"
import { OUTCOME_LOST } from "../jobs/outcome/job-error.ts"
import type { SubmissionFields } from "../jobs/submission/submission.ts"
import { findRecord, isAway, waitForEnd } from "../jobs/tracking/finding.ts"
import { AnyFunction, optionsChecker } from "../options/check.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { duration } from "../options/duration-field.ts"
import { Name, whole } from "../options/fields.ts"
import { checkOwner } from "../protocol/board.ts"
import { BOARD_NAME_RULE, isBoardName } from "../protocol/board-name.ts"
import { compact } from "../protocol/compact.ts"
import { isMap } from "../protocol/guards.ts"
import type { JobRecord } from "../protocol/record.ts"
import { waitFor } from "../transport/timers.ts"

/** What a conductor tells, under the names that TaskFlow has for it. */
export interface ConductorEvent {
  /**
   * `running_start`: the job of the queue is awaited; `running_end`: it has succeeded. `job_consumed`, `job_abandoned`,
   * `job_trashed`: how the claim of the board's job ended.
   */
  readonly event: "running_start" | "running_end" | "job_consumed" | "job_abandoned" | "job_trashed"
  readonly board: string
  /** Id of the board's job. */
  readonly id: string
  /** Name of the board's job. */
  readonly name: string
  /** Why the board's job was abandoned or trashed. */
  readonly why?: string
}

export interface ConductorOptions {
  /** Name of the board. */
  readonly board: string
  /** Tasks by the name that `details.flow` of a board's job has for them. Absent: that name is the task. */
  readonly flows?: Readonly<Record<string, string>> | undefined
  /** Name of the conductor: the owner of its claims, and its name among the entities of the board. Defaults to `conductor@host:pid`. */
  readonly name?: string | undefined
  /** Most jobs at a time; 0 or less: no bound. Defaults to 1. */
  readonly maxSimultaneousJobs?: number | undefined
  /** How many jobs it takes before it ends. Defaults to no bound. */
  readonly maxDispatches?: number | undefined
  /** How often a job runs that fails because of the infrastructure, before it is moved to the trash. Defaults to 3. */
  readonly attempts?: number | undefined
  /**
   * How often a board without a job is read, in case the announcement of a job was missed: 10 ms at least, and a second at most
   * counts. Defaults to 0.5 seconds.
   */
  readonly waitTimeout?: DurationInput | undefined
  /** How long after the death of this process its jobs can be taken over. Defaults to 60 seconds; 1 second at least. */
  readonly lease?: DurationInput | undefined
  /** Called with each event. An error that it throws is ignored. */
  readonly onEvent?: ((event: ConductorEvent) => void) | undefined
}

const NAME_RULE = "must be text of 1 to 255 bytes, at most 300 percent-encoded, without control characters"
const isConductorName = (name: string): boolean =>
  Result.isSuccess(checkOwner(name)) && encodeURIComponent(name).length <= 300

export const CONDUCTOR_FIELDS = {
  board: Schema.String.annotate({ message: BOARD_NAME_RULE }).check(
    Schema.makeFilter((name: string) => isBoardName(name) || BOARD_NAME_RULE),
  ),
  flows: Schema.optionalKey(Schema.Record(Schema.String, Name)),
  name: Schema.optionalKey(
    Schema.String.annotate({ message: NAME_RULE }).check(
      Schema.makeFilter((name: string) => isConductorName(name) || NAME_RULE),
    ),
  ),
  maxSimultaneousJobs: Schema.optionalKey(
    whole({ min: Number.MIN_SAFE_INTEGER }, "must be a whole number; 0 or less for no bound"),
  ),
  maxDispatches: Schema.optionalKey(whole({ min: 1 })),
  attempts: Schema.optionalKey(whole({ min: 1 })),
  waitTimeout: Schema.optionalKey(duration({ min: 10 })),
  lease: Schema.optionalKey(duration({ min: 1_000 })),
  onEvent: Schema.optionalKey(AnyFunction),
} satisfies Record<keyof ConductorOptions, Schema.Top>

const checkOptions = optionsChecker(CONDUCTOR_FIELDS, "conductor()")

/** What a conductor needs of its client. */
interface Parts {
  readonly connection: Connection
  readonly board: (name: string, options: BoardOptions) => Board
  readonly submit: (task: string, fields: SubmissionFields) => Promise<unknown>
  /** The conductors of the client that run. */
  readonly running: Set<Conductor>
}

/** How a claim ends, and why. */
interface Verdict {
  readonly end: "consume" | "abandon" | "trash"
  readonly why?: string
}

/** How long to wait before another try while the transport is away, if it does not tell when it is back. */
const AWAY_MS = 1_000

export class Conductor {
  readonly #parts: Parts
  readonly #options: ConductorOptions
  readonly #name: string
  #stop = new AbortController()
  #ended: Promise<void> = Promise.resolve()
  #isDispatching = false

  constructor(parts: Parts, options: ConductorOptions) {
    checkOptions(options)
    this.#parts = parts
    this.#options = options
    this.#name = options.name ?? `conductor@${hostname()}:${process.pid}`
  }

  /** Whether it runs: false again once it has ended. */
  get dispatching(): boolean {
    return this.#isDispatching
  }

  /**
   * Takes jobs of the board until it is stopped, or has taken `maxDispatches`; resolves once all of them have ended. While the
   * transport cannot be reached it waits. Called again meanwhile it returns the same promise. Fails with `not-connected` where
   * the client is closed.
   */
  run(): Promise<void> {
    if (this.#isDispatching) return this.#ended
    this.#stop = new AbortController()
    this.#isDispatching = true
    this.#ended = this.#run(this.#stop.signal)
    return this.#ended
  }

  /**
   * Takes no further job, and gives up its claims. The jobs of the queue go on, and the conductor that takes a board's job next
   * finds its job by the id. Returns at once; see {@link wait}.
   */
  stop(): void {
    this.#stop.abort()
  }

  /** Resolves with true once it has ended, and with false if the timeout is over before. Fails with `invalid-input`. */
  async wait(timeout?: DurationInput): Promise<boolean> {
    if (timeout === undefined) await this.#ended.catch(() => undefined)
    else await waitFor(this.#ended, milliseconds("timeout", timeout))
    return !this.#isDispatching
  }

  async #run(stop: AbortSignal): Promise<void> {
    const { board: boardName, maxSimultaneousJobs: most = 1, lease } = this.#options
    let left = this.#options.maxDispatches ?? Number.POSITIVE_INFINITY
    const board = this.#parts.board(boardName, compact({ lease }))
    const over = new AbortController()
    const connectivity = new Connectivity(this.#parts.connection.transport, over.signal)
    const end = stayAlive()
    const jobs = new Set<Promise<void>>()
    let changed: Deferred<void> = deferred()
    stop.addEventListener("abort", () => changed.resolve(), { once: true })
    this.#parts.running.add(this)
    try {
      const entity = { kind: "conductor", name: this.#name, metadata: { hostname: hostname(), pid: process.pid } }
      await reached(connectivity, stop, () => board.registerEntity(entity))
      while (left > 0 && !stop.aborted) {
        if (most > 0 && jobs.size >= most) {
          await changed.promise
          continue
        }
        const claim = await reached(connectivity, stop, () => this.#next(board, stop))
        if (claim === undefined) continue
        left--
        const job: Promise<void> = this.#dispatch(claim, stop, connectivity).finally(() => {
          jobs.delete(job)
          changed.resolve()
          changed = deferred()
        })
        jobs.add(job)
      }
    } catch (cause) {
      this.stop()
      throw cause
    } finally {
      await Promise.all(jobs)
      await board.close()
      over.abort()
      end()
      this.#parts.running.delete(this)
      this.#isDispatching = false
    }
  }

  /** Claims the next job of the board; `undefined` where there is none for the moment. */
  async #next(board: Board, signal: AbortSignal): Promise<BoardClaim | undefined> {
    try {
      return await board.take(this.#name, { wait: this.#options.waitTimeout ?? 0.5, signal })
    } catch (cause) {
      if (cause instanceof CallboardError && cause.code === "not-found") return undefined
      throw cause
    }
  }

  /** Has a claimed job run, and ends its claim. Never fails: a claim that cannot be ended expires. */
  async #dispatch(claim: BoardClaim, stop: AbortSignal, connectivity: Connectivity): Promise<void> {
    const until = new AbortController()
    const end = () => until.abort()
    stop.addEventListener("abort", end)
    claim.signal.addEventListener("abort", end)
    if (stop.aborted || claim.signal.aborted) end()
    try {
      const verdict = await this.#awaited(claim.job, connectivity, until.signal)
      await this.#end(claim, verdict, connectivity, until.signal)
    } catch {
      // The claim is not renewed any more, even if it cannot be given up now.
      await claim.abandon().catch(() => undefined)
    } finally {
      stop.removeEventListener("abort", end)
    }
  }

  /** Ends the claim of a board's job; without a verdict, since the conductor is stopped or has lost the claim. */
  async #end(
    claim: BoardClaim,
    verdict: Verdict | undefined,
    connectivity: Connectivity,
    until: AbortSignal,
  ): Promise<void> {
    const { end, why } = verdict ?? { end: "abandon", why: "the conductor was stopped" }
    // The conductor that has the claim now awaits the same job.
    if (claim.signal.aborted) return
    if (end === "abandon") await claim.abandon()
    else if ((await reached(connectivity, until, () => claim[end]())) === undefined) {
      return this.#end(claim, undefined, connectivity, until)
    }
    this.#tell(EVENTS[end], claim.job, why)
  }

  /**
   * Submits the task of a board's job, unless that was done before, and waits for its end. `undefined` where the signal fires
   * first.
   */
  async #awaited(job: BoardJob, connectivity: Connectivity, until: AbortSignal): Promise<Verdict | undefined> {
    const { connection } = this.#parts
    const id = queueJobOf(job)
    try {
      const { task, fields } = this.#submissionOf(job)
      await reached(connectivity, until, () => this.#parts.submit(task, { ...fields, id }).catch(unlessExists))
      if (until.aborted) return undefined
      this.#tell("running_start", job)
      const record = await waitForEnd(connection, id, Number.POSITIVE_INFINITY, until)
      if (record.state === "succeeded") this.#tell("running_end", job)
      const { attempts = 3 } = this.#options
      const verdict = verdictOf(record, attempts)
      if (verdict.end === "abandon") await reached(connectivity, until, () => runAgain(connection, record))
      return until.aborted ? undefined : verdict
    } catch (cause) {
      if (until.aborted) return undefined
      return { end: "trash", why: cause instanceof Error ? cause.message : String(cause) }
    }
  }

  /** The task of a board's job. Fails with `invalid-input`. */
  #submissionOf({ details, book }: BoardJob): { readonly task: string; readonly fields: SubmissionFields } {
    const { flows } = this.#options
    const { flow, bookStore = {}, store = {} } = details
    if (typeof flow !== "string") throw refused("details.flow", "must be the name of a flow")
    const task = flows === undefined ? flow : Object.hasOwn(flows, flow) ? flows[flow] : undefined
    if (task === undefined) throw refused("details.flow", `there is no flow ${JSON.stringify(flow)}`)
    if (!isMap(bookStore)) throw refused("details.bookStore", "must be an object")
    if (!isMap(store)) throw refused("details.store", "must be an object")
    return { task, fields: { input: { ...bookStore, ...store }, ...(book === null ? {} : { book }) } }
  }

  #tell(event: ConductorEvent["event"], { id, name, board }: BoardJob, why?: string): void {
    try {
      this.#options.onEvent?.({ event, board, id, name, ...compact({ why }) })
    } catch {
      // A listener does not hold up the jobs.
    }
  }
}

const EVENTS = { consume: "job_consumed", abandon: "job_abandoned", trash: "job_trashed" } as const

/** Id of the job of the queue that a job of a board has. */
const queueJobOf = ({ id }: Pick<BoardJob, "id">): string => `board-${id}`

const refused = (field: string, message: string): CallboardError =>
  new CallboardError("invalid-input", `${field}: ${message}`, { field })

/** Accepts that the job exists with another task: a conductor with other `flows` has submitted it. */
const unlessExists = (cause: unknown): void => {
  if (!(cause instanceof CallboardError && cause.code === "job-exists")) throw cause
}

type Ended = Pick<JobRecord, "id" | "state" | "error" | "run">

/** What becomes of a board's job by the end of its job in the queue; `abandon`: that job is to run again. */
export const verdictOf = ({ id, state, error, run }: Ended, attempts: number): Verdict => {
  if (state !== "failed" || error === undefined) return { end: "consume" }
  const why = `job ${id} failed: ${error.name}: ${error.message}`
  // The worker refuses what a submission refuses if the task is known to it.
  if (error.reason === "unknown-actor" || error.reason === "invalid-input") return { end: "trash", why }
  const isOfInfrastructure =
    error.reason === "worker-lost" ||
    error.reason === OUTCOME_LOST ||
    error.name === "TransportError" ||
    error.cause?.name === "TransportError"
  return isOfInfrastructure ? { end: run >= attempts ? "trash" : "abandon", why } : { end: "consume" }
}

/** Runs a job again that has failed, unless another conductor has done so. */
const runAgain = async (connection: Connection, { id, run }: Ended): Promise<void> => {
  const sameRun = (now: JobRecord) => {
    if (now.run !== run) throw new CallboardError("job-exists", `job ${id} was run again already`, { id })
  }
  try {
    await rerunJob(connection, id, sameRun)
  } catch (cause) {
    // The next run may have ended too, and then has another reason why it cannot run again.
    if ((await findRecord(connection, id)).record.run === run) throw cause
  }
}

/** Does work once the transport can be reached; `undefined` where the signal fires first. Fails as the work does otherwise. */
const reached = async <A>(
  connectivity: Connectivity,
  signal: AbortSignal,
  work: () => Promise<A>,
): Promise<A | undefined> => {
  while (!signal.aborted) {
    try {
      return await work()
    } catch (cause) {
      if (!mayPass(cause)) throw cause
    }
    await connectivity.untilConnected(AWAY_MS, signal)
  }
  return undefined
}

const mayPass = (cause: unknown): boolean =>
  isAway(cause) ||
  (cause instanceof CallboardError && (cause.code === "transport-unavailable" || cause.code === "overloaded"))
