/** Moments and spans. The zone is that of the one switch; exact times are there for who points at them, or goes there by keys. */
import type { JSX } from "preact"
import { now, ownZone, zone } from "../state.ts"
import { bothZones, clock, exactClock, relative, shortStamp } from "../times.ts"

export interface TimeProps {
  /** ISO 8601. */
  readonly at: string
  /** `ago`: how far from now. `clock`: the time of day, with the date where it is another one. `exact`: with milliseconds. */
  readonly as?: "ago" | "clock" | "exact"
}

/** A moment. What is no time is shown as it came. */
export const Moment = ({ at, as = "ago" }: TimeProps): JSX.Element => {
  const ms = Date.parse(at)
  if (Number.isNaN(ms)) return <span>{at}</span>
  const text =
    as === "ago"
      ? relative(ms, now.value)
      : as === "exact"
        ? exactClock(ms, zone.value)
        : shortStamp(ms, now.value, zone.value)
  return (
    <time dateTime={at} title={bothZones(ms, ownZone)}>
      {text}
    </time>
  )
}

/** A moment of this machine's clock. */
export const Clock = ({ ms }: { readonly ms: number }): JSX.Element => <time>{clock(ms, zone.value)}</time>
