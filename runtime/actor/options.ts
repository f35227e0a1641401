/** The options of methods and actors: of each one table, which has their names and by which they are checked. */

import type { StandardSchemaV1 } from "@standard-schema/spec"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError } from "../errors.ts"
import { AnyFunction, parserOf } from "../options/check.ts"
import { Duration } from "../options/duration-field.ts"
import { whole } from "../options/fields.ts"
import { INHERITED } from "../options/inherited.ts"
import { LimitField, RateField } from "../options/limit.ts"
import { resultOf } from "../options/refusal.ts"
import { RETRY_FIELDS, type RetryPolicy } from "../options/retry-policy.ts"
import { isObject } from "../protocol/guards.ts"
import { isTexts } from "../protocol/header-field.ts"
import { checkQueueName } from "../protocol/name.ts"
import { DeclaredField } from "../schedules/fields.ts"
import type { AckPolicy, ActorOptions, MethodDefaults, MethodDefinition, RestartPolicy } from "./definition.ts"

/** A wrong definition of an actor. Thrown by `actor()`, thus when the module is loaded; the message names the field. */
export class InvalidActor extends Error {
  readonly _tag = "InvalidActor"
  override readonly name = "InvalidActor"
  /** `unknown-field` for an option that does not exist, else `invalid-input`. */
  readonly code: CallboardError["code"]
  /** `field`: the option that is wrong, as a path: `retry.max`. */
  readonly details: CallboardError["details"]
  constructor(message: string, { code, details }: CallboardError = new CallboardError("invalid-input", message)) {
    super(message)
    this.code = code
    this.details = details
  }
}

/** The answer of checks of `what`, such as `method text.count`. Throws {@link InvalidActor} for what they refuse. */
export const defining = <A>(what: string, checks: () => A): A => {
  const checked = resultOf(checks)
  if (Result.isSuccess(checked)) return checked.success
  throw new InvalidActor(`${what}: ${checked.failure.message}`, checked.failure)
}

/** A schema for each option of an interface. What functions take and return is checked by the types of a definition. */
type SchemasOf<Options> = {
  readonly [Name in keyof Options]-?: {
    readonly Type: Exclude<Options[Name], undefined> extends (...args: never) => unknown
      ? unknown
      : Exclude<Options[Name], undefined>
  }
}

const isStandardSchema = (value: unknown): value is StandardSchemaV1 => {
  // ArkType's schemas are functions.
  if (!isObject(value) && typeof value !== "function") return false
  const standard: unknown = Reflect.get(value, "~standard")
  return isObject(standard) && "validate" in standard && typeof standard.validate === "function"
}

/** A Standard Schema or an Effect Schema. That it needs no services to decode is checked by the type of the method. */
const isAnySchema = (value: unknown): value is StandardSchemaV1 | Schema.ConstraintCodec<unknown, unknown> =>
  isStandardSchema(value) || Schema.isSchema(value)

export const standardSchema = (schema: typeof AnySchema.Type): StandardSchemaV1 =>
  isStandardSchema(schema) ? schema : Schema.toStandardSchemaV1(schema)

const AnySchema = Schema.declare(isAnySchema, {
  expected: "a Standard Schema (Zod, Valibot …) or an Effect Schema",
})
const Names = Schema.declare(isTexts, { expected: "a list of names" })
// A text would hide nothing, and what it names would be shown.
const isRedact = (value: unknown): value is boolean | ReadonlyArray<string> =>
  typeof value === "boolean" || isTexts(value)
const Redact = Schema.declare(isRedact, { expected: "true, false or a list of names" })
const QueueName = Schema.String.check(
  Schema.makeFilter((queue: string) => {
    const checked = checkQueueName(queue)
    return Result.isSuccess(checked) || checked.failure.message
  }),
)
const Isolations = Schema.Literals(["inline", "process"])

const acks = {
  when: Schema.optionalKey(Schema.Literals(["late", "early"])),
  onFailure: Schema.optionalKey(Schema.Literals(["ack", "reject"])),
  onTimeout: Schema.optionalKey(Schema.Literals(["ack", "reject"])),
} satisfies SchemasOf<AckPolicy>

RETRY_FIELDS satisfies SchemasOf<RetryPolicy>

/** Those of a method that its actor may set for it. */
const INHERITED_OPTIONS = {
  timeLimit: Schema.optionalKey(INHERITED.timeLimit),
  retry: Schema.optionalKey(INHERITED.retry),
  resultTtl: Schema.optionalKey(INHERITED.resultTtl),
  failureTtl: Schema.optionalKey(INHERITED.failureTtl),
  onLost: Schema.optionalKey(INHERITED.onLost),
} satisfies SchemasOf<MethodDefaults>

/** The options of a method. */
export const METHOD_OPTIONS = {
  ...INHERITED_OPTIONS,
  accepts: Schema.optionalKey(Names),
  acks: Schema.optionalKey(Schema.Struct(acks).annotate({ message: 'must be an object, such as { when: "early" }' })),
  description: Schema.optionalKey(Schema.String),
  input: Schema.optionalKey(AnySchema),
  isolation: Schema.optionalKey(Isolations),
  limit: Schema.optionalKey(LimitField),
  onFailure: Schema.optionalKey(AnyFunction),
  onStopped: Schema.optionalKey(AnyFunction),
  onSuccess: Schema.optionalKey(AnyFunction),
  output: Schema.optionalKey(AnySchema),
  params: Schema.optionalKey(
    Names.check(
      Schema.makeFilter((names) => {
        const twice = names.find((name, at) => names.indexOf(name) !== at)
        return twice === undefined || `${twice} is named twice`
      }),
    ),
  ),
  priority: Schema.optionalKey(whole({ min: 0, max: 9 })),
  queue: Schema.optionalKey(QueueName),
  rate: Schema.optionalKey(RateField),
  redact: Schema.optionalKey(Redact),
  run: AnyFunction,
  schedule: Schema.optionalKey(DeclaredField),
} satisfies SchemasOf<MethodDefinition>

const restart = {
  max: Schema.optionalKey(whole({ min: 0, max: 1_000 })),
  within: Schema.optionalKey(Duration),
  backoff: Schema.optionalKey(
    Schema.Struct({
      base: Schema.optionalKey(Duration),
      max: Schema.optionalKey(Duration),
    } satisfies SchemasOf<NonNullable<RestartPolicy["backoff"]>>),
  ),
} satisfies SchemasOf<RestartPolicy>

const MODULE_RULE = "must be the URL of the file that exports it: import.meta.url"

/** The options of an actor. */
export const ACTOR_OPTIONS = {
  ...INHERITED_OPTIONS,
  description: Schema.optionalKey(Schema.String),
  isolation: Schema.optionalKey(Isolations),
  methods: Schema.Record(Schema.String, Schema.Unknown).annotate({
    message: "must be an object with a function for each method",
  }),
  module: Schema.optionalKey(
    Schema.String.annotate({ message: MODULE_RULE }).check(
      Schema.makeFilter((url: string) => URL.canParse(url) || MODULE_RULE),
    ),
  ),
  queue: Schema.optionalKey(QueueName),
  restart: Schema.optionalKey(Schema.Struct(restart)),
  start: Schema.optionalKey(AnyFunction),
  stop: Schema.optionalKey(AnyFunction),
} satisfies SchemasOf<ActorOptions<unknown> & { readonly methods: unknown }>

/** Checks the kinds and names of the options of a method. */
export const parseMethodOptions = parserOf(Schema.Struct(METHOD_OPTIONS), "a method", "method")

/** Checks the kinds and names of the options of an actor. */
export const parseActorOptions = parserOf(Schema.Struct(ACTOR_OPTIONS), "an actor", "actor")
