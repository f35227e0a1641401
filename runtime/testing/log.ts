/** A log that collects its lines in memory. */
import { type Fields, type LineLevel, type Log, logOver } from "../log/log.ts"

/** A line that an actor or the worker has logged. */
export interface LogLine {
  readonly level: LineLevel
  readonly message: string
  readonly fields: Fields
}

/** Makes a log, and the list that it adds its lines to. */
export const collectLog = (): { readonly log: Log; readonly lines: ReadonlyArray<LogLine> } => {
  const lines: Array<LogLine> = []
  return { log: logOver((level, message, fields) => lines.push({ level, message, fields }), { level: "debug" }), lines }
}
