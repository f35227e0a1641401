/** The limit of a method as its author writes it: checked once, when the actor is defined. */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { fieldsOf } from "./json-schema.ts"
import { type Rate, rateOf } from "./rate.ts"
import type { Refuse } from "./refuse.ts"
import { didYouMean } from "./suggest.ts"
import { wholeNumber } from "./whole.ts"

/** How often and how many jobs of a method may run, over all workers together; with a key, for each tenant by itself. */
export interface MethodLimit {
  readonly rate?: Rate
  readonly concurrency?: number
  /** The name of a field of the input, or a function of the input. */
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

/** The limit in the form that workers keep to. Refuses what cannot be used; `input`: the schema of the method's input. */
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
