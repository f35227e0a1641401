/**
 * One delivery while this worker has it, from the pull to its settlement, the list of all that it has, and the fields of log lines
 * about one.
 */
import type * as Fiber from "effect/Fiber"
import type * as Result from "effect/Result"
import type { ErasedMethod } from "../actor/actor.ts"
import { type Clock, systemClock } from "../async/clock.ts"
import { softLimit } from "../jobs/outcome/job-error.ts"
import type { Fields } from "../log/log.ts"
import { NO_LIMIT_MS } from "../options/duration.ts"
import type { Embed } from "../protocol/body.ts"
import { isObject } from "../protocol/guards.ts"
import { OWN_HEADER, type Task } from "../protocol/headers.ts"
import { isUndecodable, type JobPosting } from "../protocol/message.ts"
import { DEFAULT_METHOD, isId, resolveName } from "../protocol/name.ts"
import type { JobError, JobRecord, Progress } from "../protocol/record.ts"
import type { StepFailure } from "../steps/page.ts"
import type { Trace } from "../tracing/trace.ts"
import type { JobDelivery, Settlement } from "../transport/job-store/transport.ts"
import type { ServedActor } from "./actors/served-actor.ts"

/** Why a run is ended from outside: its hard limit, a cancellation, another delivery of the job, or a hand-back. */
export type StopReason = "timeout" | "cancelled" | "superseded" | "hand-back"

/** Without a reason, `abort` makes an exception with its stack. */
const ENDED = "the delivery was ended"

/** One delivery in this worker. Mutable: it is the worker's bookkeeping, shared by its parts. */
export class ActiveDelivery {
  /**
   * The delivery that is settled. Replaced by a newer delivery of the same task if the lease expired and the task came
   * back to this worker.
   */
  delivery: JobDelivery
  /** Position of its queue in the worker's list. */
  readonly rank: number
  /**
   * Priority level in its queue; once the headers are read, the level that the task asks for (a queue may have fewer
   * levels).
   */
  level: number
  /** Its place in {@link HeldDeliveries}. */
  place = -1
  phase: "buffered" | "waiting" | "running" | "settling" = "buffered"
  /** The method that the task is for; `undefined` until that is known, or where this worker does not serve it. */
  method: ErasedMethod | undefined
  /**
   * The task was taken off its queue, or is about to be: it has no lease that could expire, and cannot be given back.
   */
  offQueue = false
  /** The write of the latest progress, while it is under way. Never rejects. */
  progressStored: Promise<void> | undefined
  /** The run, set once its handler is about to be called. */
  run: HandlerRun | undefined
  /** Whether the handler was called. From then on no failure of the worker may make it run again. */
  called = false
  /** Whether the worker fetches nothing ahead for the slot of the handler, because it runs for long. */
  isLong = false
  /** Why the delivery was ended from outside, also before its handler ran. The first reason stays. */
  stop: StopReason | undefined
  /** The fiber of its run, once that has begun. Only the wait for the user's code can be interrupted. */
  fiber: Fiber.Fiber<unknown, unknown> | undefined
  /** Whether the job was cancelled while this worker had it, and its steps are to be reverted. */
  isToRevert = false
  /** How long its task is away when it is handed back, in milliseconds. */
  backInMs = 0
  /** Whether the handler's process was killed because the job was cancelled. */
  killed = false
  #ended: AbortController | undefined
  /** The actor whose resources the handler uses. */
  #actor: Pick<ServedActor, "leave"> | undefined
  /** Gives back the places that the handler has in limits. */
  #permit: (() => void) | undefined
  /** Makes the settlement that replaces a result which the transport can never store. */
  refused: ((error: JobError) => Settlement) | undefined

  constructor(delivery: JobDelivery, rank: number) {
    this.delivery = delivery
    this.rank = rank
    this.level = delivery.level
  }

  /** The handler uses the resources of its actor until {@link release}. */
  enter(actor: Pick<ServedActor, "enter" | "leave">): void {
    actor.enter()
    this.#actor = actor
  }

  /** The handler has a place in a limit until {@link release}. One that runs already may get a place in another one. */
  admit(permit: () => void): void {
    const before = this.#permit
    this.#permit =
      before === undefined
        ? permit
        : () => {
            before()
            permit()
          }
  }

  /** Releases what the handler uses. Called when it has really ended or was never called. */
  release(): void {
    this.#actor?.leave()
    this.#actor = undefined
    this.#permit?.()
    this.#permit = undefined
  }

  /** Ends the delivery from outside, also while it is still being prepared. The first reason wins. */
  end(reason: StopReason): void {
    if (this.stop !== undefined) return
    this.stop = reason
    this.#ended?.abort(ENDED)
    this.run?.stopped()
    this.leave()
  }

  /** Ends the wait for the handler. */
  leave(): void {
    this.fiber?.interruptUnsafe()
  }

  /** Fires when the delivery is ended from outside. Made on first use, since few wait for the transport. */
  get ended(): AbortSignal {
    this.#ended ??= new AbortController()
    if (this.stop !== undefined) this.#ended.abort(ENDED)
    return this.#ended.signal
  }

  /** The job was cancelled and its steps are to be reverted, also where it is still being prepared. */
  revert(): void {
    this.isToRevert = true
    this.run?.steps?.cancel()
  }

  /** Whether its task can be given back: it is in its queue, and the handler may begin again, or has not begun. */
  get canGoBack(): boolean {
    return !this.offQueue && !(this.called && this.run?.method.onLost === "fail")
  }

  /** Number of the job's run, from the headers; 1 where they do not say. */
  get jobRun(): number {
    const { message } = this.delivery
    const own = isUndecodable(message) ? undefined : message.headers[OWN_HEADER]
    const run = isObject(own) && "run" in own ? own.run : undefined
    return typeof run === "number" ? run : 1
  }

  /** Id of the job; `undefined` where the headers have no valid one. A message of protocol 1 has it in its body. */
  get id(): string | undefined {
    const { message } = this.delivery
    if (this.run !== undefined) return this.run.task.id
    const id = isUndecodable(message) ? undefined : message.headers.id
    return typeof id === "string" && isId(id) ? id : undefined
  }
}

/**
 * The deliveries that a worker has. They come and go with every task, so they are in a list and not in a `Map`, whose table is
 * made anew all the time then: all that was in such a table stays in memory until JavaScriptCore next collects all garbage.
 */
export class HeldDeliveries {
  readonly #list: Array<ActiveDelivery> = []

  get size(): number {
    return this.#list.length
  }

  /** Those that are here now, in no order. */
  values(): ReadonlyArray<ActiveDelivery> {
    return [...this.#list]
  }

  add(active: ActiveDelivery): void {
    active.place = this.#list.push(active) - 1
  }

  /** Removes a delivery; one that is not here is passed over. */
  remove(active: ActiveDelivery): void {
    const { place } = active
    if (this.#list[place] !== active) return
    const last = this.#list.pop()
    if (last === undefined || last === active) return
    this.#list[place] = last
    last.place = place
  }
}

/** A run that lasts this long is a long one. */
const LONG_MS = 1_000

/** A durable step, or the revert of one, that begins, or what it has come to. */
export type StepChange =
  | { readonly name: string; readonly state: "started" | "reverting" }
  | {
      readonly name: string
      readonly state: "done" | "failed" | "reverted" | "revert-failed"
      /** When it ended, in milliseconds since the epoch. */
      readonly at: number
      /** Milliseconds, its retries included. */
      readonly took: number
      readonly tries: number
      readonly failure?: StepFailure
    }

/** The durable steps of a run, as far as the worker's other parts use them. */
export interface RunSteps {
  /** Name of the step that runs, or is reverted, and of several the one that began first. */
  readonly step: string | undefined
  /** Called when the job is cancelled while this delivery runs it. */
  cancel(): void
  /** Called when the settlement is stored. */
  stored(record: JobRecord): Promise<void>
}

/** One run of a handler: its task, record, time limits, and how it was stopped. */
export class HandlerRun {
  readonly posting: JobPosting
  readonly task: Task
  readonly method: ErasedMethod
  /** The follow-ups of the job (callbacks, errbacks, chain). */
  readonly embed: Embed
  /** The job's record, in state `started`. */
  record: JobRecord
  /** Whether a claim was written. If so, a hand-back must close it. */
  claimed: boolean
  /** Start of the run, in milliseconds since the epoch. */
  startedAt: number
  /** The start and the limits by the monotonic clock, which changes of the system time do not affect. */
  beganAt: number
  hardAt: number
  softAt: number
  progress: Progress | undefined
  /** How often the handler has changed the job's meta data, which is in the record. */
  metaChanges = 0
  /** Whether its limits are watched. */
  isWatched = false
  /** Ends the run at its limits, once it has lasted for a moment. Made anew when they change. */
  limits: Fiber.Fiber<void> | undefined
  /** Whether the run was reported as started. A hand-back then has to take that back. */
  reported = false
  /** The abort reason that the handler's signal got at the soft limit. */
  softReason: DOMException | undefined
  #cancelReason: DOMException | undefined
  /** The durable steps of the job, once it has begun one, or where its steps are to be reverted. */
  steps: RunSteps | undefined
  /** Whether the handler is an Effect that has not ended. */
  isEffect = false
  /** The promise of the handler while it has not settled, or of an interrupted Effect while it has not ended, awaited or not. */
  pending: Promise<unknown> | undefined
  /** The trace of the attempt; `undefined` where attempts are not traced. */
  trace: Trace | undefined
  readonly clock: Clock
  readonly #delivery: StoppableDelivery
  #abort: AbortController | undefined
  /** The time limits while their clock is stopped by `hold`. */
  #limits: { readonly hardMs: number; readonly softMs: number } | undefined

  constructor(fields: {
    readonly posting: JobPosting
    readonly task: Task
    readonly method: ErasedMethod
    readonly embed: Embed
    readonly record: JobRecord
    readonly claimed: boolean
    readonly startedAt: number
    /** Hard time limit. */
    readonly hardMs: number
    readonly softMs: number
    readonly clock?: Clock
    readonly delivery: StoppableDelivery
  }) {
    this.#delivery = fields.delivery
    this.clock = fields.clock ?? systemClock
    this.posting = fields.posting
    this.task = fields.task
    this.method = fields.method
    this.embed = fields.embed
    this.record = fields.record
    this.claimed = fields.claimed
    this.startedAt = fields.startedAt
    this.beganAt = this.clock.monotonic()
    this.hardAt = this.beganAt + fields.hardMs
    this.softAt = this.beganAt + fields.softMs
  }

  /** Why its delivery was ended from outside. */
  get stop(): StopReason | undefined {
    return this.#delivery.stop
  }

  /** Whether the run was ended from outside, so that its outcome is ignored. */
  get isOver(): boolean {
    return this.stop !== undefined
  }

  /** Whether other tasks get its result. */
  get handsOn(): boolean {
    const { callbacks, chain, chord } = this.embed
    return (callbacks?.length ?? 0) > 0 || (chain?.length ?? 0) > 0 || chord !== null
  }

  /** Whether it has run for so long that no task should wait for its slot. */
  get isLong(): boolean {
    return this.clock.monotonic() - this.beganAt >= LONG_MS
  }

  /** Hard time limit, in milliseconds. */
  get hardMs(): number {
    return between(this.beganAt, this.hardAt)
  }

  /** Soft time limit, in milliseconds. */
  get #softMs(): number {
    return between(this.beganAt, this.softAt)
  }

  /** The signal is created on first use, since most handlers never look at it. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    const reason = this.softReason ?? this.#cancelReason ?? stopReason(this.stop)
    if (reason !== undefined) this.#abort.abort(reason)
    return this.#abort.signal
  }

  /**
   * Stops the clock of the time limits while the handler cannot start yet: its process is starting, or its task is
   * being acked.
   */
  hold(): void {
    if (this.#limits !== undefined) return
    this.#limits = { hardMs: this.hardMs, softMs: this.#softMs }
    this.#setLimits(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY)
  }

  /** The handler begins now: the time limits count from here. */
  begin(): void {
    if (this.#limits === undefined) return
    this.startedAt = this.clock.now()
    this.beganAt = this.clock.monotonic()
    this.#setLimits(this.beganAt + this.#limits.hardMs, this.beganAt + this.#limits.softMs)
    this.#limits = undefined
  }

  /** Called at the soft limit: fires the handler's signal. The handler may ignore it until the hard limit. */
  warn(): void {
    if (this.softReason !== undefined) return
    this.softReason = softLimit(this.#softMs / 1000)
    this.#abort?.abort(this.softReason)
  }

  /** Fires the handler's signal, where a cancelled job has steps that are to be reverted, or where these are reverted. */
  cancel(reason = stopReason("cancelled")): void {
    this.#cancelReason ??= reason
    this.#abort?.abort(this.#cancelReason)
  }

  /** Ends the time limits of the run while its steps are reverted: each revert has a limit of its own. */
  withoutLimits(): void {
    this.#setLimits(this.beganAt + NO_LIMIT_MS, Number.POSITIVE_INFINITY)
  }

  /** Gives the run a hard limit of so many milliseconds from now, and no soft one. */
  endWithin(ms: number): void {
    this.#setLimits(this.clock.monotonic() + ms, Number.POSITIVE_INFINITY)
  }

  #setLimits(hardAt: number, softAt: number): void {
    this.hardAt = hardAt
    this.softAt = softAt
    this.unlimited()
  }

  /** Ends the wait for the present limits. It begins again with the next tick if the run is watched. */
  unlimited(): void {
    this.limits?.interruptUnsafe()
    this.limits = undefined
  }

  /** Fires the handler's signal: the delivery was ended from outside. */
  stopped(): void {
    this.#abort?.abort(stopReason(this.stop))
  }

  /** Ends the wait for the handler. */
  leave(): void {
    this.#delivery.leave()
  }
}

/** The delivery of a run, as far as a run uses it. */
type StoppableDelivery = Pick<ActiveDelivery, "stop" | "leave">

const STOPPED: Readonly<Record<StopReason, readonly [message: string, name: string]>> = {
  timeout: ["the hard time limit was reached", "TimeoutError"],
  cancelled: ["the job was cancelled", "AbortError"],
  superseded: ["another worker has the job", "AbortError"],
  "hand-back": ["the worker is stopping", "AbortError"],
}

const stopReason = (stop: StopReason | undefined): DOMException | undefined =>
  stop === undefined ? undefined : new DOMException(...STOPPED[stop])

/**
 * Milliseconds, rounded to microseconds: the floating-point error of the sum would show up in messages that name the
 * limit.
 */
const between = (began: number, end: number): number => Math.round((end - began) * 1_000) / 1_000

/** Input and follow-ups of a task, or why its body cannot be used. */
export type InputRead = Result.Result<{ readonly embed: Embed; readonly input: unknown }, BadInput>

/** Why a task fails before its handler is called: its body cannot be read or its input is invalid. */
interface BadInput {
  readonly error: JobError
  /** The errbacks to publish. */
  readonly embed: Embed
  /** Why the job becomes a dead letter; absent where it does not. */
  readonly dead?: string
}

/** Name of the logger for the lines that handlers write. */
export const JOB_LOGGER = "callboard.job"

/**
 * The fields that identify an attempt. Task and method are the names of the actor and its method, in whatever form the
 * task was submitted. `method`: the method of the task; `undefined` where this worker does not serve it, and the names
 * come from the task alone.
 */
export const jobFields = (record: JobRecord, method: Pick<ErasedMethod, "actor" | "name"> | undefined): Fields => {
  const named = method === undefined ? resolveName(record.task, record.meth, () => false) : undefined
  return {
    job: record.id,
    task: method?.actor ?? named?.actor,
    method: method?.name ?? named?.meth ?? DEFAULT_METHOD,
    queue: record.queue,
    attempt: record.attempt,
  }
}

/**
 * What a worker asks about tasks that no client of Callboard's has submitted (`isExternal`), where their submitters wait for
 * answers elsewhere: those of Celery in its result back end. A worker without it asks nothing.
 */
export interface ExternalTasks {
  /** Whether the members of chords are counted. Where they are not, a task with a chord is refused. */
  readonly countsChords: boolean
  /** The priority of a follow-up of such a task, by the number in its signature. */
  priorityOf(given: number | null): number | null
  /** Whether a task was revoked whose job was not known then. */
  isRevoked(task: Task): boolean
  /**
   * Called before a settlement is stored, so that a worker that dies in between does it again: tells the submitter of the outcome,
   * and returns the settlement with what else follows from it. `undefined`: there is nothing to do. Never rejects.
   */
  completing(active: ActiveDelivery, settlement: Settlement): Promise<Settlement> | undefined
  /**
   * Tells the submitter of a task that it was ended without a delivery, and submits by `post` what follows. Rejects where that
   * is to be tried again.
   */
  report(ended: JobRecord, post: (followUps: ReadonlyArray<JobPosting>) => Promise<void>): Promise<void>
  /** Tells the submitter of a task that runs how far it is. A call that comes to nothing is no failure. */
  progressed(task: Task, posting: JobPosting, progress: Progress): void
}
