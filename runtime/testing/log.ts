/** A log that only remembers. */
import { type Fields, type LineLevel, type Log, logOver } from "../log/log.ts"

export interface LogLine {
  readonly level: LineLevel
  readonly message: string
  readonly fields: Fields
}

/** A log, and the lines that it has collected so far. */
export const collectLog = (): { readonly log: Log; readonly lines: ReadonlyArray<LogLine> } => {
  const lines: Array<LogLine> = []
  return { log: logOver((level, message, fields) => lines.push({ level, message, fields }), { level: "debug" }), lines }
}
