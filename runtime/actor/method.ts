/** A method as it was written becomes a method as the runtime sees it, or is refused, naming what is wrong with it. */

import type { StandardSchemaV1 } from "@standard-schema/spec"
import { Result, Schema, SchemaIssue } from "effect"
import { timeToLive } from "../options/duration.ts"
import { jsonSchemaOf } from "../options/json-schema.ts"
import { parseRate, type Rate } from "../options/rate.ts"
import { RetryField, retryHeader } from "../options/retry-policy.ts"
import { didYouMean } from "../options/suggest.ts"
import { timeLimitOf } from "../options/time-limit.ts"
import type { RetryHeader } from "../protocol/headers.ts"
import { checkMethodName, checkQueueName } from "../protocol/name.ts"
import type {
  AckPolicy,
  ErasedMethod,
  Isolation,
  Limit,
  MethodDefinition,
  MethodHooks,
  MethodOptions,
} from "./definition.ts"

/** An actor definition that cannot be used. Thrown by `actor()`, when the module that defines it is loaded. */
export class InvalidActor extends Error {
  readonly _tag = "InvalidActor"
  override readonly name = "InvalidActor"
}

const isHandler = (value: unknown): value is ErasedMethod["run"] => typeof value === "function"

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

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

/** A schema that needs nothing to decode: what a method's type asks of an Effect Schema. */
const isEffectSchema = (value: unknown): value is Schema.ConstraintDecoder<unknown> => Schema.isSchema(value)

const standardSchema = (where: string, field: string, schema: unknown): StandardSchemaV1 | undefined => {
  if (schema === undefined || isStandardSchema(schema)) return schema
  if (isEffectSchema(schema)) return Schema.toStandardSchemaV1(schema)
  throw new InvalidActor(`method ${where}: ${field}: must be a Standard Schema (Zod, Valibot …) or an Effect Schema`)
}

const OPTIONS: Readonly<Record<keyof MethodDefinition, true>> = {
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

/** What is wrong with a policy of acks, and in which field; nothing, where it can be used. */
const problemOfAcks = ({ acks, onLost }: MethodOptions): readonly [field: string, why: string] | undefined => {
  if (acks === undefined) return undefined
  if (!isObject(acks) || Array.isArray(acks)) return ["acks", 'must be an object, such as { when: "early" }']
  for (const [field, value] of Object.entries(acks)) {
    if (!isAckField(field)) return [`acks.${field}`, "is not an option; acks has when, onFailure and onTimeout"]
    const allowed = ACKS[field]
    if (value !== undefined && !allowed.includes(value))
      return [`acks.${field}`, `must be ${allowed.map((each) => JSON.stringify(each)).join(" or ")}`]
  }
  // Nothing is left in the queue that could be delivered again.
  return acks.when === "early" && onLost === "redeliver"
    ? ["onLost", 'cannot be "redeliver" where acks.when is "early": a job whose worker dies has failed']
    : undefined
}

const ISOLATIONS: ReadonlySet<unknown> = new Set<Isolation>(["inline", "process"])

/** Checks a method and fills in what it does not say. Throws {@link InvalidActor}. */
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
  if (isHandler(method)) return { name, input: undefined, output: undefined, isolation, run: method }
  if (!isDefinition(method)) {
    throw new InvalidActor(`method ${where}: must be a function, or an object with a function \`run\``)
  }
  const unknown = Object.keys(method).find((key) => !Object.hasOwn(OPTIONS, key))
  if (unknown !== undefined) throw new InvalidActor(`method ${where}: ${unknown} is not an option of a method`)
  for (const hook of HOOKS) {
    if (method[hook] !== undefined && typeof method[hook] !== "function") {
      throw new InvalidActor(`method ${where}: ${hook}: must be a function`)
    }
  }
  checkOptions(where, method)
  const { retry, rate, limit, ...others } = method
  return {
    ...others,
    ...(retry === undefined ? {} : { retry: retryOf(where, retry) }),
    ...(rate === undefined ? {} : { rate: rateOf(where, "rate", rate) }),
    ...(limit === undefined ? {} : { limit: limitOf(where, limit, standardSchema(where, "input", method.input)) }),
    name,
    input: standardSchema(where, "input", method.input),
    output: standardSchema(where, "output", method.output),
    isolation,
    run: (input, job) => method.run(input, job),
  }
}

const decodeRetry = Schema.decodeUnknownResult(RetryField, { onExcessProperty: "error" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** A retry policy in the form that tasks carry too, so that one can be laid over the other. */
const retryOf = (where: string, policy: unknown): RetryHeader => {
  const refuse = (field: string, why: string): never => {
    throw new InvalidActor(`method ${where}: ${field}: ${why}`)
  }
  const decoded = decodeRetry(policy)
  if (Result.isFailure(decoded)) {
    const issue = format(decoded.failure.issue).issues[0]
    const path = (issue?.path ?? []).map((key) => String(typeof key === "object" ? key.key : key))
    return refuse(["retry", ...path].join("."), (issue?.message ?? "is not valid").replace(/^Expected /, "must be "))
  }
  return retryHeader(decoded.success, refuse)
}

const rateOf = (where: string, field: string, rate: unknown): Rate => {
  const parsed = parseRate(rate)
  if (Result.isFailure(parsed)) throw new InvalidActor(`method ${where}: ${field}: ${parsed.failure}`)
  return parsed.success
}

const MOST_CONCURRENT = 100_000
const LIMIT_OPTIONS = ["rate", "concurrency", "key"] as const satisfies ReadonlyArray<keyof Limit>

const MOST_FIELD_BYTES = 255
const isField = (key: unknown): key is string =>
  typeof key === "string" && key.isWellFormed() && key !== "" && Buffer.byteLength(key) <= MOST_FIELD_BYTES

/** Fields that an input has by its JSON Schema; `undefined` where that does not tell, or others are let through. */
const fieldsOf = (input: StandardSchemaV1 | undefined): ReadonlyArray<string> | undefined => {
  const schema: unknown = input === undefined ? undefined : jsonSchemaOf(input, "input")
  if (!isObject(schema)) return undefined
  const properties: unknown = Reflect.get(schema, "properties")
  const others: unknown = Reflect.get(schema, "additionalProperties")
  return isObject(properties) && !isObject(others) ? Object.keys(properties) : undefined
}

const limitOf = (
  where: string,
  limit: unknown,
  input: StandardSchemaV1 | undefined,
): NonNullable<ErasedMethod["limit"]> => {
  const refuse = (field: string, why: string): never => {
    throw new InvalidActor(`method ${where}: ${field}: ${why}`)
  }
  if (!isLimit(limit)) return refuse("limit", "must be an object with rate, concurrency or both, and perhaps key")
  const unknown = Object.keys(limit).find((key) => !LIMIT_OPTIONS.some((option) => option === key))
  if (unknown !== undefined) refuse(`limit.${unknown}`, "is not an option of a limit")
  const { rate, concurrency, key } = limit
  if (rate === undefined && concurrency === undefined) refuse("limit", "needs rate, concurrency or both")
  if (
    concurrency !== undefined &&
    !(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= MOST_CONCURRENT)
  ) {
    refuse("limit.concurrency", `must be a whole number from 1 to ${MOST_CONCURRENT}`)
  }
  if (key !== undefined && typeof key !== "function" && !isField(key)) {
    refuse("limit.key", `must be the name of a field of the input, of 1 to ${MOST_FIELD_BYTES} bytes, or a function`)
  }
  const fields = typeof key === "string" ? fieldsOf(input) : undefined
  if (typeof key === "string" && fields !== undefined && !fields.includes(key)) {
    refuse(
      "limit.key",
      `${JSON.stringify(key)} is no field of the input${didYouMean(key, fields)}: it has ${fields.join(", ") || "none"}`,
    )
  }
  return {
    ...(rate === undefined ? {} : { rate: rateOf(where, "limit.rate", rate) }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(key === undefined ? {} : { key }),
  }
}

const isLimit = (value: unknown): value is Limit => isObject(value) && !Array.isArray(value)

const checkOptions = (where: string, options: MethodOptions): void => {
  const refuse = (field: string, why: string): never => {
    throw new InvalidActor(`method ${where}: ${field}: ${why}`)
  }
  const { timeLimit, resultTtl, failureTtl, onLost, priority, queue } = options
  if (queue !== undefined) {
    const checked = checkQueueName(queue)
    if (Result.isFailure(checked)) refuse("queue", checked.failure.message)
  }
  if (timeLimit !== undefined) timeLimitOf(timeLimit, "timeLimit.", refuse)
  if (onLost !== undefined && !ON_LOST.has(onLost)) refuse("onLost", 'must be "redeliver" or "fail"')
  const problem = problemOfAcks(options)
  if (problem !== undefined) refuse(...problem)
  if (priority !== undefined && !(Number.isInteger(priority) && priority >= 0 && priority <= 9)) {
    refuse("priority", "must be a whole number from 0 to 9")
  }
  if (resultTtl !== undefined) timeToLive("resultTtl", resultTtl, refuse)
  if (failureTtl !== undefined) timeToLive("failureTtl", failureTtl, refuse)
  const seen = new Set<string>()
  for (const param of options.params ?? []) {
    if (seen.has(param)) refuse("params", `${param} is named twice`)
    seen.add(param)
  }
}
