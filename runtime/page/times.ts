/** Formats times and numbers. Pure: the caller passes the current time and the zone. */

/** Lengths of the units of a duration, in seconds. */
const [MINUTE, HOUR, DAY] = [60, 3600, 86_400]

/** A duration in seconds: `240 ms`, `1.2 s`, `31 s`, `1 m 02 s`, `1 h 50 m`, `3 d`. Never negative: clocks differ. */
export const duration = (seconds: number): string => {
  const s = Math.max(0, seconds)
  if (s === 0) return "0 s"
  if (s < 0.9995) return `${Math.max(1, Math.round(s * 1000))} ms`
  if (s < 9.95) return `${s.toFixed(1)} s`
  const whole = Math.round(s)
  if (whole < MINUTE) return `${whole} s`
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} m ${two(whole % MINUTE)} s`
  if (whole < DAY) return `${Math.floor(whole / HOUR)} h ${two(Math.floor((whole % HOUR) / MINUTE))} m`
  const days = Math.floor(whole / DAY)
  return days < 10 ? `${days} d ${Math.floor((whole % DAY) / HOUR)} h` : `${days} d`
}

/** A duration in one unit: `5 s`, `9 m`, `3 h`, `9 d`. */
export const roughly = (seconds: number): string => {
  const s = Math.max(0, seconds)
  if (s < MINUTE) return `${Math.floor(s)} s`
  if (s < HOUR) return `${Math.floor(s / MINUTE)} m`
  if (s < 2 * DAY) return `${Math.floor(s / HOUR)} h`
  return `${Math.floor(s / DAY)} d`
}

/**
 * The distance of a time from now: `5 s ago`, `in 2 m`. A time less than a second ahead counts as now, since clocks
 * differ.
 */
export const relative = (at: number, now: number): string =>
  at > now + 1000 ? `in ${roughly((at - now) / 1000)}` : `${roughly((now - at) / 1000)} ago`

/** A countdown: `2:14`, `1:02:09`; `0:00` when it is over. */
export const countdown = (ms: number): string => {
  const s = Math.max(0, Math.ceil(ms / 1000))
  const minutes = `${Math.floor((s % HOUR) / MINUTE)}`
  return s < HOUR
    ? `${minutes}:${two(s % MINUTE)}`
    : `${Math.floor(s / HOUR)}:${minutes.padStart(2, "0")}:${two(s % MINUTE)}`
}

const two = (n: number): string => String(n).padStart(2, "0")

const formats = new Map<string, Intl.DateTimeFormat>()

const partsOf = (at: number, zone: string): Readonly<Record<string, string>> => {
  let format = formats.get(zone)
  if (format === undefined) {
    const digits = { month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" } as const
    format = new Intl.DateTimeFormat("en-GB", { timeZone: zone, year: "numeric", ...digits, hourCycle: "h23" })
    formats.set(zone, format)
  }
  return Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]))
}

/** The time of day: `03:07:19`. */
export const clock = (at: number, zone: string): string => {
  const { hour, minute, second } = partsOf(at, zone)
  return `${hour}:${minute}:${second}`
}

/** The time of day without seconds: `03:07`. */
export const minuteOf = (at: number, zone: string): string => clock(at, zone).slice(0, 5)

/** The time of day with milliseconds: `03:07:19.041`. */
export const exactClock = (at: number, zone: string): string =>
  `${clock(at, zone)}.${String(((at % 1000) + 1000) % 1000).padStart(3, "0")}`

/** Date and time: `2026-11-22 03:07:19`. */
export const stamp = (at: number, zone: string): string => {
  const { year, month, day } = partsOf(at, zone)
  return `${year}-${month}-${day} ${clock(at, zone)}`
}

/** The time of day for a time of the current day, else date and time. */
export const shortStamp = (at: number, now: number, zone: string): string => {
  const whole = stamp(at, zone)
  return whole.slice(0, 10) === stamp(now, zone).slice(0, 10) ? whole.slice(11) : whole
}

/** A time in both zones: `2026-11-22 03:07:19 UTC, 04:07:19 in Europe/Berlin`. */
export const bothZones = (at: number, own: string): string => {
  const utc = stamp(at, "UTC")
  if (own === "UTC") return `${utc} UTC`
  const there = stamp(at, own)
  return `${utc} UTC, ${there.slice(0, 10) === utc.slice(0, 10) ? there.slice(11) : there} in ${own}`
}

/** A number with its thousands: `8,391`. */
export const whole = (n: number): string => Math.round(n).toLocaleString("en")

/** A number and what it counts: `1 job`, `8,391 jobs`. */
export const many = (n: number, one: string, more = `${one}s`): string => `${whole(n)} ${n === 1 ? one : more}`

/** A number that may be a lower bound: `8,391`, `more than 10,000`. */
export const counted = ({ value, relation }: { readonly value: number; readonly relation: "eq" | "gte" }): string =>
  relation === "eq" ? whole(value) : `more than ${whole(value)}`

/** A short form of a number: `437`, `8.4k`, `41.9k`, `1.2M`. */
export const short = (n: number): string => {
  if (n < 10_000) return whole(n)
  for (const [size, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (n >= size * 0.9995) return `${(n / size).toFixed(n >= size * 99.95 ? 0 : 1)}${unit}`
  }
  return whole(n)
}

/** A fraction as percent: `0`, `0.9 %`, `96 %`. Rounding gives 0 or 100 % only for exactly nothing or all. */
export const percent = (part: number): string => {
  if (part <= 0) return "0 %"
  if (part >= 1) return "100 %"
  const n = part * 100
  return n < 0.1 ? "< 0.1 %" : n < 10 ? `${n.toFixed(1)} %` : n > 99 ? "> 99 %" : `${Math.round(n)} %`
}

/** Bytes: `214 B`, `1.5 KiB`, `64 KiB`. */
export const bytes = (n: number): string => {
  if (n < 1024) return `${n} B`
  for (const [size, unit] of [
    [1024 ** 3, "GiB"],
    [1024 ** 2, "MiB"],
    [1024, "KiB"],
  ] as const) {
    if (n >= size) return `${(n / size).toFixed(n / size < 10 ? 1 : 0)} ${unit}`
  }
  return `${n} B`
}
