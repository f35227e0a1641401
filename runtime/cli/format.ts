/** Formats jobs, times and sizes for people. */

import type { JobView } from "../jobs/view.ts"
import { isTerminal, type State } from "../protocol/state.ts"
import { cut } from "../protocol/text.ts"
import type { Colour, Paint } from "./output.ts"

const COLOURS: Readonly<Record<State, Colour | undefined>> = {
  deferred: "dim",
  scheduled: "yellow",
  queued: undefined,
  started: "cyan",
  succeeded: "green",
  failed: "red",
  cancelled: "dim",
  expired: "dim",
}

export const stateText = (paint: Paint, state: State): string => paint(state, COLOURS[state])

const two = (value: number): string => String(value).padStart(2, "0")

/** Local time of day, with milliseconds if asked for. */
export const clockTime = (at: Date, fine = false): string =>
  `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${fine ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : ""}`

/** Local date and time of day. */
export const localTime = (iso: string): string => {
  const at = new Date(iso)
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clockTime(at)}`
}

/** A count of jobs: `12`, or `more than 1000`. */
export const countText = ({ count, more }: { readonly count: number; readonly more?: boolean }): string =>
  more ? `more than ${count}` : String(count)

/** A span of time: `12 ms`, `3.4 s`, `5 min 12 s`, `2 h 3 min`, `4 d 5 h`. */
export const spanText = (ms: number): string => {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  if (ms < 60_000) return `${Number((ms / 1_000).toFixed(ms < 10_000 ? 2 : 1))} s`
  const units = [
    { name: "d", ms: 86_400_000 },
    { name: "h", ms: 3_600_000 },
    { name: "min", ms: 60_000 },
    { name: "s", ms: 1_000 },
  ]
  const parts: Array<string> = []
  let left = Math.round(ms / 1_000) * 1_000
  for (const unit of units) {
    const count = Math.floor(left / unit.ms)
    left -= count * unit.ms
    if (count > 0) parts.push(`${count} ${unit.name}`)
  }
  return parts.slice(0, 2).join(" ")
}

/** The end of an id. Generated ids begin with the time, so that the beginnings of recent ids are alike. */
export const shortId = (id: string): string => (id.length <= 12 ? id : `…${id.slice(-8)}`)

/** An id, whole with `--wide`, else short. */
export const idText = (id: string, { wide }: { readonly wide: boolean }): string => (wide ? id : shortId(id))

/** A time, whole with `--wide`; else without the day if that is today, or without the seconds. */
export const timeText = (iso: string, { wide }: { readonly wide: boolean }): string => {
  const whole = localTime(iso)
  const [day, time = ""] = whole.split(" ")
  if (wide || day === undefined) return whole
  return day === localTime(new Date().toISOString()).split(" ")[0] ? time : whole.slice(0, "2026-01-01 00:00".length)
}

/** How long a job has run; empty for one that has not started. */
export const runTime = ({ times, state }: JobView): string => {
  if (times.started === undefined) return ""
  const end = times.ended ?? (isTerminal(state) ? undefined : new Date().toISOString())
  return end === undefined ? "" : spanText(Date.parse(end) - Date.parse(times.started))
}

const MAX_CELL = 100

/** A text in one line, cut where a table would overflow. */
export const oneLine = (text: string, max = MAX_CELL): string => {
  const line = text.replace(/\s+/g, " ").trim()
  return cut(line, max)
}

/** Last column of a list: the error of a failed job, the progress of a running one, the due time of a scheduled one. */
export const remarkOf = (job: JobView): string => {
  if (job.error !== undefined) return oneLine(`${job.error.name}: ${job.error.message}`)
  if (job.state === "started" && job.progress !== undefined) return percent(job.progress.fraction)
  if (job.state === "scheduled" && job.times.due !== undefined) return `due ${localTime(job.times.due)}`
  return ""
}

export const percent = (fraction: number): string => `${Math.round(fraction * 100)} %`

export const bytesText = (bytes: number): string =>
  bytes >= 1024 * 1024
    ? `${Math.round((bytes / 1024 / 1024) * 10) / 10} MiB`
    : bytes >= 1024
      ? `${Math.round((bytes / 1024) * 10) / 10} KiB`
      : `${bytes} bytes`

/** A list, cut after `max` words; `--json` prints all of it. */
export const listText = (words: ReadonlyArray<string>, max = 10): string =>
  words.length <= max ? words.join(", ") : `${words.slice(0, max).join(", ")} and ${words.length - max} more`
