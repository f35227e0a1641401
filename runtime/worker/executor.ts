/**
 * One delivery from hand to settlement: read → claim → route → decode → check → run → judge. Each step either goes on
 * or ends with the settlement that says how; the settlement is then stored by the settler, late, once.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { Cause, Effect, Exit, Fiber, Result } from "effect"
import type { ErasedMethod, TimeLimit } from "../actor.ts"
import type { Client } from "../client.ts"
import { Ignore, Reject, Retry } from "../control.ts"
import type { Log } from "../log.ts"
import { decodeBody } from "../protocol/body.ts"
import { LANG, parseTask, postingOfTask, type Task } from "../protocol/headers.ts"
import { selectInput } from "../protocol/input.ts"
import { isUndecodable, type Posting } from "../protocol/message.ts"
import { toProtocol2 } from "../protocol/protocol1.ts"
import { claimed, type JobError, type JobRecord, started } from "../protocol/record.ts"
import { parseDuration } from "../protocol/time.ts"
import type { Claim, Claimed, Delivery, Settlement } from "../transport.ts"
import type { ActorPool } from "./actor-pool.ts"
import type { Batcher } from "./batcher.ts"
import { type Held, Running } from "./delivery.ts"
import { JobContext } from "./job-context.ts"
import { jobError } from "./job-error.ts"
import { askedRetryAfter, resolveRetry, retryAfter } from "./retry.ts"
import { UnknownTasks } from "./unknown-tasks.ts"
import * as verdict from "./verdict.ts"

export interface ExecutorOptions {
  readonly pool: ActorPool
  readonly claims: Batcher<Claim, Claimed>
  readonly client: Client
  readonly log: Log
  readonly worker: string
  readonly keep: verdict.Keep
  /** Claims without an outcome after which a job is given up. */
  readonly lostCap: number
  readonly unknownGraceMs: number
  /** Largest body, in bytes, also after decompression. */
  readonly maxBody: number
  /** Queue of the workers of another language, by the `lang` header. */
  readonly languages: ReadonlyMap<string, string>
  /** Called when the handler of a task is about to run. */
  readonly onRun: (held: Held) => void
}

/** Hard time limit of methods and tasks that name none: every run has an end. */
export const DEFAULT_HARD_MS = 30 * 60_000

/** Nothing to settle: the delivery is not ours any more. */
const NOTHING = undefined

/** Thrown inside an attempt to end it with a settlement; never seen outside of this file. */
class Decided {
  readonly settlement: Settlement | undefined
  constructor(settlement: Settlement | undefined) {
    this.settlement = settlement
  }
}

export class Executor {
  readonly #options: ExecutorOptions
  readonly #unknown: UnknownTasks
  /** What a method's options come to, worked out once. */
  readonly #plans = new WeakMap<ErasedMethod, MethodPlan>()

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#unknown = new UnknownTasks(options.unknownGraceMs)
  }

  /** Runs a delivery to its end and returns how to settle it; `undefined` when there is nothing to settle. Never fails. */
  execute(held: Held): Effect.Effect<Settlement | undefined> {
    return Effect.gen({ self: this }, function* () {
      const ready = yield* this.#prepare(held)
      if (!(ready instanceof Ready)) return ready.settlement
      // Decided from outside while it was being prepared.
      if (held.stop === "cancelled") return { token: held.delivery.token, then: { kind: "ack" } } satisfies Settlement
      const exit = yield* this.#invoke(held, ready)
      return yield* this.#judge(held, ready, exit)
    }).pipe(Effect.catchCause((cause) => Effect.succeed(this.#fault(held, cause))))
  }

  /** Everything before the handler. */
  readonly #prepare = Effect.fnUntraced(function* (this: Executor, held: Held) {
    const { delivery } = held
    const options = this.#options
    const now = Date.now()
    const read = readTask(delivery)
    if (Result.isFailure(read)) {
      const { reason, message, raw } = read.failure
      const { token, fence, queue } = delivery
      return new Decided(verdict.undecodable({ token, fence, queue, raw }, reason, message, now))
    }
    const { task, posting } = read.success
    let before = verdict.waiting(posting, task, now)
    let isClaimed = false
    if (!delivery.fresh) {
      const answer = yield* Effect.promise(() =>
        options.claims.add({
          token: delivery.token,
          id: posting.id,
          run: posting.run,
          retries: posting.retries,
          worker: options.worker,
          at: now,
          posting,
        }),
      )
      switch (answer.status) {
        case "superseded":
          return new Decided(NOTHING)
        case "failed":
          options.log.warn("a job could not be claimed", { job: posting.id, cause: answer.error.message })
          return new Decided({ token: delivery.token, then: { kind: "release", delay: 1_000 } })
        case "finished":
          // Somebody decided it and may have died before its follow-ups were out: publishing is idempotent.
          return new Decided({
            token: delivery.token,
            ...(answer.record.followUps === undefined ? {} : { followUps: answer.record.followUps }),
            then: { kind: "ack" },
          })
        case "claimed":
          isClaimed = true
          if (answer.record !== undefined) before = answer.record
      }
    }
    const claims = before.claims ?? 0
    const attempt = (record: JobRecord): verdict.Attempt => ({
      token: delivery.token,
      fence: delivery.fence,
      posting,
      task,
      record,
      now,
      keep: options.keep,
    })
    if (isClaimed && claims >= options.lostCap) {
      const error: JobError = {
        name: "WorkerLost",
        message: `its worker died ${claims} times while it ran`,
        reason: "worker-lost",
      }
      return new Decided(verdict.failed(attempt(before), error, "worker-lost"))
    }
    if (task.expires !== null && task.expires <= now) return new Decided(verdict.expired(attempt(before)))

    const target = options.pool.resolve(task.task, task.meth)
    const begins = { fence: delivery.fence, worker: options.worker, at: now }
    const record = isClaimed ? claimed(before, begins) : started(before, begins)
    if (!target.found)
      return new Decided(this.#unknownTask(posting, task, attempt(record), attempt(before), isClaimed, target.message))

    const { method } = target
    const body = decodeBody(posting.message, { accepts: method.accepts ?? [], maxBytes: options.maxBody })
    if (Result.isFailure(body)) {
      const { reason, message: detail } = body.failure
      return new Decided(verdict.failed(attempt(record), { name: "Undecodable", message: detail, reason }, reason))
    }
    const selected = selectInput(body.success, method.params)
    if (Result.isFailure(selected))
      return new Decided(
        verdict.failed(attempt(record), invalidInput(selected.failure.message, selected.failure.field)),
      )
    const checked = method.input === undefined ? selected : yield* validate(method.input, selected.success)
    if (Result.isFailure(checked))
      return new Decided(verdict.failed(attempt(record), invalidInput(checked.failure.message, checked.failure.field)))

    const plan = this.#plan(method)
    const hard = task.timelimit.hard === null ? plan.hardMs : task.timelimit.hard * 1000
    const soft = task.timelimit.soft === null ? plan.softMs : task.timelimit.soft * 1000
    const running = new Running({
      posting,
      task,
      method,
      record,
      claimed: isClaimed,
      startedAt: now,
      hardAt: now + hard,
      softAt: soft === undefined ? Number.POSITIVE_INFINITY : now + soft,
    })
    return new Ready(
      running,
      checked.success,
      new JobContext(running, target.actor, target.use, options.client, options.log),
    )
  })

  /** Runs the handler. Its exit is what came of it; an interruption has its reason in `run.stop`. */
  #invoke(held: Held, ready: Ready): Effect.Effect<Exit.Exit<unknown, unknown>> {
    const { run } = ready
    held.run = run
    this.#options.onRun(held)
    let answer: unknown
    try {
      answer = run.method.run(ready.input, ready.job)
    } catch (thrown) {
      return Effect.succeed(Exit.fail(thrown))
    }
    if (Effect.isEffect(answer)) {
      // A handler's Effect needs nothing from outside; its failures and defects are the attempt's own.
      const fiber = Effect.runFork(answer as Effect.Effect<unknown, unknown>)
      run.interrupt = () => fiber.interruptUnsafe()
      return Fiber.await(fiber)
    }
    if (!isPromiseLike(answer)) return Effect.succeed(Exit.succeed(answer))
    const promise = Promise.resolve(answer)
    run.pending = promise
    return Effect.callback<Exit.Exit<unknown, unknown>>((resume) => {
      const done = (exit: Exit.Exit<unknown, unknown>) => {
        run.pending = undefined
        resume(Effect.succeed(exit))
      }
      promise.then(
        (value) => done(Exit.succeed(value)),
        (thrown: unknown) => done(Exit.fail(thrown)),
      )
      // A promise cannot be stopped, only left: it stays pending, and keeps its slot until it settles.
      run.interrupt = () => resume(Effect.succeed(Exit.interrupt()))
    })
  }

  /** The settlement for what came of the handler. */
  readonly #judge = Effect.fnUntraced(function* (
    this: Executor,
    held: Held,
    ready: Ready,
    exit: Exit.Exit<unknown, unknown>,
  ) {
    const { run } = ready
    if (run.stop !== undefined) return this.#stopped(held, run)
    const attempt = this.#attempt(held, run)
    if (Exit.isFailure(exit)) return this.#failure(attempt, run, thrownOf(exit.cause))
    const { output } = run.method
    const checked = output === undefined ? Result.succeed(exit.value) : yield* validate(output, exit.value)
    if (Result.isFailure(checked)) {
      const { message, field } = checked.failure
      return verdict.failed(attempt, {
        name: "InvalidResult",
        message,
        reason: "invalid-result",
        ...(field === "" ? {} : { field }),
      })
    }
    const result = jsonForm(checked.success)
    return Result.isSuccess(result)
      ? verdict.succeeded(attempt, result.success)
      : verdict.failed(attempt, {
          name: "UnserialisableResult",
          message: result.failure,
          reason: "result-unserialisable",
        })
  })

  /** The settlement of a run that was ended from outside. */
  #stopped(held: Held, run: Running): Settlement | undefined {
    const attempt = this.#attempt(held, run)
    switch (run.stop) {
      case "timeout": {
        const seconds = (run.hardAt - run.startedAt) / 1000
        const error: JobError = {
          name: "TimeLimitExceeded",
          message: `it ran longer than its hard limit of ${seconds} s`,
          reason: "timeout",
        }
        return this.#givenUpOrRetried(attempt, run, error)
      }
      case "hand-back":
        return verdict.handedBack({ ...attempt, record: run.record }, run.claimed, 0)
      case "cancelled":
        // The record says so already; only the task is left to take off the queue.
        return { token: held.delivery.token, then: { kind: "ack" } }
      default:
        return NOTHING
    }
  }

  #failure(attempt: verdict.Attempt, run: Running, thrown: unknown): Settlement {
    if (thrown instanceof Ignore) return verdict.succeeded(attempt, undefined)
    if (thrown instanceof Reject) return verdict.failed(attempt, jobError(thrown, "rejected"), "rejected")
    if (thrown instanceof Retry) {
      const error = jobError(thrown.cause ?? thrown)
      const after = thrown.after === undefined ? undefined : Result.getOrElse(parseDuration(thrown.after), () => 0)
      const wait = askedRetryAfter(this.#retry(run), after, run.posting.retries, Math.random())
      return wait === undefined ? verdict.failed(attempt, error) : verdict.retried(attempt, error, wait)
    }
    return this.#givenUpOrRetried(attempt, run, jobError(thrown))
  }

  #givenUpOrRetried(attempt: verdict.Attempt, run: Running, error: JobError): Settlement {
    const wait = retryAfter(this.#retry(run), error, run.posting.retries, Math.random())
    return wait === undefined ? verdict.failed(attempt, error) : verdict.retried(attempt, error, wait)
  }

  #retry(run: Running): ReturnType<typeof resolveRetry> {
    return resolveRetry(run.task.own.retry, run.method.retry)
  }

  #attempt(held: Held, run: Running): verdict.Attempt {
    return {
      token: held.delivery.token,
      fence: held.delivery.fence,
      posting: run.posting,
      task: run.task,
      record: run.progress === undefined ? run.record : { ...run.record, progress: run.progress },
      now: Date.now(),
      keep: this.#options.keep,
    }
  }

  /** Rule 15: another language's task is forwarded; else it waits for a deploy to arrive, then is given up. */
  #unknownTask(
    posting: Posting,
    task: Task,
    begun: verdict.Attempt,
    waiting: verdict.Attempt,
    isClaimed: boolean,
    problem: string,
  ): Settlement {
    const foreign = task.lang !== null && task.lang !== LANG
    const queue = foreign ? this.#options.languages.get(task.lang) : undefined
    if (queue !== undefined && queue !== posting.queue) return verdict.forwarded(waiting, queue)
    const giveUp = (message: string) =>
      verdict.failed(waiting, { name: "NotRegistered", message, reason: "unknown-actor" }, "unknown-actor")
    if (foreign && queue === undefined && task.lang !== "py") {
      return giveUp(`${problem}, and no queue is configured for language ${JSON.stringify(task.lang)}`)
    }
    const wait = this.#unknown.waitFor(posting.id, waiting.now)
    return wait === undefined
      ? giveUp(`${problem}, and no worker that serves it came within ${this.#options.unknownGraceMs / 1000} s`)
      : verdict.handedBack(begun, isClaimed, wait)
  }

  /** A fault of our own: the job is given back rather than lost or failed for it. */
  #fault(held: Held, cause: Cause.Cause<unknown>): Settlement | undefined {
    this.#options.log.error("a task could not be processed and is handed back", {
      job: held.id,
      cause: Cause.pretty(cause),
    })
    return { token: held.delivery.token, then: { kind: "release", delay: 5_000 } }
  }

  #plan(method: ErasedMethod): MethodPlan {
    let plan = this.#plans.get(method)
    if (plan === undefined) {
      plan = planOf(method.timeLimit)
      this.#plans.set(method, plan)
    }
    return plan
  }
}

/** What came and is no task: kept as bytes, with the reason. */
interface Unreadable {
  readonly reason: "undecodable" | "invalid-task"
  readonly message: string
  readonly raw: Uint8Array
}

/** The task of a delivery, from headers and properties alone; protocol 1 is converted first. */
const readTask = (
  delivery: Delivery,
): Result.Result<{ readonly task: Task; readonly posting: Posting }, Unreadable> => {
  const { message } = delivery
  if (isUndecodable(message)) {
    return Result.fail({ reason: "undecodable", message: message.undecodable, raw: message.raw })
  }
  const invalid = (problem: { readonly message: string }): Unreadable => ({
    reason: "invalid-task",
    message: problem.message,
    raw: message.body,
  })
  const converted = toProtocol2(message, { localOffset })
  if (Result.isFailure(converted)) return Result.fail(invalid(converted.failure))
  const parsed = parseTask(converted.success)
  if (Result.isFailure(parsed)) return Result.fail(invalid(parsed.failure))
  const posting = postingOfTask(parsed.success, converted.success, delivery.queue)
  if (Result.isFailure(posting)) return Result.fail(invalid(posting.failure))
  return Result.succeed({ task: parsed.success, posting: { ...posting.success, level: delivery.level } })
}

/** This host's zone at a wall-clock time: what protocol 1 means by `utc: false`. */
const localOffset = (wallClockMs: number): number => -new Date(wallClockMs).getTimezoneOffset() * 60_000

/** A task that may run. */
class Ready {
  readonly run: Running
  readonly input: unknown
  readonly job: JobContext
  constructor(run: Running, input: unknown, job: JobContext) {
    this.run = run
    this.input = input
    this.job = job
  }
}

interface MethodPlan {
  readonly hardMs: number
  readonly softMs: number | undefined
}

const planOf = (limit: TimeLimit | undefined): MethodPlan => {
  const given: { readonly soft?: number | string; readonly hard?: number | string } =
    typeof limit === "object" ? limit : limit === undefined ? {} : { hard: limit }
  // Checked when the actor was defined.
  const ms = (value: number | string | undefined) =>
    value === undefined ? undefined : Result.getOrUndefined(parseDuration(value))
  return { hardMs: ms(given.hard) ?? DEFAULT_HARD_MS, softMs: ms(given.soft) }
}

const isPromiseLike = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === "object" && value !== null && "then" in value && typeof value.then === "function"

/** What a handler failed with: its error, or the defect. */
const thrownOf = (cause: Cause.Cause<unknown>): unknown => Cause.squash(cause)

interface InvalidValue {
  readonly field: string
  readonly message: string
}

const invalidInput = (message: string, field: string): JobError => ({
  name: "InvalidInput",
  message,
  reason: "invalid-input",
  ...(field === "" ? {} : { field }),
})

/** Checks a value with any Standard Schema; the failure names the field. */
const validate = (schema: StandardSchemaV1, value: unknown): Effect.Effect<Result.Result<unknown, InvalidValue>> => {
  const judge = (answer: StandardSchemaV1.Result<unknown>): Result.Result<unknown, InvalidValue> => {
    if (answer.issues === undefined) return Result.succeed(answer.value)
    const issue = answer.issues[0]
    const field = (issue?.path ?? []).map((key) => String(typeof key === "object" ? key.key : key)).join(".")
    const message = issue?.message ?? "is not valid"
    return Result.fail({ field, message: field === "" ? message : `${field}: ${message}` })
  }
  const broken = (thrown: unknown) =>
    Result.fail({ field: "", message: `the schema itself failed: ${jobError(thrown).message}` })
  try {
    const answer = schema["~standard"].validate(value)
    if (!isPromiseLike(answer)) return Effect.succeed(judge(answer))
    return Effect.promise(() => Promise.resolve(answer).then(judge, broken))
  } catch (thrown) {
    return Effect.succeed(broken(thrown))
  }
}

/** A result as a record can hold it. Fails on what JSON cannot say: cycles, BigInt, functions as the whole. */
const jsonForm = (value: unknown): Result.Result<unknown, string> => {
  if (value === undefined || value === null || typeof value === "string" || typeof value === "boolean")
    return Result.succeed(value)
  try {
    const text: string | undefined = JSON.stringify(value)
    return text === undefined
      ? Result.fail(`the result is a ${typeof value}, which cannot be stored; return JSON`)
      : Result.succeed(JSON.parse(text))
  } catch (cause) {
    return Result.fail(`the result cannot be stored as JSON: ${cause instanceof Error ? cause.message : String(cause)}`)
  }
}
