/**
 * Log lines with fields. Lines go to the console (through Effect's loggers: pretty, logfmt or JSON), or to the log of the
 * application that Callboard runs in. A line below the level costs almost nothing, and a line that cannot be written never
 * makes the operation fail that logs it.
 */

import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import { compact } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import { type ColourChoice, defaultFormat, LOG_LEVELS, type LogFormat, type LogLevel } from "./choices.ts"
import { indented, inOneLine, loggable } from "./log-value.ts"

const isSet = (value: string | undefined): value is string => value !== undefined && value !== ""

/**
 * Whether output may have colours. `auto`: colours on a terminal, unless NO_COLOR is set (https://no-color.org). FORCE_COLOR turns them on for a stream
 * that is no terminal (a CI log); its values `0` and `false` turn them off.
 */
export const takesColour = (
  choice: ColourChoice,
  stream: { readonly isTTY?: boolean },
  env: Readonly<Record<string, string | undefined>> = process.env,
): boolean => {
  if (choice !== "auto") return choice === "always"
  const { NO_COLOR, FORCE_COLOR } = env
  if (isSet(NO_COLOR)) return false
  return isSet(FORCE_COLOR) ? FORCE_COLOR !== "0" && FORCE_COLOR !== "false" : stream.isTTY === true
}

/** The level of a line. */
export type LineLevel = Exclude<LogLevel, "none">
export type Fields = Readonly<Record<string, unknown>>

/** A log with levels and fields. */
export interface Log {
  /** The lowest level that is written. */
  readonly level: LogLevel
  /** How lines are written to the console. A thread that cannot use this log makes an equal one from these. */
  readonly settings?: LogSettings | undefined
  enabled(level: LogLevel): boolean
  debug(message: string, fields?: Fields): void
  info(message: string, fields?: Fields): void
  warn(message: string, fields?: Fields): void
  error(message: string, fields?: Fields): void
  /** A log whose lines all carry these fields. The field `logger` is its name, by which a level can be set for it. */
  with(fields: Fields): Log
}

/** What a log of the application must have to be used by Callboard: `console` fits, or an adapter of a few lines. */
export interface LogSink {
  debug(message: string, fields: Fields): void
  info(message: string, fields: Fields): void
  warn(message: string, fields: Fields): void
  error(message: string, fields: Fields): void
  /** Whether lines of this level are wanted. Where it is absent: from `info` on, or from `logLevel` on. */
  enabled?(level: LineLevel): boolean
}

/** Which lines are written, by their level and their logger. */
export interface Levels {
  readonly level?: LogLevel | undefined
  /** Levels by the name of a logger, or by the part of it before a dot: `{"callboard.http": "warn"}`. */
  readonly levels?: Readonly<Record<string, LogLevel>> | undefined
}

/** How a log on the console writes its lines. */
export interface LogSettings extends Levels {
  /** Defaults to `pretty` on a terminal, else to `logfmt`. */
  readonly format?: LogFormat | undefined
  /** Whether `pretty` lines have colours. Defaults to `auto`: where the terminal supports them. */
  readonly color?: ColourChoice | undefined
}

/** Writes one line. */
export type Writer = (level: LineLevel, message: string, fields: Fields) => void

const levelFor = ({ level = "info", levels = {} }: Levels, logger: unknown): LogLevel => {
  if (typeof logger !== "string") return level
  for (let name = logger; ; name = name.slice(0, name.lastIndexOf("."))) {
    const own = Object.hasOwn(levels, name) ? levels[name] : undefined
    if (own !== undefined) return own
    if (!name.includes(".")) return level
  }
}

/** A log that writes its lines with `write`. The level defaults to `info`. */
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
        // A field could not be read (a getter that throws): write a copy without it.
        try {
          write(level, message, { ...carried, ...fieldsOf(fields) })
        } catch {
          // The line is dropped: logging must not make the caller fail.
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

/** The fields as JSON, without those that are undefined. */
const fieldsOf = (fields: Fields | undefined): Fields => {
  const copy = fields === undefined ? {} : loggable(fields)
  return isObject(copy)
    ? Object.fromEntries(Object.entries(copy).filter(([, value]) => value !== undefined))
    : { fields: copy }
}

const METHODS = ["debug", "info", "warn", "error"] as const

const isAnyLog = (value: unknown): value is Log | LogSink =>
  (isObject(value) || typeof value === "function") &&
  METHODS.every((name) => typeof Reflect.get(value, name) === "function")

/** A log of the application, or a {@link Log}. */
export const AnyLog = Schema.declare(isAnyLog, { expected: `a log with the methods ${METHODS.join(", ")}` })

const isLog = (log: Log | LogSink): log is Log => "with" in log && "enabled" in log

/**
 * Makes a {@link Log} of the application's own log. All lines go there, and nowhere else.
 *
 * @example
 * ```ts
 * await serve({ actors: [orders], log: hostLog(console, { level: "warn" }) })
 * ```
 */
export const hostLog = (log: Log | LogSink, levels: Levels = {}): Log => {
  if (isLog(log)) return log
  const wanted = log.enabled?.bind(log)
  return logOver((level, message, fields) => log[level](message, fields), {
    level: levels.level ?? (wanted === undefined ? "info" : "debug"),
    levels: levels.levels,
    ...compact({ enabled: wanted }),
  })
}

const LINES = {
  debug: Effect.logDebug,
  info: Effect.logInfo,
  warn: Effect.logWarning,
  error: Effect.logError,
} as const

/**
 * Effect escapes most control characters, but not those in what it takes for a plain word: so the whole line is escaped
 * again.
 */
const LOGGERS = {
  logfmt: Logger.withConsoleLog(Logger.map(Logger.formatLogFmt, inOneLine)),
  json: Logger.withConsoleLog(Logger.map(Logger.formatJson, inOneLine)),
} as const

const prettyText = (value: unknown): string => indented(typeof value === "string" ? value : JSON.stringify(value))

/** `console.log` would take a `%` in a name for a placeholder. */
const prettyName = (name: string): string => inOneLine(name).replaceAll("%", "_")

/**
 * A log on standard output. Defaults: level `info`; format `pretty` on a terminal, `logfmt` elsewhere; colours (which only
 * `pretty` has) where the terminal supports them. `print` replaces `console.log`.
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
