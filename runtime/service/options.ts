/** The options of `serve()`. */
import type { ActorDefinition } from "../actor/actor.ts"
import type { ConnectSettings } from "../client/settings.ts"
import type { HttpOptions } from "../http/server.ts"
import type { ColourChoice, Log, LogFormat, LogLevel, LogSink } from "../log/log.ts"
import type { Autoscale } from "../options/autoscale.ts"
import type { DurationInput } from "../options/duration.ts"
import type { ReconnectOptions } from "../options/reconnect.ts"
import type { TracingSettings } from "../tracing/tracing.ts"
import type { Settlement } from "../transport/job-store/transport.ts"
import type { FailureHandler } from "../worker/telemetry/failure-reporter.ts"
import type { Service } from "./service.ts"

export interface ServeOptions extends ConnectSettings, TracingSettings {
  /**
   * Where tasks travel: a URL, or a client object that the application holds. Defaults to `sqlite:.callboard/board.db`.
   */
  readonly transport?: string | object
  /** Actors to run. None: no worker is started (HTTP only). */
  readonly actors?: ReadonlyArray<ActorDefinition>
  /** Queues to work on, in order of preference. Defaults to the queues that the actors name, and `default`. */
  readonly queues?: ReadonlyArray<string>
  /** Handlers that run at a time, 1–10,000. Defaults to the number of cores, at least 4. */
  readonly concurrency?: number
  /**
   * Lets the number of handlers follow the number of deliveries, between two bounds: `"2..16"`. Takes the place of
   * `concurrency`. Defaults to no.
   */
  readonly autoscale?: string | Autoscale
  /**
   * Deliveries held per handler, 1–1,000; 1 keeps the order of queues and priorities strict. Defaults to 1 where several
   * queues are given in strict order, else to 4.
   */
  readonly prefetch?: number
  /** `strict`: earlier queues first; `rotate`: queues take turns; `random`: the next task comes from any
   * queue that has one. Defaults to `strict`. */
  readonly order?: "strict" | "rotate" | "random"
  /**
   * Stops when the queues are empty: nothing in them is due, and no task that a limit has deferred is to come back.
   * A task that is due later (`eta`, the back-off of a retry) is not waited for. Defaults to false.
   */
  readonly burst?: boolean
  /** Stops after so many jobs, 1 at least. Defaults to no bound. */
  readonly maxJobs?: number
  /** Stops after this long without a job. Defaults to never. */
  readonly maxIdle?: DurationInput
  /**
   * Name of the worker, 1–255 characters; unique among live ones. Defaults to the host's name and six
   * random digits: `web-3f09ac`.
   */
  readonly name?: string
  /**
   * The application's own version, 1–100 characters: statistics show since when it runs, and which errors it has.
   * Defaults to the variable `CALLBOARD_VERSION`.
   */
  readonly version?: string
  /** How long a soft stop lets handlers run before it hands them back. Defaults to 25 seconds. */
  readonly grace?: DurationInput
  /**
   * How long handlers that go on after their jobs were decided may hold all slots before the worker ends, and its process
   * with exit code 5 where `signals` is on. Defaults to one lease.
   */
  readonly stuckGrace?: DurationInput
  /** How long successes are kept. Defaults to 24 hours. */
  readonly resultTtl?: DurationInput
  /** How long failures are kept. Defaults to 7 days. */
  readonly failureTtl?: DurationInput
  /** Whether the worker keeps to the rates and limits of methods. Defaults to true. */
  readonly rateLimits?: boolean
  /** Worker deaths in mid-run after which a job is given up, 1–1,000. Defaults to 3. */
  readonly lostCap?: number
  /**
   * How long a task that this worker does not serve is handed back before it becomes a dead letter. Defaults to 60
   * seconds.
   */
  readonly unknownGrace?: DurationInput
  /** Largest body of a task, in bytes. Defaults to 1 MiB. */
  readonly maxBody?: number
  /** How a lost transport, and one that is away at the start, is connected again. Defaults to 100 tries. */
  readonly reconnect?: ReconnectOptions
  /** Fetch less after a broken connection, while the tasks that ran go on. Defaults to true. */
  readonly prefetchReduction?: boolean
  /**
   * Hand running tasks back, uncounted, when the connection is lost, instead of letting them go on. Defaults to false.
   */
  readonly cancelOnConnectionLoss?: boolean
  /**
   * URL of the result back end of Celery's clients, such as `redis://127.0.0.1:6379/1`. The worker stores the results
   * of tasks that they submit there, executes commands of `celery inspect` and `celery control`, and sends events to
   * `celery events`. With `rpc://` it sends the results to the clients that wait, over a transport of redis or amqp.
   * Defaults to none: such tasks run, but their clients get no result.
   */
  readonly resultBackend?: string
  /** Queue of the workers of another language, by the `lang` header: `{ py: "celery" }`. */
  readonly languages?: Readonly<Record<string, string>>
  /** Task names that stand for an actor's method: `{"app.tasks.add": "math.add"}`. */
  readonly taskNames?: Readonly<Record<string, string>>
  /**
   * Whether the worker sends an event for each step of every task. Defaults to false; `worker.events(true)` changes it.
   */
  readonly events?: boolean
  /** Whether the event `task-sent` is sent for each task that this service submits. Defaults to false. */
  readonly taskSentEvents?: boolean
  /** Serves HTTP with these options. Defaults to false: no HTTP. */
  readonly http?: HttpOptions | false
  /** Whether metrics for Prometheus are counted. Defaults to true where the service serves HTTP. */
  readonly metrics?: boolean
  /** Stop on SIGINT, SIGTERM, SIGQUIT and SIGHUP. Defaults to true. */
  readonly signals?: boolean
  /** Least level that is logged. Defaults to the level of `log`, else to `info`. */
  readonly logLevel?: LogLevel
  /** Levels of loggers by name: `{"callboard.http": "warn"}`. Defaults to none. */
  readonly logLevels?: Readonly<Record<string, LogLevel>>
  /** Form of a line. Defaults to `pretty` on a terminal, else `logfmt`. */
  readonly logFormat?: LogFormat
  /** Colours of `pretty`. Defaults to `auto`: on a terminal, unless NO_COLOR or FORCE_COLOR say otherwise. */
  readonly logColor?: ColourChoice
  /**
   * The application's own log, or an adapter to it; nothing is written anywhere else then. Defaults to standard output.
   */
  readonly log?: Log | LogSink
  /** Run in order after each failed attempt is stored; one that returns false ends the chain. */
  readonly onFailure?: ReadonlyArray<FailureHandler>
  /** Called once per settled job, after it is stored. */
  readonly onSettled?: (settlement: Settlement) => void
  /**
   * Called once, when the worker consumes for the first time and HTTP, if any, listens. An error that it throws is
   * logged.
   */
  readonly onReady?: (service: Service) => unknown
}
