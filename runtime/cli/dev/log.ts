/** The log of `callboard dev`: a line each on standard error, beside the lines about jobs. */
import { type Fields, type LineLevel, type Log, type LogSettings, logOver } from "../../log/log.ts"
import { inOneLine } from "../../log/log-value.ts"
import { clockTime, oneLine } from "../format.ts"
import { type Colour, type Paint, shown } from "../output.ts"

const COLOURS: Partial<Record<LineLevel, Colour>> = { debug: "dim", warn: "yellow", error: "red" }

const MAX_FIELD = 200

const text = (value: unknown): string =>
  inOneLine(oneLine(typeof value === "string" ? value : (JSON.stringify(value) ?? ""), MAX_FIELD))

/** A job that failed has a line of its own, with the error; and so has the start. */
const isSaid = (message: string, fields: Fields): boolean =>
  ("reason" in fields && "job" in fields && / failed: /.test(message)) || message === "ready"

export const devLog = (settings: LogSettings, paint: Paint): Log =>
  logOver(
    (level, message, fields) => {
      if (isSaid(message, fields)) return
      const all = Object.entries(fields).flatMap(([name, value]) =>
        value === undefined || value === null ? [] : [`${name}=${text(value)}`],
      )
      const line = [
        clockTime(new Date()),
        paint(level, COLOURS[level]),
        inOneLine(message),
        paint(all.join(" "), "dim"),
      ]
      process.stderr.write(`${shown(line.join("  ").trimEnd())}\n`)
    },
    { ...settings, settings },
  )
