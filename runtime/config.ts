/**
 * Every setting, as one schema: what it is, its unit, its default, and where it may be given. A flag wins over a
 * `CALLBOARD_*` variable, which wins over `callboard.config.ts`, which wins over the default; whatever is not known
 * here is an error, in the file as in the environment.
 */
import { availableParallelism, hostname } from "node:os"
import { Result, Schema, SchemaIssue } from "effect"
import { COLOUR_CHOICES } from "./colour.ts"
import { DEFAULT_HEARTBEAT_MS, DEFAULT_LEASE_MS, DEFAULT_TRANSPORT } from "./connect.ts"
import { SCOPES } from "./http/access.ts"
import { defaultFormat, LOG_FORMATS, LOG_LEVELS } from "./log.ts"
import { parseDuration } from "./protocol/time.ts"
import { RECONNECT_DEFAULTS } from "./reconnect.ts"
import { didYouMean } from "./suggest.ts"
import type { Plugin } from "./transport.ts"
import { parseAutoscale } from "./worker/consuming/autoscale.ts"

/** A setting that cannot be used; the message says which, where it came from, and what would be right. */
export class ConfigError extends Error {
  readonly _tag = "ConfigError"
  override readonly name = "ConfigError"
}

/** What is to be known about a setting besides its type. */
export interface About {
  /** One sentence, without the default. */
  readonly description: string
  readonly unit?: string
  /** The default in words. */
  readonly default: string
  /** What the default comes to on this machine, where the words do not say it. */
  readonly here?: () => string
  /** How text, from a flag or a variable, becomes a value. `none`: it can be given in the file alone. */
  readonly read: "text" | "number" | "switch" | "duration" | "list" | "pairs" | "tokens" | "none"
  /** Flag of the commands that start something, as commander writes it. */
  readonly flag?: string
  /** Never printed. */
  readonly secret?: true
}

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      readonly "callboard/setting"?: About | undefined
    }
  }
}

const about = (description: string, rest: Omit<About, "description">) => ({
  description,
  "callboard/setting": { description, ...rest },
})

const whole = (minimum: number, maximum: number) =>
  Schema.Number.check(
    Schema.makeFilter(
      (value: number) =>
        (Number.isInteger(value) && value >= minimum && value <= maximum) ||
        (maximum === Number.MAX_SAFE_INTEGER
          ? `must be a whole number, ${minimum} or more`
          : `must be a whole number from ${minimum} to ${maximum}`),
    ),
  )

const duration = (options: { readonly least?: number; readonly orZero?: boolean; readonly forEver?: boolean } = {}) =>
  Schema.Union([Schema.Finite, Schema.String]).check(
    Schema.makeFilter((value: number | string) => {
      if (options.forEver && typeof value === "number" && value < 0) return true
      const parsed = parseDuration(value)
      if (Result.isFailure(parsed)) return parsed.failure.message
      if (options.orZero && parsed.success === 0) return true
      return parsed.success >= (options.least ?? 0) || `must be at least ${(options.least ?? 0) / 1000} seconds`
    }),
  )

const isPlugin = (value: unknown): value is Plugin =>
  typeof value === "object" && value !== null && "connect" in value && typeof value.connect === "function"

const Text = Schema.String.check(Schema.isMinLength(1))

/** Defaults that both the command line and `serve()` apply. */
export const DEFAULTS = {
  transport: DEFAULT_TRANSPORT,
  actors: "actors",
  concurrency: Math.max(4, availableParallelism()),
  prefetch: 4,
  processes: 1,
  order: "strict",
  grace: "25 seconds",
  resultTtl: "24 hours",
  failureTtl: "7 days",
  lease: `${DEFAULT_LEASE_MS / 1000} seconds`,
  rateLimits: true,
  lostCap: 3,
  unknownGrace: "60 seconds",
  maxBody: 1024 * 1024,
  reconnect: RECONNECT_DEFAULTS,
  heartbeat: `${DEFAULT_HEARTBEAT_MS / 1000} seconds`,
  prefetchReduction: true,
  cancelOnConnectionLoss: false,
  http: { port: 7420, host: "127.0.0.1" },
  log: { level: "info" },
} as const

const HttpConfig = Schema.Struct({
  port: Schema.optionalKey(
    whole(0, 65_535).annotate(
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
        scopes: Schema.Array(Schema.Literals(SCOPES)),
        name: Schema.optionalKey(Text),
      }),
    ).annotate(
      about(
        "Who may do what: `{token, scopes, name?}` with the scopes `read`, `submit`, `admin`; as text `scope+scope:token,…`",
        { default: "none: everyone on this machine may do everything", read: "tokens", secret: true },
      ),
    ),
  ),
})

const yesNo = (value: boolean): string => (value ? "yes" : "no")

const ReconnectConfig = Schema.Struct({
  enabled: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Try again when the transport is lost; off: its loss ends the worker, with exit code 1", {
        default: yesNo(DEFAULTS.reconnect.enabled),
        read: "switch",
        flag: "--no-reconnect",
      }),
    ),
  ),
  atStart: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Try again when a worker finds no transport at its start; off: it ends at once, with exit code 4", {
        default: yesNo(DEFAULTS.reconnect.atStart),
        read: "switch",
        flag: "--no-reconnect-at-start",
      }),
    ),
  ),
  maxTries: Schema.optionalKey(
    whole(0, Number.MAX_SAFE_INTEGER).annotate(
      about("Tries in a row to reach the transport before a worker gives up; 0: for ever", {
        default: `${DEFAULTS.reconnect.maxTries}`,
        read: "number",
        flag: "--max-tries <count>",
      }),
    ),
  ),
  base: Schema.optionalKey(
    duration({ least: 1 }).annotate(
      about("Wait before the first try; it doubles with each", {
        unit: "duration",
        default: DEFAULTS.reconnect.base,
        read: "duration",
      }),
    ),
  ),
  cap: Schema.optionalKey(
    duration({ least: 1 }).annotate(
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

const LogConfig = Schema.Struct({
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

/** What `callboard.config.ts` may hold. */
export const ConfigSchema = Schema.Struct({
  transport: Schema.optionalKey(
    Text.annotate(
      about("Where tasks travel: `sqlite:file`, `nats://host`, `memory:`, or a scheme of a plugin", {
        unit: "URL",
        default: `\`${DEFAULTS.transport}\``,
        read: "text",
        flag: "--transport <url>",
      }),
    ),
  ),
  actors: Schema.optionalKey(
    Text.annotate(
      about("Folder whose modules export the actors", {
        unit: "path",
        default: `\`${DEFAULTS.actors}\``,
        read: "text",
        flag: "--actors <folder>",
      }),
    ),
  ),
  queues: Schema.optionalKey(
    Schema.NonEmptyArray(Text).annotate(
      about("Queues to work on, in order of preference", {
        default: "those that the actors name, and `default`",
        read: "list",
        flag: "-Q, --queues <names>",
      }),
    ),
  ),
  concurrency: Schema.optionalKey(
    whole(1, 10_000).annotate(
      about("Handlers that run at a time, 1–10,000", {
        default: "number of cores, at least 4",
        here: () => `${DEFAULTS.concurrency}`,
        read: "number",
        flag: "-c, --concurrency <count>",
      }),
    ),
  ),
  autoscale: Schema.optionalKey(
    Text.check(
      Schema.makeFilter((value: string) => {
        const parsed = parseAutoscale(value)
        return Result.isSuccess(parsed) || parsed.failure
      }),
    ).annotate(
      about("Lets the number of handlers follow what is held, between two bounds: `2..16`; instead of `concurrency`", {
        default: "none",
        read: "text",
        flag: "--autoscale <min..max>",
      }),
    ),
  ),
  prefetch: Schema.optionalKey(
    whole(1, 1_000).annotate(
      about("Tasks held per handler, 1–1,000; 1 keeps the order of queues and priorities strict", {
        default: `${DEFAULTS.prefetch}; 1 where several queues are given in strict order`,
        read: "number",
        flag: "--prefetch <count>",
      }),
    ),
  ),
  order: Schema.optionalKey(
    Schema.Literals(["strict", "rotate"]).annotate(
      about("`strict`: earlier queues first; `rotate`: queues take turns", {
        default: `\`${DEFAULTS.order}\``,
        read: "text",
        flag: "--order <order>",
      }),
    ),
  ),
  processes: Schema.optionalKey(
    whole(1, 256).annotate(
      about("Worker processes of `callboard worker`, each with so many handlers; one that dies is started again", {
        default: `${DEFAULTS.processes}`,
        read: "number",
        flag: "--processes <count>",
      }),
    ),
  ),
  burst: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Stop when the queues are empty; what a limit has put off is waited for", {
        default: "no",
        read: "switch",
        flag: "--burst",
      }),
    ),
  ),
  maxJobs: Schema.optionalKey(
    whole(1, Number.MAX_SAFE_INTEGER).annotate(
      about("Stop after so many jobs", { default: "no bound", read: "number", flag: "--max-jobs <count>" }),
    ),
  ),
  maxIdle: Schema.optionalKey(
    duration().annotate(
      about("Stop after this long without a job", {
        unit: "duration",
        default: "never",
        read: "duration",
        flag: "--max-idle <duration>",
      }),
    ),
  ),
  name: Schema.optionalKey(
    Text.annotate(
      about("Name of the worker, unique among those that are alive", {
        default: "`<host>-<pid>`",
        here: () => `${hostname()}-<pid>`,
        read: "text",
        flag: "-n, --name <name>",
      }),
    ),
  ),
  grace: Schema.optionalKey(
    duration().annotate(
      about("How long a soft stop lets handlers run before it hands them back", {
        unit: "duration",
        default: DEFAULTS.grace,
        read: "duration",
        flag: "--grace <duration>",
      }),
    ),
  ),
  resultTtl: Schema.optionalKey(
    duration({ forEver: true }).annotate(
      about("How long successes are kept; 0: not at all, -1: for ever", {
        unit: "duration",
        default: DEFAULTS.resultTtl,
        read: "duration",
        flag: "--result-ttl <duration>",
      }),
    ),
  ),
  failureTtl: Schema.optionalKey(
    duration({ forEver: true }).annotate(
      about("How long failures are kept, so that they can run again; -1: for ever", {
        unit: "duration",
        default: DEFAULTS.failureTtl,
        read: "duration",
        flag: "--failure-ttl <duration>",
      }),
    ),
  ),
  lease: Schema.optionalKey(
    duration({ least: 1_000 }).annotate(
      about("How long a task belongs to a worker that has died; live workers extend it. 1 second at least", {
        unit: "duration",
        default: `${DEFAULTS.lease}, or the URL's \`lease\``,
        read: "duration",
        flag: "--lease <duration>",
      }),
    ),
  ),
  rateLimits: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("False: the worker keeps to no rate or limit of a method, and its jobs count for nobody else's", {
        default: `${DEFAULTS.rateLimits}`,
        read: "switch",
        flag: "--no-rate-limits",
      }),
    ),
  ),
  lostCap: Schema.optionalKey(
    whole(1, 1_000).annotate(
      about("Workers that may die in the middle of one job before it is given up, 1–1,000", {
        default: `${DEFAULTS.lostCap}`,
        read: "number",
        flag: "--lost-cap <count>",
      }),
    ),
  ),
  unknownGrace: Schema.optionalKey(
    duration().annotate(
      about("How long a task that nobody here serves is handed back (a rolling deploy) before it is given up", {
        unit: "duration",
        default: DEFAULTS.unknownGrace,
        read: "duration",
        flag: "--unknown-grace <duration>",
      }),
    ),
  ),
  maxBody: Schema.optionalKey(
    whole(1, 1024 * 1024 * 1024).annotate(
      about("Largest body of a task, decompressed; the transport may allow less", {
        unit: "bytes",
        default: "1 MiB",
        read: "number",
        flag: "--max-body <bytes>",
      }),
    ),
  ),
  heartbeat: Schema.optionalKey(
    duration({ least: 1_000, orZero: true }).annotate(
      about(
        "Keep-alive of the connection: it counts as lost after 1 to 1.5 times this without a sign of life; 0: not watched. Of use with `nats:`; `sqlite:` and `memory:` have no connection",
        { unit: "duration", default: DEFAULTS.heartbeat, read: "duration", flag: "--heartbeat <duration>" },
      ),
    ),
  ),
  prefetchReduction: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("After a broken connection, fetch less while the tasks that ran go on, and more with each that ends", {
        default: yesNo(DEFAULTS.prefetchReduction),
        read: "switch",
        flag: "--no-prefetch-reduction",
      }),
    ),
  ),
  cancelOnConnectionLoss: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Hand running tasks back, uncounted, when the connection is lost, instead of letting them go on", {
        default: yesNo(DEFAULTS.cancelOnConnectionLoss),
        read: "switch",
        flag: "--cancel-on-connection-loss",
      }),
    ),
  ),
  reconnect: Schema.optionalKey(ReconnectConfig),
  events: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Workers tell what happens to every task, as events", {
        default: "no",
        read: "switch",
        flag: "-E, --events",
      }),
    ),
  ),
  taskSentEvents: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Whoever submits tells of each task that was accepted, as the event `task-sent`", {
        default: "no",
        read: "switch",
      }),
    ),
  ),
  languages: Schema.optionalKey(
    Schema.Record(Schema.String, Text).annotate(
      about("Queue of the workers of another language, by the `lang` header: `py=celery`", {
        default: "none",
        read: "pairs",
      }),
    ),
  ),
  taskNames: Schema.optionalKey(
    Schema.Record(Schema.String, Text).annotate(
      about("Task names that stand for an actor's method: `app.tasks.add=math.add`", {
        default: "none",
        read: "pairs",
      }),
    ),
  ),
  transports: Schema.optionalKey(
    Schema.Record(
      Schema.String,
      Schema.declare(isPlugin, { expected: "a transport plugin (an object with `schemes` and `connect`)" }),
    ).annotate(
      about("Transports of third parties, by URL scheme", {
        default: "the package `callboard-transport-<scheme>`",
        read: "none",
      }),
    ),
  ),
  metrics: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Counts what happens, for Prometheus at `/metrics`", {
        default: "whether HTTP is answered",
        read: "switch",
      }),
    ),
  ),
  tracing: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Traces submissions and attempts, by the OpenTelemetry provider that is registered", {
        default: "no",
        read: "switch",
      }),
    ),
  ),
  http: Schema.optionalKey(HttpConfig),
  log: Schema.optionalKey(LogConfig),
})

/** What `callboard.config.ts` exports, as its default export; or a function that returns it. Every setting is optional. */
export type Config = typeof ConfigSchema.Type

/** One setting, by its path in the file: `http.port`. */
export interface Setting extends About {
  readonly path: string
  /** Name of its variable, unless it can be given in the file alone. */
  readonly variable: string | undefined
  readonly schema: Schema.Decoder<unknown>
}

const variableOf = (path: string): string =>
  `CALLBOARD_${path
    .replaceAll(".", "_")
    .replace(/[A-Z]/g, (letter) => `_${letter}`)
    .toUpperCase()}`

const settingsOf = (
  fields: Readonly<Record<string, Schema.Decoder<unknown>>>,
  prefix: string,
): ReadonlyArray<Setting> =>
  Object.entries(fields).flatMap(([key, schema]) => {
    const known = Schema.resolveAnnotations(schema)?.["callboard/setting"]
    if (known === undefined) return []
    const path = `${prefix}${key}`
    return [{ ...known, path, variable: known.read === "none" ? undefined : variableOf(path), schema }]
  })

/** All settings, in the order of the schema. */
export const SETTINGS: ReadonlyArray<Setting> = [
  ...settingsOf(ConfigSchema.fields, ""),
  ...settingsOf(ReconnectConfig.fields, "reconnect."),
  ...settingsOf(HttpConfig.fields, "http."),
  ...settingsOf(LogConfig.fields, "log."),
]

const decode = Schema.decodeUnknownResult(ConfigSchema, { onExcessProperty: "error", errors: "all" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** What is wrong with a value, in words. */
export const issueOf = (issue: SchemaIssue.Issue): { readonly path: string; readonly message: string } => {
  const first = format(issue).issues[0]
  const path = (first?.path ?? []).map((key) => String(typeof key === "object" ? key.key : key)).join(".")
  const message = (first?.message ?? "is not valid").replace(/^Expected /, "must be ").replaceAll(" | ", " or ")
  return { path, message }
}

/** The names that are possible beside one that is not: those of its group. */
const siblingsOf = (path: string): ReadonlyArray<string> => {
  const group = path.includes(".") ? path.slice(0, path.lastIndexOf(".") + 1) : ""
  const names = group === "" ? Object.keys(ConfigSchema.fields) : SETTINGS.map((setting) => setting.path)
  return names.filter((name) => name.startsWith(group))
}

/** Checks what a configuration file exports. Fails with {@link ConfigError}, naming file and setting. */
export const checkConfig = (file: string, value: unknown): Config => {
  const decoded = decode(value)
  if (Result.isSuccess(decoded)) return decoded.success
  const unknown = format(decoded.failure.issue).issues.find((issue) => issue.message === "Expected no excess property")
  if (unknown !== undefined) {
    const path = (unknown.path ?? []).map((key) => String(typeof key === "object" ? key.key : key)).join(".")
    throw new ConfigError(`${file}: ${path} is not a setting${didYouMean(path, siblingsOf(path))}`)
  }
  const { path, message } = issueOf(decoded.failure.issue)
  throw new ConfigError(path === "" ? `${file}: its default export ${message}` : `${file}: ${path}: ${message}`)
}
