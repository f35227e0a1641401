/** A log that only remembers. */
import type { Fields, Log, LogLevel } from "../log.ts"

export interface LogLine {
  readonly level: Exclude<LogLevel, "none">
  readonly message: string
  readonly fields: Fields
}

/** A log, and the lines that it has collected so far. */
export const collectLog = (): { readonly log: Log; readonly lines: ReadonlyArray<LogLine> } => {
  const lines: Array<LogLine> = []
  const carrying = (carried: Fields): Log => {
    const write =
      (level: LogLine["level"]) =>
      (message: string, fields: Fields = {}): void => {
        lines.push({ level, message, fields: { ...carried, ...fields } })
      }
    return {
      level: "debug",
      enabled: (level) => level !== "none",
      debug: write("debug"),
      info: write("info"),
      warn: write("warn"),
      error: write("error"),
      with: (fields) => carrying({ ...carried, ...fields }),
    }
  }
  return { log: carrying({}), lines }
}
