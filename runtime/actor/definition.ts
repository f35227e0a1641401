/** What the author of an actor may say: the options of methods and actors, as written and as the runtime sees them. */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Schema } from "effect"
import type { DurationInput } from "../options/duration.ts"
import type { MethodLimit } from "../options/method-limit.ts"
import type { Rate, RateInput } from "../options/rate.ts"
import type { RetryHeader } from "../protocol/headers.ts"
import type { Job } from "./job.ts"

/** A schema that takes `In` and gives `Out`: any Standard Schema, or an Effect Schema as it is. */
export type MethodSchema<In = unknown, Out = unknown> =
  | StandardSchemaV1<In, Out>
  | Schema.ConstraintCodec<Out, In, never, unknown>

/** How long one attempt may take. A number is the hard limit. */
export type TimeLimit =
  | DurationInput
  | {
      /** The handler's `signal` fires and it may clean up. Shorter than `hard`. Defaults to none. */
      readonly soft?: DurationInput
      /** The attempt is over and fails with `TimeLimitExceeded`. Defaults to 30 minutes. */
      readonly hard?: DurationInput
    }

/** Whether and when a failed attempt is followed by another. */
export interface RetryPolicy {
  /** Retries after the first attempt, 1–10,000. Without it: none, unless the handler asks for one itself, then 3. */
  readonly max?: number
  readonly backoff?: {
    /** Wait before the first retry. Defaults to 1 second. */
    readonly base?: DurationInput
    /** Each further wait is this many times longer, 1–100. Defaults to 2. */
    readonly factor?: number
    /** Longest wait. Defaults to 10 minutes. */
    readonly max?: DurationInput
    /** Waits a random time between nothing and the computed wait (as Celery's `retry_jitter`). Defaults to true. */
    readonly jitter?: boolean
  }
  /**
   * Exact wait before each retry, instead of the back-off: one for all, or a list whose last one is used from there on.
   */
  readonly interval?: DurationInput | readonly [DurationInput, ...ReadonlyArray<DurationInput>]
  /** Retries go before every priority. Defaults to false. */
  readonly front?: boolean
  /** Retry only errors with one of these tags or names. Defaults to every error. */
  readonly on?: ReadonlyArray<string>
  /** Never retry errors with one of these tags or names. */
  readonly except?: ReadonlyArray<string>
}

/**
 * Where a handler runs. `inline`: in the worker's own process, at no cost. `process`: in a child process, which is
 * killed at the hard time limit, also when it blocks; input and result cross as JSON.
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
  readonly when?: "late" | "early"
  /**
   * What becomes of a job whose handler has failed, after its retries. `ack`: it has failed, and that is all. `reject`: it
   * is a dead letter too, with the error's reason. Defaults to `ack`.
   */
  readonly onFailure?: "ack" | "reject"
  /** The same for a job that ran into its hard time limit, after its retries. Defaults to `ack`. */
  readonly onTimeout?: "ack" | "reject"
}

/** What a method may say besides its handler. */
export interface MethodOptions {
  /** Names for positional arguments, so that Celery's `add.delay(2, 3)` and `{"input": {"x": 2, "y": 3}}` meet. */
  readonly params?: ReadonlyArray<string>
  /** Content types that reach the handler as bytes, undecoded (`application/x-protobuf`). */
  readonly accepts?: ReadonlyArray<string>
  readonly timeLimit?: TimeLimit
  /** Where its handler runs. `process` needs the actor's `module`. Defaults to the actor's. */
  readonly isolation?: Isolation
  /** `false`: never, not even where the handler asks for it. Defaults to no retries. */
  readonly retry?: RetryPolicy | false
  /**
   * What becomes of a job whose worker died while it ran. `redeliver`: it runs again, until as many workers have died of
   * it as the worker's `lostCap` says. `fail`: the attempt has failed with `WorkerLost`, and the retry policy says what
   * follows. That costs a write before each first attempt. Defaults to `redeliver`; of no use with `acks.when: "early"`.
   */
  readonly onLost?: "redeliver" | "fail"
  /** When its tasks leave their queue, and what becomes of those that fail. */
  readonly acks?: AckPolicy
  /** Queue of tasks that name none. Defaults to the actor's queue. */
  readonly queue?: string
  /** Priority of tasks that name none, 0–9, 9 first. Defaults to 4. */
  readonly priority?: number
  /**
   * How often it may start on each worker, evenly spaced: `"100/s"`, `"10/m"`, `"1/h"`, or a number per second (as Celery's
   * `rate_limit`). What may not start yet goes back to the queue, uncounted. Defaults to no limit.
   */
  readonly rate?: RateInput
  /** How long a success is kept. 0: not at all; negative: for ever. Defaults to 24 hours. */
  readonly resultTtl?: DurationInput
  /** How long a failure is kept. Defaults to 7 days. */
  readonly failureTtl?: DurationInput
  /** Hides arguments in log lines: all of them, or those with these names at any depth. Defaults to none. */
  readonly redact?: boolean | ReadonlyArray<string>
  /** One sentence for people; shown in lists and in the OpenAPI document. */
  readonly description?: string
}

/** Names of the fields of an input, where its type tells. */
type FieldOf<Input> = unknown extends Input ? string : Input extends object ? keyof Input & string : never

/**
 * What all workers of a board together keep to: `rate`, `concurrency` or both. What may not run yet waits without a handler,
 * or goes back to the queue, uncounted, and others run meanwhile.
 */
export interface Limit<Input = unknown> {
  /** How often it may start, evenly spaced; written like a method's `rate`. */
  readonly rate?: RateInput
  /** How many may run at a time, 1–100,000. The slots of a worker that has died come back after a lease. */
  readonly concurrency?: number
  /**
   * Whose limit it is: a tenant, a host. Each text, 1–255 bytes, has a limit of its own. The name of a field of the input, so
   * that the key is known without reading the input; or a function, which gets what the handler gets. Of an isolated method
   * both see the input before its schema. A job for which there is no such text fails. Without a key there is one limit for
   * all.
   */
  readonly key?: FieldOf<Input> | Bivariant<[input: Input]>
}

/**
 * What a method does when one of its attempts has ended, before that is stored, in the process that runs the handler. What
 * the hooks answer with is awaited (a value, a promise or an Effect) within the attempt's time limits; what they throw
 * counts as if the handler had thrown it. They run for each attempt, and are no promise: a worker may die before them, and
 * the outcome may be refused after them. What must not be lost is a callback or an errback of the task.
 *
 * None runs for an attempt that was ended from outside (cancelled, hard time limit, handed back), nor where the handler was
 * never called (its input was refused) or its process died.
 */
export interface MethodHooks<Use = unknown> {
  /**
   * The handler succeeded, and its result is what the `output` schema made of it and can be stored. When it throws, the
   * attempt failed with that error, and `onFailure` runs. Not after `Ignore`.
   */
  readonly onSuccess?: Bivariant<[result: unknown, job: Job<Use>]>
  /**
   * The attempt failed with this error, whether or not another follows. When it throws, what it throws is the error on
   * record. Not after `Retry` and `Ignore`.
   */
  readonly onFailure?: Bivariant<[error: unknown, job: Job<Use>]>
  /**
   * The job was cancelled while its handler ran: at most once, in the worker's own process, also when the handler had one
   * of its own (where all methods are isolated, `job.use` is undefined). What it throws is logged. It has 10 seconds.
   */
  readonly onStopped?: Bivariant<[job: Job<Use>]>
}

/** A function that may say itself what its parameters are. */
type Bivariant<A extends ReadonlyArray<unknown>> = { hook(...args: A): unknown }["hook"]

/** A method with options. `Input` is what the handler gets. */
export interface MethodDefinition<Input = unknown, Use = unknown> extends MethodOptions, MethodHooks<Use> {
  /**
   * Checks and converts the input: any Standard Schema (Zod, Valibot, ArkType …), or an Effect Schema as it is. Without
   * one nothing is checked: the handler's own annotation of its first parameter is what callers may send.
   */
  readonly input?: MethodSchema<unknown, Input>
  /** Checks and converts the result before it is stored. */
  readonly output?: MethodSchema
  /** Limits across the cluster, per tenant if it says so. Defaults to none. */
  readonly limit?: Limit<Input>
  readonly run: MethodHandler<Input, Use>
}

/**
 * A method without options: only the handler, which gives a value, a promise of one, or an Effect that needs nothing
 * from outside. The parameters are bivariant, so that a handler without a schema may say itself what its input is.
 */
export type MethodHandler<Input, Use> = {
  handler(input: Input, job: Job<Use>): unknown
}["handler"]

/** What an actor's `start` can do besides returning its resources. */
export interface ActorScope {
  readonly actor: string
  /** Runs when the actor stops, last added first. */
  onStop(release: () => void | PromiseLike<void>): void
  /** Fires when the actor stops, before resources are released. */
  readonly signal: AbortSignal
  /** Says that a resource is broken (a connection that is lost for good): the actor is stopped and started anew. */
  readonly fail: (cause: unknown) => void
}

/** How an actor whose `start` failed, or whose resource broke, is started again. */
export interface RestartPolicy {
  /** Failures within the period after which it counts as unhealthy, 0–1,000. Starts go on, at the longest wait. Defaults to 5. */
  readonly max?: number
  /** The period. Defaults to 1 minute. */
  readonly within?: DurationInput
  readonly backoff?: {
    /** Wait before the first restart; doubles each time. Defaults to 1 second. */
    readonly base?: DurationInput
    /** Longest wait. Defaults to 30 seconds. */
    readonly max?: DurationInput
  }
}

export interface ActorOptions<Use> {
  /** Queue of tasks that name none. Defaults to `default`. */
  readonly queue?: string
  /** Where the handlers of its methods run, unless a method says otherwise. Defaults to `inline`. */
  readonly isolation?: Isolation
  /**
   * The file that exports this actor, as a URL: `import.meta.url`. Child processes load the actor from it, so loading it
   * must have no other effect. Needed for isolation, except for actors that are found in a folder.
   */
  readonly module?: string
  /**
   * Acquires what the methods share; they find it in `job.use`. Runs once per process that runs methods of the actor:
   * the worker itself, unless all methods are isolated, and each child process.
   */
  readonly start?: (scope: ActorScope) => Use | PromiseLike<Use>
  /** Releases it. Runs after the last handler has ended. */
  readonly stop?: (use: NoInfer<Use>) => void | PromiseLike<void>
  readonly restart?: RestartPolicy
  readonly description?: string
}

/** An actor as the runtime sees it: names and handlers, types erased. */
export interface ActorDefinition {
  readonly _tag: "Actor"
  readonly name: string
  readonly queue: string | undefined
  readonly description: string | undefined
  /** URL of the file that exports it, where that is known. */
  readonly module: string | undefined
  readonly start: ((scope: ActorScope) => unknown) | undefined
  readonly stop: ((use: unknown) => unknown) | undefined
  readonly restart: RestartPolicy | undefined
  readonly methods: ReadonlyMap<string, ErasedMethod>
}

/** A method as the runtime sees it. */
export interface ErasedMethod extends Omit<MethodOptions, "retry" | "rate">, MethodHooks {
  /** Name of the actor that it belongs to. */
  readonly actor: string
  readonly name: string
  readonly retry?: RetryHeader
  readonly rate?: Rate
  readonly limit?: MethodLimit
  readonly input: StandardSchemaV1 | undefined
  readonly output: StandardSchemaV1 | undefined
  readonly isolation: Isolation
  readonly run: (input: unknown, job: Job<unknown>) => unknown
}

/** Whether tasks of a method are taken off their queue before their handlers start. */
export const acksEarly = ({ acks }: ErasedMethod): boolean => acks?.when === "early"
