/**
 * Takes one delivery to its settlement: prepare → ack early, where the method asks for it → run → decide. Each step
 * either continues or ends with the settlement to store. The settlement is then stored once, by the settlement writer.
 */

import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ErasedMethod } from "../actor/actor.ts"
import { acksEarly } from "../actor/definition.ts"
import { flatMapNow, runNow } from "../async/now.ts"
import { jobError, KnownFailure } from "../jobs/outcome/job-error.ts"
import * as settlement from "../jobs/outcome/settlement.ts"
import type { JobRecord } from "../protocol/record.ts"
import type { AttemptEnd } from "../transport/lift/transport.ts"
import { attempt, runStoppedHook } from "./attempt/attempt.ts"
import { NOTHING_TO_SETTLE, SettledWithoutRun, UNCLAIMED_DELAY_MS } from "./attempt/claim.ts"
import type { FlowOutcomes } from "./attempt/flow.ts"
import { MethodSettingsCache, type TimeLimits } from "./attempt/method-settings.ts"
import { OutcomeDecider } from "./attempt/outcome-decider.ts"
import { Preparation, type PreparationOptions, PreparedTask } from "./attempt/preparation.ts"
import type { InFlight, Run } from "./in-flight.ts"
import type { ProcessPool } from "./isolation/process-pool.ts"
import type { EarlyAckResult } from "./settlement/early-acks.ts"

export interface ExecutorOptions extends PreparationOptions {
  /** Runs the handlers of isolated methods. */
  readonly processes: ProcessPool
  /** Largest task of the transport, in bytes. */
  readonly maxTask: number
  /** Acks a task early: stores the started record and takes the task off its queue. */
  readonly take: (inFlight: InFlight, record: JobRecord) => Promise<EarlyAckResult>
  /** Called when a handler is about to be called. */
  readonly onRun: (inFlight: InFlight) => void
}

/** Opens the journal of a job whose steps may have to be undone. */
const openFlow = async (inFlight: InFlight, { job, run }: PreparedTask): Promise<void> => {
  if (!(await job.flow.begin())) return
  // The job may have been cancelled after it was claimed, and before its run was there to be told.
  if (inFlight.isToUndo) job.flow.cancel()
  if (!job.flow.isEnding) return
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
    const { pool, foreign, maxTask } = options
    this.#outcomes = new OutcomeDecider(pool, this.#settings, foreign, maxTask)
    this.#preparation = new Preparation(options, this.#settings, this.#outcomes)
  }

  /**
   * Runs a delivery to its end and calls back with its settlement, `undefined` when there is nothing to settle. A handler
   * that is a plain function is called without a fiber. Never throws.
   */
  execute(inFlight: InFlight, done: (settlement: AttemptEnd | undefined) => void): void {
    let running: Effect.Effect<AttemptEnd | undefined>
    try {
      running = flatMapNow(this.#preparation.prepare(inFlight), (ready) =>
        ready instanceof PreparedTask ? this.#start(inFlight, ready) : Effect.succeed(ready.settlement),
      )
    } catch (thrown) {
      running = Effect.die(thrown)
    }
    runNow(running, (exit) => done(Exit.isSuccess(exit) ? exit.value : this.#fault(inFlight, exit.cause)))
  }

  /** Acks the task early where its method asks for that, and calls its handler. */
  #start(inFlight: InFlight, ready: PreparedTask): Effect.Effect<AttemptEnd | undefined> {
    inFlight.onRelease(ready.actor.enter())
    return inFlight.stop === undefined && acksEarly(ready.run.method)
      ? Effect.flatMap(
          Effect.promise(() => this.#take(inFlight, ready.run)),
          (decided) => (decided === undefined ? this.#run(inFlight, ready) : Effect.succeed(decided.settlement)),
        )
      : this.#run(inFlight, ready)
  }

  #run(inFlight: InFlight, ready: PreparedTask): Effect.Effect<AttemptEnd | undefined> {
    const { run } = ready
    // The delivery was ended from outside while it was being prepared, so its handler is not called.
    if (inFlight.stop !== undefined) {
      run.end(inFlight.stop)
      return Effect.succeed(this.#outcomes.stopped(inFlight, run))
    }
    inFlight.run = run
    // The steps of a job that may have to be undone are read before its handler is called.
    const opening =
      run.record.reverts || run.record.undo ? Effect.promise(() => openFlow(inFlight, ready)) : Effect.void
    return flatMapNow(opening, () => {
      if (run.stop !== undefined) return Effect.succeed(this.#outcomes.stopped(inFlight, run))
      this.#options.onRun(inFlight)
      inFlight.called = true
      return flatMapNow(this.#call(ready), (exit) => this.#ended(inFlight, ready, exit))
    })
  }

  #ended(inFlight: InFlight, { run, job }: PreparedTask, exit: Exit.Exit<unknown, unknown>) {
    const decided = this.#outcomes.decide(inFlight, run, exit)
    const settled = job.hasFlow ? job.flow.settled(decided, this.#outcomesOf(inFlight, run), !hasDied(exit)) : decided
    const isCancelled = run.stop === "cancelled" || settled?.record?.state === "cancelled"
    return flatMapNow(isCancelled ? runStoppedHook(run.method, job) : Effect.void, () => Effect.succeed(settled))
  }

  #outcomesOf(inFlight: InFlight, run: Run): FlowOutcomes {
    const attempt = () => this.#outcomes.attempt(inFlight, run)
    return { attempt, givenUp: (error, dead) => this.#outcomes.givenUp(attempt(), run.embed, error, dead) }
  }

  #call({ run, input, job, actor }: PreparedTask): Effect.Effect<Exit.Exit<unknown, unknown>> {
    return run.method.isolation === "inline"
      ? attempt(run, input, job)
      : this.#options.processes.run(actor.definition, run, input, job)
  }

  /**
   * Acks the task before its handler starts, so that it runs at most once. Returns how the delivery ends where the
   * handler must not be called.
   */
  async #take(inFlight: InFlight, run: Run): Promise<SettledWithoutRun | undefined> {
    // The write may take a while, which must not count towards the handler's time limits.
    run.hold()
    const record: JobRecord = { ...run.record, acked: true, message: run.posting.message }
    const taking = await this.#options.take(inFlight, record)
    switch (taking) {
      case "taken":
        run.record = record
        run.begin()
        return undefined
      case "unlisted":
        if (inFlight.stop !== undefined) return undefined
        return new SettledWithoutRun(
          settlement.handedBack(this.#outcomes.attempt(inFlight, run), run.claimed, UNCLAIMED_DELAY_MS),
        )
      default:
        return new SettledWithoutRun(NOTHING_TO_SETTLE)
    }
  }

  /**
   * The settlement of a delivery whose handler has run, after an error of the worker itself. `undefined` where the
   * handler has not run, or the run was ended from outside.
   */
  afterFault(inFlight: InFlight, cause: unknown): AttemptEnd | undefined {
    return inFlight.run === undefined || !inFlight.called
      ? undefined
      : this.#outcomes.afterFault(inFlight, inFlight.run, cause)
  }

  /**
   * Handles an error of the worker itself: a job whose handler has run fails with it, once; any other task is given
   * back.
   */
  #fault(inFlight: InFlight, cause: Cause.Cause<unknown>): AttemptEnd | undefined {
    const thrown = Cause.squash(cause)
    const failed = this.afterFault(inFlight, thrown)
    const { message, traceback } = jobError(thrown)
    this.#options.log.error(
      failed === undefined
        ? "a task could not be processed and is handed back"
        : "an outcome could not be determined, and the job fails for that",
      { job: inFlight.id, cause: traceback ?? message },
    )
    if (failed !== undefined) return failed
    return { token: inFlight.delivery.token, then: { kind: "release", delay: 5_000 } }
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
