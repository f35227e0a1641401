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

const READY_POLL_MS = 5

const NOTHING_STOPPED: StopReport = { finished: 0, handedBack: 0, stuck: 0, lost: 0 }

interface Parts {
  readonly client: Client
  readonly worker: Worker | undefined
  readonly http: HttpServer | undefined
  readonly metrics: Metrics | undefined
}

export class RunningService implements Service {
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
