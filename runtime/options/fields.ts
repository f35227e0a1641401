/** Schemas that several fields share, and the one rule for options that take a whole number. */
import * as Schema from "effect/Schema"
import { type Refuse, refuseInput } from "./refuse.ts"

/** Id of a job that is submitted here. A task of another sender may have any text of up to 255 bytes as its id. */
export const JobId = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9_-]{1,128}$/u, {
    description: "1 to 128 letters, digits, `_` or `-`",
    message: "must be 1 to 128 letters, digits, `_` or `-`",
  }),
)

/** The last characters of an id that Callboard has made. */
export const IdEnd = Schema.String.check(
  Schema.isPattern(/^[0-9a-f]{8}$/i, { message: "must be eight hexadecimal characters" }),
)

/** What names the cause of a failure. */
export const Fingerprint = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9_-]{1,64}$/, { message: "must be a fingerprint: 1 to 64 letters, digits, - and _" }),
)

/** Text of 1 to 255 characters. `message`: what it must be. */
export const named = (message: string) =>
  Schema.String.annotate({ message }).check(Schema.isMinLength(1, { message }), Schema.isMaxLength(255, { message }))

export const Name = named("must be text of 1 to 255 characters")
/** Whether {@link Name} accepts a value. */
export const isName = (value: unknown): value is string =>
  typeof value === "string" && value.length >= 1 && value.length <= 255

/** Name that a worker or a connection gives itself. */
export const OwnName = Name

export const Time = Schema.String.annotate({ description: "ISO 8601, in UTC", format: "date-time" })
export const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** Where the next page of a list begins. */
export const next = Schema.optionalKey(
  Schema.String.annotate({ description: "The `cursor` of the next page; absent on the last" }),
)

/** A number that was counted up to a bound. */
export const Total = Schema.Struct({
  value: Count,
  relation: Schema.Literals(["eq", "gte"]).annotate({ description: "`gte`: a lower bound" }),
}).annotate({ identifier: "Total" })
export type Total = typeof Total.Type

export const Text = (max: number) => Schema.String.check(Schema.isMaxLength(max))
export const Json = Schema.Record(Schema.String, Schema.Unknown)

/** The allowed numbers, from `min` to `max`, both included. */
interface WholeRange {
  readonly min: number
  /** Absent: no upper bound. */
  readonly max?: number
}

const isWhole = (value: unknown, { min, max = Number.MAX_SAFE_INTEGER }: WholeRange): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= min && value <= max

const ruleOf = ({ min, max }: WholeRange): string =>
  max === undefined ? `must be a whole number, ${min} or more` : `must be a whole number from ${min} to ${max}`

/** Returns the value if it is a whole number within the range. Any other value is refused with `refuse`. */
export const wholeNumber = (field: string, value: unknown, range: WholeRange, refuse: Refuse = refuseInput): number =>
  isWhole(value, range) ? value : refuse(field, ruleOf(range))

/** The same rule as a schema. `message`: what the value must be. */
export const whole = (range: WholeRange, message: string = ruleOf(range)) => {
  const { min: minimum, max: maximum = Number.MAX_SAFE_INTEGER } = range
  return Schema.Number.annotate({ message }).check(
    Schema.isInt({ message }),
    range.max === undefined
      ? Schema.isGreaterThanOrEqualTo(minimum, { message })
      : Schema.isBetween({ minimum, maximum }, { message }),
  )
}
