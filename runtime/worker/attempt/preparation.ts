/**
 * Everything before the handler: read → limits → claim → expiry and revocation → route → decode → check. Each step either
 * goes on or ends with the settlement that says how.
 */

import { Effect, Result } from "effect"
import { acksEarly } from "../../actor/definition.ts"
import type { Batcher } from "../../async/batcher.ts"
import type { Clock } from "../../async/clock.ts"
import * as verdict from "../../jobs/outcome/verdict.ts"
import { isExpired } from "../../protocol/expiry.ts"
import type { Task } from "../../protocol/headers.ts"
import { claimed, type JobRecord, started } from "../../protocol/record.ts"
import type { AttemptEnd, AttemptStart, StartAnswer } from "../../transport/lift/transport.ts"
import { type ActorPool, nameOf, type Target } from "../actors/actor-pool.ts"
import type { ServedActor } from "../actors/served-actor.ts"
import { type Held, type InputRead, Running } from "../delivery/delivery.ts"
import type { Limiter, Refusal } from "../limits/limiter.ts"
import { afterClaim, Decided, insist, NOTHING, workerLost } from "./claiming.ts"
import { embedOf, invalidInput, readInput } from "./handler-input.ts"
import { type Intake, readTask } from "./intake.ts"
import { JobContext, type JobSurroundings } from "./job-context.ts"
import type { Judgement } from "./judgement.ts"
import type { MethodPlans } from "./method-plan.ts"
import { UnknownTasks, type UnknownTasksOptions } from "./unknown-tasks.ts"

export interface PreparationOptions extends JobSurroundings, UnknownTasksOptions {
  readonly pool: ActorPool
  readonly clock: Clock
  readonly claims: Batcher<AttemptStart, StartAnswer>
  readonly limiter: Limiter
  readonly worker: string
  readonly keep: verdict.Keep
  /** Claims without an outcome after which a job is given up. */
  readonly lostCap: number
  /** Whether a task falls under a revocation by header. */
  readonly isRevoked: (task: Task) => boolean
  /** How a task is settled for which there is no room. */
  readonly putOff: (refusal: Refusal) => AttemptEnd
  /** How long a job that comes again is to be left to a living worker which may run it still, in milliseconds; 0: to none. */
  readonly holdOffMs: (id: string) => Promise<number>
  /** Called for a job that somebody else has ended, who may have died before everything that follows was done. */
  readonly onFinished: (record: JobRecord) => void
}

/** How long a task whose actor is down waits before it is delivered again. */
const ACTOR_DOWN_DELAY_MS = 2_000

/** A task that may run. */
export class Ready {
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

export class Preparation {
  readonly #options: PreparationOptions
  readonly #plans: MethodPlans
  readonly #judgement: Judgement
  readonly #unknown: UnknownTasks

  constructor(options: PreparationOptions, plans: MethodPlans, judgement: Judgement) {
    this.#options = options
    this.#plans = plans
    this.#judgement = judgement
    this.#unknown = new UnknownTasks(options, judgement)
  }

  /** The task that may run, or how its delivery is settled instead. */
  readonly prepare = Effect.fnUntraced(function* (this: Preparation, held: Held): Effect.fn.Return<Ready | Decided> {
    const { delivery } = held
    const options = this.#options
    const now = options.clock.now()
    const intake = readTask(delivery)
    if (Result.isFailure(intake)) {
      const { token, fence, queue } = delivery
      // Under its own id only where nothing else can be known under that id: it may name a job that is not its own.
      const id = delivery.fresh ? held.id : undefined
      return new Decided(verdict.unreadable({ token, fence, queue, id }, intake.failure, now, options.keep))
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
      keep: target.found ? this.#plans.of(target.method).keep : options.keep,
    })
    const begins = { fence: delivery.fence, worker: options.worker, at: now }
    let isClaimed = false
    // Before the claim, so that a task that goes back and comes again many times leaves no trace.
    const mustAsk =
      target.found &&
      options.limiter.limits(target.method, () => nameOf(target)) &&
      !isExpired(task.expires, now) &&
      !options.isRevoked(task)
    let read: InputRead | undefined
    if (target.found && (held.permit !== undefined || mustAsk)) {
      const answer = yield* this.#admit(held, target, intake.success)
      if (answer instanceof Decided) return answer
      read = answer
    }
    // Before the claim, which would refuse the outcome of the worker that runs it, and count that worker as dead.
    if (!delivery.fresh && delivery.deliveries > 1) {
      const delay = yield* Effect.promise(() => options.holdOffMs(posting.id))
      if (delay > 0) return new Decided({ token: delivery.token, then: { kind: "release", delay } })
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
      const claimant = { waiting: attempt(before), begins, fresh: delivery.fresh }
      if (answer.status === "finished") options.onFinished(answer.record)
      const known = afterClaim(answer, claimant, options.log)
      if (known instanceof Decided) return known
      isClaimed = true
      before = known
    }
    const claims = before.claims ?? 0
    if (isClaimed && claims >= (endsOnLoss ? 1 : options.lostCap)) {
      const error = workerLost(claims)
      const lost = attempt(before)
      return new Decided(
        (endsOnLoss ? this.#judgement.retried(lost, target.method, error) : undefined) ??
          this.#judgement.givenUp(lost, embedOf(posting, options.maxBody), error, "worker-lost"),
      )
    }
    if (isExpired(task.expires, now)) return new Decided(verdict.expired(attempt(before)))
    if (options.isRevoked(task)) return new Decided(verdict.revoked(attempt(before)))

    const record = isClaimed ? claimed(before, begins) : started(before, begins)
    if (!target.found)
      return new Decided(this.#unknown.settle(attempt(record), attempt(before), isClaimed, target.message))

    const { method, actor } = target
    // Uncounted: that its actor is down is no failing of the job.
    if (actor.condition !== "ready") {
      const until = now + ACTOR_DOWN_DELAY_MS
      const { id, queue } = posting
      options.onDeferral({ id, queue, reason: "actor-unhealthy", until, detail: actor.trouble })
      return new Decided(verdict.handedBack(attempt(record), isClaimed, ACTOR_DOWN_DELAY_MS))
    }
    read ??= yield* readInput(posting, method, options.maxBody)
    if (Result.isFailure(read)) {
      const { embed, error, dead } = read.failure
      return new Decided(this.#judgement.givenUp(attempt(record), embed, error, dead))
    }
    const { embed, input } = read.success

    const plan = this.#plans.of(method)
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
      hardMs: hard,
      softMs: soft ?? Number.POSITIVE_INFINITY,
      clock: options.clock,
    })
    return new Ready(running, input, actor, new JobContext(running, actor.definition.name, actor.use, options))
  })

  /** Asks the limits of a method. What its handler gets, where that was read; decided, where it is not to start now. */
  readonly #admit = Effect.fnUntraced(function* (
    this: Preparation,
    held: Held,
    target: Target,
    { posting, task, level }: Intake,
  ): Effect.fn.Return<InputRead | Decided | undefined> {
    const { actor, method } = target
    held.level = level
    const { limiter, maxBody, putOff } = this.#options
    if (held.permit !== undefined) {
      // It has waited for its limit, and may start.
      held.whenLeft(held.permit)
      held.permit = undefined
      return held.input
    }
    if (actor.condition !== "ready") return undefined
    const name = nameOf(target)
    const refusal = limiter.refuse(name, method, task.own.tenant, held)
    if (refusal !== undefined) return new Decided(putOff(refusal))
    const read = held.input ?? (yield* readInput(posting, method, maxBody))
    if (Result.isFailure(read)) return read
    const { embed, input } = read.success
    const admission = limiter.admit(name, method, input, held)
    switch (admission.kind) {
      case "admitted":
        held.whenLeft(admission.release)
        return read
      case "waits":
        held.mustWait = true
        held.task = task
        held.input = read
        return new Decided(NOTHING)
      case "invalid": {
        const error = invalidInput({ field: "limit-key", message: admission.message })
        return Result.fail({ error, embed })
      }
    }
  })
}
