/**
 * All settings: what they are, and for whom. The configuration file, variables, flags and their help, `doctor`, the options of
 * `serve()` and `connect()`, and the table in the documentation are made of them. Editors show the comment of a setting beside
 * its option: the text of the setting, what else code should know, and the default.
 */

import { availableParallelism, hostname } from "node:os"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import {
  DEFAULT_HEARTBEAT_MS,
  DEFAULT_LEASE_MS,
  DEFAULT_TIMEOUT_MS,
  isPlugin,
  LEASE_RANGE,
  NAMESPACE,
} from "../connection/connect.ts"
import { DEFAULT_KEEP_FAILED_MS } from "../connection/connection.ts"
import { COLOUR_CHOICES, defaultFormat, LOG_FORMATS, LOG_LEVELS } from "../log/choices.ts"
import { type Autoscale, MAX_HANDLERS, parseAutoscale } from "../options/autoscale.ts"
import { AnyObject } from "../options/check.ts"
import { DEFAULT_HARD_MS, spoken } from "../options/duration.ts"
import { OwnName } from "../options/fields.ts"
import { INHERITED } from "../options/inherited.ts"
import { isObject } from "../protocol/guards.ts"
import { checkQueueName } from "../protocol/name.ts"
import { parseDuration } from "../protocol/time.ts"
import type { TracingSettings } from "../tracing/tracing.ts"
import { Tokens } from "./scopes.ts"
import {
  type Audience,
  choice,
  count,
  defaultsOf,
  group,
  type InCode,
  type InFile,
  inCode,
  type NamesFor,
  onOff,
  pairs,
  setting,
  settingsFor,
  span,
  Text,
  text,
} from "./setting.ts"

const HANDLERS = Math.max(4, availableParallelism())

const seconds = (ms: number) => `${ms / 1_000} seconds` as const

const Namespace = Schema.String.check(
  Schema.makeFilter((value: string) => NAMESPACE.test(value) || 'must be 1 to 64 letters, digits, "_" or "-"'),
)

const Version = Schema.String.check(
  Schema.makeFilter((value: string) => (value.length >= 1 && value.length <= 100) || "must have 1 to 100 characters"),
)

const Queues = Schema.Array(
  Schema.String.check(
    Schema.makeFilter((name: string) => {
      const checked = checkQueueName(name)
      return Result.isSuccess(checked) || checked.failure.message
    }),
  ),
).check(Schema.makeFilter((names: ReadonlyArray<string>) => names.length > 0 || "must name one queue at least"))

const isBounds = (value: unknown): value is string | Autoscale => typeof value === "string" || isObject(value)
const bounds = Schema.makeFilter((value: string | Autoscale) => {
  const parsed = parseAutoscale(value)
  return Result.isSuccess(parsed) || parsed.failure
})
const Bounds = Schema.declare(isBounds, { expected: "two whole numbers, as in 2..16" }).check(bounds)

const isTracing = (value: unknown): value is NonNullable<TracingSettings["tracing"]> =>
  typeof value === "boolean" || (isObject(value) && "startSpan" in value && typeof value.startSpan === "function")

export const TABLE = {
  /**
   * Where tasks travel: `sqlite:file`, `nats://host`, `memory:`, or a scheme of a plugin. In code also a client object that
   * the application holds. Defaults to `sqlite:.callboard/board.db`.
   */
  transport: inCode(
    text({
      for: "serve",
      text: "Where tasks travel: `sqlite:file`, `nats://host`, `memory:`, or a scheme of a plugin",
      unit: "URL",
      default: "sqlite:.callboard/board.db",
      flag: "--transport <url>",
    }),
    Schema.Union([Schema.String, AnyObject]),
  ),
  /** Prefix of everything that is stored on the broker, 1–64 letters, digits, `_` or `-`. Defaults to the URL's `ns`, else `callboard`. */
  namespace: text(
    {
      for: "connect",
      text: "Prefix of everything that is stored on the broker, 1–64 letters, digits, `_` or `-`",
      otherwise: "the URL's `ns`, else `callboard`",
    },
    Namespace,
  ),
  /** Folder whose modules export the actors. Defaults to `actors`. */
  actors: text({
    for: "command",
    text: "Folder whose modules export the actors",
    unit: "path",
    default: "actors",
    flag: "--actors <folder>",
  }),
  /** Queues to work on, in order of preference. Defaults to those that the actors name, and `default`. */
  queues: setting("list", Queues, {
    for: "serve",
    text: "Queues to work on, in order of preference",
    otherwise: "those that the actors name, and `default`",
    flag: "-Q, --queues <names>",
  }),
  /** Handlers that run at a time, 1–10,000. Defaults to the number of cores, at least 4. */
  concurrency: count(
    { min: 1, max: MAX_HANDLERS },
    {
      for: "serve",
      text: "Handlers that run at a time, 1–10,000",
      default: HANDLERS,
      otherwise: "the number of cores, at least 4",
      here: () => `${HANDLERS}`,
      flag: "-c, --concurrency <count>",
    },
  ),
  /**
   * Lets the number of handlers follow the number of tasks held, between two bounds: `2..16`; instead of `concurrency`.
   * Defaults to none.
   */
  autoscale: inCode(
    text(
      {
        for: "serve",
        text: "Lets the number of handlers follow the number of tasks held, between two bounds: `2..16`; instead of `concurrency`",
        otherwise: "none",
        flag: "--autoscale <min..max>",
      },
      Text.check(bounds),
    ),
    Bounds,
  ),
  /**
   * Tasks held per handler, 1–1,000; 1 keeps the order of queues and priorities strict. Defaults to 4, and to 1 for several
   * queues in strict order.
   */
  prefetch: count(
    { min: 1, max: 1_000 },
    {
      for: "serve",
      text: "Tasks held per handler, 1–1,000; 1 keeps the order of queues and priorities strict",
      otherwise: "4, and to 1 for several queues in strict order",
      flag: "--prefetch <count>",
    },
  ),
  /**
   * `strict`: earlier queues first; `rotate`: queues take turns; `random`: the next task comes from any queue that has one.
   * Defaults to `strict`.
   */
  order: choice(["strict", "rotate", "random"], {
    for: "serve",
    text: "`strict`: earlier queues first; `rotate`: queues take turns; `random`: the next task comes from any queue that has one",
    default: "strict",
    flag: "--order <order>",
  }),
  /**
   * Worker processes of `callboard worker`, each with so many handlers; one that dies is started again. Defaults to 1.
   */
  processes: count(
    { min: 1, max: 256 },
    {
      for: "command",
      text: "Worker processes of `callboard worker`, each with so many handlers; one that dies is started again",
      default: 1,
      flag: "--processes <count>",
    },
  ),
  /**
   * Stop when the queues are empty; tasks that a limit has deferred are waited for. A task that is due later (`eta`, the
   * back-off of a retry) is not. Defaults to false.
   */
  burst: onOff({
    for: "serve",
    text: "Stop when the queues are empty; tasks that a limit has deferred are waited for",
    default: false,
    flag: "--burst",
  }),
  /** Stop after so many jobs. Defaults to no bound. */
  maxJobs: count(
    { min: 1 },
    { for: "serve", text: "Stop after so many jobs", otherwise: "no bound", flag: "--max-jobs <count>" },
  ),
  /** Stop after this long without a job. Defaults to never. */
  maxIdle: span(
    {},
    {
      for: "serve",
      text: "Stop after this long without a job",
      otherwise: "never",
      flag: "--max-idle <duration>",
    },
  ),
  /**
   * Name of the worker, unique among those that are alive, or of the client, 1–255 characters. Defaults to
   * `<host>-<random>`, that of a client to `callboard@<host>:<pid>`.
   */
  name: text(
    {
      for: "connect",
      text: "Name of the worker, unique among those that are alive, or of the client, 1–255 characters",
      otherwise: "`<host>-<random>`",
      here: () => `${hostname()}-<random>`,
      flag: "-n, --name <name>",
    },
    OwnName,
  ),
  /**
   * The application's own version, 1–100 characters: statistics show since when it runs and which errors it has. In code
   * the variable `CALLBOARD_VERSION` holds where none is given. Defaults to none.
   */
  version: text(
    {
      for: "serve",
      text: "The application's own version, 1–100 characters: statistics show since when it runs and which errors it has",
      otherwise: "none",
    },
    Version,
  ),
  /** How long a soft stop lets handlers run before it hands them back. Defaults to 25 seconds. */
  grace: span(
    {},
    {
      for: "serve",
      text: "How long a soft stop lets handlers run before it hands them back",
      default: "25 seconds",
      flag: "--grace <duration>",
    },
  ),
  /**
   * How long an attempt may take, unless its method or actor sets `timeLimit`: a duration, or `{ soft, hard }`; -1: no limit.
   * Defaults to 30 minutes.
   */
  timeLimit: setting("duration", INHERITED.timeLimit, {
    for: "serve",
    text: "How long an attempt may take, unless its method or actor sets `timeLimit`: a duration, or `{ soft, hard }`; -1: no limit",
    default: spoken(DEFAULT_HARD_MS),
    flag: "--time-limit <duration>",
  }),
  /**
   * The retry policy of methods that set none and whose actor sets none, such as `{ max: 3 }`, or `false`. Defaults to no
   * retries.
   */
  retry: setting("none", INHERITED.retry, {
    for: "serve",
    text: "The retry policy of methods that set none and whose actor sets none, such as `{ max: 3 }`, or `false`",
    otherwise: "no retries",
  }),
  /**
   * What happens to a job whose worker dies, unless its method or actor sets `onLost`: `redeliver` or `fail`. Defaults to
   * `redeliver`.
   */
  onLost: setting("text", INHERITED.onLost, {
    for: "serve",
    text: "What happens to a job whose worker dies, unless its method or actor sets `onLost`: `redeliver` or `fail`",
    default: "redeliver",
    flag: "--on-lost <outcome>",
  }),
  /** How long successes are kept; 0: not at all, -1: for ever. Defaults to 24 hours. */
  resultTtl: span(
    { forEver: true },
    {
      for: "serve",
      text: "How long successes are kept; 0: not at all, -1: for ever",
      default: "24 hours",
      flag: "--result-ttl <duration>",
    },
  ),
  /**
   * How long failures are kept, so that they can run again; -1: for ever. Of a client: jobs that it cancels, or finds past
   * their `expires`. Defaults to 7 days.
   */
  failureTtl: span(
    { forEver: true },
    {
      for: "connect",
      text: "How long failures are kept, so that they can run again; -1: for ever",
      default: `${DEFAULT_KEEP_FAILED_MS / 86_400_000} days`,
      flag: "--failure-ttl <duration>",
    },
  ),
  /**
   * How long a task belongs to a worker that has died; live workers extend it. 1 second to 1 day. Defaults to the URL's
   * `lease`, else 30 seconds.
   */
  lease: span(LEASE_RANGE, {
    for: "connect",
    text: "How long a task belongs to a worker that has died; live workers extend it. 1 second to 1 day",
    otherwise: `the URL's \`lease\`, else ${seconds(DEFAULT_LEASE_MS)}`,
    flag: "--lease <duration>",
  }),
  /**
   * Whether the worker keeps to the rates and limits of methods; if not, its jobs do not count for the limits of other
   * workers either. Defaults to true.
   */
  rateLimits: onOff({
    for: "serve",
    text: "Whether the worker keeps to the rates and limits of methods; if not, its jobs do not count for the limits of other workers either",
    default: true,
    flag: "--no-rate-limits",
    negation: "Keep to no rate or limit of a method; this worker's jobs count for no other's either",
  }),
  /**
   * How long handlers that go on after their jobs were decided may hold all slots before the worker's process ends, with
   * exit code 5. In code the process ends only where `signals` is on; the worker ends in any case. Defaults to one lease.
   */
  stuckGrace: span(
    {},
    {
      for: "serve",
      text: "How long handlers that go on after their jobs were decided may hold all slots before the worker's process ends, with exit code 5",
      otherwise: "one lease",
      flag: "--stuck-grace <duration>",
    },
  ),
  /** Workers that may die in the middle of one job before it is given up, 1–1,000. Defaults to 3. */
  lostCap: count(
    { min: 1, max: 1_000 },
    {
      for: "serve",
      text: "Workers that may die in the middle of one job before it is given up, 1–1,000",
      default: 3,
      flag: "--lost-cap <count>",
    },
  ),
  /**
   * How long a task that no worker of its queue serves is handed back (a rolling deploy) before it is given up. Defaults to
   * 60 seconds.
   */
  unknownGrace: span(
    {},
    {
      for: "serve",
      text: "How long a task that no worker of its queue serves is handed back (a rolling deploy) before it is given up",
      default: "60 seconds",
      flag: "--unknown-grace <duration>",
    },
  ),
  /** Largest body of a task, decompressed; the transport may allow less. In bytes. Defaults to 1 MiB. */
  maxBody: count(
    { min: 1, max: 1024 * 1024 * 1024 },
    {
      for: "serve",
      text: "Largest body of a task, decompressed; the transport may allow less",
      unit: "bytes",
      default: 1024 * 1024,
      otherwise: "1 MiB",
      flag: "--max-body <bytes>",
    },
  ),
  /** Longest wait for a connection, 1 ms to 1 day. Defaults to 5 seconds. */
  timeout: span(
    { min: 1, max: 86_400_000 },
    {
      for: "connect",
      text: "Longest wait for a connection, 1 ms to 1 day",
      default: seconds(DEFAULT_TIMEOUT_MS),
    },
  ),
  /**
   * Keep-alive of the connection: it counts as lost after 1 to 1.5 times this without a sign of life; 0: not watched. Of use
   * with `nats:`; `sqlite:` and `memory:` have no connection. 1 second at least. Defaults to 20 seconds.
   */
  heartbeat: span(
    { min: 1_000, orZero: true },
    {
      for: "connect",
      text: "Keep-alive of the connection: it counts as lost after 1 to 1.5 times this without a sign of life; 0: not watched. Of use with `nats:`; `sqlite:` and `memory:` have no connection",
      default: seconds(DEFAULT_HEARTBEAT_MS),
      flag: "--heartbeat <duration>",
    },
  ),
  /**
   * After a broken connection, fetch less while the tasks that ran go on, and more with each that ends. Defaults to true.
   */
  prefetchReduction: onOff({
    for: "serve",
    text: "After a broken connection, fetch less while the tasks that ran go on, and more with each that ends",
    default: true,
    flag: "--no-prefetch-reduction",
    negation: "Fetch as much as before right after a broken connection",
  }),
  /**
   * Hand running tasks back, uncounted, when the connection is lost, instead of letting them go on. Defaults to false.
   */
  cancelOnConnectionLoss: onOff({
    for: "serve",
    text: "Hand running tasks back, uncounted, when the connection is lost, instead of letting them go on",
    default: false,
    flag: "--cancel-on-connection-loss",
  }),
  /** What a worker does when its transport cannot be reached. Defaults to 100 tries. */
  reconnect: group(
    "serve",
    {
      /** Try again when the transport is lost; off: its loss ends the worker, with exit code 1. Defaults to true. */
      enabled: onOff({
        for: "serve",
        text: "Try again when the transport is lost; off: its loss ends the worker, with exit code 1",
        default: true,
        flag: "--no-reconnect",
        negation: "End the worker, with exit code 1, when the transport is lost",
      }),
      /**
       * Try again when a worker finds no transport at its start; off: it ends at once, with exit code 4. Defaults to true.
       */
      atStart: onOff({
        for: "serve",
        text: "Try again when a worker finds no transport at its start; off: it ends at once, with exit code 4",
        default: true,
        flag: "--no-reconnect-at-start",
        negation: "End at once, with exit code 4, when a worker finds no transport at its start",
      }),
      /** Tries in a row to reach the transport before a worker gives up; 0: for ever. Defaults to 100. */
      maxTries: count(
        { min: 0 },
        {
          for: "serve",
          text: "Tries in a row to reach the transport before a worker gives up; 0: for ever",
          default: 100,
          flag: "--max-tries <count>",
        },
      ),
      /** Wait before the first try; it doubles with each. 1 ms at least. Defaults to 0.25 seconds. */
      base: span(
        { min: 1 },
        { for: "serve", text: "Wait before the first try; it doubles with each", default: "0.25 seconds" },
      ),
      /** Longest wait between two tries. At least as long as `base`. Defaults to 10 seconds. */
      cap: span({ min: 1 }, { for: "serve", text: "Longest wait between two tries", default: "10 seconds" }),
      /** Shorten each wait by up to half, so that many workers do not all come back at once. Defaults to true. */
      jitter: onOff({
        for: "serve",
        text: "Shorten each wait by up to half, so that many workers do not all come back at once",
        default: true,
      }),
    },
    ({ base = "0.25 seconds", cap = "10 seconds" }) => {
      const [least, most] = [
        Result.getOrElse(parseDuration(base), () => 0),
        Result.getOrElse(parseDuration(cap), () => 0),
      ]
      return most >= least || { path: ["cap"], issue: "must be at least as long as reconnect.base" }
    },
  ),
  /** Workers send an event for each step of every task; `worker.events(true)` changes it. Defaults to false. */
  events: onOff({
    for: "serve",
    text: "Workers send an event for each step of every task",
    default: false,
    flag: "-E, --events",
  }),
  /** A client announces each task that was accepted as the event `task-sent`. Defaults to false. */
  taskSentEvents: onOff({
    for: "connect",
    text: "A client announces each task that was accepted as the event `task-sent`",
    default: false,
  }),
  /**
   * Where clients of Celery look for results, or `rpc://`; with it a worker also answers `celery inspect`, `control` and
   * `events`. Without it the tasks of such clients run, and their clients get no result. Defaults to none.
   */
  resultBackend: text({
    for: "serve",
    text: "Where clients of Celery look for results, or `rpc://`; with it a worker also answers `celery inspect`, `control` and `events`",
    unit: "URL",
    otherwise: "none",
    flag: "--result-backend <url>",
    secret: true,
  }),
  /**
   * Queue of the workers of another language, by the `lang` header: `py=celery`. Tasks that are served here run here; what
   * is forwarded on `nats:` Callboard alone can take. In code: `{ py: "celery" }`. Defaults to none.
   */
  languages: pairs(Text, {
    for: "serve",
    text: "Queue of the workers of another language, by the `lang` header: `py=celery`. Tasks that are served here run here; what is forwarded on `nats:` Callboard alone can take",
    otherwise: "none",
  }),
  /**
   * Task names that stand for an actor's method: `app.tasks.add=math.add`. In code: `{ "app.tasks.add": "math.add" }`.
   * Defaults to none.
   */
  taskNames: pairs(Text, {
    for: "connect",
    text: "Task names that stand for an actor's method: `app.tasks.add=math.add`",
    otherwise: "none",
  }),
  /** Transports of third parties, by URL scheme. Defaults to the package `callboard-transport-<scheme>`. */
  transports: setting(
    "none",
    Schema.Record(
      Schema.String,
      Schema.declare(isPlugin, { expected: "a transport plugin, an object with `schemes` and `connect`" }),
    ),
    {
      for: "connect",
      text: "Transports of third parties, by URL scheme",
      otherwise: "the package `callboard-transport-<scheme>`",
    },
  ),
  /** Counts what happens, for Prometheus at `/metrics`. Defaults to whether HTTP is answered. */
  metrics: onOff({
    for: "serve",
    text: "Counts what happens, for Prometheus at `/metrics`",
    otherwise: "whether HTTP is answered",
  }),
  /**
   * Traces submissions and attempts, by the OpenTelemetry provider that is registered. In code also by a tracer of your own.
   * Defaults to false.
   */
  tracing: inCode(
    onOff({
      for: "connect",
      text: "Traces submissions and attempts, by the OpenTelemetry provider that is registered",
      default: false,
    }),
    Schema.declare(isTracing, { expected: "true, false or a tracer of OpenTelemetry, which has `startSpan`" }),
  ),
  /** The HTTP interface. */
  http: group("command", {
    /** Port of the HTTP interface; 0: any free one. Defaults to 7420. */
    port: count(
      { min: 0, max: 65_535 },
      {
        for: "command",
        text: "Port of the HTTP interface; 0: any free one",
        default: 7420,
        flag: "-p, --port <port>",
      },
    ),
    /**
     * Address of the HTTP interface; another than loopback needs a token. One of at least 16 characters. Defaults to
     * `127.0.0.1`.
     */
    host: text({
      for: "command",
      text: "Address of the HTTP interface; another than loopback needs a token",
      default: "127.0.0.1",
      flag: "--host <address>",
    }),
    /**
     * The tokens and what each may do: `{token, scopes, name?}` with the scopes `read`, `payload`, `submit`, `operate`,
     * `admin`, or `no-payload` beside `read`; as text `scope+scope:token,…`. Defaults to none: this machine may do everything.
     */
    tokens: setting("tokens", Tokens, {
      for: "command",
      text: "The tokens and what each may do: `{token, scopes, name?}` with the scopes `read`, `payload`, `submit`, `operate`, `admin`, or `no-payload` beside `read`; as text `scope+scope:token,…`",
      otherwise: "none: this machine may do everything",
      secret: true,
    }),
    /** Origins of web pages that may call it with a token, such as `https://app.example.com`. Defaults to none. */
    origins: setting("list", Schema.Array(Text), {
      for: "command",
      text: "Origins of web pages that may call it with a token, such as `https://app.example.com`",
      otherwise: "none",
    }),
    /** Show the page of the board to browsers, at `/`. Defaults to true. */
    page: onOff({ for: "command", text: "Show the page of the board to browsers, at `/`", default: true }),
  }),
  /** The log of the command line. */
  log: group("command", {
    /** Least level that is logged: debug, info, warn, error or none. Defaults to `info`. */
    level: choice(LOG_LEVELS, {
      for: "command",
      text: "Least level that is logged: debug, info, warn, error or none",
      default: "info",
      flag: "-l, --log-level <level>",
    }),
    /** Form of a log line: pretty, logfmt or json. Defaults to `pretty` on a terminal, else `logfmt`. */
    format: choice(LOG_FORMATS, {
      for: "command",
      text: "Form of a log line: pretty, logfmt or json",
      otherwise: "`pretty` on a terminal, else `logfmt`",
      here: defaultFormat,
      flag: "--log-format <format>",
    }),
    /**
     * Colours: auto (on a terminal, unless `NO_COLOR` or `FORCE_COLOR` say otherwise), always or never. Defaults to `auto`.
     */
    color: choice(COLOUR_CHOICES, {
      for: "command",
      text: "Colours: auto (on a terminal, unless `NO_COLOR` or `FORCE_COLOR` say otherwise), always or never",
      default: "auto",
      flag: "--color <when>",
    }),
    /** Levels of loggers by name: `callboard.http=warn`. Defaults to none. */
    levels: pairs(Schema.Literals(LOG_LEVELS), {
      for: "command",
      text: "Levels of loggers by name: `callboard.http=warn`",
      otherwise: "none",
    }),
  }),
}

export const DEFAULTS = defaultsOf(TABLE)

type Table = typeof TABLE

/** The options of `serve()` and `connect()` that are settings. */
export type OptionsFor<W extends Audience> = Pick<InCode<Table>, NamesFor<Table, W>>

/** What a client takes. */
export const CONNECT = settingsFor(TABLE, "connect")
/** What a service takes. */
export const SERVE = settingsFor(TABLE, "serve", "connect")

/** The HTTP interface of `serve()`. */
export interface HttpOptions extends InCode<Table["http"]["fields"]> {}

/** What a worker does when its transport cannot be reached. */
export interface ReconnectOptions extends InCode<Table["reconnect"]["fields"]> {}

/** What `callboard.config.ts` exports, or the function that it exports returns. Every setting is optional. */
export interface Config extends InFile<Table> {}
