/** Times of day of a time zone, as milliseconds since the epoch as if the zone were UTC. */

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Formats are kept, since making one takes longer than all else here. There are a few hundred zones. */
const formats = new Map<string, Intl.DateTimeFormat>()

const formatOf = (timeZone: string): Intl.DateTimeFormat => {
  const known = formats.get(timeZone)
  if (known !== undefined) return known
  const made = new Intl.DateTimeFormat("en", {
    timeZone,
    hourCycle: "h23",
    ...{ year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" },
  })
  formats.set(timeZone, made)
  return made
}

/** The time of day in a zone at a time. */
export const wallClock = (time: number, timeZone: string): number => {
  const parts = new Map(
    formatOf(timeZone)
      .formatToParts(time)
      .map(({ type, value }) => [type, Number(value)]),
  )
  const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? 0
  return Date.UTC(part("year"), part("month") - 1, part("day"), part("hour"), part("minute"), part("second"))
}

/** When the gap ends in which this time of day lies, since the clocks are set forward over it; `undefined` where it exists. */
export const gapEnd = (wall: number, timeZone: string): number | undefined => {
  const offset = (time: number) => wallClock(time, timeZone) - Math.floor(time / 1_000) * 1_000
  const [before, after] = [offset(wall - DAY_MS), offset(wall + DAY_MS)]
  if (after <= before || offset(wall - before) === before || offset(wall - after) === after) return undefined
  // The clocks are set between these two times.
  let [low, high] = [wall - after, wall - before]
  while (high - low > 1_000) {
    const middle = Math.floor((low + high) / 2_000) * 1_000
    if (offset(middle) === before) low = middle
    else high = middle
  }
  return high
}
