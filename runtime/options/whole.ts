/** Whole numbers within a range, on every option that takes one. */
import { Schema } from "effect"
import { type Refuse, refuseInput } from "./refuse.ts"

/** From `least` to `most`, both included. */
export interface WholeRange {
  readonly least: number
  /** Absent: there is no end. */
  readonly most?: number
}

const isWhole = (value: unknown, { least, most = Number.MAX_SAFE_INTEGER }: WholeRange): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= least && value <= most

const ruleOf = ({ least, most }: WholeRange): string =>
  most === undefined ? `must be a whole number, ${least} or more` : `must be a whole number from ${least} to ${most}`

/** A whole number within the range, as it is given; anything else is refused. */
export const wholeNumber = (field: string, value: unknown, range: WholeRange, refuse: Refuse = refuseInput): number =>
  isWhole(value, range) ? value : refuse(field, ruleOf(range))

/** The same rule as a field of a schema. */
export const whole = (range: WholeRange) =>
  Schema.Number.check(Schema.makeFilter((value: number) => isWhole(value, range) || ruleOf(range)))
