/**
 * Moves jobs on that wait for those which end on this worker. Beside the work: nothing waits for it, and what it cannot do
 * now is done at the next round of maintenance, by this worker or another.
 */
import type { Board } from "../../board.ts"
import { EdgeWatch } from "../../dependencies/edge-watch.ts"
import { findAll } from "../../dependencies/find-all.ts"
import { release } from "../../dependencies/release.ts"
import { Sweep } from "../../dependencies/sweep.ts"
import type { Log } from "../../log.ts"
import { type Ending, endingOf } from "../../protocol/dependencies.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"

/** Ended jobs whose dependents are looked for together. */
const AT_A_TIME = 100

/** More that have ended than this are left to the sweep. */
const MOST = 10_000

export class Dependents {
  readonly #board: Board
  readonly #log: Log
  readonly #edges: EdgeWatch
  readonly #sweep: Sweep
  /** By id; without an ending where it must be asked for. */
  readonly #ended = new Map<string, Ending | undefined>()
  #isWorking = false
  #working: Promise<void> = Promise.resolve()

  constructor(options: { readonly board: Board; readonly log: Log; readonly signal: AbortSignal }) {
    this.#board = options.board
    this.#log = options.log
    this.#edges = new EdgeWatch({ ...options, onLate: (parent) => this.#add(parent, undefined) })
    this.#sweep = new Sweep(options.board)
  }

  /** A record was stored here, or found as it was stored by somebody who may have died since. Cheap: called for every job. */
  stored(record: JobRecord): void {
    if (isTerminal(record.state) && this.#edges.ended(record.id)) this.#add(record.id, endingOf(record))
  }

  /** One round: what was left, then a slice of all that wait. Fails as the transport does. */
  async look(): Promise<void> {
    this.#edges.renew(performance.now())
    this.#work()
    await this.#sweep.look(Date.now())
  }

  /** Resolves when what has ended here is done, or cannot be done. */
  end(): Promise<void> {
    return this.#working
  }

  #add(id: string, ending: Ending | undefined): void {
    if (this.#ended.size >= MOST) return
    this.#ended.set(id, ending)
    this.#work()
  }

  #work(): void {
    if (this.#isWorking || this.#ended.size === 0) return
    this.#isWorking = true
    this.#working = this.#drain()
  }

  /** Never rejects. What ends meanwhile is in the next part. */
  async #drain(): Promise<void> {
    try {
      while (this.#ended.size > 0) await this.#part()
    } catch (cause) {
      this.#log.debug("jobs that wait for others are looked at again later", { cause: String(cause) })
    }
    this.#isWorking = false
  }

  async #part(): Promise<void> {
    const some = new Map([...this.#ended].slice(0, AT_A_TIME))
    const unknown = [...some].flatMap(([id, ending]) => (ending === undefined ? [id] : []))
    const found = await findAll(this.#board.records, unknown)
    const endings = [...some].map(([id, ending]) => [id, ending ?? endingOf(found.get(id)?.record)] as const)
    await release(this.#board, new Map(endings))
    for (const [id, ending] of some) if (this.#ended.get(id) === ending) this.#ended.delete(id)
  }
}
