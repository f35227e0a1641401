/**
 * The steps before the handler: parse → claim → expiry and revocation → route → decode → validate. Each step
 * either continues or ends with the settlement to store.
 */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { acksEarly } from "../../actor/definition.ts"
import type { Batcher } from "../../async/batcher.ts"
import type { Clock } from "../../async/clock.ts"
import { isEffect, type MaybeEffect } from "../../async/maybe-effect.ts"
import { asTransportError } from "../../errors.ts"
import * as settlement from "../../jobs/outcome/settlement.ts"
import { digestOf } from "../../jobs/same-task.ts"
import { addToHistory } from "../../jobs/tracking/history.ts"
import { OWN_HEADER, type Task } from "../../protocol/headers.ts"
import { claimed, type JobRecord, openAttempts, type RecordDraft, recordOfTask, start } from "../../protocol/record.ts"
import { isExpired } from "../../protocol/time.ts"
import { isSuspect } from "../../transport/job-store/judge.ts"
import type { Claim, ClaimAnswer } from "../../transport/job-store/transport.ts"
import { type ActiveDelivery, HandlerRun, type InputRead } from "../active-delivery.ts"
import type { ActorPool, Target } from "../actors/actor-pool.ts"
import type { ServedActor } from "../actors/served-actor.ts"
import { hasExpired, notDueMs, type ParsedDelivery, parseDelivery, type ReadDelivery } from "../parsed-delivery.ts"
import {
  claimWithRetries,
  recordAfterClaim,
  SettledWithoutRun,
  SUSPECT_DELAY_MS,
  UNCLAIMED_DELAY_MS,
  workerLost,
} from "./claim.ts"
import type { OutcomeDecider } from "./decide.ts"
import { bodyRules, embedOf, readInput } from "./handler-input.ts"
import { JobContext, type JobServices, WorkerPort } from "./job-context.ts"
import type { MethodSettingsCache } from "./method-settings.ts"
import { idleClaims, type StepServices, StepSession } from "./step-session.ts"
import { resolveTask, UnknownTasks, type UnknownTasksOptions } from "./unknown-tasks.ts"

export interface PreparationOptions extends Omit<JobServices, "stepsOf">, StepServices, UnknownTasksOptions {
  readonly pool: ActorPool
  readonly clock: Clock
  readonly claims: Batcher<Claim, ClaimAnswer>
  readonly worker: string
  /** The version of the application. */
  readonly version: string | undefined
  readonly keep: settlement.Keep
  /** Claims without an outcome after which the job fails. */
  readonly lostCap: number
  /** Whether a task matches a revocation. */
  readonly isRevoked: (task: Task) => boolean
  /** Whether something is stored about a job although its task was never delivered. */
  readonly isChanged: (id: string) => boolean
  readonly peers: UnknownTasksOptions["peers"] & {
    /**
     * Milliseconds for which a redelivered job is to be left to a living worker that may still run it; 0: no worker does.
     * `isBegun`: its record says that it was begun and has not ended.
     */
    holdOffMs(id: string, isBegun: boolean): Promise<number>
  }
  /** Gets each job that another worker has ended: that one may have died before it published all follow-ups. */
  readonly dependents: { stored(record: JobRecord): void }
}

/** Delay after which a task whose actor is unhealthy is delivered again. */
const ACTOR_DOWN_DELAY_MS = 2_000

/** A task whose handler may be called, with what the call needs. */
export class PreparedTask {
  readonly run: HandlerRun
  readonly input: unknown
  readonly actor: ServedActor
  readonly job: JobContext<WorkerPort>

  constructor(run: HandlerRun, input: unknown, actor: ServedActor, job: JobContext<WorkerPort>) {
    this.run = run
    this.input = input
    this.actor = actor
    this.job = job
  }
}

/** The task that may run, or how its delivery is settled instead. */
export type Ready = PreparedTask | SettledWithoutRun

const effectOf = <A>(value: MaybeEffect<A>): Effect.Effect<A> => (isEffect(value) ? value : Effect.succeed(value))

/** A delivery whose task was read, on its way to its handler. */
interface Candidate {
  readonly active: ActiveDelivery
  readonly parsed: ParsedDelivery
  /** The record that follows from the task alone. It becomes the one of the attempt, unless the task is claimed. */
  readonly waiting: RecordDraft
  readonly target: ReturnType<ActorPool["resolve"]>
  readonly now: number
  /** The same moment by the clock of the transport. */
  readonly transportNow: number
  /** Whether it has expired or was revoked. */
  readonly isOver: boolean
  /** Whether something is stored about the job that its first attempt has to know. */
  readonly isChanged: boolean
  /** Whether the job fails when its worker is lost, so that each attempt has to be claimed. */
  readonly endsOnLoss: boolean
}

export class Preparation {
  readonly #options: PreparationOptions
  readonly #services: JobServices
  readonly #settings: MethodSettingsCache
  readonly #outcomes: OutcomeDecider
  readonly #unknown: UnknownTasks
  /**
   * The suspect job that runs in this worker: one whose last worker died while it ran. There is one at a time, so that a
   * job that kills its worker takes no other suspect along twice. Set before the claim tells whether the job is one.
   */
  #suspect: ActiveDelivery | undefined

  constructor(options: PreparationOptions, settings: MethodSettingsCache, outcomes: OutcomeDecider) {
    this.#options = options
    this.#services = {
      client: options.client,
      events: options.events,
      log: options.log,
      stepsOf: (active, run) => new StepSession(active, run, options),
    }
    this.#settings = settings
    this.#outcomes = outcomes
    this.#unknown = new UnknownTasks(options, outcomes)
  }

  /**
   * Prepares a delivery: the task that may run, or how its delivery is settled instead. Most first deliveries are prepared at
   * once; the others have to ask for something before. `given`: what was read of it for its limits.
   */
  prepare(active: ActiveDelivery, given?: ReadDelivery): MaybeEffect<Ready> {
    if (given !== undefined) return this.#prepare(active, given, given.read)
    const { delivery } = active
    const parsed = parseDelivery(delivery)
    if (Result.isFailure(parsed)) {
      const { token, fence, queue } = delivery
      const { clock, keep } = this.#options
      // An unreadable task is recorded under the id in its headers only at its first delivery: later that id may belong
      // to another job. Where it does already, the record is refused, and the task comes again.
      const id = delivery.deliveries === 1 ? active.id : undefined
      return new SettledWithoutRun(
        settlement.unreadable({ token, fence, queue, id }, parsed.failure, clock.now(), keep),
      )
    }
    return this.#prepare(active, parsed.success, undefined)
  }

  #prepare(active: ActiveDelivery, parsed: ParsedDelivery, read: InputRead | undefined): MaybeEffect<Ready> {
    const { delivery } = active
    const options = this.#options
    const now = options.clock.now()
    const transportNow = options.clock.transportNow()
    const { task, posting } = parsed
    const target = resolveTask(options.pool, task)
    if (target.found) active.method = target.method
    const candidate: Candidate = {
      active,
      parsed,
      waiting: recordOfTask(posting, task, now),
      target,
      now,
      transportNow,
      isOver: hasExpired(task, delivery.fresh, transportNow) || options.isRevoked(task),
      isChanged: options.isChanged(posting.id),
      endsOnLoss: target.found && target.method.onLost === "fail" && !acksEarly(target.method),
    }
    const early = notDueMs(parsed, transportNow)
    if (early > 0 && !candidate.isOver) {
      const { token } = delivery
      return new SettledWithoutRun({ token, then: { kind: "hand-back", delay: early } })
    }
    return this.#mustAsk(candidate) ? this.#prepareSlowly(candidate, read) : this.#route(candidate, undefined, read)
  }

  /**
   * Whether anything has to be asked before it is known whether the task may run. A first delivery is not claimed, which
   * saves a write on the hot path. It is claimed where the method must not run twice (`onLost: "fail"`), because nothing else
   * would tell that its worker died.
   */
  #mustAsk({ active, target, isOver, endsOnLoss, isChanged }: Candidate): boolean {
    return !active.delivery.fresh || endsOnLoss || isChanged || (!target.found && !isOver)
  }

  /** Asks other workers and the record. */
  readonly #prepareSlowly = Effect.fnUntraced(function* (
    this: Preparation,
    candidate: Candidate,
    read: InputRead | undefined,
  ): Effect.fn.Return<Ready> {
    const { active, parsed, waiting, target, now, isOver, endsOnLoss, isChanged } = candidate
    const { delivery } = active
    const { posting } = parsed
    const options = this.#options
    if (!target.found && !isOver) {
      const giving = this.#unknown.handBack(delivery.token, parsed, now, target)
      const handedBackSettlement = yield* Effect.promise(() => giving)
      if (handedBackSettlement !== undefined) return new SettledWithoutRun(handedBackSettlement)
    }
    let mayRunElsewhere = !delivery.fresh && delivery.deliveries > 1
    if (delivery.fresh && !endsOnLoss && !isChanged) {
      const routed = this.#route(candidate, undefined, read)
      return isEffect(routed) ? yield* routed : routed
    }
    const digest = digestOf(posting.message.body)
    waiting.digest = digest
    let answer: ClaimAnswer | undefined
    for (;;) {
      // This check comes before the claim: a claim would refuse the outcome of the worker that still runs the job, and
      // count that worker as dead.
      if (mayRunElsewhere) {
        const delay = yield* Effect.promise(() => options.peers.holdOffMs(posting.id, answer !== undefined))
        if (delay > 0) return new SettledWithoutRun({ token: delivery.token, then: { kind: "hand-back", delay } })
      }
      const mayBeSuspect = mayRunElsewhere && !endsOnLoss
      const unlessSuspect = mayBeSuspect ? this.#suspect?.phase === "running" : !mayRunElsewhere
      if (mayBeSuspect && !unlessSuspect) this.#suspect = active
      const claim = {
        token: delivery.token,
        id: posting.id,
        run: posting.run,
        retries: posting.retries,
        worker: options.worker,
        version: options.version,
        at: now,
        posting,
        digest,
        unlessSuspect,
      }
      answer = yield* claimWithRetries(options, claim, active)
      if (answer.status !== "suspect" || mayRunElsewhere) break
      // Not every broker counts the deliveries, and a task may have been stored twice: the record shows another one.
      mayRunElsewhere = true
    }
    const claimant = {
      waiting: this.#attempt(candidate, waiting),
      begins: this.#begins(candidate),
      fresh: delivery.fresh,
    }
    if (answer.status === "finished") options.dependents.stored(answer.record)
    if (answer.status === "suspect") {
      const until = now + SUSPECT_DELAY_MS
      const detail = "its worker died while it ran, and another such job is running"
      options.postponements.note({ id: posting.id, queue: posting.queue, reason: "suspect", until, detail })
    }
    const before = recordAfterClaim(answer, claimant, options.log)
    if (before instanceof SettledWithoutRun) return before
    const known = { ...before, digest }
    if (this.#suspect === active && !isSuspect(known)) this.#suspect = undefined
    if (known.earlier !== undefined) {
      const attempt = this.#attempt(candidate, claimed(known, claimant.begins))
      const isKept = yield* Effect.promise(() => this.#keepEarlier(attempt))
      // Nothing is lost: the record still has the outcomes, and the job runs when the store takes them.
      if (!isKept) return new SettledWithoutRun(settlement.handedBack(attempt, true, UNCLAIMED_DELAY_MS))
    }
    const decided = this.#decide(candidate, known, read)
    return isEffect(decided) ? yield* decided : decided
  })

  #attempt(
    { active: { delivery }, parsed: { posting, task }, target, now, transportNow }: Candidate,
    record: JobRecord,
  ) {
    const keep = target.found ? this.#settings.of(target.method).keep : this.#options.keep
    return { token: delivery.token, fence: delivery.fence, posting, task, record, now, dueFrom: transportNow, keep }
  }

  /** Puts the outcomes of the job's earlier runs into its history. False where the store cannot be reached. */
  async #keepEarlier({ record, keep, task }: settlement.Attempt): Promise<boolean> {
    const { client, log } = this.#options
    const ttls = [task.own.resultTtlMs ?? keep.resultMs, task.own.failureTtlMs ?? keep.failureMs]
    try {
      await addToHistory(client.connection.store, record, ttls.some((ms) => ms < 0) ? -1 : Math.max(...ttls))
      return true
    } catch (cause) {
      const { reason, message } = asTransportError(cause)
      log.warn("results of earlier runs could not be kept", { job: record.id, cause: message })
      return reason !== "unavailable"
    }
  }

  #begins({ active: { delivery }, now }: Candidate) {
    const { worker, version } = this.#options
    return { fence: delivery.fence, worker, version, at: now }
  }

  /** Decides about a claimed task of which all is known but its input. `known`: its record before this attempt. */
  #decide(candidate: Candidate, known: JobRecord, read: InputRead | undefined): MaybeEffect<Ready> {
    const { parsed, target, endsOnLoss } = candidate
    const { posting, task } = parsed
    const options = this.#options
    const wait = task.own.after === undefined ? task.own.chord && "chord" : "after"
    if (wait !== undefined && !hasBeenDeferred(known)) {
      const message = `its header sets ${OWN_HEADER}.${wait}, but the task did not wait: submit it over HTTP or from code, which holds it back`
      const error = { name: "Unsupported", message, reason: "unsupported" }
      const attempt = this.#attempt(candidate, known)
      const settled = this.#outcomes.givenUp(attempt, embedOf(posting, bodyRules(options, task)), error, error.reason)
      return new SettledWithoutRun(settled)
    }
    const claims = openAttempts(known)
    const cap = endsOnLoss ? 1 : options.lostCap
    if (claims < cap) return this.#route(candidate, known, read)
    return Effect.flatMap(
      Effect.promise(() => idleClaims(options.store, posting, claims)),
      (idle) => {
        if (idle === undefined) {
          const attempt = this.#attempt(candidate, claimed(known, this.#begins(candidate)))
          return Effect.succeed(new SettledWithoutRun(settlement.handedBack(attempt, true, UNCLAIMED_DELAY_MS)))
        }
        if (idle < cap && !endsOnLoss) return effectOf(this.#route(candidate, known, read))
        const error = workerLost(claims)
        const lost = this.#attempt(candidate, known)
        const embed = () => embedOf(posting, bodyRules(options, task))
        const again = endsOnLoss && target.found ? this.#outcomes.retried(lost, target.method, error, embed) : undefined
        // The job's steps are reverted first, until twice as many workers were lost with it.
        if (again === undefined && known.reverts && idle < 2 * cap + 1) {
          const reverting = known.reverting ?? { why: "failed" as const, error, dead: "worker-lost" }
          return effectOf(this.#route(candidate, { ...known, reverting }, read))
        }
        const settled = again ?? this.#outcomes.givenUp(lost, embed(), error, "worker-lost")
        return Effect.succeed(new SettledWithoutRun(settled))
      },
    )
  }

  /**
   * Finds the handler of a task, and reads its input. `known`: its record before this attempt; `undefined` where the task is not
   * claimed.
   */
  #route(candidate: Candidate, known: JobRecord | undefined, read: InputRead | undefined): MaybeEffect<Ready> {
    const { parsed, waiting, target, now } = candidate
    const isClaimed = known !== undefined
    let before = known ?? waiting
    const { task, posting } = parsed
    const options = this.#options
    // The time to wait is over once the job has started; a worker that died, or gave it back, does not make it wait again.
    const hasWaited = (task.own.ttlMs !== undefined && hasStarted(before)) || before.reverts
    if (isExpired(task.expires, candidate.transportNow) && !hasWaited)
      return new SettledWithoutRun(settlement.expired(this.#attempt(candidate, before)))
    if (options.isRevoked(task)) {
      if (!before.reverts) return new SettledWithoutRun(settlement.revoked(this.#attempt(candidate, before)))
      before = { ...before, reverting: before.reverting ?? { why: "cancelled" } }
    }
    if (!target.found) return new SettledWithoutRun(this.#unknown.settle(this.#attempt(candidate, before), target))
    const { method, actor } = target
    const begins = this.#begins(candidate)
    const record = isClaimed ? claimed(before, begins) : start(waiting, begins)
    // The delivery does not count as an attempt, because the job did not cause the actor's failure.
    if (actor.condition !== "ready") {
      const until = now + ACTOR_DOWN_DELAY_MS
      const { id, queue } = posting
      options.postponements.note({ id, queue, reason: "actor-unhealthy", until, detail: actor.trouble })
      return new SettledWithoutRun(
        settlement.handedBack(this.#attempt(candidate, record), isClaimed, ACTOR_DOWN_DELAY_MS),
      )
    }
    const reading = read ?? readInput(candidate.active, parsed, method, options, this.#settings)
    return isEffect(reading)
      ? this.#readyLater(candidate, target, record, isClaimed, reading)
      : this.#ready(candidate, target, record, isClaimed, reading)
  }

  #readyLater(
    candidate: Candidate,
    target: Target,
    record: JobRecord,
    isClaimed: boolean,
    reading: Effect.Effect<InputRead>,
  ): MaybeEffect<Ready> {
    return Effect.map(reading, (read) => this.#ready(candidate, target, record, isClaimed, read))
  }

  /** The task whose input was read. */
  #ready(
    candidate: Candidate,
    { method, actor }: Target,
    record: JobRecord,
    isClaimed: boolean,
    read: InputRead,
  ): Ready {
    if (Result.isFailure(read)) {
      const { embed, error, dead } = read.failure
      return new SettledWithoutRun(this.#outcomes.givenUp(this.#attempt(candidate, record), embed, error, dead))
    }
    const { active, parsed, now } = candidate
    const { task, posting } = parsed
    const options = this.#options
    const { embed, input } = read.success
    const settings = this.#settings.of(method)
    const { soft } = task.timelimit
    const run = new HandlerRun({
      posting,
      task,
      method,
      embed,
      record,
      claimed: isClaimed,
      startedAt: now,
      hardMs: this.#settings.hardMsOf(method, task),
      softMs: (soft === null ? settings.softMs : soft * 1000) ?? Number.POSITIVE_INFINITY,
      clock: options.clock,
      delivery: active,
    })
    const job = new JobContext(new WorkerPort(active, run, this.#services), actor.definition.name, actor.use)
    return new PreparedTask(run, input, actor, job)
  }
}

/** Whether an attempt of the job's run has begun, also one that was given back and does not count. */
const hasStarted = ({ attempt, run, timeline }: JobRecord): boolean =>
  attempt > 0 || timeline.some((each) => each.run === run && each.state === "started")

/** Whether the job has waited for others: its record begins with that, or is so long that the beginning is gone. */
const hasBeenDeferred = ({ timeline: [first] }: JobRecord): boolean => first?.state === "deferred" || first?.n !== 1
