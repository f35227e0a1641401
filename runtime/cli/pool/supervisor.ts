/** Runs several worker processes, and starts one again when it was killed. Reports readiness and metrics of all of them. */
import type { PoolCount, PoolMetrics } from "../../metrics/pool-metrics.ts"
import { onSignals } from "../../service/signals.js"
import { PoolMember } from "./member.ts"
import type { Report } from "./message.ts"

/** Longest wait for the readiness of a process, in milliseconds. Health probes usually wait for a second. */
const READY_MS = 500

/** Longest wait for the metrics of a process, in milliseconds. The process asks its transport for up to two seconds. */
const METRICS_MS = 3_000

export interface PoolOptions {
  /** Number of workers, each in a process of its own. */
  readonly count: number
  /** Arguments of a worker besides those of this command line. Workers are numbered from 1. */
  readonly argumentsOf: (member: number) => ReadonlyArray<string>
}

export class WorkerPool {
  readonly #options: PoolOptions
  #members: ReadonlyArray<PoolMember> = []
  #metrics: PoolMetrics | undefined
  #stopping = false

  constructor(options: PoolOptions) {
    this.#options = options
  }

  /** Adds the metrics of all processes to these. */
  exportTo(metrics: PoolMetrics): void {
    this.#metrics = metrics
  }

  /** Runs workers until each has ended by itself or a signal stops them; resolves with the highest of their exit codes. */
  async run(): Promise<number> {
    const { count, argumentsOf } = this.#options
    this.#members = Array.from(
      { length: count },
      (_, at) =>
        new PoolMember({
          arguments: argumentsOf(at + 1),
          name: `worker ${at + 1}`,
          onReport: ({ metrics }) => metrics !== undefined && this.#metrics?.tell(at, metrics),
          onExit: (again) => {
            this.#metrics?.end(at)
            if (again) this.#metrics?.restarted()
          },
        }),
    )
    // Each signal is passed to the workers, which count signals and log what they do.
    const pass = () => {
      this.#stopping = true
      for (const member of this.#members) member.stop()
    }
    onSignals({ soft: pass, hurry: pass })
    // A third signal ends this process at once, and its children with it.
    process.once("exit", () => {
      for (const member of this.#members) member.kill()
    })
    return Math.max(...(await Promise.all(this.#members.map((member) => member.done))))
  }

  /**
   * Why the pool is not ready: every process must take tasks, except those that have ended with exit code 0. `undefined`
   * where it is ready.
   */
  async unready(): Promise<string | undefined> {
    if (this.#stopping) return "this pool is stopping"
    const meant = this.#members.filter(({ exitCode }) => exitCode !== 0)
    const { ready, stuck } = await this.#ask(meant, READY_MS, { metrics: false })
    if (ready === meant.length && ready > 0) return undefined
    const why = stuck === 0 ? "" : `, and ${stuck} are stuck: handlers that do not stop hold all of their slots`
    return `${ready} of the ${meant.length} processes of this pool consume now${why}`
  }

  /** Collects the metrics of all processes. */
  async count(): Promise<PoolCount> {
    const { ready } = await this.#ask(this.#members, METRICS_MS, { metrics: true })
    return { alive: this.#members.filter(({ isAlive }) => isAlive).length, ready }
  }

  /** How many of these processes answer that they are ready, and that they are stuck. */
  async #ask(members: ReadonlyArray<PoolMember>, ms: number, options: { readonly metrics: boolean }) {
    const reports = await Promise.all(members.map((member) => member.ask(ms, options)))
    const count = (is: (report: Report) => boolean | undefined) =>
      reports.filter((report) => report !== undefined && is(report)).length
    return { ready: count(({ isReady }) => isReady), stuck: count(({ isStuck }) => isStuck) }
  }
}
