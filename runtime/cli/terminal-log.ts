/** The log of a command on a terminal: one short line per entry on standard error, next to the lines about jobs. */
import { type Fields, type LineLevel, type Log, type LogSettings, logOver, takesColour } from "../log/log.ts"
import { inOneLine } from "../log/log-value.ts"
import { clockTime, oneLine, shortId } from "./format.ts"
import { type Colour, painter, shown } from "./output.ts"

const COLOURS: Partial<Record<LineLevel, Colour>> = { debug: "dim", warn: "yellow", error: "red" }

const MAX_FIELD = 200

const text = (value: unknown): string =>
  inOneLine(oneLine(typeof value === "string" ? value : (JSON.stringify(value) ?? ""), MAX_FIELD))

/** Entries that other output repeats: the banner says that the worker is ready, and job lines show errors. */
export interface PrintedElsewhere {
  readonly ready: boolean
  readonly jobs: boolean
}

const isPrintedElsewhere = (message: string, fields: Fields, printed: PrintedElsewhere): boolean =>
  (printed.jobs && "reason" in fields && "job" in fields && / failed: /.test(message)) ||
  (printed.ready && message === "ready")

/** Names the job of an entry the way job lines do. */
const subjectOf = ({ job, task, method }: Fields): ReadonlyArray<string> => [
  ...(typeof task === "string" && typeof method === "string" ? [inOneLine(oneLine(`${task}.${method}`))] : []),
  ...(typeof job === "string" ? [inOneLine(shortId(job))] : []),
]

const SUBJECT: ReadonlySet<string> = new Set(["logger", "job", "task", "method", "queue"])

const fieldsOf = (fields: Fields): string =>
  Object.entries(fields)
    .flatMap(([name, value]) => {
      const isUsual = "job" in fields && (SUBJECT.has(name) || (name === "attempt" && value === 1))
      return isUsual || name === "logger" || value === undefined || value === null ? [] : [`${name}=${text(value)}`]
    })
    .join(" ")

export const terminalLog = (settings: LogSettings, printed: PrintedElsewhere): Log => {
  const paint = painter(takesColour(settings.color ?? "auto", process.stderr))
  return logOver(
    (level, message, fields) => {
      if (isPrintedElsewhere(message, fields, printed)) return
      const line = [
        clockTime(new Date()),
        paint(level, COLOURS[level]),
        inOneLine(message),
        ...subjectOf(fields),
        paint(fieldsOf(fields), "dim"),
      ]
      process.stderr.write(`${shown(line.filter((cell) => cell !== "").join("  "))}\n`)
    },
    { ...settings, settings },
  )
}
