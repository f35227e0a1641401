/** What the options of a method come to: its time limits, which may be changed meanwhile, and how long its jobs are kept. */
import { Result } from "effect"
import type { ErasedMethod } from "../../actor/actor.ts"
import type { Keep } from "../../jobs/outcome/verdict.ts"
import { parseDuration, parseTimeToLive } from "../../protocol/time.ts"

/** Hard time limit of methods and tasks that name none: every run has an end. */
export const DEFAULT_HARD_MS = 30 * 60_000

/** Time limits of a method, in milliseconds; null: none beyond the hard one. */
export interface TimeLimits {
  readonly hardMs?: number
  readonly softMs?: number | null
}

/** What a method's options come to. */
export interface MethodPlan {
  readonly hardMs: number
  readonly softMs: number | undefined
  readonly keep: Keep
}

/** The plans of a worker's methods, each worked out once. */
export class MethodPlans {
  readonly #keep: Keep
  readonly #plans = new WeakMap<ErasedMethod, MethodPlan>()

  /** `keep` is for methods that name no time. */
  constructor(keep: Keep) {
    this.#keep = keep
  }

  of(method: ErasedMethod): MethodPlan {
    let plan = this.#plans.get(method)
    if (plan === undefined) {
      plan = planOf(method, this.#keep)
      this.#plans.set(method, plan)
    }
    return plan
  }

  /** Changes a method's limits for runs that begin from now on. */
  limitTime(method: ErasedMethod, { hardMs, softMs }: TimeLimits): void {
    this.#plans.set(method, {
      ...this.of(method),
      ...(hardMs === undefined ? {} : { hardMs }),
      ...(softMs === undefined ? {} : { softMs: softMs ?? undefined }),
    })
  }
}

const planOf = (method: ErasedMethod, keep: Keep): MethodPlan => {
  const { timeLimit, resultTtl, failureTtl } = method
  const given: { readonly soft?: number | string; readonly hard?: number | string } =
    typeof timeLimit === "object" ? timeLimit : timeLimit === undefined ? {} : { hard: timeLimit }
  // Checked when the actor was defined.
  const ms = (value: number | string | undefined) =>
    value === undefined ? undefined : Result.getOrUndefined(parseDuration(value))
  const ttl = (value: number | string | undefined) =>
    value === undefined ? undefined : Result.getOrUndefined(parseTimeToLive(value))
  return {
    hardMs: ms(given.hard) ?? DEFAULT_HARD_MS,
    softMs: ms(given.soft),
    keep: { resultMs: ttl(resultTtl) ?? keep.resultMs, failureMs: ttl(failureTtl) ?? keep.failureMs },
  }
}
