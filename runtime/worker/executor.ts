/**
 * One delivery from hand to settlement: prepare → take off the queue, where that is early → run → judge. Each step either
 * goes on or ends with the settlement that says how; the settlement is then stored by the settler, late, once.
 */

import { Cause, Effect, type Exit } from "effect"
import { acksEarly } from "../actor/definition.ts"
import * as verdict from "../jobs/outcome/verdict.ts"
import type { JobRecord } from "../protocol/record.ts"
import type { AttemptEnd } from "../transport/lift/transport.ts"
import { attempt, tellStopped } from "./attempt/attempt.ts"
import { Decided, NOTHING, UNCLAIMED_DELAY_MS } from "./attempt/claiming.ts"
import { Judgement } from "./attempt/judgement.ts"
import { MethodPlans, type TimeLimits } from "./attempt/method-plan.ts"
import { Preparation, type PreparationOptions, Ready } from "./attempt/preparation.ts"
import type { Held, Running } from "./delivery/delivery.ts"
import type { ProcessPool } from "./isolation/process-pool.ts"
import type { Taking } from "./settle/early-acks.ts"

export interface ExecutorOptions extends PreparationOptions {
  /** Runs the handlers of isolated methods. */
  readonly processes: ProcessPool
  /** Stores the record of a job that starts, and takes its task off the queue. */
  readonly take: (held: Held, record: JobRecord) => Promise<Taking>
  /** Called when the handler of a task is about to run. */
  readonly onRun: (held: Held) => void
}

export class Executor {
  readonly #options: ExecutorOptions
  readonly #plans: MethodPlans
  readonly #judgement: Judgement
  readonly #preparation: Preparation

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#plans = new MethodPlans(options.keep)
    this.#judgement = new Judgement(options.pool, this.#plans)
    this.#preparation = new Preparation(options, this.#plans, this.#judgement)
  }

  /** Runs a delivery to its end and returns how to settle it; `undefined` when there is nothing to settle. Never fails. */
  execute(held: Held): Effect.Effect<AttemptEnd | undefined> {
    return Effect.gen({ self: this }, function* () {
      const ready = yield* this.#preparation.prepare(held)
      if (!(ready instanceof Ready)) return ready.settlement
      held.whenLeft(ready.actor.enter())
      if (held.stop === undefined && acksEarly(ready.run.method)) {
        const decided = yield* Effect.promise(() => this.#take(held, ready.run))
        if (decided !== undefined) return decided.settlement
      }
      // Decided from outside while it was being prepared: its handler must not begin.
      if (held.stop !== undefined) {
        ready.run.end(held.stop)
        return this.#judgement.stopped(held, ready.run)
      }
      held.run = ready.run
      this.#options.onRun(held)
      held.called = true
      const exit = yield* this.#call(ready)
      if (ready.run.stop === "cancelled") yield* tellStopped(ready.run.method, ready.job)
      return this.#judgement.judge(held, ready.run, exit)
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
        run.begin()
        return undefined
      case "unlisted":
        if (held.stop !== undefined) return undefined
        return new Decided(verdict.handedBack(this.#judgement.attempt(held, run), run.claimed, UNCLAIMED_DELAY_MS))
      default:
        return new Decided(NOTHING)
    }
  }

  /** The end of a delivery whose handler has run, after a fault of our own. Nothing where it has not, or was ended from outside. */
  faulted(held: Held, cause: unknown): AttemptEnd | undefined {
    return held.run === undefined || !held.called ? undefined : this.#judgement.faulted(held, held.run, cause)
  }

  /** A fault of our own: a job whose handler has run fails for it, once; any other is given back. */
  #fault(held: Held, cause: Cause.Cause<unknown>): AttemptEnd | undefined {
    const failed = this.faulted(held, Cause.squash(cause))
    if (failed !== undefined) {
      this.#options.log.error("an outcome could not be made, and the job fails for that", {
        job: held.id,
        cause: Cause.pretty(cause),
      })
      return failed
    }
    this.#options.log.error("a task could not be processed and is handed back", {
      job: held.id,
      cause: Cause.pretty(cause),
    })
    return { token: held.delivery.token, then: { kind: "release", delay: 5_000 } }
  }

  /** Changes a method's limits for runs that begin from now on. False if nobody here serves it. */
  limitTime(name: string, limits: TimeLimits): boolean {
    const target = this.#options.pool.resolve(name, null)
    if (target.found) this.#plans.limitTime(target.method, limits)
    return target.found
  }
}
