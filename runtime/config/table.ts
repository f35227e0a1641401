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
import type { TracingSettings } from "../tracing/trace.ts"
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

/** Shortest secret that cannot be guessed: 32 hexadecimal characters have 128 bits. */
const LinkSecret = Schema.String.check(
  Schema.makeFilter((value: string) => value.length >= 32 || "must have 32 characters or more"),
)

const Queues = Schema.Array(
  Schema.String.check(
    Schema.makeFilter((name: string) => {
      const checked = checkQueueName(name)
      return Result.isSuccess(checked) || checked.failure.message
    }),
  ),
).check(Schema.makeFilter((names: ReadonlyArray<string>) => names.length > 0 || "must name at least one queue"))

const isBounds = (value: unknown): value is string | Autoscale => typeof value === "string" || isObject(value)
const bounds = Schema.makeFilter((value: string | Autoscale) => {
  const parsed = parseAutoscale(value)
  return Result.isSuccess(parsed) || parsed.failure
})
const Bounds = Schema.declare(isBounds, { expected: "two whole numbers, such as 2..16" }).check(bounds)

const isTracing = (value: unknown): value is NonNullable<TracingSettings["tracing"]> =>
  typeof value === "boolean" || (isObject(value) && "startSpan" in value && typeof value.startSpan === "function")

export const TABLE = {
  /**
   * Transport of the tasks: `sqlite:file`, `nats://host`, `memory:`, or the scheme of a plugin. In code also a client
   * object of the application. Defaults to `sqlite:.callboard/board.db`.
   */
  transport: inCode(
    text({
      for: "serve",
      text: "Transport of the tasks: `sqlite:file`, `nats://host`, `memory:`, or the scheme of a plugin",
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
  /** Queues to consume, in order of preference. Defaults to the queues that the actors name, and `default`. */
  queues: setting("list", Queues, {
    for: "serve",
    text: "Queues to consume, in order of preference",
    otherwise: "the queues that the actors name, and `default`",
    flag: "-Q, --queues <names>",
  }),
  /** Maximum number of concurrent handlers, 1–10,000. Defaults to the number of cores, at least 4. */
  concurrency: count(
    { min: 1, max: MAX_HANDLERS },
    {
      for: "serve",
      text: "Maximum number of concurrent handlers, 1–10,000",
      default: HANDLERS,
      otherwise: "the number of cores, at least 4",
      here: () => `${HANDLERS}`,
      flag: "-c, --concurrency <count>",
    },
  ),
  /**
   * Adjust the number of handlers to the number of tasks held, between two bounds such as `2..16`; instead of
   * `concurrency`. Defaults to none.
   */
  autoscale: inCode(
    text(
      {
        for: "serve",
        text: "Adjust the number of handlers to the number of tasks held, between two bounds such as `2..16`; instead of `concurrency`",
        otherwise: "none",
        flag: "--autoscale <min..max>",
      },
      Text.check(bounds),
    ),
    Bounds,
  ),
  /**
   * Tasks that a worker holds per handler, 1–1,000; with 1 the order of queues and priorities is strict. Defaults to 4, or
   * 1 for several queues in strict order.
   */
  prefetch: count(
    { min: 1, max: 1_000 },
    {
      for: "serve",
      text: "Tasks that a worker holds per handler, 1–1,000; with 1 the order of queues and priorities is strict",
      otherwise: "4, or 1 for several queues in strict order",
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
   * Number of worker processes of `callboard worker`, each with `concurrency` handlers; a process that dies is restarted.
   * Defaults to 1.
   */
  processes: count(
    { min: 1, max: 256 },
    {
      for: "command",
      text: "Number of worker processes of `callboard worker`, each with `concurrency` handlers; a process that dies is restarted",
      default: 1,
      flag: "--processes <count>",
    },
  ),
  /**
   * Stop when the queues are empty, after waiting for tasks that a limit has deferred. Tasks that are due later (`eta`,
   * the back-off of a retry) are not waited for. Defaults to false.
   */
  burst: onOff({
    for: "serve",
    text: "Stop when the queues are empty, after waiting for tasks that a limit has deferred",
    default: false,
    flag: "--burst",
  }),
  /** Stop after this many jobs. Defaults to no limit. */
  maxJobs: count(
    { min: 1 },
    { for: "serve", text: "Stop after this many jobs", otherwise: "no limit", flag: "--max-jobs <count>" },
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
   * Name of the worker, unique among live workers, or of the client; 1–255 characters. Defaults to `<host>-<random>`, for
   * a client to `callboard@<host>:<pid>`.
   */
  name: text(
    {
      for: "connect",
      text: "Name of the worker, unique among live workers, or of the client; 1–255 characters",
      otherwise: "`<host>-<random>`",
      here: () => `${hostname()}-<random>`,
      flag: "-n, --name <name>",
    },
    OwnName,
  ),
  /**
   * Version of the application, 1–100 characters; statistics show when it was first seen and which errors it has. In code
   * the variable `CALLBOARD_VERSION` applies if it is absent. Defaults to none.
   */
  version: text(
    {
      for: "serve",
      text: "Version of the application, 1–100 characters; statistics show when it was first seen and which errors it has",
      otherwise: "none",
    },
    Version,
  ),
  /**
   * How long running handlers may take to finish in a graceful shutdown before their jobs are handed back. Defaults to 25
   * seconds.
   */
  grace: span(
    {},
    {
      for: "serve",
      text: "How long running handlers may take to finish in a graceful shutdown before their jobs are handed back",
      default: "25 seconds",
      flag: "--grace <duration>",
    },
  ),
  /**
   * How long an attempt may take, unless the method or its actor sets `timeLimit`: a duration, or `{ soft, hard }`; -1: no limit.
   * Defaults to 30 minutes.
   */
  timeLimit: setting("duration", INHERITED.timeLimit, {
    for: "serve",
    text: "How long an attempt may take, unless the method or its actor sets `timeLimit`: a duration, or `{ soft, hard }`; -1: no limit",
    default: spoken(DEFAULT_HARD_MS),
    flag: "--time-limit <duration>",
  }),
  /**
   * Retry policy, unless the method or its actor sets `retry`: an object such as `{ max: 3 }`, or `false`. Defaults to no
   * retries.
   */
  retry: setting("none", INHERITED.retry, {
    for: "serve",
    text: "Retry policy, unless the method or its actor sets `retry`: an object such as `{ max: 3 }`, or `false`",
    otherwise: "no retries",
  }),
  /**
   * What happens to a job whose worker dies, unless the method or its actor sets `onLost`: `redeliver` or `fail`. Defaults to
   * `redeliver`.
   */
  onLost: setting("text", INHERITED.onLost, {
    for: "serve",
    text: "What happens to a job whose worker dies, unless the method or its actor sets `onLost`: `redeliver` or `fail`",
    default: "redeliver",
    flag: "--on-lost <outcome>",
  }),
  /** How long succeeded jobs are kept; 0: not at all, -1: indefinitely. Defaults to 24 hours. */
  resultTtl: span(
    { forEver: true },
    {
      for: "serve",
      text: "How long succeeded jobs are kept; 0: not at all, -1: indefinitely",
      default: "24 hours",
      flag: "--result-ttl <duration>",
    },
  ),
  /**
   * How long jobs that did not succeed are kept, so that they can be retried; -1: indefinitely. For a client: jobs that it cancels, or
   * finds expired. Defaults to 7 days.
   */
  failureTtl: span(
    { forEver: true },
    {
      for: "connect",
      text: "How long jobs that did not succeed are kept, so that they can be retried; -1: indefinitely",
      default: `${DEFAULT_KEEP_FAILED_MS / 86_400_000} days`,
      flag: "--failure-ttl <duration>",
    },
  ),
  /**
   * Time after which the tasks of a dead worker are delivered again; live workers extend it. 1 second to 1 day. Defaults
   * to the URL's `lease`, else 30 seconds.
   */
  lease: span(LEASE_RANGE, {
    for: "connect",
    text: "Time after which the tasks of a dead worker are delivered again; live workers extend it. 1 second to 1 day",
    otherwise: `the URL's \`lease\`, else ${seconds(DEFAULT_LEASE_MS)}`,
    flag: "--lease <duration>",
  }),
  /**
   * Enforce the rates and limits of methods; if off, this worker's jobs do not count towards the limits of other workers
   * either. Defaults to true.
   */
  rateLimits: onOff({
    for: "serve",
    text: "Enforce the rates and limits of methods; if off, this worker's jobs do not count towards the limits of other workers either",
    default: true,
    flag: "--no-rate-limits",
    negation:
      "Ignore the rates and limits of methods; this worker's jobs do not count towards the limits of other workers either",
  }),
  /**
   * How long handlers that keep running after their jobs have ended may occupy all slots before the worker's process
   * exits, with exit code 5. In code the process exits only if `signals` is on; the worker stops in any case. Defaults to
   * one lease.
   */
  stuckGrace: span(
    {},
    {
      for: "serve",
      text: "How long handlers that keep running after their jobs have ended may occupy all slots before the worker's process exits, with exit code 5",
      otherwise: "one lease",
      flag: "--stuck-grace <duration>",
    },
  ),
  /** Number of workers that may die while they run a job before it becomes a dead letter, 1–1,000. Defaults to 3. */
  lostCap: count(
    { min: 1, max: 1_000 },
    {
      for: "serve",
      text: "Number of workers that may die while they run a job before it becomes a dead letter, 1–1,000",
      default: 3,
      flag: "--lost-cap <count>",
    },
  ),
  /**
   * How long a task that no worker of its queue serves is handed back, as in a rolling deploy, before it becomes a dead
   * letter. Defaults to 60 seconds.
   */
  unknownGrace: span(
    {},
    {
      for: "serve",
      text: "How long a task that no worker of its queue serves is handed back, as in a rolling deploy, before it becomes a dead letter",
      default: "60 seconds",
      flag: "--unknown-grace <duration>",
    },
  ),
  /** Maximum size of a task's body, decompressed; the transport may allow less. In bytes. Defaults to 1 MiB. */
  maxBody: count(
    { min: 1, max: 1024 * 1024 * 1024 },
    {
      for: "serve",
      text: "Maximum size of a task's body, decompressed; the transport may allow less",
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
   * Keep-alive interval of the connection, which counts as lost if nothing is received for 1 to 1.5 intervals; 0: not
   * monitored. Used with `nats:`; `sqlite:` and `memory:` have no connection. 1 second at least. Defaults to 20 seconds.
   */
  heartbeat: span(
    { min: 1_000, orZero: true },
    {
      for: "connect",
      text: "Keep-alive interval of the connection, which counts as lost if nothing is received for 1 to 1.5 intervals; 0: not monitored. Used with `nats:`; `sqlite:` and `memory:` have no connection",
      default: seconds(DEFAULT_HEARTBEAT_MS),
      flag: "--heartbeat <duration>",
    },
  ),
  /**
   * After a lost connection, fetch fewer tasks while those that were running continue, and more as each of them ends.
   * Defaults to true.
   */
  prefetchReduction: onOff({
    for: "serve",
    text: "After a lost connection, fetch fewer tasks while those that were running continue, and more as each of them ends",
    default: true,
    flag: "--no-prefetch-reduction",
    negation: "Do not reduce prefetching after a lost connection",
  }),
  /**
   * Hand running tasks back, uncounted, when the connection is lost, instead of letting them continue. Defaults to false.
   */
  cancelOnConnectionLoss: onOff({
    for: "serve",
    text: "Hand running tasks back, uncounted, when the connection is lost, instead of letting them continue",
    default: false,
    flag: "--cancel-on-connection-loss",
  }),
  /** What a worker does when its transport cannot be reached. Defaults to 100 tries. */
  reconnect: group(
    "serve",
    {
      /** Reconnect when the transport is lost; off: the worker stops, with exit code 1. Defaults to true. */
      enabled: onOff({
        for: "serve",
        text: "Reconnect when the transport is lost; off: the worker stops, with exit code 1",
        default: true,
        flag: "--no-reconnect",
        negation: "Stop the worker, with exit code 1, when the transport is lost",
      }),
      /**
       * Try again if the transport is unreachable when a worker starts; off: it exits at once, with exit code 4. Defaults
       * to true.
       */
      atStart: onOff({
        for: "serve",
        text: "Try again if the transport is unreachable when a worker starts; off: it exits at once, with exit code 4",
        default: true,
        flag: "--no-reconnect-at-start",
        negation: "Exit at once, with exit code 4, if the transport is unreachable when a worker starts",
      }),
      /** Consecutive tries to reach the transport before a worker gives up; 0: unlimited. Defaults to 100. */
      maxTries: count(
        { min: 0 },
        {
          for: "serve",
          text: "Consecutive tries to reach the transport before a worker gives up; 0: unlimited",
          default: 100,
          flag: "--max-tries <count>",
        },
      ),
      /** Wait before the first try; it doubles with each further try. 1 ms at least. Defaults to 0.25 seconds. */
      base: span(
        { min: 1 },
        { for: "serve", text: "Wait before the first try; it doubles with each further try", default: "0.25 seconds" },
      ),
      /** Longest wait between two tries. At least as long as `base`. Defaults to 10 seconds. */
      cap: span({ min: 1 }, { for: "serve", text: "Longest wait between two tries", default: "10 seconds" }),
      /** Shorten each wait by up to half, so that workers do not all reconnect at once. Defaults to true. */
      jitter: onOff({
        for: "serve",
        text: "Shorten each wait by up to half, so that workers do not all reconnect at once",
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
  /** Send an event for each step of every task. ; `worker.events(true)` changes it. Defaults to false. */
  events: onOff({
    for: "serve",
    text: "Send an event for each step of every task",
    default: false,
    flag: "-E, --events",
  }),
  /** Send the event `task-sent` for each accepted task. Defaults to false. */
  taskSentEvents: onOff({
    for: "connect",
    text: "Send the event `task-sent` for each accepted task",
    default: false,
  }),
  /**
   * Where Celery clients read results, or `rpc://`; with it a worker also answers `celery inspect`, `control` and
   * `events`. Without it the tasks of such clients run, but the clients get no results. Defaults to none.
   */
  resultBackend: text({
    for: "serve",
    text: "Where Celery clients read results, or `rpc://`; with it a worker also answers `celery inspect`, `control` and `events`",
    unit: "URL",
    otherwise: "none",
    flag: "--result-backend <url>",
    secret: true,
  }),
  /**
   * Queues for tasks in other languages, by the `lang` header: `py=celery`. Tasks that this worker serves run here; on
   * `nats:` only Callboard can take forwarded tasks. In code: `{ py: "celery" }`. Defaults to none.
   */
  languages: pairs(Text, {
    for: "serve",
    text: "Queues for tasks in other languages, by the `lang` header: `py=celery`. Tasks that this worker serves run here; on `nats:` only Callboard can take forwarded tasks",
    otherwise: "none",
  }),
  /**
   * Task names that map to a method of an actor: `app.tasks.add=math.add`. In code: `{ "app.tasks.add": "math.add" }`.
   * Defaults to none.
   */
  taskNames: pairs(Text, {
    for: "connect",
    text: "Task names that map to a method of an actor: `app.tasks.add=math.add`",
    otherwise: "none",
  }),
  /** Third-party transports, by URL scheme. Defaults to the package `callboard-transport-<scheme>`. */
  transports: setting(
    "none",
    Schema.Record(
      Schema.String,
      Schema.declare(isPlugin, { expected: "a transport plugin, an object with `schemes` and `connect`" }),
    ),
    {
      for: "connect",
      text: "Third-party transports, by URL scheme",
      otherwise: "the package `callboard-transport-<scheme>`",
    },
  ),
  /** Collect metrics, for Prometheus at `/metrics`. Defaults to true if HTTP is served, else false. */
  metrics: onOff({
    for: "serve",
    text: "Collect metrics, for Prometheus at `/metrics`",
    otherwise: "true if HTTP is served, else false",
  }),
  /** Trace submissions and attempts with the registered OpenTelemetry provider. In code also a tracer. Defaults to false. */
  tracing: inCode(
    onOff({
      for: "connect",
      text: "Trace submissions and attempts with the registered OpenTelemetry provider",
      default: false,
    }),
    Schema.declare(isTracing, { expected: "true, false or a tracer of OpenTelemetry, which has `startSpan`" }),
  ),
  /** The HTTP interface. */
  http: group("command", {
    /** Port of the HTTP interface; 0: any free port. Defaults to 7420. */
    port: count(
      { min: 0, max: 65_535 },
      {
        for: "command",
        text: "Port of the HTTP interface; 0: any free port",
        default: 7420,
        flag: "-p, --port <port>",
      },
    ),
    /**
     * Address of the HTTP interface; an address other than loopback requires a token. The token must have at least 16
     * characters. Defaults to `127.0.0.1`.
     */
    host: text({
      for: "command",
      text: "Address of the HTTP interface; an address other than loopback requires a token",
      default: "127.0.0.1",
      flag: "--host <address>",
    }),
    /**
     * Tokens with their scopes: `{token, scopes, name?}` with the scopes `read`, `payload`, `submit`, `operate`, `admin`,
     * or `no-payload` beside `read`; as text `scope+scope:token,…`. Defaults to none: callers on this machine have full
     * access.
     */
    tokens: setting("tokens", Tokens, {
      for: "command",
      text: "Tokens with their scopes: `{token, scopes, name?}` with the scopes `read`, `payload`, `submit`, `operate`, `admin`, or `no-payload` beside `read`; as text `scope+scope:token,…`",
      otherwise: "none: callers on this machine have full access",
      secret: true,
    }),
    /**
     * Signs links to jobs: 32 characters or more, such as of `openssl rand -hex 32`, the same in every process that serves HTTP.
     * Changing it ends all links. Defaults to none: no links.
     */
    linkSecret: text(
      {
        for: "command",
        text: "Signs links to jobs: 32 characters or more, such as of `openssl rand -hex 32`, the same in every process that serves HTTP",
        otherwise: "none: no links",
        secret: true,
      },
      LinkSecret,
    ),
    /** Origins of web pages that may call it with a token, such as `https://app.example.com`. Defaults to none. */
    origins: setting("list", Schema.Array(Text), {
      for: "command",
      text: "Origins of web pages that may call it with a token, such as `https://app.example.com`",
      otherwise: "none",
    }),
    /** Serve the dashboard to browsers, at `/`. Defaults to true. */
    page: onOff({ for: "command", text: "Serve the dashboard to browsers, at `/`", default: true }),
  }),
  /**
   * Minimum level of log lines: debug, info, warn, error or none. In code, for a `log` of the application, the default is its
   * own level. Defaults to `info`.
   */
  logLevel: choice(LOG_LEVELS, {
    for: "serve",
    text: "Minimum level of log lines: debug, info, warn, error or none",
    default: "info",
    flag: "-l, --log-level <level>",
  }),
  /** Format of log lines: pretty, logfmt or json. Defaults to `pretty` on a terminal, else `logfmt`. */
  logFormat: choice(LOG_FORMATS, {
    for: "serve",
    text: "Format of log lines: pretty, logfmt or json",
    otherwise: "`pretty` on a terminal, else `logfmt`",
    here: defaultFormat,
    flag: "--log-format <format>",
  }),
  /**
   * Colours: auto (on a terminal, unless `NO_COLOR` or `FORCE_COLOR` say otherwise), always or never. Defaults to `auto`.
   */
  logColor: choice(COLOUR_CHOICES, {
    for: "serve",
    text: "Colours: auto (on a terminal, unless `NO_COLOR` or `FORCE_COLOR` say otherwise), always or never",
    default: "auto",
    flag: "--color <when>",
  }),
  /** Log levels by logger: `callboard.http=warn`. Defaults to none. */
  logLevels: pairs(Schema.Literals(LOG_LEVELS), {
    for: "serve",
    text: "Log levels by logger: `callboard.http=warn`",
    otherwise: "none",
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
