/**
 * Takes one delivery to its settlement: prepare → ack early, where the method asks for it → run → decide. Each step
 * either continues or ends with the settlement to store. The settlement is then stored once, by the settlement store.
 */

import * as Cause from "effect/Cause"
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ErasedMethod } from "../actor/actor.ts"
import { acksEarly } from "../actor/definition.ts"
import { isEffect, runEffect } from "../async/maybe-effect.ts"
import { jobError, KnownFailure, readable } from "../jobs/outcome/job-error.ts"
import * as settlement from "../jobs/outcome/settlement.ts"
import type { JobRecord } from "../protocol/record.ts"
import type { Settlement } from "../transport/job-store/transport.ts"
import type { ActiveDelivery, HandlerRun } from "./active-delivery.ts"
import { NOTHING_TO_SETTLE, SettledWithoutRun, UNCLAIMED_DELAY_MS } from "./attempt/claim.ts"
import type { OnExit } from "./attempt/invocation.ts"
import { MethodSettingsCache, type TimeLimits } from "./attempt/method-settings.ts"
import { OutcomeDecider } from "./attempt/outcome-decider.ts"
import { Preparation, type PreparationOptions, type PreparedTask, type Ready } from "./attempt/preparation.ts"
import { AttemptFault, runHandler, runStoppedHook } from "./attempt/run-handler.ts"
import type { StepOutcomes } from "./attempt/step-session.ts"
import type { ProcessPool } from "./isolation/process-pool.ts"
import type { EarlyAckResult } from "./settlement/early-acks.ts"

export interface ExecutorOptions extends PreparationOptions {
  /** Runs the handlers of isolated methods. */
  readonly processes: ProcessPool
  /** Largest task of the transport, in bytes. */
  readonly maxTask: number
  /** Acks a task early: stores the started record and takes the task off its queue. */
  readonly take: (active: ActiveDelivery, record: JobRecord) => Promise<EarlyAckResult>
  /** Called when a handler is about to be called. */
  readonly onRun: (active: ActiveDelivery) => void
  /** Called at the end of each delivery with its settlement, `undefined` when there is nothing to settle. Must not throw. */
  readonly onExecuted: (active: ActiveDelivery, settlement: Settlement | undefined) => void
}

/** Opens the journal of a job whose steps may have to be reverted. */
const openSteps = async (active: ActiveDelivery, { job, run }: PreparedTask): Promise<void> => {
  if (!(await job.session.begin())) return
  // The job may have been cancelled after it was claimed, and before its run was there to be told.
  if (active.isToRevert) job.session.cancel()
  if (!job.session.isEnding) return
  run.withoutLimits()
  if (run.method.isolation === "inline") await job.useSteps().open()
}

/** Whether the process of an isolated handler died. */
const hasDied = (exit: Exit.Exit<unknown, unknown>): boolean => {
  const thrown = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
  return thrown instanceof KnownFailure && thrown.error.reason === "process-died"
}

export class Executor {
  readonly #options: ExecutorOptions
  readonly #settings: MethodSettingsCache
  readonly #outcomes: OutcomeDecider
  readonly #preparation: Preparation

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#settings = new MethodSettingsCache(options.keep)
    const { pool, external, maxTask } = options
    this.#outcomes = new OutcomeDecider(pool, this.#settings, external, maxTask)
    this.#preparation = new Preparation(options, this.#settings, this.#outcomes)
  }

  /**
   * Runs a delivery to its end, and calls `onExecuted` with its settlement. What is there at once, or comes with the promise
   * of a handler, needs neither a fiber nor, for each step, a closure. Throws only what `onExecuted` throws.
   */
  execute(active: ActiveDelivery): void {
    try {
      const preparing = this.#preparation.prepare(active)
      if (isEffect(preparing)) this.#prepareLater(active, preparing)
      else this.#prepared(active, preparing)
    } catch (thrown) {
      this.#faulted(active, Cause.die(thrown))
    }
  }

  #prepareLater(active: ActiveDelivery, preparing: Effect.Effect<Ready>): void {
    runEffect(preparing, (exit) => {
      if (Exit.isFailure(exit)) this.#faulted(active, exit.cause)
      else this.#guarded(active, () => this.#prepared(active, exit.value))
    })
  }

  /** Does a step that comes later. What it throws is an error of the worker itself. */
  #guarded(active: ActiveDelivery, step: () => void): void {
    try {
      step()
    } catch (thrown) {
      this.#faulted(active, Cause.die(thrown))
    }
  }

  #faulted(active: ActiveDelivery, cause: Cause.Cause<unknown>): void {
    // A delivery that was handed on has its settlement: what fails behind it must not make a second one.
    if (active.phase !== "running") throw Cause.squash(cause)
    this.#options.onExecuted(active, this.#fault(active, cause))
  }

  /** Acks the task early where its method asks for that, and calls its handler. */
  #prepared(active: ActiveDelivery, ready: Ready): void {
    if (ready instanceof SettledWithoutRun) {
      this.#options.onExecuted(active, ready.settlement)
      return
    }
    active.enter(ready.actor)
    if (active.stop === undefined && acksEarly(ready.run.method)) this.#takeFirst(active, ready)
    else this.#run(active, ready)
  }

  #takeFirst(active: ActiveDelivery, ready: PreparedTask): void {
    this.#take(active, ready.run).then(
      (decided) =>
        this.#guarded(active, () =>
          decided === undefined ? this.#run(active, ready) : this.#options.onExecuted(active, decided.settlement),
        ),
      (thrown: unknown) => this.#faulted(active, Cause.die(thrown)),
    )
  }

  #run(active: ActiveDelivery, ready: PreparedTask): void {
    const { run } = ready
    // The delivery was ended from outside while it was being prepared, so its handler is not called.
    if (active.stop !== undefined) {
      run.end(active.stop)
      this.#options.onExecuted(active, this.#outcomes.stopped(active, run))
      return
    }
    active.run = run
    // The steps of a job that may have to be reverted are read before its handler is called.
    if (run.record.reverts || run.record.reverting) this.#openFirst(active, ready)
    else this.#call(active, ready)
  }

  #openFirst(active: ActiveDelivery, ready: PreparedTask): void {
    openSteps(active, ready).then(
      () => this.#guarded(active, () => this.#call(active, ready)),
      (thrown: unknown) => this.#faulted(active, Cause.die(thrown)),
    )
  }

  #call(active: ActiveDelivery, ready: PreparedTask): void {
    const { run, input, job, actor } = ready
    if (run.stop !== undefined) {
      this.#options.onExecuted(active, this.#outcomes.stopped(active, run))
      return
    }
    this.#options.onRun(active)
    active.called = true
    const done: OnExit = (exit) => this.#ended(active, ready, exit)
    if (run.method.isolation === "inline") runHandler(run, input, job, done)
    else this.#options.processes.run(actor.definition, run, input, job, done)
  }

  #ended(active: ActiveDelivery, ready: PreparedTask, exit: Exit.Exit<unknown, unknown>): void {
    const { run, job } = ready
    let settled: Settlement | undefined
    try {
      const fault = Exit.isFailure(exit) ? readable(Cause.squash(exit.cause)) : undefined
      if (fault instanceof AttemptFault) throw fault.cause
      const decided = this.#outcomes.decide(active, run, exit)
      settled = job.hasSession ? job.session.settled(decided, this.#outcomesOf(active, run), !hasDied(exit)) : decided
    } catch (thrown) {
      this.#faulted(active, Cause.die(thrown))
      return
    }
    const isCancelled = run.stop === "cancelled" || settled?.record?.state === "cancelled"
    if (isCancelled) this.#stopped(active, ready, settled)
    else this.#options.onExecuted(active, settled)
  }

  /** Calls `onStopped` of a cancelled job. */
  #stopped(active: ActiveDelivery, { run, job }: PreparedTask, settled: Settlement | undefined): void {
    runEffect(runStoppedHook(run.method, job), (exit) => {
      if (Exit.isFailure(exit)) this.#faulted(active, exit.cause)
      else this.#options.onExecuted(active, settled)
    })
  }

  #outcomesOf(active: ActiveDelivery, run: HandlerRun): StepOutcomes {
    const attempt = () => this.#outcomes.attempt(active, run)
    return { attempt, givenUp: (error, dead) => this.#outcomes.givenUp(attempt(), run.embed, error, dead) }
  }

  /**
   * Acks the task before its handler starts, so that it runs at most once. Returns how the delivery ends where the
   * handler must not be called.
   */
  async #take(active: ActiveDelivery, run: HandlerRun): Promise<SettledWithoutRun | undefined> {
    // The write may take a while, which must not count towards the handler's time limits.
    run.hold()
    const record: JobRecord = { ...run.record, acked: true, message: run.posting.message }
    const taking = await this.#options.take(active, record)
    switch (taking) {
      case "taken":
        run.record = record
        run.begin()
        return undefined
      case "unlisted":
        if (active.stop !== undefined) return undefined
        return new SettledWithoutRun(
          settlement.handedBack(this.#outcomes.attempt(active, run), run.claimed, UNCLAIMED_DELAY_MS),
        )
      default:
        return new SettledWithoutRun(NOTHING_TO_SETTLE)
    }
  }

  /**
   * The settlement of a delivery whose handler has run, after an error of the worker itself. `undefined` where the
   * handler has not run, or the run was ended from outside.
   */
  afterFault(active: ActiveDelivery, cause: unknown): Settlement | undefined {
    return active.run === undefined || !active.called ? undefined : this.#outcomes.afterFault(active, active.run, cause)
  }

  /**
   * Handles an error of the worker itself: a job whose handler has run fails with it, once; any other task is given
   * back.
   */
  #fault(active: ActiveDelivery, cause: Cause.Cause<unknown>): Settlement | undefined {
    const thrown = Cause.squash(cause)
    const failed = this.afterFault(active, thrown)
    const { message, traceback } = jobError(thrown)
    this.#options.log.error(
      failed === undefined
        ? "a task could not be processed and is handed back"
        : "an outcome could not be determined, so the job fails",
      { job: active.id, cause: traceback ?? message },
    )
    if (failed !== undefined) return failed
    return { token: active.delivery.token, then: { kind: "hand-back", delay: 5_000 } }
  }

  /** How long failures of a method are kept, in milliseconds, unless a task sets it. */
  keepFailedMs(method: ErasedMethod): number {
    return this.#settings.of(method).keep.failureMs
  }

  /** Changes the time limits of a method for runs that begin from now on. False if the method is not served here. */
  limitTime(name: string, limits: TimeLimits): boolean {
    const target = this.#options.pool.resolve(name, null)
    if (target.found) this.#settings.limitTime(target.method, limits)
    return target.found
  }
}
