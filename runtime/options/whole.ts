/** Whole numbers in options: one rule for every option that takes one. */
import * as Schema from "effect/Schema"
import { type Refuse, refuseInput } from "./refuse.ts"

/** The allowed numbers, from `least` to `most`, both included. */
export interface WholeRange {
  readonly least: number
  /** Absent: no upper bound. */
  readonly most?: number
}

const isWhole = (value: unknown, { least, most = Number.MAX_SAFE_INTEGER }: WholeRange): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= least && value <= most

const ruleOf = ({ least, most }: WholeRange): string =>
  most === undefined ? `must be a whole number, ${least} or more` : `must be a whole number from ${least} to ${most}`

/** Returns the value if it is a whole number within the range. Any other value is refused with `refuse`. */
export const wholeNumber = (field: string, value: unknown, range: WholeRange, refuse: Refuse = refuseInput): number =>
  isWhole(value, range) ? value : refuse(field, ruleOf(range))

/** The same rule as a schema. */
export const whole = (range: WholeRange) =>
  Schema.Number.check(Schema.makeFilter((value: number) => isWhole(value, range) || ruleOf(range)))
