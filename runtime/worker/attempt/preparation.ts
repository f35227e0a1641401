/**
 * The steps before the handler: parse → limits → claim → expiry and revocation → route → decode → validate. Each step
 * either continues or ends with the settlement to store.
 */

import { Effect, Result } from "effect"
import { acksEarly } from "../../actor/definition.ts"
import type { Batcher } from "../../async/batcher.ts"
import type { Clock } from "../../async/clock.ts"
import * as settlement from "../../jobs/outcome/settlement.ts"
import { isExpired } from "../../protocol/expiry.ts"
import type { Task } from "../../protocol/headers.ts"
import { claimed, type JobRecord, openAttempts, started } from "../../protocol/record.ts"
import { isSuspect } from "../../transport/lift/judge.ts"
import type { AttemptEnd, AttemptStart, StartAnswer } from "../../transport/lift/transport.ts"
import { type ActorPool, nameOf, type Target } from "../actors/actor-pool.ts"
import type { ServedActor } from "../actors/served-actor.ts"
import { type InFlight, type InputRead, Run } from "../delivery/in-flight.ts"
import type { Limiter, LimitRefusal } from "../limits/limiter.ts"
import {
  claimWithRetries,
  NOTHING_TO_SETTLE,
  recordAfterClaim,
  SettledWithoutRun,
  SUSPECT_DELAY_MS,
  workerLost,
} from "./claim.ts"
import { embedOf, invalidInput, readInput } from "./handler-input.ts"
import { JobContext, type JobServices } from "./job-context.ts"
import type { MethodSettingsCache } from "./method-settings.ts"
import type { OutcomeDecider } from "./outcome-decider.ts"
import { type ParsedDelivery, parseDelivery } from "./parsed-delivery.ts"
import { UnknownTasks, type UnknownTasksOptions } from "./unknown-tasks.ts"

export interface PreparationOptions extends JobServices, UnknownTasksOptions {
  readonly pool: ActorPool
  readonly clock: Clock
  readonly claims: Batcher<AttemptStart, StartAnswer>
  readonly limiter: Limiter
  readonly worker: string
  readonly keep: settlement.Keep
  /** Claims without an outcome after which the job fails. */
  readonly lostCap: number
  /** Whether a task matches a revocation. */
  readonly isRevoked: (task: Task) => boolean
  /** The settlement of a task that a limit defers because too many tasks wait here already. */
  readonly putOff: (refusal: LimitRefusal) => AttemptEnd
  /**
   * Milliseconds for which a redelivered job is to be left to a living worker that may still run it; 0: no worker does.
   */
  readonly holdOffMs: (id: string) => Promise<number>
  /** Called for a job that another worker has ended. That worker may have died before it published all follow-ups. */
  readonly onFinished: (record: JobRecord) => void
}

/** Delay after which a task whose actor is unhealthy is delivered again. */
const ACTOR_DOWN_DELAY_MS = 2_000

/** A task whose handler may be called, with what the call needs. */
export class PreparedTask {
  readonly run: Run
  readonly input: unknown
  readonly actor: ServedActor
  readonly job: JobContext

  constructor(run: Run, input: unknown, actor: ServedActor, job: JobContext) {
    this.run = run
    this.input = input
    this.actor = actor
    this.job = job
  }
}

export class Preparation {
  readonly #options: PreparationOptions
  readonly #settings: MethodSettingsCache
  readonly #outcomes: OutcomeDecider
  readonly #unknown: UnknownTasks
  /**
   * The suspect job that runs in this worker: one whose last worker died while it ran. There is one at a time, so that a
   * job that kills its worker takes no other suspect along twice. Set before the claim tells whether the job is one.
   */
  #suspect: InFlight | undefined

  constructor(options: PreparationOptions, settings: MethodSettingsCache, outcomes: OutcomeDecider) {
    this.#options = options
    this.#settings = settings
    this.#outcomes = outcomes
    this.#unknown = new UnknownTasks(options, outcomes)
  }

  /** Prepares a delivery. Returns the task that may run, or how its delivery is settled instead. */
  readonly prepare = Effect.fnUntraced(function* (
    this: Preparation,
    inFlight: InFlight,
  ): Effect.fn.Return<PreparedTask | SettledWithoutRun> {
    const { delivery } = inFlight
    const options = this.#options
    const now = options.clock.now()
    const parsed = parseDelivery(delivery)
    if (Result.isFailure(parsed)) {
      const { token, fence, queue } = delivery
      // An unreadable task is recorded under the id in its headers only at its first delivery: later that id may belong
      // to another job.
      const id = delivery.fresh ? inFlight.id : undefined
      return new SettledWithoutRun(
        settlement.unreadable({ token, fence, queue, id }, parsed.failure, now, options.keep),
      )
    }
    const { task, posting } = parsed.success
    const target = options.pool.resolve(task.task, task.meth)
    if (target.found) inFlight.method = target.method
    let before = settlement.waiting(posting, task, now)
    const attempt = (record: JobRecord): settlement.Attempt => ({
      token: delivery.token,
      fence: delivery.fence,
      posting,
      task,
      record,
      now,
      keep: target.found ? this.#settings.of(target.method).keep : options.keep,
    })
    const begins = { fence: delivery.fence, worker: options.worker, at: now }
    let isClaimed = false
    // Limits are asked before the claim, so that a task that is deferred many times writes nothing to its record.
    const mustAsk =
      target.found &&
      options.limiter.limits(target.method, () => nameOf(target)) &&
      !isExpired(task.expires, now) &&
      !options.isRevoked(task)
    let read: InputRead | undefined
    if (target.found && (inFlight.permit !== undefined || mustAsk)) {
      const answer = yield* this.#admit(inFlight, target, parsed.success)
      if (answer instanceof SettledWithoutRun) return answer
      read = answer
    }
    if (!target.found && !isExpired(task.expires, now) && !options.isRevoked(task)) {
      const giving = this.#unknown.giveBack(delivery.token, parsed.success, now, target.message)
      const givenBack = yield* Effect.promise(() => giving)
      if (givenBack !== undefined) return new SettledWithoutRun(givenBack)
    }
    // This check comes before the claim: a claim would refuse the outcome of the worker that still runs the job, and
    // count that worker as dead.
    if (!delivery.fresh && delivery.deliveries > 1) {
      const delay = yield* Effect.promise(() => options.holdOffMs(posting.id))
      if (delay > 0) return new SettledWithoutRun({ token: delivery.token, then: { kind: "release", delay } })
    }
    const endsOnLoss = target.found && target.method.onLost === "fail" && !acksEarly(target.method)
    // A first delivery is not claimed, which saves a write on the hot path. It is claimed where the method must not run
    // twice (`onLost: "fail"`), because nothing else would tell that its worker died.
    if (!delivery.fresh || endsOnLoss) {
      const mayBeSuspect = delivery.deliveries > 1 && !endsOnLoss
      const unlessSuspect = mayBeSuspect && this.#suspect?.phase === "running"
      if (mayBeSuspect && !unlessSuspect) this.#suspect = inFlight
      const claim = {
        token: delivery.token,
        id: posting.id,
        run: posting.run,
        retries: posting.retries,
        worker: options.worker,
        at: now,
        posting,
        unlessSuspect,
      }
      const answer = yield* Effect.promise(() =>
        claimWithRetries(options.claims, claim, () => inFlight.stop !== undefined),
      )
      const claimant = { waiting: attempt(before), begins, fresh: delivery.fresh }
      if (answer.status === "finished") options.onFinished(answer.record)
      if (answer.status === "suspect") {
        const until = now + SUSPECT_DELAY_MS
        const detail = "its worker died while it ran, and another such job runs"
        options.onDeferral({ id: posting.id, queue: posting.queue, reason: "suspect", until, detail })
      }
      const known = recordAfterClaim(answer, claimant, options.log)
      if (known instanceof SettledWithoutRun) return known
      isClaimed = true
      before = known
      if (this.#suspect === inFlight && !isSuspect(before)) this.#suspect = undefined
    }
    const claims = openAttempts(before)
    if (isClaimed && claims >= (endsOnLoss ? 1 : options.lostCap)) {
      const error = workerLost(claims)
      const lost = attempt(before)
      return new SettledWithoutRun(
        (endsOnLoss ? this.#outcomes.retried(lost, target.method, error) : undefined) ??
          this.#outcomes.givenUp(lost, embedOf(posting, options.maxBody), error, "worker-lost"),
      )
    }
    if (isExpired(task.expires, now)) return new SettledWithoutRun(settlement.expired(attempt(before)))
    if (options.isRevoked(task)) return new SettledWithoutRun(settlement.revoked(attempt(before)))

    if (!target.found) return new SettledWithoutRun(this.#unknown.settle(attempt(before), target.message))
    const { method, actor } = target
    const record = isClaimed ? claimed(before, begins) : started(before, begins)
    // The delivery does not count as an attempt, because the job did not cause the actor's failure.
    if (actor.condition !== "ready") {
      const until = now + ACTOR_DOWN_DELAY_MS
      const { id, queue } = posting
      options.onDeferral({ id, queue, reason: "actor-unhealthy", until, detail: actor.trouble })
      return new SettledWithoutRun(settlement.handedBack(attempt(record), isClaimed, ACTOR_DOWN_DELAY_MS))
    }
    read ??= yield* readInput(posting, method, options.maxBody)
    if (Result.isFailure(read)) {
      const { embed, error, dead } = read.failure
      return new SettledWithoutRun(this.#outcomes.givenUp(attempt(record), embed, error, dead))
    }
    const { embed, input } = read.success

    const settings = this.#settings.of(method)
    const hard = task.timelimit.hard === null ? settings.hardMs : task.timelimit.hard * 1000
    const soft = task.timelimit.soft === null ? settings.softMs : task.timelimit.soft * 1000
    const running = new Run({
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
    return new PreparedTask(running, input, actor, new JobContext(running, actor.definition.name, actor.use, options))
  })

  /**
   * Asks the limits of a method. Returns the handler's input where it was read for that, or how the delivery ends where
   * the task may not start now.
   */
  readonly #admit = Effect.fnUntraced(function* (
    this: Preparation,
    inFlight: InFlight,
    target: Target,
    { posting, task, level }: ParsedDelivery,
  ): Effect.fn.Return<InputRead | SettledWithoutRun | undefined> {
    const { actor, method } = target
    inFlight.level = level
    const { limiter, maxBody, putOff } = this.#options
    if (inFlight.permit !== undefined) {
      // The task has waited for its limit and was admitted.
      inFlight.onRelease(inFlight.permit)
      inFlight.permit = undefined
      return inFlight.input
    }
    if (actor.condition !== "ready") return undefined
    const name = nameOf(target)
    const refusal = limiter.refuseEarly(name, method, task.own.tenant, inFlight)
    if (refusal !== undefined) return new SettledWithoutRun(putOff(refusal))
    const read = inFlight.input ?? (yield* readInput(posting, method, maxBody))
    if (Result.isFailure(read)) return read
    const { embed, input } = read.success
    const admission = limiter.admit(name, method, input, inFlight)
    switch (admission.kind) {
      case "admitted":
        inFlight.onRelease(admission.release)
        return read
      case "waits":
        inFlight.mustWait = true
        inFlight.task = task
        inFlight.input = read
        return new SettledWithoutRun(NOTHING_TO_SETTLE)
      case "invalid": {
        const error = invalidInput({ field: "limit-key", message: admission.message })
        return Result.fail({ error, embed })
      }
    }
  })
}
