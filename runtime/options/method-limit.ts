/** The option `limit` of a method, checked once, when the actor is defined. */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { fieldsOf } from "./json-schema.ts"
import { type Rate, rateOf } from "./rate.ts"
import { didYouMean, type Refuse } from "./refuse.ts"
import { wholeNumber } from "./whole.ts"

/**
 * How often jobs of a method may start, and how many may run at a time, over all workers together; with a key, per
 * tenant.
 */
export interface MethodLimit {
  readonly rate?: Rate
  readonly concurrency?: number
  /** Names the tenant of a job: a field of the input, or a function of the input. */
  readonly key?: string | ((input: unknown) => unknown)
}

const OPTIONS: ReadonlyArray<string> = ["rate", "concurrency", "key"] satisfies ReadonlyArray<keyof MethodLimit>
const CONCURRENCY = { least: 1, most: 100_000 }
const MOST_FIELD_BYTES = 255

const isLimit = (value: unknown): value is Readonly<Partial<Record<keyof MethodLimit, unknown>>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isFunction = (value: unknown): value is (input: unknown) => unknown => typeof value === "function"

const isField = (value: unknown): value is string =>
  typeof value === "string" && value.isWellFormed() && value !== "" && Buffer.byteLength(value) <= MOST_FIELD_BYTES

/**
 * Checks a limit and parses its rate. `input`: schema of the method's input, by which the name of the key is checked.
 */
export const methodLimitOf = (limit: unknown, input: StandardSchemaV1 | undefined, refuse: Refuse): MethodLimit => {
  if (!isLimit(limit)) return refuse("limit", "must be an object with rate, concurrency or both, and perhaps key")
  const unknown = Object.keys(limit).find((option) => !OPTIONS.includes(option))
  if (unknown !== undefined) refuse(`limit.${unknown}`, `is not an option of a limit${didYouMean(unknown, OPTIONS)}`)
  const { rate, concurrency, key } = limit
  if (rate === undefined && concurrency === undefined) refuse("limit", "needs rate, concurrency or both")
  return {
    ...(concurrency === undefined
      ? {}
      : { concurrency: wholeNumber("limit.concurrency", concurrency, CONCURRENCY, refuse) }),
    ...(key === undefined ? {} : { key: keyOf(key, input, refuse) }),
    ...(rate === undefined ? {} : { rate: rateOf("limit.rate", rate, refuse) }),
  }
}

const keyOf = (key: unknown, input: StandardSchemaV1 | undefined, refuse: Refuse): NonNullable<MethodLimit["key"]> => {
  if (isFunction(key)) return key
  if (!isField(key))
    return refuse(
      "limit.key",
      `must be the name of a field of the input, of 1 to ${MOST_FIELD_BYTES} bytes, or a function`,
    )
  const fields = input === undefined ? undefined : fieldsOf(input)
  if (fields === undefined || fields.includes(key)) return key
  const name = JSON.stringify(key)
  return refuse(
    "limit.key",
    `${name} is no field of the input${didYouMean(key, fields)}: it has ${fields.join(", ") || "none"}`,
  )
}
