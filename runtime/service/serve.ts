/** `serve()`: worker and HTTP in one process, stopped by signals. `bun run service.ts` is a complete service. */
import { describeActor } from "../actor/actor.ts"
import { actorsWithDefaults } from "../actor/defaults.ts"
import type { CelerySideOptions } from "../celery/side.ts"
import { Client } from "../client/client.ts"
import { clientValues } from "../client/settings.ts"
import { newWorkerName } from "../cluster/worker-process.ts"
import { displayUrl, leaseOf, openConnection, type TransportSettings } from "../connection/connect.ts"
import type { Connection } from "../connection/connection.ts"
import { CallboardError } from "../errors.ts"
import type { AttachableServer } from "../http/server.ts"
import { hostLog, makeLog } from "../log/log.ts"
import type { Metrics } from "../metrics/metrics.ts"
import { connectWithRetries, reconnectDelay } from "../options/reconnect.ts"
import { canRunWorkers, WORKER_RUNTIMES } from "../platform/runtime.js"
import { compact } from "../protocol/compact.ts"
import type { KeepFailed } from "../protocol/outside.ts"
import { openTracing } from "../tracing/tracing.ts"
import { VERSION } from "../version.ts"
import type { Worker } from "../worker/control/worker.ts"
import type { WorkerOptions } from "../worker/options.ts"
import { MethodSettingsCache } from "../worker/run/method-settings.ts"
import { AttemptSpans } from "../worker/telemetry/attempt-spans.ts"
import { TaskNames, type WorkerObserver } from "../worker/telemetry/observer.ts"
import { startWorker } from "../worker/worker.ts"
import type { ServeOptions } from "./options.ts"
import { RunningService, type Service } from "./service.ts"
import { settingsOf } from "./settings.ts"
import { helpsWorker } from "./started-as.ts"

/**
 * Starts a service: a worker for the actors, and HTTP and conductors where they are asked for. Resolves once the transport is connected and the
 * worker has started, or a signal has ended the start. HTTP listens from the beginning; until the transport is connected,
 * routes that need it answer 503. Fails with `CallboardError` `invalid-input`, naming the option, with `TransportError` when the
 * transport refuses or stays away, and with `ActorStartFailed`.
 *
 * @example
 * ```ts
 * const service = await serve({ transport: "nats://127.0.0.1:4222", actors: [orders], http: { port: 7420 } })
 * await service.ready()
 * ```
 */
export const serve = async (options: ServeOptions = {}): Promise<Service> => {
  // The caller must not continue as if there were a service.
  if (helpsWorker(options)) return new Promise(() => undefined)
  const settings = settingsOf(options)
  if ((options.actors ?? []).length > 0 && !canRunWorkers()) {
    throw new CallboardError(
      "unsupported",
      `a worker needs ${WORKER_RUNTIMES}, but this is Node ${process.version}: start it with \`bun run\`, \`deno run -A\` or the callboard command (npm install bun installs Bun)`,
    )
  }
  const levels = { level: options.logLevel, levels: options.logLevels }
  const log =
    options.log === undefined
      ? makeLog({ ...levels, format: options.logFormat, color: options.logColor })
      : hostLog(options.log, levels)
  const actors = actorsWithDefaults(options.actors ?? [], options, () => "service")
  const target = settings.transport
  const name = options.name ?? newWorkerName()
  const descriptions = actors.map(describeActor)
  const { taskNames, resultBackend } = settings
  const tracing = await openTracing(settings)
  const own = log.with({ logger: "callboard.service" })
  const connecting: TransportSettings = {
    reconnectDelay: (tries) => reconnectDelay(tries, settings.reconnect),
    ...clientValues({ ...options, name }),
  }
  const names = new TaskNames(actors, taskNames)
  const plans = new MethodSettingsCache(settings.keep)
  const keepFailed: KeepFailed = (task, meth) => {
    const method = names.method(task, meth)
    return method === undefined ? settings.keep.failureMs : plans.of(method).keep.failureMs
  }
  const observers: Array<WorkerObserver> = []
  if (tracing !== undefined) observers.push(new AttemptSpans(tracing.api, tracing.tracer, names))
  let connection: Connection
  let service: RunningService | undefined
  let http: AttachableServer | undefined
  let metrics: Metrics | undefined
  try {
    if (options.metrics ?? (options.http !== undefined && options.http !== false)) {
      // Loaded only where metrics are on, because loading prom-client takes a while.
      metrics = new (await import("../metrics/metrics.ts")).Metrics()
      if (actors.length > 0) observers.push(metrics.worker(names, () => service?.worker?.load))
    }
    // HTTP comes first: connecting may take many tries, and health checks must learn meanwhile that the process is not
    // ready.
    if (options.http)
      http = await (await import("../http/server.ts")).startHttp(options.http, {
        ready: () => {
          const worker = service?.worker
          return worker?.isStuck ? STUCK : (worker?.listening ?? actors.length === 0)
        },
        maxBody: settings.maxBody,
        log,
        metrics: metrics ?? false,
      })
    connection = await connectWithRetries(() => openConnection(target, connecting, keepFailed), settings.reconnect, own)
    const client = new Client(connection, {
      ownsTransport: true,
      actors: descriptions,
      taskNames,
      taskSentEvents: settings.taskSentEvents,
      ...compact({ tracing }),
    })
    metrics?.follow(client)
    http?.attach(client)
    // Signals are handled before the worker starts, so that a signal during the start frees the name of the worker
    // again.
    service = new RunningService(
      { client, http, metrics, linkSecret: options.http ? options.http.linkSecret : undefined },
      own,
      options.signals ?? true,
    )
    if (actors.length > 0) {
      const workerOptions: WorkerOptions = {
        ...settings,
        connection,
        client,
        actors,
        name,
        leaseMs: leaseOf(target, connecting),
        ...leaseThreadOf(target, connecting, connection),
        log: log.with({ logger: "callboard.worker" }),
        observers,
      }
      own.debug("the worker is starting", {
        worker: name,
        queues: settings.queues.join(","),
        version: VERSION,
        pid: process.pid,
      })
      const begun = service
      await service.start((signal) =>
        resultBackend === undefined
          ? startWorker(workerOptions, signal)
          : startAmongCelery(
              begun,
              { resultBackend, transport: target, namespace: options.namespace },
              workerOptions,
              signal,
            ),
      )
    }
    for (const conductor of options.conductors ?? []) service.conduct(conductor)
  } catch (cause) {
    if (service !== undefined) await service.stop()
    else {
      await http?.stop()
      metrics?.close()
    }
    throw cause
  }
  const running = service
  const ready = () => {
    const transport = typeof target === "string" ? displayUrl(target) : "client object"
    const { durability } = connection.transport.capabilities
    const { worker } = running
    own.info("ready", {
      ...(worker === undefined
        ? {}
        : {
            worker: worker.name,
            queues: worker.queues.join(","),
            actors: actors.map((actor) => actor.name).join(","),
          }),
      transport: `${transport} (durable: ${durability})`,
      ...compact({ url: http?.listens }),
    })
    return options.onReady?.(running)
  }
  // The failure of a worker is reported by `failed`, not here.
  void running.ready().then(
    () =>
      Promise.resolve()
        .then(ready)
        .catch((cause: unknown) =>
          own.error("onReady failed", { cause: cause instanceof Error ? cause.message : String(cause) }),
        ),
    () => undefined,
  )
  return running
}

/** Starts a worker that clients and workers of Celery know as one of theirs. */
const startAmongCelery = async (
  service: RunningService,
  where: Pick<CelerySideOptions, "resultBackend" | "transport" | "namespace">,
  options: WorkerOptions,
  signal: AbortSignal,
): Promise<Worker> => {
  const { CelerySide } = await import("../celery/side.ts")
  const side = await CelerySide.open({ ...options, ...where })
  void service.stopped.then(() => side.close())
  const { actors, external } = side
  const worker = await startWorker(
    { ...options, actors, external, observers: [...options.observers, ...side.observers] },
    signal,
  )
  await side.serve(worker, () => void service.stop())
  return worker
}

const STUCK = "this worker is stuck: handlers that keep running after their jobs have ended occupy all its slots"

/**
 * The lease thread opens the transport a second time. That is possible with a URL of a built-in plugin whose transport reaches
 * beyond this process. Where deliveries belong to the connection that took them, it extends the leases of the others: those of
 * tasks that the transport of the records delivers.
 */
const leaseThreadOf = (
  target: string | object,
  { transports, namespace, heartbeatMs: heartbeat }: TransportSettings,
  connection: Connection,
): Pick<WorkerOptions, "leaseThread"> => {
  const { reach, leases } = connection.transport.capabilities
  if (typeof target !== "string" || reach === "process") return {}
  if (Object.keys(transports ?? {}).some((scheme) => target.startsWith(`${scheme}:`))) return {}
  const extendsAlone = leases !== "connection"
  return { leaseThread: { url: target, namespace, heartbeat, extendsAlone } }
}
