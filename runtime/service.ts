/** `serve()`: worker and HTTP in one process, stopped by signals. `bun run service.ts` is a complete service. */
import { hostname } from "node:os"
import { Result } from "effect"
import type { ActorDefinition, DurationInput } from "./actor.ts"
import type { Board } from "./board.ts"
import { Client } from "./client/client.ts"
import type { ColourChoice } from "./colour.ts"
import { DEFAULTS } from "./config.ts"
import { type ConnectSettings, connectBoard, displayUrl, leaseOf } from "./connect.ts"
import { DEFAULT_QUEUE, describeActor } from "./directory.ts"
import { CallboardError } from "./errors.ts"
import type { EarlyServer, HttpOptions, HttpServer } from "./http/server.ts"
import { hostLog, type Log, type LogFormat, type LogLevel, type LogSink, makeLog } from "./log.ts"
import type { Metrics, ServiceMetrics } from "./metrics/metrics.ts"
import { parseDuration } from "./protocol/time.ts"
import { connectPatiently, type ReconnectOptions, reconnectDelay, resolveReconnect } from "./reconnect.ts"
import { onSignals } from "./signals.ts"
import { openTracing, type TracingSettings } from "./tracing/tracing.ts"
import { type Settlement, TransportError } from "./transport.ts"
import { type Autoscale, parseAutoscale } from "./worker/consuming/autoscale.ts"
import type { StopReport, Worker } from "./worker/interface.ts"
import { isInside } from "./worker/isolation/inside.ts"
import type { WorkerOptions } from "./worker/options.ts"
import type { FailureHandler } from "./worker/telling/failure-handlers.ts"
import type { WorkerObserver } from "./worker/telling/observer.ts"
import { TaskNames } from "./worker/telling/task-names.ts"
import { startWorker } from "./worker/worker.ts"

export interface ServeOptions extends ConnectSettings, TracingSettings {
  /** Where tasks travel: a URL, or a client object that the application holds. Defaults to `sqlite:.callboard/board.db`. */
  readonly transport?: string | object
  /** Actors to run. None: no worker is started (HTTP only). */
  readonly actors?: ReadonlyArray<ActorDefinition>
  /** Queues to work on, in order of preference. Defaults to the queues that the actors name, and `default`. */
  readonly queues?: ReadonlyArray<string>
  /** Handlers that run at a time, 1–10,000. Defaults to the number of cores, at least 4. */
  readonly concurrency?: number
  /**
   * Lets the number of handlers follow what is held, between two bounds: `"2..16"`. Takes the place of `concurrency`.
   * Defaults to no.
   */
  readonly autoscale?: string | Autoscale
  /**
   * Deliveries held per handler, 1–1,000; 1 keeps the order of queues and priorities strict. Defaults to 1 where several
   * queues are given in strict order, else to 4.
   */
  readonly prefetch?: number
  /** `strict`: earlier queues first; `rotate`: queues take turns. Defaults to `strict`. */
  readonly order?: "strict" | "rotate"
  /**
   * Stops when the queues are empty: nothing in them is due, and nothing is to come back that a limit has put off. What is
   * due later by itself (`eta`, the back-off of a retry) is not waited for. Defaults to false.
   */
  readonly burst?: boolean
  /** Stops after so many jobs, 1 at least. Defaults to no bound. */
  readonly maxJobs?: number
  /** Stops after this long without a job. Defaults to never. */
  readonly maxIdle?: DurationInput
  /** Name of the worker; unique among live ones. Defaults to `<host>-<pid>`, and `<host>-<pid>-2` for the second of a process. */
  readonly name?: string
  /** How long a soft stop lets handlers run before it hands them back. Defaults to 25 seconds. */
  readonly grace?: DurationInput
  /** How long successes are kept. Defaults to 24 hours. */
  readonly resultTtl?: DurationInput
  /** How long failures are kept. Defaults to 7 days. */
  readonly failureTtl?: DurationInput
  /** Whether the worker keeps to the rates and limits of methods. Defaults to true. */
  readonly rateLimits?: boolean
  /** Worker deaths in mid-run after which a job is given up, 1–1,000. Defaults to 3. */
  readonly lostCap?: number
  /** How long a task that nobody here serves is handed back before it is given up. Defaults to 60 seconds. */
  readonly unknownGrace?: DurationInput
  /** Largest body of a task, in bytes. Defaults to 1 MiB. */
  readonly maxBody?: number
  /** What becomes of a lost transport, and of one that is not there at the start. Defaults to trying again 100 times. */
  readonly reconnect?: ReconnectOptions
  /** Fetch less after a broken connection, while the tasks that ran go on. Defaults to true. */
  readonly prefetchReduction?: boolean
  /** Hand running tasks back, uncounted, when the connection is lost, instead of letting them go on. Defaults to false. */
  readonly cancelOnConnectionLoss?: boolean
  /** Queue of the workers of another language, by the `lang` header: `{ py: "celery" }`. */
  readonly languages?: Readonly<Record<string, string>>
  /** Task names that stand for an actor's method: `{"app.tasks.add": "math.add"}`. */
  readonly taskNames?: Readonly<Record<string, string>>
  /** Workers tell what happens to every task, as events. Defaults to false; `worker.events(true)` changes it. */
  readonly events?: boolean
  /** What this service submits is told as the event `task-sent`. Defaults to false. */
  readonly taskSentEvents?: boolean
  /** Serves HTTP; absent or false: not. */
  readonly http?: HttpOptions | false
  /** Counts what happens, for Prometheus. Defaults to whether it serves HTTP. */
  readonly metrics?: boolean
  /** Stop on SIGINT, SIGTERM and SIGQUIT. Defaults to true. */
  readonly signals?: boolean
  /** Least level that is logged. Defaults to `info`, or to what `log` wants. */
  readonly logLevel?: LogLevel
  /** Levels of loggers by name: `{"callboard.http": "warn"}`. Defaults to none. */
  readonly logLevels?: Readonly<Record<string, LogLevel>>
  /** Form of a line. Defaults to `pretty` on a terminal, else `logfmt`. */
  readonly logFormat?: LogFormat
  /** Colours of `pretty`. Defaults to `auto`: on a terminal, unless NO_COLOR or FORCE_COLOR say otherwise. */
  readonly logColor?: ColourChoice
  /** The application's own log, or an adapter to it; nothing is written anywhere else then. Defaults to standard output. */
  readonly log?: Log | LogSink
  /** Run in order after each failed attempt is stored; one that returns false ends the chain. */
  readonly onFailure?: ReadonlyArray<FailureHandler>
  /** Called once per settled job, after it is stored. */
  readonly onSettled?: (settlement: Settlement) => void
  /** Called once, when it consumes for the first time and HTTP, if there is any, listens. What it throws is logged. */
  readonly onReady?: (service: Service) => unknown
}

export interface Service extends AsyncDisposable {
  readonly client: Client
  readonly worker: Worker | undefined
  /** Where it answers HTTP. */
  readonly url: string | undefined
  /** What `/metrics` answers with, for an application that serves it by itself; absent where metrics are off. */
  readonly metrics: ServiceMetrics | undefined
  /** Whether it does its work now: its worker consumes, if it has one, and its transport is within reach. What `/readyz` says. */
  readonly isReady: boolean
  /** Resolves once it consumes (and listens). Fails with the worker's error, and with `closed` when it is stopped before. */
  ready(): Promise<void>
  /** Resolves, with the error, if the worker gives up by itself. */
  readonly failed: Promise<TransportError>
  /** Resolves when it has stopped, for whatever reason. */
  readonly stopped: Promise<StopReport>
  /** Soft stop; a second call with `now` hurries. */
  stop(options?: { readonly now?: boolean }): Promise<StopReport>
}

const milliseconds = (field: string, value: DurationInput): number => {
  if (typeof value === "number" && value < 0 && field.endsWith("Ttl")) return -1
  const parsed = parseDuration(value)
  if (Result.isFailure(parsed))
    throw new CallboardError("invalid-input", `${field}: ${parsed.failure.message}`, { field })
  return parsed.success
}

const whole = (field: string, value: number | undefined, otherwise: number, least: number, most: number): number => {
  if (value === undefined) return otherwise
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new CallboardError("invalid-input", `${field}: must be a whole number from ${least} to ${most}`, { field })
  }
  return value
}

const bounds = (autoscale: unknown): Autoscale => {
  const parsed = parseAutoscale(autoscale)
  if (Result.isSuccess(parsed)) return parsed.success
  throw new CallboardError("invalid-input", `autoscale: ${parsed.failure}`, { field: "autoscale" })
}

/** What is held beyond what runs was pulled before anything that came later to a queue that is before its own. */
const prefetchOf = ({ queues = [], order = DEFAULTS.order }: ServeOptions): number =>
  order === "strict" && queues.length > 1 ? 1 : DEFAULTS.prefetch

/**
 * Starts a service; resolves once the transport is there. HTTP is answered from the beginning: until then with 503,
 * but for what needs no transport. Fails with `CallboardError` `invalid-input` naming an option, with
 * `TransportError` when the transport refuses or stays away, and with `ActorStartFailed`.
 */
export const serve = async (options: ServeOptions = {}): Promise<Service> => {
  // A file that serves when it is loaded would start a service in each process of its isolated handlers, and so on.
  if (isInside()) {
    throw new CallboardError(
      "unsupported",
      "a file that defines isolated actors must not call serve() when it is loaded: move the actors to a file of their own",
    )
  }
  const levels = { level: options.logLevel, levels: options.logLevels }
  const log =
    options.log === undefined
      ? makeLog({ ...levels, format: options.logFormat, color: options.logColor })
      : hostLog(options.log, levels)
  const actors = options.actors ?? []
  const target = options.transport ?? DEFAULTS.transport
  const name = options.name ?? nextName()
  const descriptions = actors.map(describeActor)
  const taskNames = new Map(Object.entries(options.taskNames ?? {}))
  const settings = {
    concurrency: whole("concurrency", options.concurrency, DEFAULTS.concurrency, 1, 10_000),
    prefetch: whole("prefetch", options.prefetch, prefetchOf(options), 1, 1_000),
    burst: options.burst ?? false,
    ...(options.autoscale === undefined ? {} : { autoscale: bounds(options.autoscale) }),
    ...(options.maxJobs === undefined
      ? {}
      : { maxJobs: whole("maxJobs", options.maxJobs, 0, 1, Number.MAX_SAFE_INTEGER) }),
    ...(options.maxIdle === undefined ? {} : { maxIdleMs: milliseconds("maxIdle", options.maxIdle) }),
    graceMs: milliseconds("grace", options.grace ?? DEFAULTS.grace),
    lostCap: whole("lostCap", options.lostCap, DEFAULTS.lostCap, 1, 1_000),
    unknownGraceMs: milliseconds("unknownGrace", options.unknownGrace ?? DEFAULTS.unknownGrace),
    maxBody: whole("maxBody", options.maxBody, DEFAULTS.maxBody, 1, 1024 * 1024 * 1024),
    reconnect: resolveReconnect(options.reconnect),
    prefetchReduction: options.prefetchReduction ?? DEFAULTS.prefetchReduction,
    cancelOnConnectionLoss: options.cancelOnConnectionLoss ?? DEFAULTS.cancelOnConnectionLoss,
    keep: {
      resultMs: milliseconds("resultTtl", options.resultTtl ?? DEFAULTS.resultTtl),
      failureMs: milliseconds("failureTtl", options.failureTtl ?? DEFAULTS.failureTtl),
    },
  }
  const tracing = await openTracing(options)
  const own = log.with({ logger: "callboard.service" })
  const connectSettings: ConnectSettings = {
    ...options,
    name,
    reconnectDelay: options.reconnectDelay ?? ((tries) => reconnectDelay(tries, settings.reconnect)),
  }
  const names = new TaskNames(actors, taskNames)
  const observers: Array<WorkerObserver> = []
  if (tracing !== undefined) observers.push(tracing.attempts(names))
  let board: Board
  let client: Client | undefined
  let worker: Worker | undefined
  let http: EarlyServer | undefined
  let metrics: Metrics | undefined
  try {
    if (options.metrics ?? (options.http !== undefined && options.http !== false)) {
      // Loaded only where it is wanted: it takes its time.
      metrics = new (await import("./metrics/metrics.ts")).Metrics()
      if (actors.length > 0) observers.push(metrics.worker(names, () => worker?.load))
    }
    // First of all: connecting may be tried again for long, and whoever looks must be told that, and by whom.
    if (options.http)
      http = (await import("./http/server.ts")).startHttp(options.http, {
        ready: () => worker?.listening ?? actors.length === 0,
        maxBody: settings.maxBody,
        log,
        metrics: metrics ?? false,
      })
    board = await connectPatiently(() => connectBoard(target, connectSettings), settings.reconnect, own)
    client = new Client(board, {
      ownsTransport: true,
      actors: descriptions,
      taskNames,
      taskSentEvents: options.taskSentEvents ?? false,
      ...(tracing === undefined ? {} : { tracing }),
    })
    metrics?.follow(client)
    http?.open(client)
    if (actors.length > 0) {
      worker = await startWorker({
        ...settings,
        board,
        client,
        actors,
        queues: options.queues ?? queuesOf(actors),
        rotate: options.order === "rotate",
        rateLimits: options.rateLimits ?? DEFAULTS.rateLimits,
        name,
        leaseMs: leaseOf(target, options),
        ...leaseThreadOf(target, options, board),
        languages: new Map(Object.entries(options.languages ?? {})),
        taskNames,
        log: log.with({ logger: "callboard.worker" }),
        onFailure: options.onFailure ?? [],
        events: options.events ?? false,
        observers,
        ...(options.onSettled === undefined ? {} : { onSettled: options.onSettled }),
      })
    }
  } catch (cause) {
    await http?.stop()
    metrics?.close()
    await client?.close()
    throw cause
  }
  const service = new RunningService({ client, worker, http, metrics }, own, options.signals ?? true)
  const ready = () => {
    const transport = typeof target === "string" ? displayUrl(target) : "client object"
    const { durability } = board.transport.capabilities
    own.info("ready", {
      ...(worker === undefined
        ? {}
        : {
            worker: worker.name,
            queues: worker.queues.join(","),
            actors: actors.map((actor) => actor.name).join(","),
          }),
      transport: `${transport} (durable: ${durability})`,
      ...(http === undefined ? {} : { url: http.listens }),
    })
    return options.onReady?.(service)
  }
  // A worker that gives up says so by itself.
  void service.ready().then(
    () =>
      Promise.resolve()
        .then(ready)
        .catch((cause: unknown) =>
          own.error("onReady failed", { cause: cause instanceof Error ? cause.message : String(cause) }),
        ),
    () => undefined,
  )
  return service
}

let named = 0

/** Two workers of one name would overwrite each other's entry in the list of workers, and delete it. */
const nextName = (): string => {
  named++
  return `${hostname()}-${process.pid}${named === 1 ? "" : `-${named}`}`
}

/** A thread can open the transport again if it has a URL, is not of this process alone, and its plugin comes by name. */
const leaseThreadOf = (
  target: string | object,
  options: ServeOptions,
  board: Board,
): Pick<WorkerOptions, "leaseThread"> => {
  if (typeof target !== "string" || board.transport.capabilities.reach === "process") return {}
  if (Object.keys(options.transports ?? {}).some((scheme) => target.startsWith(`${scheme}:`))) return {}
  return { leaseThread: { url: target, namespace: options.namespace, heartbeat: options.heartbeatMs } }
}

const queuesOf = (actors: ReadonlyArray<ActorDefinition>): ReadonlyArray<string> => {
  const queues = new Set<string>()
  for (const actor of actors) {
    queues.add(actor.queue ?? DEFAULT_QUEUE)
    for (const method of actor.methods.values()) if (method.queue !== undefined) queues.add(method.queue)
  }
  queues.add(DEFAULT_QUEUE)
  return [...queues]
}

const READY_POLL_MS = 5

const NOTHING_STOPPED: StopReport = { finished: 0, handedBack: 0, stuck: 0, lost: 0 }

interface Parts {
  readonly client: Client
  readonly worker: Worker | undefined
  readonly http: HttpServer | undefined
  readonly metrics: Metrics | undefined
}

class RunningService implements Service {
  readonly client: Client
  readonly worker: Worker | undefined
  readonly url: string | undefined
  readonly metrics: Metrics | undefined
  readonly failed: Promise<TransportError>
  readonly stopped: Promise<StopReport>
  readonly #http: HttpServer | undefined
  readonly #log: Log
  #isConnected = true
  readonly #offSignals: () => void
  #stopping: Promise<StopReport> | undefined
  #resolveStopped: (report: StopReport) => void = () => undefined

  constructor({ client, worker, http, metrics }: Parts, log: Log, signals: boolean) {
    this.client = client
    this.metrics = metrics
    this.worker = worker
    this.url = http?.url
    this.#http = http
    this.#log = log
    this.stopped = new Promise((resolve) => {
      this.#resolveStopped = resolve
    })
    client.board.transport.onStatus((status) => {
      this.#isConnected = status === "connected"
    })
    this.failed = worker?.failed ?? new Promise(() => undefined)
    void worker?.done.then((reason) => {
      log.info(`${worker.name} has nothing more to do (${reason})`)
      return this.stop()
    })
    this.#offSignals = signals
      ? onSignals({
          soft: () =>
            void this.stop().then(
              (report) => this.#leave(report),
              () => undefined,
            ),
          hurry: () => void this.stop({ now: true }),
          log,
        })
      : () => undefined
  }

  /** After a stop that a signal asked for: a handler that ignores its own signal must not keep the process alive. */
  #leave(report: StopReport): void {
    if (report.stuck === 0) return
    this.#log.warn(
      `${report.stuck} handler(s) go on after the stop and are ended with the process: let them heed job.signal`,
    )
    // Whoever waits for `stopped` has its turn first.
    setTimeout(() => process.exit(0), 0)
  }

  get isReady(): boolean {
    return this.#isConnected && this.#stopping === undefined && (this.worker?.listening ?? true)
  }

  async ready(): Promise<void> {
    const { worker } = this
    if (worker === undefined) return
    let error: TransportError | undefined
    void this.failed.then((failure) => {
      error = failure
    })
    let isDone = false
    void worker.done.then(() => {
      isDone = true
    })
    // In a turn of its own: what is known already comes first.
    await Promise.resolve()
    // The worker says so by itself; it fails, or listens, within a moment.
    while (!worker.listening) {
      if (error !== undefined) throw error
      // It was ready, and has nothing more to do.
      if (isDone) return
      if (this.#stopping !== undefined)
        throw new TransportError("closed", "the service was stopped before it was ready")
      await new Promise((resolve) => setTimeout(resolve, READY_POLL_MS))
    }
  }

  stop(options: { readonly now?: boolean } = {}): Promise<StopReport> {
    if (this.#stopping === undefined) {
      this.#stopping = this.#stop(options)
      // Also when closing fails: whoever waits for the end must not wait for ever.
      this.#stopping.then(this.#resolveStopped, () => this.#resolveStopped(NOTHING_STOPPED))
    } else if (options.now) void this.worker?.stop(options)
    return this.#stopping
  }

  async #stop(options: { readonly now?: boolean }): Promise<StopReport> {
    // New submissions are refused first; what is accepted already is kept by the transport.
    const http = this.#http?.stop()
    try {
      const [report = NOTHING_STOPPED] = await Promise.all([this.worker?.stop(options), http])
      this.#log.debug("service stopped", { ...report })
      return report
    } finally {
      // Whatever of it failed: what is left open would keep the process alive.
      this.#offSignals()
      this.metrics?.close()
      await this.client.close()
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop().then(() => undefined)
  }
}
