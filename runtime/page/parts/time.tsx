/**
 * Moments and durations. One switch sets the time zone of the page; the exact time is shown when the element has the
 * pointer or the focus.
 */
import type { JSX } from "preact"
import { now, ownZone, zone } from "../state.ts"
import { bothZones, clock, exactClock, relative, shortStamp } from "../times.ts"

export interface TimeProps {
  /** ISO 8601. */
  readonly at: string
  /**
   * `ago`: the distance from now. `clock`: the time of day, with the date on another day. `exact`: with milliseconds.
   */
  readonly as?: "ago" | "clock" | "exact"
}

/** A moment. Text that is no time is shown unchanged. */
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

/** A moment by this machine's clock. */
export const Clock = ({ ms }: { readonly ms: number }): JSX.Element => <time>{clock(ms, zone.value)}</time>
