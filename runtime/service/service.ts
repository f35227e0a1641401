/** A running service: worker and HTTP in one process, stopped together, by signals or by the application. */
import type { Client } from "../client/client.ts"
import type { Conductor, ConductorEvent, ConductorOptions } from "../client/conductor.ts"
import type { HttpServer } from "../http/server.ts"
import type { JobLink, LinkOptions } from "../jobs/link.ts"
import type { Log } from "../log/log.ts"
import type { Metrics, ServiceMetrics } from "../metrics/metrics.ts"
import { TransportError } from "../transport/mod.ts"
import { sleep } from "../transport/timers.ts"
import type { StopReport, Worker } from "../worker/control/worker.ts"
import type { StopReason } from "../worker/stop-condition.ts"
import { onSignals } from "./signals.js"

export interface Service extends AsyncDisposable {
  readonly client: Client
  /** Absent where it serves no actors, or was stopped before its worker had started. */
  readonly worker: Worker | undefined
  /** URL of its HTTP interface; `undefined` where it serves none. */
  readonly url: string | undefined
  /** What `/metrics` answers with, for an application that serves it by itself; absent where metrics are off. */
  readonly metrics: ServiceMetrics | undefined
  /** Whether its worker, if any, consumes, and its transport is within reach: what `/readyz` says. */
  readonly isReady: boolean
  /**
   * Makes a link to a job, as `POST /v1/jobs/{id}/link` does: a token for this job alone, such as for a web page, which this
   * service and others with the same `http.linkSecret` accept until it ends. Fails with `unsupported` without `http.linkSecret`,
   * with `invalid-input`, naming the option, and with `not-found` and `gone`.
   *
   * @example
   * ```ts
   * const { token } = await service.link(job.id, { scopes: ["read", "operate"], ttl: "1 hour" })
   * ```
   */
  link(id: string, options?: LinkOptions): Promise<JobLink>
  /**
   * Resolves once the worker consumes. Fails with the worker's error, and with `TransportError` `closed` when the service is
   * stopped before.
   */
  ready(): Promise<void>
  /** Resolves with the error if the worker gives up by itself; otherwise never. */
  readonly failed: Promise<TransportError>
  /** Resolves when the service has stopped, for any reason, with what became of its jobs. */
  readonly stopped: Promise<StopReport>
  /**
   * Stops softly: running handlers have the `grace` to finish. With `now`, also in a second call, they are handed back
   * at once.
   */
  stop(options?: { readonly now?: boolean }): Promise<StopReport>
}

/** Exit code of a process whose worker ended because stuck handlers held all of its slots: it is to be started again. */
export const STUCK_EXIT_CODE = 5

const READY_POLL_MS = 5

const NOTHING_STOPPED: StopReport = { finished: 0, handedBack: 0, stuck: 0, lost: 0 }

interface Parts {
  readonly client: Client
  readonly http: HttpServer | undefined
  readonly metrics: Metrics | undefined
  readonly linkSecret: string | undefined
}

export class RunningService implements Service {
  readonly client: Client
  readonly url: string | undefined
  readonly metrics: Metrics | undefined
  readonly failed: Promise<TransportError>
  readonly stopped: Promise<StopReport>
  readonly #failed = Promise.withResolvers<TransportError>()
  readonly #http: HttpServer | undefined
  readonly #linkSecret: string | undefined
  readonly #log: Log
  #isConnected = true
  /** Whether the service handles the signals of its process, and ends it. */
  readonly #ownsProcess: boolean
  readonly #offSignals: () => void
  /** Ends the start of the worker. */
  readonly #halt = new AbortController()
  #starting: Promise<void> | undefined
  #worker: Worker | undefined
  readonly #conductors: Array<Conductor> = []
  #stopping: Promise<StopReport> | undefined
  #resolveStopped: (report: StopReport) => void = () => undefined

  constructor({ client, http, metrics, linkSecret }: Parts, log: Log, signals: boolean) {
    this.client = client
    this.metrics = metrics
    this.url = http?.url
    this.#http = http
    this.#linkSecret = linkSecret
    this.#log = log
    this.stopped = new Promise((resolve) => {
      this.#resolveStopped = resolve
    })
    client.connection.transport.onStatus((status) => {
      this.#isConnected = status === "connected"
    })
    this.failed = this.#failed.promise
    this.#ownsProcess = signals
    this.#offSignals = signals
      ? onSignals({
          soft: (signal) => {
            log.info(`${signal}: stopping. Running jobs can finish; send the signal again to hand them back now`)
            void this.stop().then(
              (report) => this.#leave(report),
              () => undefined,
            )
          },
          hurry: (signal) => {
            log.warn(`${signal}: handing running jobs back now`)
            void this.stop({ now: true })
          },
        })
      : () => undefined
  }

  get worker(): Worker | undefined {
    return this.#worker
  }

  async link(id: string, options: LinkOptions = {}): Promise<JobLink> {
    const { makeLink } = await import("../http/link.ts")
    return makeLink(this.client.connection, { secret: this.#linkSecret, may: () => true }, id, options)
  }

  /**
   * Starts the worker. If the service is stopped meanwhile, the start ends without a worker. Fails as the worker does.
   */
  start(begin: (signal: AbortSignal) => Promise<Worker>): Promise<void> {
    this.#starting = this.#start(begin)
    return this.#starting
  }

  async #start(begin: (signal: AbortSignal) => Promise<Worker>): Promise<void> {
    const { signal } = this.#halt
    try {
      const worker = await begin(signal)
      this.#worker = worker
      void worker.failed.then(this.#failed.resolve)
      void worker.done.then((reason) => this.#ended(worker, reason))
    } catch (cause) {
      if (!signal.aborted) throw cause
    } finally {
      this.#starting = undefined
    }
  }

  /** Starts a conductor, unless the service stops already. A failure of it is logged, and ends nothing else. */
  conduct(options: ConductorOptions): void {
    if (this.#stopping !== undefined) return
    const log = this.#log.with({ logger: "callboard.conductor" })
    const onEvent = (event: ConductorEvent) => {
      const { event: name, ...fields } = event
      log[name === "job_trashed" ? "warn" : "debug"](name, fields)
      options.onEvent?.(event)
    }
    const conductor = this.client.conductor({ ...options, onEvent })
    this.#conductors.push(conductor)
    conductor.run().catch((cause: unknown) => {
      log.error(`the conductor of board ${options.board} has ended`, {
        cause: cause instanceof Error ? cause.message : String(cause),
      })
    })
  }

  /** The worker is to be stopped by its own decision. */
  async #ended({ name, leftOut }: Worker, reason: StopReason): Promise<void> {
    if (reason !== "stuck") {
      const foundNone = reason === "burst" || reason === "max-idle"
      if (foundNone && leftOut !== "")
        this.#log.warn(`${name} is stopping (${reason}), but tasks may remain in ${leftOut}`)
      else this.#log.info(`${name} has no more work (${reason})`)
      await this.stop()
      return
    }
    this.#log.error(`${name} is stopping, because handlers that do not stop occupy all its slots`)
    await this.stop()
    if (this.#ownsProcess) setTimeout(() => process.exit(STUCK_EXIT_CODE), 0)
  }

  /**
   * After a stop that a signal asked for: a handler that ignores its own signal must not keep the process alive, nor must
   * an actor whose start goes on although its worker has ended.
   */
  #leave({ stuck }: StopReport): void {
    if (stuck === 0 && !this.#halt.signal.aborted) return
    if (stuck > 0)
      this.#log.warn(`${stuck} handler(s) did not stop and will end with the process: make them stop on job.signal`)
    // In a later turn, so that code that awaits `stopped` runs first.
    setTimeout(() => process.exit(0), 0)
  }

  get isReady(): boolean {
    return this.#isConnected && this.#stopping === undefined && (this.worker?.listening ?? true)
  }

  async ready(): Promise<void> {
    const { worker } = this
    if (worker === undefined) {
      if (this.#stopping !== undefined) throw stoppedBefore()
      return
    }
    let error: TransportError | undefined
    void this.failed.then((failure) => {
      error = failure
    })
    let isDone = false
    void worker.done.then(() => {
      isDone = true
    })
    // Lets the promises above run first, if they are settled already.
    await Promise.resolve()
    // Polled: the worker listens, or fails, within a moment.
    while (!worker.listening) {
      if (error !== undefined) throw error
      // The worker was ready, and has ended because it has nothing more to do.
      if (isDone) return
      if (this.#stopping !== undefined) throw stoppedBefore()
      await sleep(READY_POLL_MS)
    }
  }

  stop(options: { readonly now?: boolean } = {}): Promise<StopReport> {
    if (this.#stopping === undefined) {
      this.#stopping = this.#stop(options)
      // Also when closing fails, so that `stopped` always resolves.
      this.#stopping.then(this.#resolveStopped, () => this.#resolveStopped(NOTHING_STOPPED))
    } else if (options.now) void this.worker?.stop(options)
    return this.#stopping
  }

  async #stop(options: { readonly now?: boolean }): Promise<StopReport> {
    // HTTP stops first, so that no submission is accepted any more; accepted tasks are stored in the transport.
    const http = this.#http?.stop()
    for (const conductor of this.#conductors) conductor.stop()
    try {
      if (this.#starting !== undefined) {
        this.#halt.abort()
        await this.#starting.catch(() => undefined)
      }
      const [report = NOTHING_STOPPED] = await Promise.all([this.worker?.stop(options), http])
      this.#log.debug("service stopped", { ...report })
      return report
    } finally {
      // Also after a failure: an open client would keep the process alive.
      this.#offSignals()
      this.metrics?.close()
      await this.client.close()
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop().then(() => undefined)
  }
}

const stoppedBefore = (): TransportError => new TransportError("closed", "the service was stopped before it was ready")
