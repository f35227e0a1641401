/**
 * Moves jobs on that wait for those which end on this worker. Beside the work: nothing waits for it, and what it cannot do
 * now is done at the next round of maintenance, by this worker or another.
 */
import type { Connection } from "../../connection/connection.ts"
import { asTransportError } from "../../errors.ts"
import { EdgeWatch } from "../../jobs/dependencies/edge-watch.ts"
import { findParentOutcomes } from "../../jobs/dependencies/parent-outcomes.ts"
import { release } from "../../jobs/dependencies/release.ts"
import { Sweep } from "../../jobs/dependencies/sweep.ts"
import type { Log } from "../../log/log.ts"
import { type ParentOutcome, parentOutcomeOf } from "../../protocol/dependencies.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"

/** Ended jobs whose dependents are looked for together. */
const AT_A_TIME = 100

/** More that have ended than this are left to the sweep. */
const MAX_PENDING = 10_000

/** How long one round may look at those that wait, unless a single slice takes longer: a small part of the time between two rounds. */
const SWEEP_MS = 200

export class Dependents {
  readonly #connection: Connection
  readonly #log: Log
  readonly #edges: EdgeWatch
  readonly #sweep: Sweep
  /** By id; without an ending where it must be asked for. */
  readonly #ended = new Map<string, ParentOutcome | undefined>()
  /** The first look, at what others have left behind. */
  readonly #begun: Promise<void>
  #hasBegun = false
  #isWorking = false
  /** The transport has failed: until the next round, or until it is back. */
  #isWaitingForTransport = false
  #working: Promise<void> = Promise.resolve()

  constructor(options: { readonly connection: Connection; readonly log: Log; readonly signal: AbortSignal }) {
    const { connection, log, signal } = options
    this.#connection = connection
    this.#log = log
    this.#edges = new EdgeWatch({ ...options, onLate: (parent) => this.#add(parent, undefined) })
    this.#sweep = new Sweep(connection)
    this.#begun = this.#begin()
    const off = connection.transport.onStatus((status) => {
      if (status === "connected") this.#resume()
    })
    signal.addEventListener("abort", off, { once: true })
  }

  /** Whether more may be queued any moment: what waits for jobs that have ended here, or what others have left behind. */
  get isBusy(): boolean {
    return this.#isWorking || !this.#hasBegun
  }

  /** A record was stored here, or found as it was stored by somebody who may have died since. Cheap: called for every job. */
  stored(record: JobRecord): void {
    if (isTerminal(record.state) && this.#edges.ended(record.id)) this.#add(record.id, parentOutcomeOf(record))
  }

  /** One round: what was left, then as many slices of all that wait as there is time for. Fails as the transport does. */
  async look(): Promise<void> {
    const began = performance.now()
    this.#edges.renew(began)
    this.#resume()
    for (let isDone = this.#edges.isEmpty; !isDone && performance.now() - began < SWEEP_MS; )
      isDone = await this.#sweep.look(Date.now())
  }

  /** Resolves when what has ended here is done, or cannot be done. Never rejects. */
  async end(): Promise<void> {
    // Until all edges were read it is not known who waits for what has ended here.
    if (this.#edges.hasSeenEnds) await this.#begun
    await this.#working
  }

  /** A worker that ends when nothing is left to do may not be there any more when it is time for maintenance. */
  async #begin(): Promise<void> {
    await this.#edges.ready
    try {
      await this.look()
    } catch (cause) {
      this.#leaveForLater(cause)
    }
    this.#hasBegun = true
  }

  #add(id: string, ending: ParentOutcome | undefined): void {
    if (this.#ended.size >= MAX_PENDING) return
    this.#ended.set(id, ending)
    this.#work()
  }

  #resume(): void {
    this.#isWaitingForTransport = false
    this.#work()
  }

  #work(): void {
    if (this.#isWorking || this.#isWaitingForTransport || this.#ended.size === 0) return
    this.#isWorking = true
    this.#working = this.#drain()
  }

  /** Never rejects. What ends meanwhile is in the next part. */
  async #drain(): Promise<void> {
    while (this.#ended.size > 0 && !this.#isWaitingForTransport) {
      const some = new Map([...this.#ended].slice(0, AT_A_TIME))
      try {
        await this.#releaseDependents(some)
      } catch (cause) {
        this.#leaveForLater(cause)
        this.#isWaitingForTransport = asTransportError(cause).retryable
        // What fails for another reason is left to the sweep: it must not keep the others waiting.
        if (this.#isWaitingForTransport) break
      }
      for (const [id, ending] of some) if (this.#ended.get(id) === ending) this.#ended.delete(id)
    }
    this.#isWorking = false
  }

  async #releaseDependents(some: ReadonlyMap<string, ParentOutcome | undefined>): Promise<void> {
    const unknown = [...some].flatMap(([id, ending]) => (ending === undefined ? [id] : []))
    const asked = await findParentOutcomes(this.#connection.jobs, unknown)
    const endings = [...some].map(([id, ending]) => [id, ending ?? asked.get(id) ?? "open"] as const)
    await release(this.#connection, new Map(endings))
  }

  #leaveForLater(cause: unknown): void {
    this.#log.debug("jobs that wait for others are looked at again later", { cause: String(cause) })
  }
}
