/**
 * Watches over workers: starts one again when it was killed. A handler that blocks its thread beyond its time limit can
 * be ended in no other way, and neither can one that takes all the memory. Can say how all of them are, taken together.
 */
import { makeLog } from "../../log/log.ts"
import type { PoolCount, PoolMetrics } from "../../metrics/pool-metrics.ts"
import { onSignals } from "../../service/signals.ts"
import { Seat } from "./seat.ts"

/** Longest wait for a process to say whether it is ready: whoever probes waits for about a second. */
const READY_MS = 500

/** Longest wait for what a process has counted: it asks its transport, for two seconds at most. */
const METRICS_MS = 3_000

export interface Supervision {
  /** How many workers, each in a process of its own. */
  readonly count: number
  /** What a seat's process is told beside this command line. Seats are counted from 1. */
  readonly argumentsOf: (seat: number) => ReadonlyArray<string>
  /** Says something to people. */
  readonly note: (text: string) => void
}

export class WorkerPool {
  readonly #supervision: Supervision
  #seats: ReadonlyArray<Seat> = []
  #metrics: PoolMetrics | undefined
  #stopping = false

  constructor(supervision: Supervision) {
    this.#supervision = supervision
  }

  /** From now on what the processes say of their numbers goes there. */
  countInto(metrics: PoolMetrics): void {
    this.#metrics = metrics
  }

  /** Runs workers until each has ended by itself or a signal stops them; resolves with the highest of their exit codes. */
  async run(): Promise<number> {
    const { count, argumentsOf, note } = this.#supervision
    this.#seats = Array.from(
      { length: count },
      (_, at) =>
        new Seat({
          arguments: argumentsOf(at + 1),
          name: count === 1 ? "the worker" : `worker ${at + 1}`,
          note,
          onReport: ({ metrics }) => metrics !== undefined && this.#metrics?.tell(at, metrics),
          onExit: (again) => {
            this.#metrics?.end(at)
            if (again) this.#metrics?.restarted()
          },
        }),
    )
    // Each signal goes on to the workers, which count them, and say what they do.
    const pass = () => {
      this.#stopping = true
      for (const seat of this.#seats) seat.stop()
    }
    onSignals({ soft: pass, hurry: pass, log: makeLog({ level: "none" }) })
    // A third signal ends this process at once, and nothing may outlive it.
    process.once("exit", () => {
      for (const seat of this.#seats) seat.kill()
    })
    return Math.max(...(await Promise.all(this.#seats.map((seat) => seat.done))))
  }

  /**
   * Why the pool is not at work as it should be: every process that has not ended well must consume. `undefined`: it is.
   */
  async unready(): Promise<string | undefined> {
    if (this.#stopping) return "this pool is stopping"
    const meant = this.#seats.filter(({ exitCode }) => exitCode !== 0)
    const ready = await this.#ready(meant, READY_MS, { metrics: false })
    if (ready === meant.length && ready > 0) return undefined
    return `${ready} of the ${meant.length} processes of this pool consume now`
  }

  /** Lets each process tell its numbers. */
  async count(): Promise<PoolCount> {
    const ready = await this.#ready(this.#seats, METRICS_MS, { metrics: true })
    return { alive: this.#seats.filter(({ isAlive }) => isAlive).length, ready }
  }

  async #ready(seats: ReadonlyArray<Seat>, ms: number, options: { readonly metrics: boolean }): Promise<number> {
    const reports = await Promise.all(seats.map((seat) => seat.ask(ms, options)))
    return reports.filter((report) => report?.isReady).length
  }
}
