/** What may be chosen about a log: level, format and colours. */

export const COLOUR_CHOICES = ["auto", "always", "never"] as const
export type ColourChoice = (typeof COLOUR_CHOICES)[number]

export const LOG_LEVELS = ["debug", "info", "warn", "error", "none"] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export const LOG_FORMATS = ["pretty", "logfmt", "json"] as const
export type LogFormat = (typeof LOG_FORMATS)[number]

export const defaultFormat = (): LogFormat => (process.stdout.isTTY ? "pretty" : "logfmt")
