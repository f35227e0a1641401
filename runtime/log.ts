/** Log lines with fields, through Effect's loggers: pretty, logfmt or JSON. Cheap where the level is off. */
import { type Context, Effect, Layer, Logger, References } from "effect"

export const LOG_LEVELS = ["debug", "info", "warn", "error", "none"] as const
export type LogLevel = (typeof LOG_LEVELS)[number]
export const LOG_FORMATS = ["pretty", "logfmt", "json"] as const
export type LogFormat = (typeof LOG_FORMATS)[number]

export type Fields = Readonly<Record<string, unknown>>

export interface Log {
  readonly level: LogLevel
  enabled(level: LogLevel): boolean
  debug(message: string, fields?: Fields): void
  info(message: string, fields?: Fields): void
  warn(message: string, fields?: Fields): void
  error(message: string, fields?: Fields): void
  /** A log whose lines all carry these fields. */
  with(fields: Fields): Log
}

const LOGGERS = {
  // Effect looks at the terminal only, see https://no-color.org
  pretty: Logger.consolePretty({ colors: process.stdout.isTTY === true && !process.env["NO_COLOR"] }),
  logfmt: Logger.consoleLogFmt,
  json: Logger.consoleJson,
} as const

/** Makes a log. Defaults: level `info`; `pretty` on a terminal, `logfmt` elsewhere. */
export const makeLog = (options: { readonly level?: LogLevel; readonly format?: LogFormat } = {}): Log => {
  const level = options.level ?? "info"
  const format = options.format ?? (process.stdout.isTTY ? "pretty" : "logfmt")
  const context = Effect.runSync(
    Effect.scoped(
      Layer.build(Layer.mergeAll(Logger.layer([LOGGERS[format]]), Layer.succeed(References.MinimumLogLevel, "All"))),
    ),
  )
  return logOver(context, level, {})
}

const logOver = (context: Context.Context<never>, level: LogLevel, carried: Fields): Log => {
  const rank = LOG_LEVELS.indexOf(level)
  const enabled = (wanted: LogLevel): boolean => LOG_LEVELS.indexOf(wanted) >= rank && level !== "none"
  const write =
    (wanted: LogLevel, line: (message: string) => Effect.Effect<void>) => (message: string, fields?: Fields) => {
      if (!enabled(wanted)) return
      const all = fields === undefined ? carried : { ...carried, ...fields }
      Effect.runSyncWith(context)(Effect.annotateLogs(line(message), { ...all }))
    }
  return {
    level,
    enabled,
    debug: write("debug", Effect.logDebug),
    info: write("info", Effect.logInfo),
    warn: write("warn", Effect.logWarning),
    error: write("error", Effect.logError),
    with: (fields) => logOver(context, level, { ...carried, ...fields }),
  }
}
