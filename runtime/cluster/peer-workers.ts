/**
 * What the other living workers say that they run. A task also comes again when its worker lives and was out of connectivity for
 * longer than a lease, as all workers are while their broker is away: it is left to that worker then.
 */
import type { Connection } from "../connection/connection.ts"
import { HEARTBEAT_MS, isDead, listWorkers, MOST_RUNNING, type WorkerDescription } from "./directory.ts"

export interface PeerWorkersOptions {
  readonly connection: Pick<Connection, "jobs" | "store">
  /** Name of this worker. */
  readonly name: string
  /** Whether every living worker is in the list now. */
  readonly isComplete: () => boolean
}

/** The list is read this often at most: after an outage many tasks come again at once. */
const FRESH_MS = 250

export class PeerWorkers {
  readonly #options: PeerWorkersOptions
  #read: { readonly at: number; readonly others: Promise<ReadonlyArray<WorkerDescription>> } | undefined

  constructor(options: PeerWorkersOptions) {
    this.#options = options
  }

  /** How long a job that comes again is to be left alone, in milliseconds; 0: no living worker runs it. Never rejects. */
  async holdOffMs(id: string): Promise<number> {
    if (!this.#options.isComplete()) return HEARTBEAT_MS
    const runs = await this.#run(id).catch(() => true)
    return runs ? HEARTBEAT_MS : 0
  }

  async #run(id: string): Promise<boolean> {
    const others = await this.#others()
    const names = others.some(({ running }) => running.includes(id))
    // One that runs more than its entry can say may run any.
    const busy = others.filter(({ running }) => running.length >= MOST_RUNNING)
    if (!names && busy.length === 0) return false
    const found = await this.#options.connection.jobs.find(id)
    // Its entry is as old as its last beat: what it has handed back since is nobody's.
    if (found?.record.timeline.at(-1)?.reason === "handed-back") return false
    return names || (found?.record.state === "started" && busy.some(({ name }) => name === found.record.worker))
  }

  #others(): Promise<ReadonlyArray<WorkerDescription>> {
    const { connection, name } = this.#options
    const at = performance.now()
    if (this.#read === undefined || at - this.#read.at > FRESH_MS) {
      const others = listWorkers(connection.store).then((all) => all.filter((one) => one.name !== name && !isDead(one)))
      this.#read = { at, others }
    }
    return this.#read.others
  }
}
