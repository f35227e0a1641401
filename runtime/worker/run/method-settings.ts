import type { ErasedMethod } from "../../actor/actor.ts"
import type { Keep } from "../../jobs/outcome/settlement.ts"
import { DEFAULT_HARD_MS, timeLimitOf, timeToLive } from "../../options/duration.ts"
import type { Task } from "../../protocol/headers.ts"

/** Time limits of a method, in milliseconds. A `softMs` of null: no soft limit. */
export interface TimeLimits {
  readonly hardMs?: number
  readonly softMs?: number | null
}

/** The options of a method with the defaults applied. */
export interface MethodSettings {
  readonly hardMs: number
  readonly softMs: number | undefined
  readonly keep: Keep
}

/** The settings of a worker's methods, each computed once. */
export class MethodSettingsCache {
  readonly #keep: Keep
  readonly #settings = new WeakMap<ErasedMethod, MethodSettings>()

  /** `keep` is used for methods that set no retention themselves. */
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

  /** The hard time limit of a task of a method, in milliseconds. */
  hardMsOf(method: ErasedMethod, { timelimit: { hard } }: Task): number {
    return hard === null ? this.of(method).hardMs : hard * 1000
  }

  /** Changes the time limits of a method for runs that begin from now on. */
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
  // The options were validated when the actor was defined.
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
