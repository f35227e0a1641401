/** Time limits of a run: how long its handler may take. Seconds or text; a value of its own is the hard limit. */
import { milliseconds } from "./duration.ts"
import { type Refuse, refuseInput } from "./refuse.ts"

export type TimeLimitInput =
  | number
  | string
  | { readonly soft?: number | string | undefined; readonly hard?: number | string | undefined }

/** In milliseconds, more than 0. */
export interface TimeLimit {
  readonly hardMs?: number
  /** Shorter than `hardMs`. */
  readonly softMs?: number
}

/** Refuses limits that are not more than 0, and a soft one that is not shorter than the hard one. */
export const checkTimeLimit = (
  { hardMs, softMs }: TimeLimit,
  names: { readonly hard: string; readonly soft: string },
  refuse: Refuse = refuseInput,
): void => {
  // Written so that NaN is refused as well.
  if (hardMs !== undefined && !(hardMs > 0)) refuse(names.hard, "must be more than 0")
  if (softMs !== undefined && !(softMs > 0)) refuse(names.soft, "must be more than 0")
  if (softMs !== undefined && !(softMs < (hardMs ?? Number.POSITIVE_INFINITY)))
    refuse(names.soft, `must be shorter than ${names.hard}`)
}

/** What time limits come to. `prefix` stands before the names of the fields where they are refused. */
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
