/** Checks a method as its author wrote it, and converts it to the form that the runtime uses. */

import * as Result from "effect/Result"
import { methodLimitOf, rateOf } from "../options/limit.ts"
import { resultOf } from "../options/refusal.ts"
import { refuseInput } from "../options/refuse.ts"
import { retryHeader } from "../options/retry-policy.ts"
import { compact, ifGiven } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import { checkMethodName } from "../protocol/name.ts"
import { parseScheduleFields, rulesOf, type ScheduleDeclaration } from "../schedules/fields.ts"
import { checkScheduleName } from "../schedules/name.ts"
import type { ErasedMethod, Isolation } from "./definition.ts"
import { defining, InvalidActor, parseMethodOptions, standardSchema } from "./options.ts"

const isHandler = (value: unknown): value is ErasedMethod["run"] => typeof value === "function"

const isDefinition = (value: unknown): value is { readonly run: ErasedMethod["run"] } =>
  isObject(value) && "run" in value && isHandler(value.run)

/** Checks a method and applies defaults. Throws `InvalidActor`, naming the field. */
export const eraseMethod = (
  actor: string,
  name: string,
  method: unknown,
  actorIsolation: Isolation = "inline",
): ErasedMethod => {
  const what = `method ${actor}.${name}`
  const checkedName = checkMethodName(name)
  if (Result.isFailure(checkedName)) throw new InvalidActor(`${what}: ${checkedName.failure.message}`)
  if (isHandler(method))
    return { actor, name, input: undefined, output: undefined, isolation: actorIsolation, run: method }
  if (!isDefinition(method)) throw new InvalidActor(`${what}: must be a function, or an object with a function \`run\``)
  return defining(what, () => {
    const { retry, rate, limit, schedule, isolation = actorIsolation, ...options } = parseMethodOptions(method)
    // A task that was acked early is not in its queue any more, so it cannot be delivered again.
    if (options.acks?.when === "early" && options.onLost === "redeliver")
      refuseInput("onLost", 'cannot be "redeliver" if acks.when is "early": a job whose worker dies has failed')
    const input = ifGiven(options.input, standardSchema)
    return {
      ...options,
      ...compact({
        retry: ifGiven(retry, (given) => retryHeader(given)),
        rate: ifGiven(rate, (given) => rateOf("rate", given)),
        limit: ifGiven(limit, (given) => methodLimitOf(given, input)),
        schedule: ifGiven(schedule, (given) => scheduleOf(actor, name, given)),
      }),
      actor,
      name,
      input,
      output: ifGiven(options.output, standardSchema),
      isolation,
      // The author's object, so that the handler may use `this`.
      run: (given, job) => method.run(given, job),
    }
  })
}

/** What a method declares is checked when its module is loaded, not when its worker makes the schedule. */
const scheduleOf = (actor: string, method: string, given: string | ScheduleDeclaration): ScheduleDeclaration => {
  const fields = typeof given === "string" ? { cron: given } : given
  const declared = resultOf(() => {
    checkScheduleName(`${actor}.${method}`)
    if (fields.at !== undefined) refuseInput("at", "cannot be declared: it would be due once, whenever a worker starts")
    rulesOf(parseScheduleFields({ ...fields, task: actor, meth: method }), Date.now())
    return fields
  })
  if (Result.isSuccess(declared)) return declared.success
  const { message, details } = declared.failure
  const { field = "schedule" } = details
  return refuseInput(field === "schedule" ? field : `schedule.${field}`, message.replace(`${field}: `, ""))
}
