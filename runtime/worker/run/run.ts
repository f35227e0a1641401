/**
 * Takes one delivery from the buffer to its settlement, in a fiber of its own: prepare → ack early, if the method asks for it →
 * call the handler → decide → settle. Only the wait for the user's code can be interrupted: what ends a delivery from outside sets
 * `delivery.stop` and interrupts the fiber.
 */

import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ActorDefinition } from "../../actor/actor.ts"
import { acksEarly } from "../../actor/definition.ts"
import { isEffect, type MaybeEffect } from "../../async/maybe-effect.ts"
import { jobError, KnownFailure } from "../../jobs/outcome/job-error.ts"
import * as settlement from "../../jobs/outcome/settlement.ts"
import type { Log } from "../../log/log.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import type { Settlement } from "../../transport/job-store/transport.ts"
import type { ActiveDelivery, HandlerRun } from "../active-delivery.ts"
import type { ReadDelivery } from "../parsed-delivery.ts"
import type { CallExit } from "./call.ts"
import { NOTHING_TO_SETTLE, SettledWithoutRun, UNCLAIMED_DELAY_MS } from "./claim.ts"
import type { OutcomeDecider } from "./decide.ts"
import type { EarlyAcks } from "./early-acks.ts"
import { afterHandler, callHandler, runStoppedHook } from "./handler.ts"
import type { JobContext, WorkerPort } from "./job-context.ts"
import { type Preparation, PreparedTask, type Ready } from "./prepare.ts"
import type { DeliveryEnder } from "./settle.ts"
import type { SettlementStore } from "./settlement-store.ts"

/** The parts of a worker that a run uses. */
export interface RunParts {
  readonly preparation: Preparation
  readonly decider: OutcomeDecider
  /** Runs the handlers of isolated methods. */
  readonly processes: HandlerProcesses
  readonly early: EarlyAcks
  readonly store: SettlementStore
  readonly ender: DeliveryEnder
  readonly slots: Slots
  readonly log: Log
}

/** The processes of isolated handlers. */
interface HandlerProcesses {
  run(
    actor: ActorDefinition,
    run: HandlerRun,
    input: unknown,
    job: JobContext<WorkerPort>,
  ): Effect.Effect<unknown, unknown>
}

/** The slots of a worker's handlers. */
export interface Slots {
  /** Called when a handler is about to be called. */
  handlerStarts(active: ActiveDelivery): void
  /** Called when the handler of a delivery has ended, or will not be called: the next one may start. Does not throw. */
  handlerEnded(active: ActiveDelivery): void
  /** Called with a handler that has lasted for long. */
  runsLong(active: ActiveDelivery): void
}

/** Begins the run of a delivery. It goes as far as it can at once. `given`: what was read of the task for its limits. */
export const startRun = (worker: RunParts, active: ActiveDelivery, given?: ReadDelivery): void => {
  active.fiber = Effect.runFork(runDelivery(worker, active, given))
  // The delivery may have been ended from outside before its fiber was known.
  if (active.stop !== undefined) active.leave()
}

/** Its exit is that of the handler. What follows the handler is interrupted only while it waits for the user's code. */
const runDelivery = (
  worker: RunParts,
  active: ActiveDelivery,
  given: ReadDelivery | undefined,
): Effect.Effect<unknown, unknown> => {
  let ready: Ready | undefined
  return Effect.onExit(
    Effect.suspend(() => {
      const preparing = prepare(worker, active, given)
      if (!isEffect(preparing)) {
        ready = preparing
        return call(worker, active, ready)
      }
      // A settlement that was prepared must not be lost to an interruption, so it is kept before the region ends.
      const prepared = Effect.map(preparing, (found) => {
        ready = found
        return found
      })
      return Effect.flatMap(Effect.uninterruptible(prepared), (found) => call(worker, active, found))
    }),
    (exit) => conclude(worker, active, ready, exit),
  )
}

/** The task whose handler may be called, or how the delivery is settled instead. Most first deliveries are prepared at once. */
const prepare = (worker: RunParts, active: ActiveDelivery, given: ReadDelivery | undefined): MaybeEffect<Ready> => {
  const preparing = worker.preparation.prepare(active, given)
  if (isEffect(preparing) || mustWait(preparing)) return prepareSlowly(worker, active, preparing)
  if (preparing instanceof PreparedTask) active.enter(preparing.actor)
  return preparing
}

/** Whether a write or a read has to end before the handler is called. */
const mustWait = (ready: Ready): boolean =>
  ready instanceof PreparedTask && (acksEarly(ready.run.method) || mayRevert(ready.run))

/** Whether the steps of the job may have to be reverted, so that they are read before its handler is called. */
const mayRevert = ({ record }: HandlerRun): boolean => record.reverts === true || record.reverting !== undefined

const prepareSlowly = Effect.fnUntraced(function* (
  worker: RunParts,
  active: ActiveDelivery,
  preparing: MaybeEffect<Ready>,
): Effect.fn.Return<Ready> {
  const ready = isEffect(preparing) ? yield* preparing : preparing
  if (ready instanceof SettledWithoutRun) return ready
  const { run } = ready
  active.enter(ready.actor)
  if (acksEarly(run.method) && !run.isOver) {
    const decided = yield* ackEarly(worker, active, run)
    if (decided !== undefined) return decided
  }
  if (!mayRevert(run) || run.isOver) return ready
  // A cancellation reaches the steps by the run, also while their journal is read.
  active.run = run
  yield* Effect.promise(() => openSteps(active, ready))
  return ready
})

/** Calls the handler, unless the delivery was ended from outside while it was prepared. */
const call = (worker: RunParts, active: ActiveDelivery, ready: Ready): Effect.Effect<unknown, unknown> => {
  if (ready instanceof SettledWithoutRun || ready.run.isOver) return Effect.void
  const { run, input, job, actor } = ready
  active.run = run
  worker.slots.handlerStarts(active)
  active.called = true
  return run.method.isolation === "inline"
    ? callHandler(run, input, job)
    : worker.processes.run(actor.definition, run, input, job)
}

/** Settles the delivery by the exit of its handler. */
const conclude = (
  worker: RunParts,
  active: ActiveDelivery,
  ready: Ready | undefined,
  exit: CallExit,
): Effect.Effect<void> => {
  try {
    if (ready === undefined || isFault(exit)) return recover(worker, active, exit)
    if (ready instanceof SettledWithoutRun) return handOn(worker, active, ready.settlement)
    if (!active.called) return handOn(worker, active, worker.decider.stopped(active, ready.run))
    if (ready.run.method.isolation === "process") return end(worker, active, ready, exit)
    const attempted = afterHandler(ready.run, exit, ready.job)
    return Exit.isExit(attempted)
      ? end(worker, active, ready, attempted)
      : Effect.flatMap(Effect.exit(attempted), (later) => end(worker, active, ready, later))
  } catch (thrown) {
    return recover(worker, active, Exit.die(thrown))
  }
}

/** Whether the worker itself failed. */
const isFault = (exit: CallExit): boolean => Exit.isFailure(exit) && Cause.hasDies(exit.cause)

/** Decides how an attempt that has ended is settled. `onStopped` of a cancelled job is called first. */
const end = (worker: RunParts, active: ActiveDelivery, ready: PreparedTask, exit: CallExit): Effect.Effect<void> => {
  if (isFault(exit)) return recover(worker, active, exit)
  try {
    const { run, job } = ready
    const decided = decide(worker.decider, active, ready, exit)
    const isCancelled = run.stop === "cancelled" || decided?.record?.state === "cancelled"
    if (!isCancelled || run.method.onStopped === undefined) return handOn(worker, active, decided)
    return Effect.matchCauseEffect(runStoppedHook(run.method, job), {
      onFailure: (cause) => recover(worker, active, Exit.failCause(cause)),
      onSuccess: () => handOn(worker, active, decided),
    })
  } catch (thrown) {
    return recover(worker, active, Exit.die(thrown))
  }
}

/** The settlement for the exit of a handler, and of the steps of its job. */
const decide = (
  decider: OutcomeDecider,
  active: ActiveDelivery,
  { run, job }: PreparedTask,
  exit: CallExit,
): Settlement | undefined => {
  const decided = decider.decide(active, run, exit)
  if (Exit.isSuccess(exit) && run.stop === undefined) active.refused = (error) => decider.refused(active, run, error)
  if (!job.port.hasSteps) return decided
  const attempt = () => decider.attempt(active, run)
  const givenUp = (error: JobError, dead: string | undefined) => decider.givenUp(attempt(), run.embed, error, dead)
  return job.port.steps.settled(decided, { attempt, givenUp }, !hasDied(exit))
}

/** Whether the process of an isolated handler died. */
const hasDied = (exit: CallExit): boolean => {
  const thrown = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
  return thrown instanceof KnownFailure && thrown.error.reason === "process-died"
}

/** Frees the slot of the handler, and stores the settlement of the delivery. */
const handOn = (
  { slots, ender }: RunParts,
  active: ActiveDelivery,
  decided: Settlement | undefined,
): Effect.Effect<void> => {
  slots.handlerEnded(active)
  if (decided === undefined) ender.leave(active)
  else ender.end(active, decided)
  return Effect.void
}

/** Handles an error of the worker itself: a job whose handler has run fails with it, once; any other task is given back. */
export const recover = (worker: RunParts, active: ActiveDelivery, exit: CallExit): Effect.Effect<void> => {
  const thrown = Exit.isFailure(exit) ? Cause.squash(exit.cause) : new Error("the task was not prepared")
  // A delivery that was handed on has its settlement: what fails behind it must not make a second one.
  if (active.phase !== "running") {
    worker.ender.fault(active, thrown)
    return Effect.void
  }
  const failed = worker.decider.afterFault(active, thrown)
  const { message, traceback } = jobError(thrown)
  worker.log.error(
    failed === undefined
      ? "a task could not be processed and is handed back"
      : "an outcome could not be determined, so the job fails",
    { job: active.id, cause: traceback ?? message },
  )
  return handOn(worker, active, failed ?? { token: active.delivery.token, then: { kind: "hand-back", delay: 5_000 } })
}

/** Opens the journal of a job whose steps may have to be reverted. */
const openSteps = async (active: ActiveDelivery, { job, run }: PreparedTask): Promise<void> => {
  if (!(await job.port.steps.begin())) return
  // The job may have been cancelled after it was claimed, and before its run was there to be told.
  if (active.isToRevert) job.port.steps.cancel()
  if (!job.port.steps.isEnding) return
  run.withoutLimits()
  if (run.method.isolation === "inline") await job.useSteps().open()
}

/**
 * Acks the task before its handler starts, so that it runs at most once. Returns how the delivery ends if the handler must
 * not be called.
 */
const ackEarly = Effect.fnUntraced(function* (
  { early, store, decider }: RunParts,
  active: ActiveDelivery,
  run: HandlerRun,
): Effect.fn.Return<SettledWithoutRun | undefined> {
  // The write may take a while, which must not count towards the handler's time limits.
  run.hold()
  const record: JobRecord = { ...run.record, acked: true, message: run.posting.message }
  switch (yield* early.take(active, record, store)) {
    case "taken":
      run.record = record
      run.begin()
      return undefined
    case "unlisted":
      if (run.isOver) return undefined
      return new SettledWithoutRun(settlement.handedBack(decider.attempt(active, run), run.claimed, UNCLAIMED_DELAY_MS))
    default:
      return new SettledWithoutRun(NOTHING_TO_SETTLE)
  }
})
