/**
 * The other workers that are alive, the actors that they serve and the jobs that they run. A task is also delivered again although its worker lives,
 * if that worker could not reach the broker for longer than a lease. Then it runs the job still, and this worker must not
 * start it a second time.
 */
import type { Connection } from "../connection/connection.ts"
import type { Task } from "../protocol/headers.ts"
import { resolveName } from "../protocol/name.ts"
import { HEARTBEAT_MS, MAX_RUNNING, serves, type WorkerDescription } from "./directory.ts"
import { membersOf, strikeOff } from "./roster.ts"

export interface PeerWorkersOptions {
  readonly connection: Pick<Connection, "jobs" | "store">
  /** Name of this worker, which is none of its own peers. */
  readonly name: string
  /** Task names that stand for an actor's method. */
  readonly taskNames: ReadonlyMap<string, string>
  /** Whether the directory is known to hold every living worker now; right after an outage it may not. */
  readonly isComplete: () => boolean
  /** Whether workers that are not registered have had the time to come back, since this one reached the transport. */
  readonly hasWaited: () => boolean
}

export class PeerWorkers {
  readonly #options: PeerWorkersOptions

  constructor(options: PeerWorkersOptions) {
    this.#options = options
  }

  /**
   * Whether every worker that may be running jobs is registered. After an outage that is not certain until each worker of the
   * roster is back, or was missing for longer than it takes to come back. Never rejects.
   */
  async isComplete(): Promise<boolean> {
    const { connection, isComplete, hasWaited } = this.#options
    if (!isComplete()) return false
    return (
      hasWaited() ||
      membersOf(connection.store).then(
        ({ missing }) => missing.length === 0,
        () => false,
      )
    )
  }

  /**
   * How long a task that was delivered again must not be started here, in milliseconds; 0: no living worker runs its job.
   * `isBegun`: its record says that it was begun and has not ended. Never rejects.
   */
  async holdOffMs(id: string, isBegun: boolean): Promise<number> {
    if (!(await this.isComplete())) return HEARTBEAT_MS
    const runs = await this.#run(id, isBegun).catch(() => true)
    return runs ? HEARTBEAT_MS : 0
  }

  /**
   * Whether another living worker takes tasks of this queue and serves this one, and understands `field` of its header. Never
   * rejects: as long as the list of workers cannot be had it may be so.
   */
  async serve(queue: string, { task, meth }: Pick<Task, "task" | "meth">, field?: string): Promise<boolean> {
    if (!(await this.isComplete())) return true
    const others = await this.#others().catch(() => undefined)
    if (others === undefined) return true
    return others.some((worker) => {
      const { state, queues, actors, understands = [] } = worker
      if (state === "stopping" || !queues.includes(queue)) return false
      if (field !== undefined && !understands.includes(field)) return false
      return serves(
        worker,
        resolveName(task, meth, (name) => actors.includes(name), this.#options.taskNames),
      )
    })
  }

  async #run(id: string, isBegun: boolean): Promise<boolean> {
    const others = await this.#others()
    const names = others.some(({ running }) => running.includes(id))
    const isFull = ({ running }: WorkerDescription): boolean => running.length >= MAX_RUNNING
    if (!names && !isBegun && !others.some(isFull)) return false
    const record = (await this.#options.connection.jobs.find(id))?.record
    // A worker's entry is as old as its last heartbeat: it may have handed the job back since.
    if (record?.timeline.at(-1)?.reason === "handed-back") return false
    if (names || record?.state !== "started") return names
    // A worker that runs more jobs than its entry lists may run this one, too, and one that has just begun it.
    const listedFrom = (record.startedAt ?? 0) + HEARTBEAT_MS
    return others.some((one) => one.name === record.worker && (isFull(one) || Date.parse(one.heartbeatAt) < listedFrom))
  }

  /** Strikes dead workers off the roster, and those that did not come back in time. Fails as the store does. */
  async strikeOff(): Promise<void> {
    const { connection, isComplete, hasWaited } = this.#options
    if (isComplete()) await strikeOff(connection.store, hasWaited())
  }

  async #others(): Promise<ReadonlyArray<WorkerDescription>> {
    const { connection, name } = this.#options
    return (await membersOf(connection.store)).present.filter((one) => one.name !== name)
  }
}
