/** The options of actors and methods: as their author writes them, and as the runtime has them after the checks. */

import type { StandardSchemaV1 } from "@standard-schema/spec"
import type * as Schema from "effect/Schema"
import type { Given } from "../options/check.ts"
import type { DurationInput, TimeLimit } from "../options/duration.ts"
import type { InheritedOption } from "../options/inherited.ts"
import type { MethodLimit, Rate, RateInput } from "../options/limit.ts"
import type { RetryPolicy } from "../options/retry-policy.ts"
import type { RetryHeader } from "../protocol/headers.ts"
import type { ScheduleDeclaration } from "../schedules/fields.ts"
import type { Job } from "./job.ts"

/** A schema that converts `In` to `Out`: any Standard Schema (Zod, Valibot, ArkType …), or an Effect Schema. */
export type MethodSchema<In = unknown, Out = unknown> =
  | StandardSchemaV1<In, Out>
  | Schema.ConstraintCodec<Out, In, never, unknown>

/**
 * Where a handler runs. `inline`: in the worker's process, at no cost. `process`: in a child process, which is killed at
 * the hard time limit, even while the handler blocks; input and result are passed as JSON.
 */
export type Isolation = "inline" | "process"

/** When a task leaves its queue, and what becomes of a job that has failed. */
export interface AckPolicy {
  /**
   * `late`: once the outcome is stored; a job whose worker dies runs again (at least once). `early`: before the handler
   * starts (at most once per attempt). Then a job whose worker dies, or stops before it has ended, has failed with reason
   * `worker-lost`, as a dead letter; only where its worker was stopped does the retry policy decide first. Costs two
   * writes more per attempt. Defaults to `late`.
   */
  readonly when?: "late" | "early" | undefined
  /**
   * What becomes of a job that has failed after its retries. `ack`: it has failed. `reject`: it is a dead letter as well,
   * with the reason of the error. Defaults to `ack`.
   */
  readonly onFailure?: "ack" | "reject" | undefined
  /** The same for a job that ran into its hard time limit, after its retries. Defaults to `ack`. */
  readonly onTimeout?: "ack" | "reject" | undefined
}

/** Options of a method besides its handler, its schemas and its limit. */
export interface MethodOptions {
  /**
   * Names for positional arguments, so that Celery's `add.delay(2, 3)` gives the handler `{"x": 2, "y": 3}`. Defaults
   * to none.
   */
  readonly params?: ReadonlyArray<string> | undefined
  /**
   * Content types whose bodies the handler gets as bytes, not decoded (`application/x-protobuf`, `image/*`). Defaults
   * to none.
   */
  readonly accepts?: ReadonlyArray<string> | undefined
  /**
   * How long one attempt may take. Defaults to that of the actor, then of the service, else to a hard limit of 30 minutes.
   */
  readonly timeLimit?: TimeLimit | undefined
  /** Where the handler runs. `process` needs the actor's `module`. Defaults to the `isolation` of the actor. */
  readonly isolation?: Isolation | undefined
  /**
   * When to retry a failed attempt. `false`: never, even where the handler asks for a retry. Defaults to that of the actor,
   * then of the service, else to no retries.
   */
  readonly retry?: RetryPolicy | false | undefined
  /**
   * What becomes of a job whose worker died while it ran. `redeliver`: it runs again, until as many workers have died of
   * it as the worker's `lostCap` says. `fail`: the attempt has failed with `WorkerLost`, or with `WorkerStopped` where the
   * worker was stopped before it was done, and the retry policy says what follows. That costs a write before each first
   * attempt. Defaults to that of the actor, then of the service, else to `redeliver`; of no use with `acks.when: "early"`.
   */
  readonly onLost?: "redeliver" | "fail" | undefined
  /** When the tasks of the method leave their queue, and what becomes of jobs that fail. */
  readonly acks?: AckPolicy | undefined
  /** Queue of tasks that are submitted without one. Defaults to the queue of the actor. */
  readonly queue?: string | undefined
  /** Priority of tasks that are submitted without one: 0–9, 9 first. Defaults to 4. */
  readonly priority?: number | undefined
  /**
   * How often the method may start on each worker, evenly spaced: `"100/s"`, `"10/m"`, `"1/h"`, or a number per second (as
   * Celery's `rate_limit`). A task that may not start yet goes back to its queue and counts as no attempt. Defaults to no
   * limit.
   */
  readonly rate?: RateInput | undefined
  /**
   * How long the record of a success is kept. 0: not at all; negative: for ever. Defaults to that of the actor, then of the
   * service, else to 24 hours.
   */
  readonly resultTtl?: DurationInput | undefined
  /**
   * How long the record of a failure is kept. Negative: for ever. Defaults to that of the actor, then of the service, else
   * to 7 days.
   */
  readonly failureTtl?: DurationInput | undefined
  /** Hides arguments in log lines and events: all of them, or those with these names at any depth. Defaults to none. */
  readonly redact?: boolean | ReadonlyArray<string> | undefined
  /**
   * When the method runs by itself: a cron text in UTC (`"0 7 * * mon"`), or an object with `cron`, `timeZone`, `every` and the
   * like, and the `input`. The first worker that serves the method makes the schedule `actor.method` of it. Defaults to none.
   */
  readonly schedule?: string | Given<ScheduleDeclaration> | undefined
  /** One sentence about the method, shown in lists and in the OpenAPI document. */
  readonly description?: string | undefined
}

/** Names of the fields of an input; any text where its type is unknown. */
type FieldOf<Input> = unknown extends Input ? string : Input extends object ? keyof Input & string : never

/**
 * A limit over all workers together: `rate`, `concurrency` or both. A task that may not run yet waits in its worker, or
 * goes back to its queue; it counts as no attempt and occupies no handler, so that other tasks run meanwhile.
 */
export interface Limit<Input = unknown> {
  /** How often the method may start, evenly spaced; written like a method's `rate`. */
  readonly rate?: RateInput | undefined
  /**
   * How many jobs of the method may run at a time, 1–100,000. The share of a worker that has died is free after a
   * lease.
   */
  readonly concurrency?: number | undefined
  /**
   * Names the tenant of a job (a customer, a host), as text of 1–255 bytes. Each tenant has a limit of its own. Either the
   * name of a field of the input, which the submitter copies into a header, so that a worker need not decode the input; or
   * a function, which gets the input as the handler does. Of an isolated method both see the input before its schema. A job
   * fails where the key gives no such text. Without a key there is one limit for all jobs.
   */
  readonly key?: FieldOf<Input> | Bivariant<[input: Input]> | undefined
}

/**
 * Functions that run when an attempt has ended, before its outcome is stored, in the process that runs the handler. They
 * may return a value, a promise or an Effect, which is awaited within the time limits of the attempt; an error that they
 * throw counts as an error of the handler. Hooks run for each attempt, but are not guaranteed to: the worker may die before
 * them, and the outcome may be refused after them. Work that must not be lost belongs into a callback or an errback.
 *
 * `onSuccess` and `onFailure` do not run where the attempt was ended from outside (cancelled, hard time limit, handed
 * back), where the handler was never called (its input was refused), and where its process died.
 */
export interface MethodHooks<Use = unknown> {
  /**
   * Runs after the handler succeeded, with the result as the `output` schema converted it. Where the hook throws, the
   * attempt has failed with that error, and `onFailure` runs. Does not run after `Ignore`.
   */
  readonly onSuccess?: Bivariant<[result: unknown, job: Job<Use>]> | undefined
  /**
   * Runs after the attempt failed, with the error, whether or not a retry follows. Where the hook throws, its error is
   * recorded instead. Does not run after `Retry` and `Ignore`.
   */
  readonly onFailure?: Bivariant<[error: unknown, job: Job<Use>]> | undefined
  /**
   * Runs, at most once, after the job was cancelled while its handler ran. Always in the process of the worker, also where
   * the handler runs in a child process (where all methods are isolated, `job.use` is undefined). Its errors are logged.
   * It has 10 seconds.
   */
  readonly onStopped?: Bivariant<[job: Job<Use>]> | undefined
}

/** A function whose author may annotate its parameters with narrower types. */
type Bivariant<A extends ReadonlyArray<unknown>> = { hook(...args: A): unknown }["hook"]

/** A method with options. `Input`: what the handler gets as its first parameter. */
export interface MethodDefinition<Input = unknown, Use = unknown> extends MethodOptions, MethodHooks<Use> {
  /**
   * Checks and converts the input: any Standard Schema (Zod, Valibot, ArkType …), or an Effect Schema. Without a schema
   * nothing is checked, and the type of the handler's first parameter is the type that callers may send.
   */
  readonly input?: MethodSchema<unknown, Input> | undefined
  /** Checks and converts the result before it is stored. A result that it refuses fails the attempt. */
  readonly output?: MethodSchema | undefined
  /** A limit over all workers together, per tenant where it has a `key`. Defaults to none. */
  readonly limit?: Limit<Input> | undefined
  /** The handler. */
  readonly run: MethodHandler<Input, Use>
}

/**
 * The handler of a method. It returns a value, a promise, or an Effect that needs no services. Its parameters are
 * bivariant, so that a handler without a schema can annotate the type of its input.
 */
export type MethodHandler<Input, Use> = {
  handler(input: Input, job: Job<Use>): unknown
}["handler"]

/** What `start` of an actor gets. */
export interface ActorScope {
  /** Name of the actor. */
  readonly actor: string
  /** Adds a function that runs when the actor stops; the last one added runs first. */
  onStop(release: () => void | PromiseLike<void>): void
  /** Fires when the actor stops, before its resources are released. */
  readonly signal: AbortSignal
  /** Reports that a resource is broken for good, such as a lost connection: the actor is stopped and started again. */
  readonly fail: (cause: unknown) => void
}

/** How an actor is started again after its `start` failed, or a resource broke. */
export interface RestartPolicy {
  /**
   * Failures within `within` after which the actor counts as unhealthy, 0–1,000. It is started again all the same, with
   * the longest wait. Defaults to 5.
   */
  readonly max?: number | undefined
  /** Period in which failures are counted. Defaults to 1 minute. */
  readonly within?: DurationInput | undefined
  readonly backoff?:
    | {
        /** Wait before the first restart; doubles each time. Defaults to 1 second. */
        readonly base?: DurationInput | undefined
        /** Longest wait. Defaults to 30 seconds. */
        readonly max?: DurationInput | undefined
      }
    | undefined
}

/** Options that hold for methods that do not set them. */
export type MethodDefaults = Pick<MethodOptions, InheritedOption>

/** Options of an actor besides its methods. `Use`: what `start` returns. */
export interface ActorOptions<Use> extends MethodDefaults {
  /** Queue of tasks that are submitted without one. Defaults to `default`. */
  readonly queue?: string | undefined
  /** Where handlers run, unless their method sets it. Defaults to `inline`. */
  readonly isolation?: Isolation | undefined
  /**
   * URL of the file that exports this actor: `import.meta.url`. Child processes load the actor from it, so loading it must
   * have no side effects. Needed for `isolation: "process"`, unless the actor is found in a folder.
   */
  readonly module?: string | undefined
  /**
   * Acquires the resources that the methods share; handlers find them in `job.use`. Runs once in each process that runs
   * methods of the actor: in the worker, unless all methods are isolated, and in each child process.
   */
  readonly start?: ((scope: ActorScope) => Use | PromiseLike<Use>) | undefined
  /** Releases what `start` returned. Runs after the last handler has ended. */
  readonly stop?: ((use: NoInfer<Use>) => void | PromiseLike<void>) | undefined
  /** How the actor is started again after a failure. */
  readonly restart?: RestartPolicy | undefined
  /** One sentence about the actor, shown in lists and in the OpenAPI document. */
  readonly description?: string | undefined
}

/** An actor after the checks of `actor()`, with the types of its methods erased. */
export interface ActorDefinition {
  readonly _tag: "Actor"
  readonly name: string
  readonly queue: string | undefined
  readonly description: string | undefined
  /** URL of the file that exports the actor; `undefined` where it is not known. */
  readonly module: string | undefined
  readonly start: ((scope: ActorScope) => unknown) | undefined
  readonly stop: ((use: unknown) => unknown) | undefined
  readonly restart: RestartPolicy | undefined
  readonly methods: ReadonlyMap<string, ErasedMethod>
}

/** A method after the checks of `actor()`, with its types erased. */
export interface ErasedMethod extends Omit<MethodOptions, "retry" | "rate" | "schedule">, MethodHooks {
  /** Name of the actor. */
  readonly actor: string
  readonly name: string
  readonly retry?: RetryHeader
  readonly rate?: Rate
  readonly limit?: MethodLimit
  readonly schedule?: ScheduleDeclaration
  readonly input: StandardSchemaV1 | undefined
  readonly output: StandardSchemaV1 | undefined
  readonly isolation: Isolation
  /** Where options that the method does not set itself were set: `actor`, `service`, a file, a variable or a flag. */
  readonly from?: Readonly<Partial<Record<InheritedOption, string>>>
  readonly run: (input: unknown, job: Job<unknown>) => unknown
}

/** Whether tasks of a method leave their queue before their handlers start. */
export const acksEarly = ({ acks }: ErasedMethod): boolean => acks?.when === "early"
