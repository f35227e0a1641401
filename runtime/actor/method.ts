/** Checks a method as its author wrote it, and converts it to the form that the runtime uses. */

import type { StandardSchemaV1 } from "@standard-schema/spec"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { withoutAnyUndefined } from "../options/check.ts"
import { timeLimitOf, timeToLive } from "../options/duration.ts"
import { wholeNumber } from "../options/fields.ts"
import { methodLimitOf, rateOf } from "../options/limit.ts"
import { type Refuse, refuseInput, resultOf } from "../options/refuse.ts"
import { RetryField, retryHeader } from "../options/retry-policy.ts"
import { compact, ifGiven } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import { isTexts } from "../protocol/header-field.ts"
import type { RetryHeader } from "../protocol/headers.ts"
import { checkMethodName, checkQueueName } from "../protocol/name.ts"
import {
  checkScheduleName,
  parseDeclaration,
  parseScheduleFields,
  rulesOf,
  type ScheduleDeclaration,
} from "../schedules/fields.ts"
import { didYouMean } from "../suggest.ts"
import type {
  AckPolicy,
  ErasedMethod,
  Isolation,
  Limit,
  MethodDefinition,
  MethodHooks,
  MethodOptions,
} from "./definition.ts"

/** A wrong definition of an actor. Thrown by `actor()`, thus when the module is loaded; the message names the field. */
export class InvalidActor extends Error {
  readonly _tag = "InvalidActor"
  override readonly name = "InvalidActor"
}

const isHandler = (value: unknown): value is ErasedMethod["run"] => typeof value === "function"

interface Definition extends MethodOptions, MethodHooks {
  readonly input?: unknown
  readonly output?: unknown
  readonly limit?: Limit
  readonly run: ErasedMethod["run"]
}

const isDefinition = (value: unknown): value is Definition => isObject(value) && "run" in value && isHandler(value.run)

const isStandardSchema = (value: unknown): value is StandardSchemaV1 => {
  // ArkType's schemas are functions.
  if (!isObject(value) && typeof value !== "function") return false
  const standard: unknown = Reflect.get(value, "~standard")
  return isObject(standard) && "validate" in standard && typeof standard.validate === "function"
}

/** An Effect Schema. That it needs no services to decode is checked by the type of the method. */
const isEffectSchema = (value: unknown): value is Schema.ConstraintDecoder<unknown> => Schema.isSchema(value)

const standardSchema = (where: string, field: string, schema: unknown): StandardSchemaV1 | undefined => {
  if (schema === undefined || isStandardSchema(schema)) return schema
  if (isEffectSchema(schema)) return Schema.toStandardSchemaV1(schema)
  throw new InvalidActor(`method ${where}: ${field}: must be a Standard Schema (Zod, Valibot …) or an Effect Schema`)
}

/** The options of a method, by name. */
export const METHOD_OPTIONS: Readonly<Record<keyof MethodDefinition, true>> = {
  accepts: true,
  acks: true,
  description: true,
  failureTtl: true,
  input: true,
  isolation: true,
  limit: true,
  onFailure: true,
  onLost: true,
  onStopped: true,
  onSuccess: true,
  output: true,
  params: true,
  priority: true,
  queue: true,
  rate: true,
  redact: true,
  resultTtl: true,
  retry: true,
  run: true,
  schedule: true,
  timeLimit: true,
}

const HOOKS = ["onSuccess", "onFailure", "onStopped"] as const satisfies ReadonlyArray<keyof MethodHooks>

const ON_LOST: ReadonlySet<unknown> = new Set<MethodOptions["onLost"]>(["redeliver", "fail"])

const ACKS: Readonly<Record<keyof AckPolicy, ReadonlyArray<unknown>>> = {
  when: ["late", "early"],
  onFailure: ["ack", "reject"],
  onTimeout: ["ack", "reject"],
}

const isAckField = (field: string): field is keyof AckPolicy => Object.hasOwn(ACKS, field)

/** The first problem of the option `acks`, with its field; `undefined` where there is none. */
const problemOfAcks = ({ acks, onLost }: MethodOptions): readonly [field: string, why: string] | undefined => {
  if (acks === undefined) return undefined
  if (!isObject(acks) || Array.isArray(acks)) return ["acks", 'must be an object, such as { when: "early" }']
  for (const [field, value] of Object.entries(acks)) {
    if (!isAckField(field)) return [`acks.${field}`, "is not an option; acks has when, onFailure and onTimeout"]
    const allowed = ACKS[field]
    if (value !== undefined && !allowed.includes(value))
      return [`acks.${field}`, `must be ${allowed.map((each) => JSON.stringify(each)).join(" or ")}`]
  }
  // A task that was acked early is not in its queue any more, so it cannot be delivered again.
  return acks.when === "early" && onLost === "redeliver"
    ? ["onLost", 'cannot be "redeliver" where acks.when is "early": a job whose worker dies has failed']
    : undefined
}

const PRIORITIES = { min: 0, max: 9 }

const ISOLATIONS: ReadonlySet<unknown> = new Set<Isolation>(["inline", "process"])

/** Checks a method and applies defaults. Throws {@link InvalidActor}, naming the field. */
export const eraseMethod = (
  actorName: string,
  name: string,
  method: unknown,
  actorIsolation: Isolation = "inline",
): ErasedMethod => {
  const where = `${actorName}.${name}`
  const checkedName = checkMethodName(name)
  if (Result.isFailure(checkedName)) throw new InvalidActor(`method ${where}: ${checkedName.failure.message}`)
  const isolation = (isDefinition(method) ? method.isolation : undefined) ?? actorIsolation
  if (!ISOLATIONS.has(isolation)) throw new InvalidActor(`method ${where}: isolation: must be "inline" or "process"`)
  if (isHandler(method)) return { actor: actorName, name, input: undefined, output: undefined, isolation, run: method }
  if (!isDefinition(method)) {
    throw new InvalidActor(`method ${where}: must be a function, or an object with a function \`run\``)
  }
  const unknown = Object.keys(method).find((key) => !Object.hasOwn(METHOD_OPTIONS, key))
  if (unknown !== undefined) {
    const meant = didYouMean(unknown, Object.keys(METHOD_OPTIONS))
    throw new InvalidActor(`method ${where}: ${unknown} is not an option of a method${meant}`)
  }
  for (const hook of HOOKS) {
    if (method[hook] !== undefined && typeof method[hook] !== "function") {
      throw new InvalidActor(`method ${where}: ${hook}: must be a function`)
    }
  }
  const refuse: Refuse = (field, why) => {
    throw new InvalidActor(`method ${where}: ${field}: ${why}`)
  }
  checkMethodOptions(method, refuse)
  const { retry, rate, limit, schedule, ...others } = method
  const input = standardSchema(where, "input", method.input)
  return {
    ...others,
    ...compact({
      retry: ifGiven(retry, (given) => retryOf(given, refuse)),
      rate: ifGiven(rate, (given) => rateOf("rate", given, refuse)),
      limit: ifGiven(limit, (given) => methodLimitOf(given, input, refuse)),
      schedule: ifGiven(schedule, (given) => scheduleOf(actorName, name, given, refuse)),
    }),
    actor: actorName,
    name,
    input,
    output: standardSchema(where, "output", method.output),
    isolation,
    run: (input, job) => method.run(input, job),
  }
}

const decodeRetry = Schema.decodeUnknownResult(RetryField, { onExcessProperty: "error" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** A retry policy in the form of the headers, so that the policy of a task can override it field by field. */
export const retryOf = (policy: unknown, refuse: Refuse): RetryHeader => {
  const decoded = decodeRetry(withoutAnyUndefined(policy))
  if (Result.isFailure(decoded)) {
    const issue = format(decoded.failure.issue).issues[0]
    const path = (issue?.path ?? []).map((key) => String(typeof key === "object" ? key.key : key))
    return refuse(["retry", ...path].join("."), (issue?.message ?? "is not valid").replace(/^Expected /, "must be "))
  }
  return retryHeader(decoded.success, refuse)
}

/** What a method declares is checked when its module is loaded, not when its worker makes the schedule. */
const scheduleOf = (
  actor: string,
  method: string,
  given: MethodOptions["schedule"],
  refuse: Refuse,
): ScheduleDeclaration => {
  const declared = resultOf(() => {
    checkScheduleName(`${actor}.${method}`)
    const fields = parseDeclaration(given)
    if (fields.at !== undefined) refuseInput("at", "cannot be declared: it would be due once, whenever a worker starts")
    rulesOf(parseScheduleFields({ ...fields, task: actor, meth: method }), Date.now())
    return fields
  })
  if (Result.isSuccess(declared)) return declared.success
  const { message, details } = declared.failure
  const { field = "schedule" } = details
  return refuse(field === "schedule" ? field : `schedule.${field}`, message.replace(`${field}: `, ""))
}

const checkMethodOptions = (options: MethodOptions, refuse: Refuse): void => {
  const { timeLimit, resultTtl, failureTtl, onLost, priority, queue, description, redact, params = [] } = options
  if (description !== undefined && typeof description !== "string") refuse("description", "must be text")
  // A text would hide nothing, and what it names would be shown.
  if (redact !== undefined && typeof redact !== "boolean" && !isTexts(redact))
    refuse("redact", "must be true, false or a list of names")
  if (!isTexts(params)) refuse("params", "must be a list of names")
  if (queue !== undefined) {
    const checked = checkQueueName(queue)
    if (Result.isFailure(checked)) refuse("queue", checked.failure.message)
  }
  if (timeLimit !== undefined) timeLimitOf(timeLimit, "timeLimit.", refuse)
  if (onLost !== undefined && !ON_LOST.has(onLost)) refuse("onLost", 'must be "redeliver" or "fail"')
  const problem = problemOfAcks(options)
  if (problem !== undefined) refuse(...problem)
  if (priority !== undefined) wholeNumber("priority", priority, PRIORITIES, refuse)
  if (resultTtl !== undefined) timeToLive("resultTtl", resultTtl, refuse)
  if (failureTtl !== undefined) timeToLive("failureTtl", failureTtl, refuse)
  const seen = new Set<string>()
  for (const param of params) {
    if (seen.has(param)) refuse("params", `${param} is named twice`)
    seen.add(param)
  }
}
