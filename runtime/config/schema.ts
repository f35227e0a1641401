/**
 * All settings as one schema, each with its description, unit, default, and where it may be given. A flag wins over a
 * `CALLBOARD_*` variable, which wins over `callboard.config.ts`, which wins over the default. A name that is not in this
 * schema is an error, in the file as in the environment.
 */

import { hostname } from "node:os"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { MAX_HANDLERS, parseAutoscale } from "../options/autoscale.ts"
import { DEFAULTS } from "../options/defaults.ts"
import { duration } from "../options/duration.ts"
import { OwnName, whole } from "../options/fields.ts"
import { isObject } from "../protocol/guards.ts"
import type { AnyPlugin } from "../transport/job-store/plugin.ts"
import { about, HttpConfig, LogConfig, QueueName, ReconnectConfig, Text, Version, yesNo } from "./groups.ts"

const isPlugin = (value: unknown): value is AnyPlugin =>
  isObject(value) && "connect" in value && typeof value.connect === "function"

/** Settings that `callboard.config.ts` may hold. */
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
    Schema.Array(QueueName)
      .check(Schema.makeFilter((names: ReadonlyArray<string>) => names.length > 0 || "must name one queue at least"))
      .annotate(
        about("Queues to work on, in order of preference", {
          default: "those that the actors name, and `default`",
          read: "list",
          flag: "-Q, --queues <names>",
        }),
      ),
  ),
  concurrency: Schema.optionalKey(
    whole({ min: 1, max: MAX_HANDLERS }).annotate(
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
      about(
        "Lets the number of handlers follow the number of tasks held, between two bounds: `2..16`; instead of `concurrency`",
        {
          default: "none",
          read: "text",
          flag: "--autoscale <min..max>",
        },
      ),
    ),
  ),
  prefetch: Schema.optionalKey(
    whole({ min: 1, max: 1_000 }).annotate(
      about("Tasks held per handler, 1–1,000; 1 keeps the order of queues and priorities strict", {
        default: `${DEFAULTS.prefetch}; 1 for several queues in strict order`,
        read: "number",
        flag: "--prefetch <count>",
      }),
    ),
  ),
  order: Schema.optionalKey(
    Schema.Literals(["strict", "rotate", "random"]).annotate(
      about(
        "`strict`: earlier queues first; `rotate`: queues take turns; `random`: the next task comes from any queue that has one",
        {
          default: `\`${DEFAULTS.order}\``,
          read: "text",
          flag: "--order <order>",
        },
      ),
    ),
  ),
  processes: Schema.optionalKey(
    whole({ min: 1, max: 256 }).annotate(
      about("Worker processes of `callboard worker`, each with so many handlers; one that dies is started again", {
        default: `${DEFAULTS.processes}`,
        read: "number",
        flag: "--processes <count>",
      }),
    ),
  ),
  burst: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("Stop when the queues are empty; tasks that a limit has deferred are waited for", {
        default: "no",
        read: "switch",
        flag: "--burst",
      }),
    ),
  ),
  maxJobs: Schema.optionalKey(
    whole({ min: 1 }).annotate(
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
    OwnName.annotate(
      about("Name of the worker, unique among those that are alive", {
        default: "`<host>-<random>`",
        here: () => `${hostname()}-<random>`,
        read: "text",
        flag: "-n, --name <name>",
      }),
    ),
  ),
  version: Schema.optionalKey(
    Version.annotate(
      about(
        "The application's own version, 1–100 characters: statistics show since when it runs and which errors it has",
        {
          default: "none",
          read: "text",
        },
      ),
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
    duration({ min: 1_000, max: 86_400_000 }).annotate(
      about("How long a task belongs to a worker that has died; live workers extend it. 1 second to 1 day", {
        unit: "duration",
        default: `${DEFAULTS.lease}, or the URL's \`lease\``,
        read: "duration",
        flag: "--lease <duration>",
      }),
    ),
  ),
  rateLimits: Schema.optionalKey(
    Schema.Boolean.annotate(
      about(
        "False: the worker ignores rates and limits of methods, and its jobs do not count for the limits of other workers",
        {
          default: `${DEFAULTS.rateLimits}`,
          read: "switch",
          flag: "--no-rate-limits",
          negation: "Keep to no rate or limit of a method; this worker's jobs count for no other's either",
        },
      ),
    ),
  ),
  stuckGrace: Schema.optionalKey(
    duration().annotate(
      about(
        "How long handlers that go on after their jobs were decided may hold all slots before the worker's process ends, with exit code 5",
        { unit: "duration", default: DEFAULTS.stuckGrace, read: "duration", flag: "--stuck-grace <duration>" },
      ),
    ),
  ),
  lostCap: Schema.optionalKey(
    whole({ min: 1, max: 1_000 }).annotate(
      about("Workers that may die in the middle of one job before it is given up, 1–1,000", {
        default: `${DEFAULTS.lostCap}`,
        read: "number",
        flag: "--lost-cap <count>",
      }),
    ),
  ),
  unknownGrace: Schema.optionalKey(
    duration().annotate(
      about(
        "How long a task that no worker of its queue serves is handed back (a rolling deploy) before it is given up",
        {
          unit: "duration",
          default: DEFAULTS.unknownGrace,
          read: "duration",
          flag: "--unknown-grace <duration>",
        },
      ),
    ),
  ),
  maxBody: Schema.optionalKey(
    whole({ min: 1, max: 1024 * 1024 * 1024 }).annotate(
      about("Largest body of a task, decompressed; the transport may allow less", {
        unit: "bytes",
        default: "1 MiB",
        read: "number",
        flag: "--max-body <bytes>",
      }),
    ),
  ),
  heartbeat: Schema.optionalKey(
    duration({ min: 1_000, orZero: true }).annotate(
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
        negation: "Fetch as much as before right after a broken connection",
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
      about("Workers send an event for each step of every task", {
        default: "no",
        read: "switch",
        flag: "-E, --events",
      }),
    ),
  ),
  taskSentEvents: Schema.optionalKey(
    Schema.Boolean.annotate(
      about("A client announces each task that was accepted as the event `task-sent`", {
        default: "no",
        read: "switch",
      }),
    ),
  ),
  resultBackend: Schema.optionalKey(
    Text.annotate(
      about(
        "Where clients of Celery look for results, or `rpc://`; with it a worker also answers `celery inspect`, `control` and `events`",
        {
          unit: "URL",
          default: "none",
          read: "text",
          flag: "--result-backend <url>",
          secret: true,
        },
      ),
    ),
  ),
  languages: Schema.optionalKey(
    Schema.Record(Schema.String, Text).annotate(
      about(
        "Queue of the workers of another language, by the `lang` header: `py=celery`. Tasks that are served here run here; what is forwarded on `nats:` Callboard alone can take",
        {
          default: "none",
          read: "pairs",
        },
      ),
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

/** The default export of `callboard.config.ts`, or what the exported function returns. Every setting is optional. */
export type Config = typeof ConfigSchema.Type
