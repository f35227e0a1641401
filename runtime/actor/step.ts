/**
 * Durable steps, as the author of a handler sees them: what a step gets, its options, and the error of a failed step.
 */
import type * as Effect from "effect/Effect"
import type { JsonForm } from "../jobs/json-form.ts"
import type { SubmissionFields } from "../jobs/submission/submission.ts"
import type { DurationInput } from "../options/duration.ts"
import type { RetryPolicy } from "../options/retry-policy.ts"
import { compact } from "../protocol/compact.ts"

/** The result of a function that returns `R`: a value, a promise or an Effect. */
export type Resolved<R> = R extends Effect.Effect<infer A, infer _E, infer _R> ? A : Awaited<R>

/** Log of a job: lines of the logger `callboard.job` with the job's id, task, method, queue and attempt. */
export interface JobLog {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  error(message: string, fields?: Readonly<Record<string, unknown>>): void
}

/** What the function of a step gets as its last argument. */
export interface Step {
  /**
   * The same in every try of this step in one run of the job, on every worker: a good idempotency key for the services
   * that the step calls. A job that is run again by hand has another run, and so another key.
   */
  readonly key: string
  /** Number of the try within this attempt of the job, from 1. */
  readonly attempt: number
  /**
   * Fires when `job.signal` does, and at the step's own time limit. In a revert it fires only at the time limit, and
   * when the worker stops.
   */
  readonly signal: AbortSignal
  readonly log: JobLog
  /** Reports the progress of the job: a fraction from 0 to 1, and any JSON beside it. */
  progress(fraction: number, detail?: unknown): void
}

/** What the function gets that reverts a step. */
export interface Revert<Out> {
  /** The result of the step; absent where the step failed, or where its worker died before the outcome was stored. */
  readonly result: Out | undefined
  /** Why the step failed. Without `result` and `error` the worker died in the step, which may have run or not. */
  readonly error: StepError | undefined
  /** Whether the steps are reverted because the job, or a try of its scope, failed for good, or because the job was cancelled. */
  readonly why: "failed" | "cancelled"
  /** As the step's own function gets it: `key` is the same, `attempt` counts the tries of the revert. */
  readonly step: Step
}

/** Retries of a step, within one attempt of its job. A wait lasts 10 minutes at most. */
export type StepRetry = Omit<RetryPolicy, "front">

export interface StepOptions<Out> {
  /**
   * Reverts the step where the job fails for good or is cancelled. The steps of a job are reverted one by one, the last
   * completed one first. A revert is tried up to six times. It is also called for a step that failed, and may be called
   * for one that never ran.
   */
  readonly revert?: ((revert: Revert<Out>) => unknown) | undefined
  /** Absent or `false`: the step fails at its first failure. */
  readonly retry?: StepRetry | false | undefined
  /**
   * How long one try may take: without a limit by default. The same limit holds for each try of the revert, 10 minutes
   * by default.
   */
  readonly timeLimit?: DurationInput | undefined
}

export interface EachOptions<In, Out> extends StepOptions<Out> {
  /**
   * The item's own part of the step's name, `<name>/<key>`. It must be the same for the same item in every run of the
   * handler.
   */
  readonly key: (item: In) => string
  /** How many steps may run at the same time, from 1. Defaults to 16. */
  readonly parallel?: number | undefined
}

/** How a handler waits for a signal. */
export interface SignalWait {
  /** How long to wait at most: seconds, or text such as `"3 days"`. Defaults to no bound. */
  readonly timeout?: DurationInput | undefined
  /** Name of the signal, if it is not that of the wait: so a handler can wait for the same signal several times. */
  readonly signal?: string | undefined
}

/** How the handler of a job begins its steps. */
export interface Steps {
  /**
   * Does a named piece of work once: its outcome is stored, and a later run of the handler gets that outcome without
   * calling the function again. The function may return a value, a promise or an Effect. Resolves with the result as
   * JSON keeps it. Fails with a {@link StepError}, in the first run and in every later one; as `NestedStep` inside
   * another step, and as `DuplicateStep` where this run has used the name already.
   *
   * @example
   * ```ts
   * const flight = await job.step("flight", ({ key }) => airline.book({ seat: "12A", key }), {
   *   revert: ({ result }) => airline.cancel(result?.id),
   *   timeLimit: "10s",
   * })
   * ```
   */
  readonly step: <R>(
    name: string,
    run: (step: Step) => R,
    options?: StepOptions<JsonForm<Resolved<R>>>,
  ) => Promise<JsonForm<Resolved<R>>>
  /**
   * Begins one step for each item, several at a time. Resolves with the results in the order of the items; fails with
   * the error of the first step that fails.
   */
  readonly each: <In, R>(
    name: string,
    items: Iterable<In>,
    run: (item: In, step: Step) => R,
    options: EachOptions<In, JsonForm<Resolved<R>>>,
  ) => Promise<ReadonlyArray<JsonForm<Resolved<R>>>>
  /**
   * Waits until a time, or for a duration: seconds, or text such as `"3 days"`. Meanwhile the job holds no slot, no lease and no
   * memory: its handler is left, and a later delivery calls it again, where its steps resolve with their stored outcomes. Time
   * limits do not run. The first time that is given under a name stands. Fails as {@link step} does, and with `invalid-input`.
   */
  readonly sleep: (name: string, time: DurationInput | Date) => Promise<void>
  /**
   * Waits for a signal of this name (`client.job(id).signal(name, value)`), as {@link sleep} waits. One that was sent before is
   * there already; each is taken once, the oldest first. Resolves with its value, or with `undefined` once the timeout is over.
   */
  readonly waitFor: {
    <T = unknown>(name: string, options: SignalWait & { readonly timeout: DurationInput }): Promise<T | undefined>
    <T = unknown>(name: string, options?: SignalWait): Promise<T>
  }
  /**
   * Submits a job and waits for its end, as {@link sleep} waits. Resolves with its result; fails with a {@link StepError} if it
   * does not succeed. The id of the job is made of this one's and of the name, so that it is submitted once.
   */
  readonly call: <T = unknown>(name: string, task: string, fields?: CallFields) => Promise<T>
  /**
   * Runs a part of the handler that is tried again as a whole. If `body` fails, the steps that it has begun by its `job` are
   * reverted, the last completed one first, and the controller decides: about another try, with the next value, or about giving
   * up. The steps of try 2 of `book` are named `book#2/…`. Resolves with what `body` returns: a value, a promise or an Effect.
   * Fails with the error of the last try, as a {@link StepError}.
   *
   * @example
   * ```ts
   * const server = await job.scope("server", async (inner, region) => {
   *   const disk = await inner.step("disk", () => makeDisk(region), { revert: ({ result }) => removeDisk(result) })
   *   return inner.step("start", () => startServer(region, disk))
   * }, { retry: forEach(["eu", "us"]) })
   * ```
   */
  readonly scope: <V, R>(
    name: string,
    body: (job: Steps, value: V) => R,
    options: ScopeOptions<V>,
  ) => Promise<Resolved<R>>
}

/** A try of a scope that has failed and was reverted. */
export interface ScopeTry<V = unknown> {
  readonly value: V
  /** The error of the try in its stored form: the same in every run of the handler. */
  readonly error: StepError
}

/**
 * What follows a failed try: another try; `revert`: the scope fails with the error; `revert-all`: the job fails for good, and no
 * scope around this one is tried again.
 */
export type ScopeDecision = "retry" | "revert" | "revert-all"

/**
 * Decides about the tries of a scope. Both functions are called again in every run of the handler, and must return the same for
 * the same history: the tries that have failed, the first one first.
 */
export interface RetryController<V = unknown> {
  /** The value with which the next try begins, JSON. */
  readonly next: (history: ReadonlyArray<ScopeTry<V>>) => V
  /** Called after each failed try, which is the last one of the history. */
  readonly onFailure: (history: ReadonlyArray<ScopeTry<V>>) => ScopeDecision
}

export interface ScopeOptions<V> {
  /** Decides after each failed try: `times(3)`, `forEach([…])`, or a controller of your own. */
  readonly retry: RetryController<V>
}

/** What a called job is submitted with: its id is not chosen, and its result must be kept until it is read. */
export type CallFields = Omit<SubmissionFields, "id">

/**
 * The error of a step in its stored form, so that a `catch` finds the same error in the first run and in every later
 * one.
 */
export class StepError extends Error {
  readonly _tag: string
  override readonly name: string
  /** Class names and `_tag` of the error that the step threw, the most specific one first. */
  readonly names: ReadonlyArray<string>
  /** The other fields of the thrown error, as far as they are JSON. */
  readonly fields: Readonly<Record<string, unknown>>

  constructor(failure: {
    readonly names: ReadonlyArray<string>
    readonly message: string
    readonly fields?: Readonly<Record<string, unknown>>
    readonly traceback?: string
    readonly cause?: unknown
  }) {
    super(failure.message, compact({ cause: failure.cause }))
    this.names = failure.names
    this.name = failure.names[0] ?? "Error"
    this._tag = this.name
    this.fields = failure.fields ?? {}
    if (failure.traceback !== undefined) this.stack = failure.traceback
  }

  /** Whether the thrown error had this class, one of its parents, or this `_tag`. */
  is(name: string): boolean {
    return this.names.includes(name)
  }
}
