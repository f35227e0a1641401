/** The log of `callboard dev`: a line each on standard error, beside the lines about jobs. */
import { type Fields, LOG_LEVELS, type Log, type LogLevel } from "../../log.ts"
import { clockTime, oneLine } from "../format.ts"
import type { Colour, Paint } from "../output.ts"

const COLOURS: Partial<Record<LogLevel, Colour>> = { debug: "dim", warn: "yellow", error: "red" }

const MAX_FIELD = 200

const text = (value: unknown): string =>
  oneLine(typeof value === "string" ? value : (JSON.stringify(value) ?? ""), MAX_FIELD)

/** A job that failed has a line of its own, with the error. */
const isSaid = (message: string, fields: Fields): boolean =>
  "reason" in fields && "job" in fields && / failed: /.test(message)

export const devLog = (level: LogLevel, paint: Paint, carried: Fields = {}): Log => {
  const rank = LOG_LEVELS.indexOf(level)
  const enabled = (wanted: LogLevel) => level !== "none" && LOG_LEVELS.indexOf(wanted) >= rank
  const write =
    (wanted: LogLevel) =>
    (message: string, fields: Fields = {}) => {
      if (!enabled(wanted) || isSaid(message, fields)) return
      const all = Object.entries({ ...carried, ...fields }).flatMap(([name, value]) =>
        value === undefined || value === null ? [] : [`${name}=${text(value)}`],
      )
      const line = [clockTime(new Date()), paint(wanted, COLOURS[wanted]), message, paint(all.join(" "), "dim")]
      process.stderr.write(`${line.join("  ").trimEnd()}\n`)
    }
  return {
    level,
    enabled,
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    with: (fields) => devLog(level, paint, { ...carried, ...fields }),
  }
}
