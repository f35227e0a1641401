/**
 * What workers have counted over time, for HTTP, the command line and code. The code that reads it is loaded with the
 * first call, since most clients never make one.
 */
import type { WorkerDescription } from "../cluster/directory.ts"
import type { Connection } from "../connection/connection.ts"
import type { RecentAttempts } from "../jobs/commands/plan.ts"
import type { JobRecord } from "../protocol/record.ts"
import type { ErrorsQuery } from "./errors.ts"
import type { CountedStates } from "./overview.ts"
import type { SeenWorker } from "./reading.ts"
import type { CauseDetails, ErrorList, QueueDetails, Series, Stats, TaskList } from "./schema.ts"
import type { SeriesQuery } from "./series.ts"
import type { StatisticsReader } from "./statistics-reader.ts"
import type { TasksQuery } from "./tasks.ts"

export class Statistics {
  readonly #connection: Connection
  #loaded: Promise<StatisticsReader> | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  #board(): Promise<StatisticsReader> {
    this.#loaded ??= import("./statistics-reader.ts").then((module) => new module.StatisticsReader(this.#connection))
    return this.#loaded
  }

  /** The state of the system now, and its numbers over the last `range` milliseconds. Fails with `TransportError`. */
  async stats(range: number): Promise<Stats> {
    return (await this.#board()).stats(range)
  }

  /** Jobs by state. They are counted once a second at most, whatever the number of callers. */
  async counts(): Promise<CountedStates> {
    return (await this.#board()).counts()
  }

  /** Every queue in numbers; an empty list where the transport cannot count. Fails with `TransportError`. */
  async queues(): Promise<ReadonlyArray<QueueDetails>> {
    return (await this.#board()).queues()
  }

  /** The workers that are alive. Fails with `TransportError`. */
  async workers(): Promise<ReadonlyArray<WorkerDescription>> {
    return (await this.#board()).workers()
  }

  /** Queues and workers are asked for anew, since a decision about them was just made. */
  async forget(): Promise<void> {
    // Before the first question nothing is known.
    if (this.#loaded !== undefined) (await this.#loaded).forget()
  }

  /**
   * Workers that were alive in the last `within` milliseconds and are not any more, newest first. Fails with
   * `TransportError`.
   */
  async gone(within: number): Promise<ReadonlyArray<SeenWorker>> {
    return (await this.#board()).gone(within)
  }

  /** What lost workers ran and no other worker runs since, by worker. Fails with `TransportError`. */
  async ranOn(lost: ReadonlyArray<SeenWorker>): Promise<ReadonlyMap<SeenWorker, ReadonlyArray<JobRecord>>> {
    return (await this.#board()).ranOn(lost)
  }

  /** The tasks of a range. Fails with `CallboardError` `invalid-input`, and with `TransportError`. */
  async tasks(query: TasksQuery): Promise<TaskList> {
    return (await this.#board()).tasks(query)
  }

  /** How the last attempts of these tasks ended, each task named as `actor.method`. Fails with `TransportError`. */
  async recent(tasks: ReadonlyArray<string>): Promise<ReadonlyMap<string, RecentAttempts>> {
    return (await this.#board()).recent(tasks)
  }

  /**
   * A series over time, with what happened meanwhile. Fails with `CallboardError` `invalid-input`, naming the field, and with
   * `TransportError`.
   */
  async series(query: SeriesQuery): Promise<Series> {
    return (await this.#board()).series(query)
  }

  /** ErrorList of failures, those that appeared last first. Fails like {@link series}. */
  async errors(query: ErrorsQuery): Promise<ErrorList> {
    return (await this.#board()).errors(query)
  }

  /**
   * One cause of failures: where it appears, and its newest jobs. `range`: how far back, in milliseconds. Fails with
   * `CallboardError` `not-found`, and with `TransportError`.
   */
  async error(fingerprint: string, range: number): Promise<CauseDetails> {
    return (await this.#board()).error(fingerprint, range)
  }
}
