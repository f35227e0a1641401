/**
 * The groups of settings (`http`, with the scopes of its tokens, `reconnect`, `log`), how a setting is described, and the
 * schemas that several of them share.
 */

import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { COLOUR_CHOICES, defaultFormat, LOG_FORMATS, LOG_LEVELS } from "../log/log.ts"
import { DEFAULTS } from "../options/defaults.ts"
import { duration } from "../options/duration.ts"
import { whole } from "../options/fields.ts"
import { RECONNECT_RANGES } from "../options/reconnect.ts"
import { checkQueueName } from "../protocol/name.ts"
import { TOKEN_SCOPES } from "./scopes.ts"

/** Description of a setting: the command line, the help and the documentation are made of it. */
export interface About {
  /** One sentence, without the default. */
  readonly description: string
  readonly unit?: string
  /** The default in words. */
  readonly default: string
  /** The actual default on this machine, where the words leave it open. */
  readonly here?: () => string
  /** How the text of a flag or a variable becomes a value. `none`: the setting can be given in the file only. */
  readonly read: "text" | "number" | "switch" | "duration" | "list" | "pairs" | "tokens" | "none"
  /** Flag of `worker`, `serve`, `dev` and other commands that use the setting, in the form of commander. */
  readonly flag?: string
  /** What the flag does, where it has the form `--no-…` and thus turns the setting off. */
  readonly negation?: string
  /** The value is never printed. */
  readonly secret?: true
}

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      readonly "callboard/setting"?: About | undefined
    }
  }
}

export const about = (description: string, rest: Omit<About, "description">) => ({
  description,
  "callboard/setting": { description, ...rest },
})

export const Text = Schema.String.check(Schema.isMinLength(1))

/** The application's own version. */
export const Version = Schema.String.check(
  Schema.makeFilter((text: string) => (text.length >= 1 && text.length <= 100) || "must have 1 to 100 characters"),
)

export const QueueName = Schema.String.check(
  Schema.makeFilter((name: string) => {
    const checked = checkQueueName(name)
    return Result.isSuccess(checked) || checked.failure.message
  }),
)

/** A boolean default in words. */
export const yesNo = (value: boolean): string => (value ? "yes" : "no")

export const HttpConfig = Schema.Struct({
  port: Schema.optionalKey(
    whole({ min: 0, max: 65_535 }).annotate(
      about("Port of the HTTP interface; 0: any free one", {
        default: `${DEFAULTS.http.port}`,
        read: "number",
        flag: "-p, --port <port>",
      }),
    ),
  ),
  host: Schema.optionalKey(
    Text.annotate(
      about("Address of the HTTP interface; another than loopback needs a token", {
        default: `\`${DEFAULTS.http.host}\``,
        read: "text",
        flag: "--host <address>",
      }),
    ),
  ),
  tokens: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        token: Text,
        scopes: Schema.Array(Schema.Literals(TOKEN_SCOPES)),
        name: Schema.optionalKey(Text),
      }),
    ).annotate(
      about(
        "The tokens and what each may do: `{token, scopes, name?}` with the scopes `read`, `payload`, `submit`, `operate`, `admin`, or `no-payload` beside `read`; as text `scope+scope:token,…`",
        { default: "none: this machine may do everything", read: "tokens", secret: true },
      ),
    ),
  ),
  origins: Schema.optionalKey(
    Schema.Array(Text).annotate(
      about("Origins of web pages that may call it with a token, such as `https://app.example.com`", {
        default: "none",
        read: "list",
      }),
    ),
  ),
  page: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Show the page of the board to browsers, at `/`", { default: yesNo(true), read: "switch" }),
    ),
  ),
})

export const ReconnectConfig = Schema.Struct({
  enabled: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Try again when the transport is lost; off: its loss ends the worker, with exit code 1", {
        default: yesNo(DEFAULTS.reconnect.enabled),
        read: "switch",
        flag: "--no-reconnect",
        negation: "End the worker, with exit code 1, when the transport is lost",
      }),
    ),
  ),
  atStart: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Try again when a worker finds no transport at its start; off: it ends at once, with exit code 4", {
        default: yesNo(DEFAULTS.reconnect.atStart),
        read: "switch",
        flag: "--no-reconnect-at-start",
        negation: "End at once, with exit code 4, when a worker finds no transport at its start",
      }),
    ),
  ),
  maxTries: Schema.optionalKey(
    whole(RECONNECT_RANGES.maxTries).annotate(
      about("Tries in a row to reach the transport before a worker gives up; 0: for ever", {
        default: `${DEFAULTS.reconnect.maxTries}`,
        read: "number",
        flag: "--max-tries <count>",
      }),
    ),
  ),
  base: Schema.optionalKey(
    duration(RECONNECT_RANGES.base).annotate(
      about("Wait before the first try; it doubles with each", {
        unit: "duration",
        default: DEFAULTS.reconnect.base,
        read: "duration",
      }),
    ),
  ),
  cap: Schema.optionalKey(
    duration(RECONNECT_RANGES.cap).annotate(
      about("Longest wait between two tries", {
        unit: "duration",
        default: DEFAULTS.reconnect.cap,
        read: "duration",
      }),
    ),
  ),
  jitter: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Shorten each wait by up to half, so that many workers do not all come back at once", {
        default: yesNo(DEFAULTS.reconnect.jitter),
        read: "switch",
      }),
    ),
  ),
})

export const LogConfig = Schema.Struct({
  level: Schema.optionalKey(
    Schema.Literals(LOG_LEVELS).annotate(
      about("Least level that is logged: debug, info, warn, error or none", {
        default: `\`${DEFAULTS.log.level}\``,
        read: "text",
        flag: "-l, --log-level <level>",
      }),
    ),
  ),
  format: Schema.optionalKey(
    Schema.Literals(LOG_FORMATS).annotate(
      about("Form of a log line: pretty, logfmt or json", {
        default: "`pretty` on a terminal, else `logfmt`",
        here: defaultFormat,
        read: "text",
        flag: "--log-format <format>",
      }),
    ),
  ),
  color: Schema.optionalKey(
    Schema.Literals(COLOUR_CHOICES).annotate(
      about("Colours: auto (on a terminal, unless `NO_COLOR` or `FORCE_COLOR` say otherwise), always or never", {
        default: "`auto`",
        read: "text",
        flag: "--color <when>",
      }),
    ),
  ),
  levels: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.Literals(LOG_LEVELS)).annotate(
      about("Levels of loggers by name: `callboard.http=warn`", { default: "none", read: "pairs" }),
    ),
  ),
})
