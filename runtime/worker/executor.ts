/**
 * One delivery from hand to settlement: read → claim → route → decode → check → run → judge. Each step either goes on
 * or ends with the settlement that says how; the settlement is then stored by the settler, late, once.
 */
import { Cause, Effect, Exit, Result } from "effect"
import type { ErasedMethod } from "../actor.ts"
import type { Client } from "../client.ts"
import { Ignore, Reject, Retry } from "../control.ts"
import type { EventSender } from "../events.ts"
import { generateId } from "../id.ts"
import type { Log } from "../log.ts"
import { decodeBody, type Embed, NO_EMBED } from "../protocol/body.ts"
import { LANG, type Task } from "../protocol/headers.ts"
import { selectInput } from "../protocol/input.ts"
import { type Posting, publishKey } from "../protocol/message.ts"
import { claimed, type JobError, type JobRecord, started } from "../protocol/record.ts"
import { parseDuration } from "../protocol/time.ts"
import type { Claim, Claimed, Settlement } from "../transport.ts"
import type { ActorPool } from "./actor-pool.ts"
import { attempt } from "./attempt.ts"
import type { Batcher } from "./batcher.ts"
import { type InvalidValue, validate } from "./check.ts"
import { insist } from "./claiming.ts"
import { type Held, Running } from "./delivery.ts"
import type { Taking } from "./early-acks.ts"
import { afterFailure, afterSuccess, type Ended, embedProblem } from "./follow-ups.ts"
import { readTask } from "./intake.ts"
import type { ProcessPool } from "./isolation/process-pool.ts"
import { JobContext } from "./job-context.ts"
import { jobError, readable } from "./job-error.ts"
import { KnownFailure } from "./known-failure.ts"
import type { Admission, Limiter } from "./limits/limiter.ts"
import type { PutOff } from "./put-offs.ts"
import { askedRetryAfter, intervalAt, resolveRetry, retryAfter } from "./retry.ts"
import type { ServedActor } from "./served-actor.ts"
import { softLimitError } from "./soft-limit.ts"
import { tellStopped } from "./stopped.ts"
import { UnknownTasks } from "./unknown-tasks.ts"
import * as verdict from "./verdict.ts"

export interface ExecutorOptions {
  readonly pool: ActorPool
  /** Runs the handlers of isolated methods. */
  readonly processes: ProcessPool
  readonly claims: Batcher<Claim, Claimed>
  readonly limiter: Limiter
  readonly client: Client
  /** Tells the events of handlers. */
  readonly events: EventSender
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
  /** Whether a task falls under a revocation by header. */
  readonly isRevoked: (task: Task) => boolean
  /** Stores the record of a job that starts, and takes its task off the queue. */
  readonly take: (held: Held, record: JobRecord) => Promise<Taking>
  /** Called when the handler of a task is about to run. */
  readonly onRun: (held: Held) => void
  /** Called when a task is handed back because it cannot run now. */
  readonly onPutOff: (putOff: PutOff) => void
}

/** Hard time limit of methods and tasks that name none: every run has an end. */
export const DEFAULT_HARD_MS = 30 * 60_000

/** How long a task whose actor is down waits before it is delivered again. */
const ACTOR_DOWN_DELAY_MS = 2_000

/** How long a task that could not be claimed waits before it is delivered again. */
const UNCLAIMED_DELAY_MS = 1_000

/** Workers that forward a task to each other's queues would never end: after so many moves it is unknown. */
const MAX_HOPS = 10

/** Time limits of a method, in milliseconds; null: none beyond the hard one. */
export interface TimeLimits {
  readonly hardMs?: number
  readonly softMs?: number | null
}

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
      held.whenLeft(ready.actor.enter())
      if (held.stop === undefined && acksEarly(ready.run.method)) {
        const decided = yield* Effect.promise(() => this.#take(held, ready.run))
        if (decided !== undefined) return decided.settlement
      }
      // Decided from outside while it was being prepared: its handler must not begin.
      if (held.stop !== undefined) {
        ready.run.end(held.stop)
        return this.#stopped(held, ready.run)
      }
      held.run = ready.run
      this.#options.onRun(held)
      const exit = yield* this.#call(ready)
      if (ready.run.stop === "cancelled") yield* tellStopped(ready.run.method, ready.job)
      return this.#judge(held, ready.run, exit)
    }).pipe(Effect.catchCause((cause) => Effect.succeed(this.#fault(held, cause))))
  }

  #call({ run, input, job, actor }: Ready): Effect.Effect<Exit.Exit<unknown, unknown>> {
    return run.method.isolation === "inline"
      ? attempt(run, input, job)
      : this.#options.processes.run(actor.definition, run, input, job)
  }

  /** Takes the task off its queue, before its handler starts: at most once. Decided, where the handler must not. */
  async #take(held: Held, run: Running): Promise<Decided | undefined> {
    // That may take a while; the handler gets all of its time.
    run.hold()
    const record: JobRecord = { ...run.record, acked: true, message: run.posting.message }
    const taking = await this.#options.take(held, record)
    switch (taking) {
      case "taken":
        run.record = record
        run.begin(Date.now())
        return undefined
      case "unlisted":
        if (held.stop !== undefined) return undefined
        return new Decided(verdict.handedBack(this.#attempt(held, run), run.claimed, UNCLAIMED_DELAY_MS))
      default:
        return new Decided(NOTHING)
    }
  }

  /** Everything before the handler. */
  readonly #prepare = Effect.fnUntraced(function* (this: Executor, held: Held) {
    const { delivery } = held
    const options = this.#options
    const now = Date.now()
    const intake = readTask(delivery)
    if (Result.isFailure(intake)) {
      const { token, fence, queue } = delivery
      // Under its own id only where nothing else can be known under that id: it may name a job that is not its own.
      const id = delivery.fresh ? held.id : undefined
      return new Decided(verdict.unreadable({ token, fence, queue, id }, intake.failure, now))
    }
    const { task, posting } = intake.success
    const target = options.pool.resolve(task.task, task.meth)
    if (target.found) held.method = target.method
    let before = verdict.waiting(posting, task, now)
    const attempt = (record: JobRecord): verdict.Attempt => ({
      token: delivery.token,
      fence: delivery.fence,
      posting,
      task,
      record,
      now,
      keep: options.keep,
    })
    const begins = { fence: delivery.fence, worker: options.worker, at: now }
    let isClaimed = false
    // Before the claim, so that a task that goes back and comes again many times leaves no trace.
    const mustAsk =
      target.found &&
      options.limiter.limits(target.method, () => nameOf(target)) &&
      (task.expires === null || task.expires > now) &&
      !options.isRevoked(task)
    const admission = mustAsk ? yield* this.#admit(held, target, posting) : undefined
    if (admission?.refused !== undefined) {
      const { delayMs, by } = admission.refused
      options.onPutOff({ id: posting.id, until: Date.now() + delayMs, ...by })
      return new Decided({ token: delivery.token, then: { kind: "release", delay: delayMs } })
    }
    const endsOnLoss = target.found && target.method.onLost === "fail" && !acksEarly(target.method)
    // Of a first delivery nothing would be known after its worker has died: that is the hot path, and only where it may be.
    if (!delivery.fresh || endsOnLoss) {
      const claim = {
        token: delivery.token,
        id: posting.id,
        run: posting.run,
        retries: posting.retries,
        worker: options.worker,
        at: now,
        posting,
      }
      const answer = yield* Effect.promise(() => insist(options.claims, claim, () => held.stop !== undefined))
      switch (answer.status) {
        case "superseded":
          return new Decided(NOTHING)
        case "failed": {
          const { message: cause, outcome } = answer.error
          options.log.warn("a job could not be claimed", { job: posting.id, cause })
          // It never ran: a claim that may be stored all the same is closed, where it is known what it would have replaced.
          const doubtful = delivery.fresh && outcome === "unknown"
          return new Decided(verdict.handedBack(attempt(claimed(before, begins)), doubtful, UNCLAIMED_DELAY_MS))
        }
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
    if (isClaimed && claims >= (endsOnLoss ? 1 : options.lostCap)) {
      const often = claims === 1 ? "its worker died" : `its worker died at least ${claims} times`
      const error: JobError = { name: "WorkerLost", message: `${often} while it ran`, reason: "worker-lost" }
      const lost = attempt(before)
      return new Decided(
        (endsOnLoss ? this.#retried(lost, target.method, error) : undefined) ??
          this.#givenUp(lost, this.#embedOf(posting), error, "worker-lost"),
      )
    }
    if (task.expires !== null && task.expires <= now) return new Decided(verdict.expired(attempt(before)))
    if (options.isRevoked(task)) return new Decided(verdict.revoked(attempt(before)))

    const record = isClaimed ? claimed(before, begins) : started(before, begins)
    if (!target.found)
      return new Decided(this.#unknownTask(posting, task, attempt(record), attempt(before), isClaimed, target.message))

    const { method, actor } = target
    // Uncounted: that its actor is down is no failing of the job.
    if (actor.condition !== "ready") {
      const until = now + ACTOR_DOWN_DELAY_MS
      options.onPutOff({ id: posting.id, reason: "actor-unhealthy", until, detail: actor.trouble })
      return new Decided(verdict.handedBack(attempt(record), isClaimed, ACTOR_DOWN_DELAY_MS))
    }
    const read = admission?.input ?? (yield* this.#readInput(posting, method))
    if (Result.isFailure(read)) return new Decided(read.failure(attempt(record)))
    const { embed, input } = read.success

    const plan = this.#plan(method)
    const hard = task.timelimit.hard === null ? plan.hardMs : task.timelimit.hard * 1000
    const soft = task.timelimit.soft === null ? plan.softMs : task.timelimit.soft * 1000
    const running = new Running({
      posting,
      task,
      method,
      embed,
      record,
      claimed: isClaimed,
      startedAt: now,
      hardAt: now + hard,
      softAt: soft === undefined ? Number.POSITIVE_INFINITY : now + soft,
    })
    return new Ready(running, input, actor, new JobContext(running, actor.definition.name, actor.use, options))
  })

  /** What the handler gets, checked, and what follows the job. The failure is how a task is settled that has none. */
  readonly #readInput = Effect.fnUntraced(function* (
    this: Executor,
    posting: Posting,
    method: ErasedMethod,
  ): Effect.fn.Return<InputRead> {
    const body = decodeBody(posting.message, { accepts: method.accepts ?? [], maxBytes: this.#options.maxBody })
    if (Result.isFailure(body)) {
      const { reason, message } = body.failure
      return Result.fail((attempt) =>
        verdict.failed(attempt, { name: "Undecodable", message, reason }, { dead: reason }),
      )
    }
    const { embed } = body.success
    const problem = embedProblem(embed, posting.id)
    if (problem !== undefined) {
      const error = { name: "Unsupported", message: problem, reason: "unsupported" }
      return Result.fail((attempt) => verdict.failed(attempt, error, { dead: "unsupported" }))
    }
    const invalid = (value: InvalidValue): InputRead =>
      Result.fail((attempt) => this.#givenUp(attempt, embed, invalidInput(value)))
    const selected = selectInput(body.success, method.params)
    if (Result.isFailure(selected)) return invalid(selected.failure)
    // The process of an isolated method checks by itself: what a schema makes of the input need not be JSON.
    const inline = method.isolation === "inline"
    const checked = method.input === undefined || !inline ? selected : yield* validate(method.input, selected.success)
    return Result.isFailure(checked) ? invalid(checked.failure) : Result.succeed({ embed, input: checked.success })
  })

  /** Asks the limits of a method, where it has any. `refused`: not now. */
  readonly #admit = Effect.fnUntraced(function* (
    this: Executor,
    held: Held,
    target: Target,
    posting: Posting,
  ): Effect.fn.Return<{ readonly input: InputRead; readonly refused?: Refused } | undefined> {
    const { actor, method } = target
    if (actor.condition !== "ready") return undefined
    const read = yield* this.#readInput(posting, method)
    if (Result.isFailure(read)) return { input: read }
    const { embed, input } = read.success
    const returning = held.delivery.deliveries > 1
    const admission = yield* Effect.promise(() =>
      this.#options.limiter.admit({ name: nameOf(target), method, input, returning }),
    )
    switch (admission.kind) {
      case "admitted":
        held.whenLeft(admission.release)
        return { input: read }
      case "refused":
        return { input: read, refused: admission }
      case "invalid": {
        const error = invalidInput({ field: "limit-key", message: admission.message })
        return { input: Result.fail((attempt) => this.#givenUp(attempt, embed, error)) }
      }
    }
  })

  /** The settlement for what came of the attempt. */
  #judge(held: Held, run: Running, exit: Exit.Exit<unknown, unknown>): Settlement | undefined {
    if (run.stop !== undefined) return this.#stopped(held, run)
    const attempt = this.#attempt(held, run)
    if (Exit.isFailure(exit)) return this.#failure(attempt, run, readable(Cause.squash(exit.cause)))
    // Should the transport refuse the result for good, the job fails for that, once, with its errbacks.
    held.refused = (error) => this.#givenUp(attempt, run.embed, error, rejected(run.method.acks?.onFailure, error))
    const { repeat } = run.task.own
    if (repeat !== undefined && repeat.done < repeat.times)
      return verdict.repeated(attempt, repeat, intervalAt(repeat.intervalsMs, repeat.done))
    return verdict.succeeded(attempt, exit.value, afterSuccess(run.embed, exit.value, this.#ended(attempt)))
  }

  /** The settlement of a run that was ended from outside. */
  #stopped(held: Held, run: Running): Settlement | undefined {
    const attempt = this.#attempt(held, run)
    switch (run.stop) {
      case "timeout": {
        const seconds = (run.hardAt - run.startedAt) / 1000
        const message = `it ran longer than its hard limit of ${seconds} s`
        const error = { name: "TimeLimitExceeded", message, reason: "timeout" }
        return this.#givenUpOrRetried(attempt, run, error, rejected(run.method.acks?.onTimeout, error))
      }
      case "hand-back":
        return held.offQueue
          ? this.#givenUpOrRetried(attempt, run, WORKER_STOPPED, WORKER_STOPPED.reason)
          : verdict.handedBack({ ...attempt, record: run.record }, run.claimed || run.reported, 0)
      case "cancelled":
        // The record says so already; only the task is left to take off the queue.
        return { token: attempt.token, then: { kind: "ack" } }
      default:
        return NOTHING
    }
  }

  #failure(attempt: verdict.Attempt, run: Running, thrown: unknown): Settlement {
    if (thrown instanceof Ignore) return verdict.succeeded(attempt, undefined)
    if (thrown instanceof Reject) return this.#givenUp(attempt, run.embed, jobError(thrown, "rejected"), "rejected")
    const { acks } = run.method
    if (thrown instanceof KnownFailure && thrown.final)
      return this.#givenUp(attempt, run.embed, thrown.error, rejected(acks?.onFailure, thrown.error))
    const asked = thrown instanceof Retry
    const error = errorOf(run, asked ? (thrown.cause ?? thrown) : thrown)
    const dead = rejected(acks?.onFailure, error)
    if (!asked) return this.#givenUpOrRetried(attempt, run, error, dead)
    const after = thrown.after === undefined ? undefined : Result.getOrElse(parseDuration(thrown.after), () => 0)
    const policy = resolveRetry(run.task.own.retry, run.method.retry)
    const wait = askedRetryAfter(policy, after, run.posting.retries, Math.random())
    return wait === undefined
      ? this.#givenUp(attempt, run.embed, error, dead)
      : verdict.retried(attempt, error, wait, policy.front)
  }

  #givenUpOrRetried(attempt: verdict.Attempt, run: Running, error: JobError, dead?: string): Settlement {
    return this.#retried(attempt, run.method, error) ?? this.#givenUp(attempt, run.embed, error, dead)
  }

  /** The next attempt, if the policies of task and method want one. */
  #retried(attempt: verdict.Attempt, method: ErasedMethod, error: JobError): Settlement | undefined {
    const policy = resolveRetry(attempt.task.own.retry, method.retry)
    const wait = retryAfter(policy, error, attempt.posting.retries, Math.random())
    return wait === undefined ? undefined : verdict.retried(attempt, error, wait, policy.front)
  }

  /** A failure for good: its errbacks are fixed in the record that says so. */
  #givenUp(attempt: verdict.Attempt, embed: Embed, error: JobError, dead?: string): Settlement {
    const followUps = afterFailure(embed, error, this.#ended(attempt))
    return verdict.failed(attempt, error, { followUps, ...(dead === undefined ? {} : { dead }) })
  }

  #ended(attempt: verdict.Attempt): Ended {
    const { task, posting, now } = attempt
    const traceparent = attempt.traceparent ?? task.traceparent
    const { pool } = this.#options
    const queueFor = (name: string, meth: string | null) => pool.queueOf(name, meth) ?? posting.queue
    return { task, now, traceparent, newId: () => generateId(now), queueFor }
  }

  #attempt(held: Held, run: Running): verdict.Attempt {
    return {
      token: held.delivery.token,
      fence: held.delivery.fence,
      posting: run.posting,
      task: run.task,
      record: run.progress === undefined ? run.record : { ...run.record, progress: run.progress },
      now: Date.now(),
      keep: this.#plan(run.method).keep,
      ...(run.trace === undefined ? {} : { traceparent: run.trace.traceparent }),
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
    const mayMove = (posting.hops ?? 0) < MAX_HOPS
    if (queue !== undefined && queue !== posting.queue && mayMove) return verdict.forwarded(waiting, queue)
    const giveUp = (message: string) => {
      const error = { name: "NotRegistered", message, reason: "unknown-actor" }
      return this.#givenUp(waiting, this.#embedOf(posting), error, "unknown-actor")
    }
    // Celery clients say `py` whoever they call: such a task may well be ours, and waits like one.
    if (foreign && queue === undefined && task.lang !== "py") {
      return giveUp(`${problem}, and no queue is configured for language ${JSON.stringify(task.lang)}`)
    }
    // Each retry has a grace of its own: the attempt before it was served somewhere.
    const wait = this.#unknown.waitFor(publishKey(posting), waiting.now)
    if (wait === undefined)
      return giveUp(`${problem}, and no worker that serves it came within ${this.#options.unknownGraceMs / 1000} s`)
    this.#options.onPutOff({
      id: posting.id,
      reason: "unknown-actor",
      until: waiting.now + wait,
      detail: `${problem}; it is given up after ${this.#options.unknownGraceMs / 1000} s without a worker that serves it`,
    })
    return verdict.handedBack(begun, isClaimed, wait)
  }

  /** What follows a task that is given up before its body was needed; nothing, where that cannot be read. */
  #embedOf(posting: Posting): Embed {
    const body = decodeBody(posting.message, { maxBytes: this.#options.maxBody })
    return Result.isSuccess(body) && embedProblem(body.success.embed, posting.id) === undefined
      ? body.success.embed
      : NO_EMBED
  }

  /** A fault of our own: the job is given back rather than lost or failed for it. */
  #fault(held: Held, cause: Cause.Cause<unknown>): Settlement | undefined {
    this.#options.log.error("a task could not be processed and is handed back", {
      job: held.id,
      cause: Cause.pretty(cause),
    })
    return { token: held.delivery.token, then: { kind: "release", delay: 5_000 } }
  }

  /** Changes a method's limits for runs that begin from now on. False if nobody here serves it. */
  limitTime(name: string, { hardMs, softMs }: TimeLimits): boolean {
    const target = this.#options.pool.resolve(name, null)
    if (!target.found) return false
    const plan = this.#plan(target.method)
    this.#plans.set(target.method, {
      ...plan,
      ...(hardMs === undefined ? {} : { hardMs }),
      ...(softMs === undefined ? {} : { softMs: softMs ?? undefined }),
    })
    return true
  }

  #plan(method: ErasedMethod): MethodPlan {
    let plan = this.#plans.get(method)
    if (plan === undefined) {
      plan = planOf(method, this.#options.keep)
      this.#plans.set(method, plan)
    }
    return plan
  }
}

/** A task that may run. */
class Ready {
  readonly run: Running
  readonly input: unknown
  readonly actor: ServedActor
  readonly job: JobContext

  constructor(run: Running, input: unknown, actor: ServedActor, job: JobContext) {
    this.run = run
    this.input = input
    this.actor = actor
    this.job = job
  }
}

/** What a task means. */
interface Target {
  readonly actor: ServedActor
  readonly method: ErasedMethod
}

/** Actor and method, joined by a dot. */
export const nameOf = ({ actor, method }: Target): string => `${actor.definition.name}.${method.name}`

type Refused = Extract<Admission, { readonly kind: "refused" }>

/** Input and follow-ups of a task, or how a task is settled that has none. */
type InputRead = Result.Result<
  { readonly embed: Embed; readonly input: unknown },
  (attempt: verdict.Attempt) => Settlement
>

/** What a method's options come to. */
interface MethodPlan {
  readonly hardMs: number
  readonly softMs: number | undefined
  readonly keep: verdict.Keep
}

const planOf = (method: ErasedMethod, keep: verdict.Keep): MethodPlan => {
  const { timeLimit, resultTtl, failureTtl } = method
  const given: { readonly soft?: number | string; readonly hard?: number | string } =
    typeof timeLimit === "object" ? timeLimit : timeLimit === undefined ? {} : { hard: timeLimit }
  // Checked when the actor was defined.
  const ms = (value: number | string | undefined) =>
    value === undefined ? undefined : Result.getOrUndefined(parseDuration(value))
  const ttl = (value: number | string | undefined) => (typeof value === "number" && value < 0 ? -1 : ms(value))
  return {
    hardMs: ms(given.hard) ?? DEFAULT_HARD_MS,
    softMs: ms(given.soft),
    keep: { resultMs: ttl(resultTtl) ?? keep.resultMs, failureMs: ttl(failureTtl) ?? keep.failureMs },
  }
}

const errorOf = (run: Running, thrown: unknown): JobError =>
  thrown instanceof KnownFailure ? thrown.error : (softLimitError(thrown, run.softReason) ?? jobError(thrown))

const acksEarly = ({ acks }: ErasedMethod): boolean => acks?.when === "early"

/** Why a job that has failed is a dead letter; nothing, where its method does not want that. */
const rejected = (choice: "ack" | "reject" | undefined, { reason }: JobError): string | undefined =>
  choice === "reject" ? reason : undefined

const WORKER_STOPPED: JobError = {
  name: "WorkerStopped",
  message: "its worker stopped while it ran, and it had left its queue: it cannot be handed back",
  reason: "worker-lost",
}

const invalidInput = ({ message, field }: InvalidValue): JobError => ({
  name: "InvalidInput",
  message,
  reason: "invalid-input",
  ...(field === "" ? {} : { field }),
})
