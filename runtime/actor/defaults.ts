/**
 * Options that a method does not set hold as its actor sets them, then as the service does, then as the configuration does.
 * The nearest of them that sets an option sets all of it, so that a whole retry policy can be read in one place.
 */

import type { AppliedOptions } from "../cluster/directory.ts"
import { DEFAULTS } from "../config/table.ts"
import { resolveRetry } from "../jobs/outcome/retry.ts"
import { DEFAULT_HARD_MS, type DurationInput, NO_LIMIT_MS, timeLimitOf, timeToLive } from "../options/duration.ts"
import { INHERITED_NAMES, type InheritedOption } from "../options/inherited.ts"
import { retryHeader } from "../options/retry-policy.ts"
import { compact, ifGiven, pick } from "../protocol/compact.ts"
import type { ActorDefinition, ErasedMethod, MethodDefaults } from "./definition.ts"

type ErasedDefaults = Pick<ErasedMethod, InheritedOption>

/** Who set an option: `actor`, `service`, or the file, variable or flag of the configuration. */
type SetBy = (option: InheritedOption) => string

const erased = (options: MethodDefaults): ErasedDefaults => {
  const { retry, ...others } = pick(options, INHERITED_NAMES)
  return { ...others, ...compact({ retry: ifGiven(retry, (given) => retryHeader(given)) }) }
}

const inherit = (method: ErasedMethod, defaults: ErasedDefaults, setBy: SetBy): ErasedMethod => {
  const missing = INHERITED_NAMES.filter((name) => method[name] === undefined && defaults[name] !== undefined)
  if (missing.length === 0) return method
  const from = Object.fromEntries(missing.map((name) => [name, setBy(name)]))
  return { ...method, ...pick(defaults, missing), from: { ...method.from, ...from } }
}

/** The methods with these defaults for options that neither they nor defaults before these set. The options were checked. */
export const withDefaults = (
  methods: ReadonlyMap<string, ErasedMethod>,
  options: MethodDefaults,
  setBy: SetBy,
): ReadonlyMap<string, ErasedMethod> => {
  const defaults = erased(options)
  return new Map([...methods].map(([name, method]) => [name, inherit(method, defaults, setBy)]))
}

/** The actors with these defaults for their methods. */
export const actorsWithDefaults = (
  actors: ReadonlyArray<ActorDefinition>,
  options: MethodDefaults,
  setBy: SetBy,
): ReadonlyArray<ActorDefinition> =>
  actors.map((actor) => ({ ...actor, methods: withDefaults(actor.methods, options, setBy) }))

/** The options of a method that hold, and where each was set. */
export const describeOptions = (method: ErasedMethod): AppliedOptions => {
  const { timeLimit, resultTtl, failureTtl, onLost = DEFAULTS.onLost } = method
  const held = <A>(name: InheritedOption, value: A) => ({
    value,
    from: method.from?.[name] ?? (method[name] === undefined ? "default" : "method"),
  })
  const seconds = (name: "resultTtl" | "failureTtl", given: DurationInput = DEFAULTS[name]) => {
    const ms = timeToLive(name, given)
    return held(name, ms < 0 ? -1 : ms / 1_000)
  }
  return {
    timeLimit: held("timeLimit", limitsOf(timeLimit)),
    retry: held("retry", policyOf(method)),
    resultTtl: seconds("resultTtl", resultTtl),
    failureTtl: seconds("failureTtl", failureTtl),
    onLost: held("onLost", onLost),
  }
}

const limitsOf = (given: ErasedMethod["timeLimit"] = {}): AppliedOptions["timeLimit"]["value"] => {
  const { hardMs = DEFAULT_HARD_MS, softMs } = timeLimitOf(given)
  return { hard: hardMs === NO_LIMIT_MS ? null : hardMs / 1_000, ...compact({ soft: softMs && softMs / 1_000 }) }
}

const policyOf = ({ retry }: ErasedMethod): AppliedOptions["retry"]["value"] => {
  const { max, baseMs, factor, capMs, jitter, intervalsMs, front, on, except } = resolveRetry(undefined, retry)
  if (max === 0) return { max }
  const waits =
    intervalsMs === undefined
      ? { backoff: { base: baseMs / 1_000, factor, max: capMs / 1_000, jitter } }
      : { interval: intervalsMs.map((ms) => ms / 1_000) }
  return { max, ...waits, ...(front ? { front } : {}), ...compact({ on, except: retry?.except && except }) }
}
