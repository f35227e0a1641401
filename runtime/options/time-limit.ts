/** Time limits of an attempt: how long its handler may run. A single duration is the hard limit. */
import { milliseconds } from "./duration.ts"
import { type Refuse, refuseInput } from "./refuse.ts"

export type TimeLimitInput =
  | number
  | string
  | { readonly soft?: number | string | undefined; readonly hard?: number | string | undefined }

/** Time limits in milliseconds, each more than 0. */
export interface TimeLimit {
  readonly hardMs?: number
  /** Shorter than `hardMs`. */
  readonly softMs?: number
}

/** Refuses limits of 0 or less, and a soft limit that is not shorter than the hard one. */
export const checkTimeLimit = (
  { hardMs, softMs }: TimeLimit,
  names: { readonly hard: string; readonly soft: string },
  refuse: Refuse = refuseInput,
): void => {
  // `!(x > 0)` instead of `x <= 0`, so that NaN is refused, too.
  if (hardMs !== undefined && !(hardMs > 0)) refuse(names.hard, "must be more than 0")
  if (softMs !== undefined && !(softMs > 0)) refuse(names.soft, "must be more than 0")
  if (softMs !== undefined && !(softMs < (hardMs ?? Number.POSITIVE_INFINITY)))
    refuse(names.soft, `must be shorter than ${names.hard}`)
}

/** Parses and checks time limits. `prefix`: put before the names of the fields in messages. */
export const timeLimitOf = (given: TimeLimitInput, prefix = "timeLimit.", refuse: Refuse = refuseInput): TimeLimit => {
  const { hard, soft } = typeof given === "object" ? given : { hard: given, soft: undefined }
  const names = { hard: `${prefix}hard`, soft: `${prefix}soft` }
  const limit: TimeLimit = {
    ...(hard === undefined ? {} : { hardMs: milliseconds(names.hard, hard, refuse) }),
    ...(soft === undefined ? {} : { softMs: milliseconds(names.soft, soft, refuse) }),
  }
  checkTimeLimit(limit, names, refuse)
  return limit
}
