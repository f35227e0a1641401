/**
 * Log lines with fields: named loggers over one way of writing, which is the console (by Effect's loggers: pretty, logfmt
 * or JSON), or a log of the host application. Cheap where the level is off; a line never fails what it tells of.
 */
import { Console, Effect, Layer, Logger, References } from "effect"
import { type ColourChoice, takesColour } from "./colour.ts"
import { indented, inOneLine, loggable } from "./log-value.ts"

export const LOG_LEVELS = ["debug", "info", "warn", "error", "none"] as const
export type LogLevel = (typeof LOG_LEVELS)[number]
export const LOG_FORMATS = ["pretty", "logfmt", "json"] as const
export type LogFormat = (typeof LOG_FORMATS)[number]

/** The level of a line. */
export type LineLevel = Exclude<LogLevel, "none">
export type Fields = Readonly<Record<string, unknown>>

export interface Log {
  /** The least level that is written. */
  readonly level: LogLevel
  /** How its lines are written, where that is on the console: a thread that cannot reach it writes alike. */
  readonly settings?: LogSettings | undefined
  enabled(level: LogLevel): boolean
  debug(message: string, fields?: Fields): void
  info(message: string, fields?: Fields): void
  warn(message: string, fields?: Fields): void
  error(message: string, fields?: Fields): void
  /** A log whose lines all carry these fields. The field `logger` is its name, and may have a level of its own. */
  with(fields: Fields): Log
}

/** The least that a log of the host application must have: `console`, or an adapter of a few lines. */
export interface LogSink {
  debug(message: string, fields: Fields): void
  info(message: string, fields: Fields): void
  warn(message: string, fields: Fields): void
  error(message: string, fields: Fields): void
  /** Whether lines of a level are wanted. Absent: from `info` on, or as `logLevel` says. */
  enabled?(level: LineLevel): boolean
}

/** Which lines are written. */
export interface Levels {
  readonly level?: LogLevel | undefined
  /** By the name of a logger, or the beginning of names up to a dot: `{"callboard.http": "warn"}`. */
  readonly levels?: Readonly<Record<string, LogLevel>> | undefined
}

export interface LogSettings extends Levels {
  readonly format?: LogFormat | undefined
  readonly color?: ColourChoice | undefined
}

/** How a log writes a line. */
export type Writer = (level: LineLevel, message: string, fields: Fields) => void

const levelFor = ({ level = "info", levels = {} }: Levels, logger: unknown): LogLevel => {
  if (typeof logger !== "string") return level
  for (let name = logger; ; name = name.slice(0, name.lastIndexOf("."))) {
    const own = Object.hasOwn(levels, name) ? levels[name] : undefined
    if (own !== undefined) return own
    if (!name.includes(".")) return level
  }
}

/** A log over a way of writing. Level: `info` unless said otherwise. */
export const logOver = (
  write: Writer,
  options: Levels & Pick<LogSink, "enabled"> & { readonly settings?: LogSettings } = {},
  carried: Fields = {},
): Log => {
  const rank = LOG_LEVELS.indexOf(levelFor(options, carried["logger"]))
  const enabled = (wanted: LogLevel): boolean =>
    wanted !== "none" && LOG_LEVELS.indexOf(wanted) >= rank && (options.enabled?.(wanted) ?? true)
  const line =
    (level: LineLevel) =>
    (message: string, fields?: Fields): void => {
      if (!enabled(level)) return
      try {
        write(level, message, { ...carried, ...fields })
      } catch {
        // Something in the fields could not be read.
        try {
          write(level, message, { ...carried, ...fieldsOf(fields) })
        } catch {
          // Nor can it be written: a log line must not fail what it tells of.
        }
      }
    }
  return {
    get level() {
      return LOG_LEVELS.find(enabled) ?? "none"
    },
    settings: options.settings,
    enabled,
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
    with: (fields) => logOver(write, options, { ...carried, ...fields }),
  }
}

/** Fields that are JSON, without those that are absent. */
const fieldsOf = (fields: Fields | undefined): Fields => {
  const copy = fields === undefined ? {} : loggable(fields)
  return typeof copy === "object" && copy !== null
    ? Object.fromEntries(Object.entries(copy).filter(([, value]) => value !== undefined))
    : { fields: copy }
}

const isLog = (log: Log | LogSink): log is Log => "with" in log && "enabled" in log

/** The log of a host application, which alone decides where lines go: nothing is written anywhere else. */
export const hostLog = (log: Log | LogSink, levels: Levels = {}): Log => {
  if (isLog(log)) return log
  const wanted = log.enabled?.bind(log)
  return logOver((level, message, fields) => log[level](message, fields), {
    level: levels.level ?? (wanted === undefined ? "info" : "debug"),
    levels: levels.levels,
    ...(wanted === undefined ? {} : { enabled: wanted }),
  })
}

const LINES = {
  debug: Effect.logDebug,
  info: Effect.logInfo,
  warn: Effect.logWarning,
  error: Effect.logError,
} as const

/** Effect escapes most of what could break a line, but not what it takes for a plain word. */
const LOGGERS = {
  logfmt: Logger.withConsoleLog(Logger.map(Logger.formatLogFmt, inOneLine)),
  json: Logger.withConsoleLog(Logger.map(Logger.formatJson, inOneLine)),
} as const

const prettyText = (value: unknown): string => indented(typeof value === "string" ? value : JSON.stringify(value))

/** The console would take `%` in a name for a place to fill in. */
const prettyName = (name: string): string => inOneLine(name).replaceAll("%", "_")

export const defaultFormat = (): LogFormat => (process.stdout.isTTY ? "pretty" : "logfmt")

/**
 * A log on the console's standard output. Defaults: level `info`; `pretty` on a terminal, `logfmt` elsewhere; colour, which
 * only `pretty` has, as the terminal takes it. `print` stands in for `console.log`.
 */
export const makeLog = (options: LogSettings = {}, print?: (...parts: ReadonlyArray<unknown>) => void): Log => {
  const format = options.format ?? defaultFormat()
  const colors = takesColour(options.color ?? "auto", process.stdout)
  const logger = format === "pretty" ? Logger.consolePretty({ colors, mode: "tty" }) : LOGGERS[format]
  const layers = Layer.mergeAll(
    Logger.layer([logger]),
    Layer.succeed(References.MinimumLogLevel, "All"),
    print === undefined ? Layer.empty : Layer.succeed(Console.Console, { ...console, log: print }),
  )
  const context = Effect.runSync(Effect.scoped(Layer.build(layers)))
  const write: Writer = (level, message, fields) => {
    const plain = fieldsOf(fields)
    const shown =
      format === "pretty"
        ? Object.fromEntries(Object.entries(plain).map(([name, value]) => [prettyName(name), prettyText(value)]))
        : plain
    const text = String(loggable(message))
    const line = LINES[level](format === "pretty" ? inOneLine(text) : text)
    Effect.runSyncWith(context)(Effect.annotateLogs(line, shown))
  }
  const settings: LogSettings = { ...options, format, color: colors ? "always" : "never" }
  return logOver(write, { level: options.level, levels: options.levels, settings })
}
