/** A service that runs: its worker and its HTTP in one process, stopped together, by signals or by the application. */
import type { Client } from "../client/client.ts"
import type { HttpServer } from "../http/server.ts"
import type { Log } from "../log/log.ts"
import type { Metrics, ServiceMetrics } from "../metrics/metrics.ts"
import { TransportError } from "../transport/mod.ts"
import type { StopReport, Worker } from "../worker/control/worker.ts"
import { onSignals } from "./signals.ts"

export interface Service extends AsyncDisposable {
  readonly client: Client
  /** Absent where it serves no actors, or was stopped before its worker had started. */
  readonly worker: Worker | undefined
  /** Where it answers HTTP. */
  readonly url: string | undefined
  /** What `/metrics` answers with, for an application that serves it by itself; absent where metrics are off. */
  readonly metrics: ServiceMetrics | undefined
  /**
   * Whether it does its work now: its worker consumes, if it has one, and its transport is within reach. What `/readyz`
   * says.
   */
  readonly isReady: boolean
  /**
   * Resolves once it consumes (and listens). Fails with the worker's error, and with `closed` when it is stopped
   * before.
   */
  ready(): Promise<void>
  /** Resolves, with the error, if the worker gives up by itself. */
  readonly failed: Promise<TransportError>
  /** Resolves when it has stopped, for whatever reason. */
  readonly stopped: Promise<StopReport>
  /** Soft stop; a second call with `now` hurries. */
  stop(options?: { readonly now?: boolean }): Promise<StopReport>
}

const READY_POLL_MS = 5

const NOTHING_STOPPED: StopReport = { finished: 0, handedBack: 0, stuck: 0, lost: 0 }

interface Parts {
  readonly client: Client
  readonly http: HttpServer | undefined
  readonly metrics: Metrics | undefined
}

export class RunningService implements Service {
  readonly client: Client
  readonly url: string | undefined
  readonly metrics: Metrics | undefined
  readonly failed: Promise<TransportError>
  readonly stopped: Promise<StopReport>
  readonly #failed = Promise.withResolvers<TransportError>()
  readonly #http: HttpServer | undefined
  readonly #log: Log
  #isConnected = true
  readonly #offSignals: () => void
  /** Ends the start of the worker. */
  readonly #halt = new AbortController()
  #starting: Promise<void> | undefined
  #worker: Worker | undefined
  #stopping: Promise<StopReport> | undefined
  #resolveStopped: (report: StopReport) => void = () => undefined

  constructor({ client, http, metrics }: Parts, log: Log, signals: boolean) {
    this.client = client
    this.metrics = metrics
    this.url = http?.url
    this.#http = http
    this.#log = log
    this.stopped = new Promise((resolve) => {
      this.#resolveStopped = resolve
    })
    client.connection.transport.onStatus((status) => {
      this.#isConnected = status === "connected"
    })
    this.failed = this.#failed.promise
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

  get worker(): Worker | undefined {
    return this.#worker
  }

  /** Starts the worker. A service that is stopped meanwhile ends the start, and has none. Fails as the worker does. */
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
      void worker.done.then((reason) => {
        this.#log.info(`${worker.name} has nothing more to do (${reason})`)
        return this.stop()
      })
    } catch (cause) {
      if (!signal.aborted) throw cause
    } finally {
      this.#starting = undefined
    }
  }

  /**
   * After a stop that a signal asked for: a handler that ignores its own signal must not keep the process alive, nor must
   * an actor whose start goes on although its worker has ended.
   */
  #leave({ stuck }: StopReport): void {
    if (stuck === 0 && !this.#halt.signal.aborted) return
    if (stuck > 0)
      this.#log.warn(
        `${stuck} handler(s) go on after the stop and are ended with the process: let them heed job.signal`,
      )
    // Whoever waits for `stopped` has its turn first.
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
    // In a turn of its own: what is known already comes first.
    await Promise.resolve()
    // The worker says so by itself; it fails, or listens, within a moment.
    while (!worker.listening) {
      if (error !== undefined) throw error
      // It was ready, and has nothing more to do.
      if (isDone) return
      if (this.#stopping !== undefined) throw stoppedBefore()
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
      if (this.#starting !== undefined) {
        this.#halt.abort()
        await this.#starting.catch(() => undefined)
      }
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

const stoppedBefore = (): TransportError => new TransportError("closed", "the service was stopped before it was ready")
