/**
 * Several worker processes: the supervisor starts one again when it was killed, and reports readiness and metrics of all of them.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { PoolCount, PoolMetrics } from "../metrics/pool-metrics.ts"
import { onSignals } from "../service/signals.js"
import { Restarted } from "./child.js"
import { startWorkProcess } from "./work-process.ts"

// Messages between the supervisor and its processes. Both sides check what they receive.

/** From the supervisor: asks whether the worker is ready, and with `metrics` for its metrics. */
const QuestionSchema = Schema.Struct({
  question: Schema.Int,
  metrics: Schema.Boolean,
})
type Question = typeof QuestionSchema.Type

/** From a worker process. Without `answers` it is the final report of a worker that has stopped. */
const ReportSchema = Schema.Struct({
  answers: Schema.optional(Schema.Int),
  /** Whether it takes tasks, and its transport can be reached. */
  isReady: Schema.Boolean,
  /** Whether handlers that do not stop hold all of its slots. */
  isStuck: Schema.optional(Schema.Boolean),
  /** Metrics as JSON text, which Bun and Deno transfer alike. Absent where not asked for, or where metrics are off. */
  metrics: Schema.optional(Schema.String),
})
export type Report = typeof ReportSchema.Type

const decodeQuestion = Schema.decodeUnknownResult(QuestionSchema)
const decodeReport = Schema.decodeUnknownResult(ReportSchema)

/** `undefined` for another message. */
export const parseQuestion = (message: unknown): Question | undefined => Result.getOrUndefined(decodeQuestion(message))

/** `undefined` for another message. */
const parseReport = (message: unknown): Report | undefined => Result.getOrUndefined(decodeReport(message))

interface PoolMemberOptions {
  /** Arguments of the process besides those of this command line. */
  readonly arguments: ReadonlyArray<string>
  /** Name in messages to people. */
  readonly name: string
  /** Called with each report of the process. */
  readonly onReport: (report: Report) => void
  /** Called when the process has ended. `again`: another one will be started. */
  readonly onExit: (again: boolean) => void
}

/** One worker of a pool: answers for its process, which is started again when it was killed or crashed. */
class PoolMember {
  readonly #worker: Restarted
  readonly #asked = new Map<number, (report: Report) => void>()
  #questions = 0

  constructor({ arguments: more, name, onReport, onExit }: PoolMemberOptions) {
    this.#worker = new Restarted({
      start: () => startWorkProcess(more),
      name,
      onStart: (child) => {
        child.on("message", (message: unknown) => {
          const report = parseReport(message)
          // A message of a process that has ended meanwhile is ignored.
          if (report === undefined || this.#worker.child !== child) return
          onReport(report)
          if (report.answers !== undefined) this.#asked.get(report.answers)?.(report)
        })
      },
      onExit,
    })
  }

  /** Resolves with the exit code once the worker has ended by itself or was stopped. */
  get done(): Promise<number> {
    return this.#worker.done
  }

  /** The exit code, once it is known. */
  get exitCode(): number | undefined {
    return this.#worker.exitCode
  }

  get isAlive(): boolean {
    return this.#worker.child !== undefined
  }

  /** Asks the process for a report. `undefined` where no process is ready, or none answers within `ms` milliseconds. */
  ask(ms: number, options: { readonly metrics: boolean }): Promise<Report | undefined> {
    const { child, isReady } = this.#worker
    // It answers no questions before it is ready.
    if (child === undefined || !child.connected || !isReady) return Promise.resolve(undefined)
    const question = ++this.#questions
    return new Promise((resolve) => {
      const settle = (report: Report | undefined) => {
        clearTimeout(timer)
        this.#asked.delete(question)
        child.off("exit", gone)
        resolve(report)
      }
      const gone = () => settle(undefined)
      const timer = setTimeout(gone, ms)
      child.once("exit", gone)
      this.#asked.set(question, settle)
      child.send({ ...options, question }, (error) => {
        if (error !== null) gone()
      })
    })
  }

  stop(): void {
    this.#worker.stop()
  }

  kill(): void {
    this.#worker.kill()
  }
}

/** Longest wait for the readiness of a process, in milliseconds. Health probes usually wait for a second. */
const READY_MS = 500

/** Longest wait for the metrics of a process, in milliseconds. The process asks its transport for up to two seconds. */
const METRICS_MS = 3_000

interface PoolOptions {
  /** Number of workers, each in a process of its own. */
  readonly count: number
  /** Arguments of a worker besides those of this command line. Workers are numbered from 1. */
  readonly argumentsOf: (member: number) => ReadonlyArray<string>
}

/** The supervisor of a pool. */
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
          onReport: ({ metrics }) => metrics !== undefined && this.#metrics?.report(at, metrics),
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
    const why = stuck === 0 ? "" : `, and ${stuck} are stuck: handlers that do not stop occupy all their slots`
    return `${ready} of the ${meant.length} processes of this pool are consuming${why}`
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
