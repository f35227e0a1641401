/** Durations as people write them, on every option that takes one. */
import { Result, Schema } from "effect"
import { parseDuration, parseTimeToLive } from "../protocol/time.ts"
import { type Refuse, refuseInput } from "./refuse.ts"

/** A span of time: seconds as a number (fractions are kept), or text such as `"10s"` or `"5 minutes"`. */
export type DurationInput = number | string

export const Duration = Schema.Union([Schema.Finite, Schema.String]).annotate({
  description: "Seconds as a number (fractions are kept), or text: 10s, 5 minutes, 1h",
})

/** What a duration comes to, in whole milliseconds from 0 to a hundred years; what is none is refused. */
export const milliseconds = (field: string, value: number | string, refuse: Refuse = refuseInput): number => {
  const parsed = parseDuration(value)
  return Result.isSuccess(parsed) ? parsed.success : refuse(field, parsed.failure.message)
}

/** A time to live in milliseconds. A negative number means for ever, which a duration cannot say: −1. */
export const timeToLive = (field: string, value: number | string, refuse: Refuse = refuseInput): number => {
  const parsed = parseTimeToLive(value)
  return Result.isSuccess(parsed) ? parsed.success : refuse(field, parsed.failure.message)
}
