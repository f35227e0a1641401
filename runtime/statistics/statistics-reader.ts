/** What workers have counted over time, read from the store. Times are by the clock of the transport. */
import { listWorkers, type WorkerDescription } from "../cluster/directory.ts"
import type { Connection } from "../connection/connection.ts"
import { CallboardError } from "../errors.ts"
import type { RecentAttempts } from "../jobs/commands/plan.ts"
import { compact } from "../protocol/compact.ts"
import type { JobRecord } from "../protocol/record.ts"
import { causesOf, detailsOf, type ErrorsQuery } from "./errors.ts"
import { type CountedStates, goneWorkers, Overview } from "./overview.ts"
import { type SeenWorker, type Slot, SlotReader } from "./reading.ts"
import type { CauseDetails, ErrorList, QueueDetails, Series, Stats, TaskList } from "./schema.ts"
import { type Grid, gridOf, marksOf, type SeriesQuery, seriesOf } from "./series.ts"
import { SLOT_MS } from "./tally.ts"
import { RECENT_MS, recentOf, type TasksQuery, tasksOf } from "./tasks.ts"

export class StatisticsReader {
  readonly #connection: Connection
  readonly #reader: SlotReader
  readonly #overview: Overview

  constructor(connection: Connection) {
    this.#connection = connection
    this.#reader = new SlotReader(connection.store)
    this.#overview = new Overview(connection, this.#reader)
  }

  /** The state of the system now, and its numbers over the last `range` milliseconds. Fails with `TransportError`. */
  stats(range: number): Promise<Stats> {
    return this.#overview.stats(range)
  }

  /** Jobs by state. They are counted once a second at most, whatever the number of callers. */
  counts(): Promise<CountedStates> {
    return this.#overview.counts()
  }

  /** Every queue in numbers; an empty list where the transport cannot count. Fails with `TransportError`. */
  async queues(): Promise<ReadonlyArray<QueueDetails>> {
    return (await this.#overview.queues()) ?? []
  }

  /** The workers that are alive. Fails with `TransportError`. */
  workers(): Promise<ReadonlyArray<WorkerDescription>> {
    return this.#overview.workers()
  }

  /** Queues and workers are asked for anew, since a decision about them was just made. */
  forget(): void {
    this.#overview.forget()
  }

  /**
   * Workers that were alive in the last `within` milliseconds and are not any more, newest first. Fails with
   * `TransportError`.
   */
  gone(within: number): Promise<ReadonlyArray<SeenWorker>> {
    return this.#overview.gone(within)
  }

  /** What lost workers ran and no other worker runs since, by worker. Fails with `TransportError`. */
  ranOn(lost: ReadonlyArray<SeenWorker>): Promise<ReadonlyMap<SeenWorker, ReadonlyArray<JobRecord>>> {
    return this.#overview.ranOn(lost)
  }

  /** The tasks of a range. Fails with `CallboardError` `invalid-input`, and with `TransportError`. */
  async tasks(query: TasksQuery): Promise<TaskList> {
    const now = await this.#connection.store.now()
    const { slots, partial } = await this.#reader.read(now - 2 * query.range, now, now)
    return { ...tasksOf(slots, query, now), ...(partial ? { partial: true } : {}) }
  }

  /** How the last attempts of these tasks ended, each task named as `actor.method`. Fails with `TransportError`. */
  async recent(tasks: ReadonlyArray<string>): Promise<ReadonlyMap<string, RecentAttempts>> {
    const now = await this.#connection.store.now()
    const from = now - RECENT_MS
    const [{ slots }, failures] = await Promise.all([
      this.#reader.read(from, now, now),
      this.#reader.failures(from, now),
    ])
    return recentOf(slots, failures.slots, tasks, now)
  }

  /**
   * A series over time, with what happened meanwhile. Fails with `CallboardError` `invalid-input`, naming the field, and with
   * `TransportError`.
   */
  async series(query: SeriesQuery): Promise<Series> {
    const now = await this.#connection.store.now()
    const grid = gridOf(query, now)
    const to = grid.from + grid.step * grid.points
    const [read, samples, alive] = await Promise.all([
      // Only the slot before shows which versions are not new.
      this.#reader.read(grid.from - SLOT_MS, query.of === "submitted" ? now : to, now),
      query.of === "waiting" ? this.#reader.depths(grid.from, to, now) : [],
      listWorkers(this.#connection.store),
    ])
    return seriesOf(query, grid, read, samples, this.#marks(read.slots, alive, grid, now))
  }

  /**
   * ErrorList of failures, those that appeared last first. Fails with `CallboardError` `invalid-input`, naming the field, and with
   * `TransportError`.
   */
  async errors(query: ErrorsQuery): Promise<ErrorList> {
    const now = await this.#connection.store.now()
    const { slots, known, partial } = await this.#reader.failures(now - query.range, now)
    return { ...causesOf(slots, known, query, now), ...(partial ? { partial: true } : {}) }
  }

  /**
   * One cause of failures: where it appears, and its newest jobs. `range`: how far back, in milliseconds. Fails with
   * `CallboardError` `not-found`, and with `TransportError`.
   */
  async error(fingerprint: string, range: number): Promise<CauseDetails> {
    const now = await this.#connection.store.now()
    const { slots, known } = await this.#reader.failures(now - range, now)
    const found = detailsOf(slots, known, fingerprint, { from: now - range, now })
    if (found === undefined)
      throw new CallboardError(
        "not-found",
        `no job failed with cause ${fingerprint} in this time, or the cause is no longer kept`,
      )
    const traceback = await this.#traceback(fingerprint, found.sample)
    return { ...found, ...compact({ traceback }) }
  }

  /** The traceback of the newest job that still has this error. */
  async #traceback(fingerprint: string, ids: ReadonlyArray<string>): Promise<string | undefined> {
    const found = await Promise.all(ids.map((id) => this.#connection.jobs.find(id)))
    return found.find((each) => each?.record.fingerprint === fingerprint)?.record.error?.traceback
  }

  #marks(
    slots: ReadonlyArray<Slot>,
    alive: ReadonlyArray<WorkerDescription>,
    { from, step, points }: Grid,
    now: number,
  ) {
    const lost = goneWorkers(slots, alive, now).filter(({ goodbye }) => goodbye !== true)
    return marksOf(slots, lost, from, from + step * points)
  }
}
