/**
 * What a board tells about itself over time: asked by HTTP, the command line and code. What reads it is loaded with the first
 * question, since most clients never ask.
 */
import type { Connection } from "../connection/connection.ts"
import type { BoardStatistics, Causes, Tasks } from "./board-statistics.ts"
import type { CauseDetails, ErrorsQuery } from "./errors.ts"
import type { CountedStates, Stats } from "./overview.ts"
import type { QueueDetails } from "./queues.ts"
import type { SeenWorker } from "./reading.ts"
import type { Series, SeriesQuery } from "./series.ts"
import type { TasksQuery } from "./tasks.ts"

export class Statistics {
  readonly #connection: Connection
  #loaded: Promise<BoardStatistics> | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  #board(): Promise<BoardStatistics> {
    this.#loaded ??= import("./board-statistics.ts").then((module) => new module.BoardStatistics(this.#connection))
    return this.#loaded
  }

  /** How the board is, and how it was in a range of milliseconds until now. Fails with `TransportError`. */
  async stats(range: number): Promise<Stats> {
    return (await this.#board()).stats(range)
  }

  /** Jobs by state, for those that look again and again: counted once a second, whatever the number of callers. */
  async counts(): Promise<CountedStates> {
    return (await this.#board()).counts()
  }

  /** Every queue in numbers; an empty list where the transport cannot count. Fails with `TransportError`. */
  async queues(): Promise<ReadonlyArray<QueueDetails>> {
    return (await this.#board()).queues()
  }

  /** Workers that were there in the last `within` milliseconds and are not any more, newest first. Fails with `TransportError`. */
  async gone(within: number): Promise<ReadonlyArray<SeenWorker>> {
    return (await this.#board()).gone(within)
  }

  /** The tasks of a range. Fails with `CallboardError` `invalid-input`, and with `TransportError`. */
  async tasks(query: TasksQuery): Promise<Tasks> {
    return (await this.#board()).tasks(query)
  }

  /**
   * A series over time, with what happened meanwhile. Fails with `CallboardError` `invalid-input`, naming the field, and with
   * `TransportError`.
   */
  async series(query: SeriesQuery): Promise<Series> {
    return (await this.#board()).series(query)
  }

  /** Causes of failures, those that appeared last first. Fails like {@link series}. */
  async errors(query: ErrorsQuery): Promise<Causes> {
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
