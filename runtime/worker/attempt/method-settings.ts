import type { ErasedMethod } from "../../actor/actor.ts"
import type { Keep } from "../../jobs/outcome/verdict.ts"
import { timeToLive } from "../../options/duration.ts"
import { timeLimitOf } from "../../options/time-limit.ts"

/** Hard time limit of methods and tasks that name none: every run has an end. */
export const DEFAULT_HARD_MS = 30 * 60_000

/** Time limits of a method, in milliseconds; null: none beyond the hard one. */
export interface TimeLimits {
  readonly hardMs?: number
  readonly softMs?: number | null
}

/** What a method's options come to. */
export interface MethodSettings {
  readonly hardMs: number
  readonly softMs: number | undefined
  readonly keep: Keep
}

/** The plans of a worker's methods, each worked out once. */
export class MethodSettingsCache {
  readonly #keep: Keep
  readonly #settings = new WeakMap<ErasedMethod, MethodSettings>()

  /** `keep` is for methods that name no time. */
  constructor(keep: Keep) {
    this.#keep = keep
  }

  of(method: ErasedMethod): MethodSettings {
    let settings = this.#settings.get(method)
    if (settings === undefined) {
      settings = settingsOf(method, this.#keep)
      this.#settings.set(method, settings)
    }
    return settings
  }

  /** Changes a method's limits for runs that begin from now on. */
  limitTime(method: ErasedMethod, { hardMs, softMs }: TimeLimits): void {
    this.#settings.set(method, {
      ...this.of(method),
      ...(hardMs === undefined ? {} : { hardMs }),
      ...(softMs === undefined ? {} : { softMs: softMs ?? undefined }),
    })
  }
}

const settingsOf = (method: ErasedMethod, keep: Keep): MethodSettings => {
  const { timeLimit, resultTtl, failureTtl } = method
  // All of it was checked when the actor was defined.
  const { hardMs = DEFAULT_HARD_MS, softMs } = timeLimit === undefined ? {} : timeLimitOf(timeLimit)
  return {
    hardMs,
    softMs,
    keep: {
      resultMs: resultTtl === undefined ? keep.resultMs : timeToLive("resultTtl", resultTtl),
      failureMs: failureTtl === undefined ? keep.failureMs : timeToLive("failureTtl", failureTtl),
    },
  }
}
