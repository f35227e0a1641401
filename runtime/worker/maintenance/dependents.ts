/**
 * Releases jobs that depend on jobs which end on this worker, and notes the members of chords among these. It runs beside the work: no job waits for it, and what
 * fails now is done at the next round of maintenance, by this worker or another.
 */
import type { Connection } from "../../connection/connection.ts"
import { asTransportError } from "../../errors.ts"
import { ChordSweep } from "../../jobs/dependencies/chord-sweep.ts"
import { EdgeWatch } from "../../jobs/dependencies/edge-watch.ts"
import { afterEnds } from "../../jobs/dependencies/ended.ts"
import { findParentOutcomes } from "../../jobs/dependencies/release.ts"
import { Sweep } from "../../jobs/dependencies/sweep.ts"
import type { Log } from "../../log/log.ts"
import { type MemberOutcome, memberOutcomeOf } from "../../protocol/chord.ts"
import { type ParentOutcome, parentOutcomeOf } from "../../protocol/dependencies.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"

/** Ended jobs whose dependents are released together. */
const AT_A_TIME = 100
/** Ended members of chords that are noted together. */
const MEMBERS_AT_A_TIME = 500

/** Ended jobs that are remembered; further ones are left to the sweep. */
const MAX_PENDING = 10_000

/**
 * Time that one round may spend on waiting jobs, unless a single slice takes longer; a small part of the time between
 * two rounds.
 */
const SWEEP_MS = 200

export class Dependents {
  readonly #connection: Connection
  readonly #log: Log
  readonly #edges: EdgeWatch
  readonly #sweep: Sweep
  readonly #chords: ChordSweep
  /** Ended jobs by id, with their outcome as a parent; `undefined` where that must be looked up. */
  readonly #ended = new Map<string, ParentOutcome | undefined>()
  /** Ended members of chords. */
  #members: Array<MemberOutcome> = []
  /** The first round, which handles what other workers have left behind. */
  readonly #begun: Promise<void>
  #hasBegun = false
  #isWorking = false
  /** Set after the transport failed, until the next round or until the connection is back. */
  #isWaitingForTransport = false
  #working: Promise<void> = Promise.resolve()

  constructor(options: { readonly connection: Connection; readonly log: Log; readonly signal: AbortSignal }) {
    const { connection, log, signal } = options
    this.#connection = connection
    this.#log = log
    this.#edges = new EdgeWatch({ ...options, onLate: (parent) => this.#add(parent, undefined) })
    this.#sweep = new Sweep(connection)
    this.#chords = new ChordSweep(connection)
    this.#begun = this.#begin()
    const off = connection.transport.onStatus((status) => {
      if (status === "connected") this.#resume()
    })
    signal.addEventListener("abort", off, { once: true })
  }

  /**
   * Whether this worker may queue more tasks at any moment: dependents of jobs that ended here, or those that other
   * workers left behind.
   */
  get isBusy(): boolean {
    return this.#isWorking || !this.#hasBegun
  }

  /**
   * Called with each record that was stored here, or that another worker stored before it may have died. It must be
   * cheap, since it is called for every job.
   */
  stored(record: JobRecord): void {
    if (!isTerminal(record.state)) return
    if (this.#edges.ended(record.id)) this.#add(record.id, parentOutcomeOf(record))
    if (record.member !== undefined) this.#addMember(memberOutcomeOf(record))
  }

  /**
   * One round: jobs that were left over, then as many slices of all waiting jobs as there is time for. Fails as the
   * transport does.
   */
  async look(): Promise<void> {
    const began = performance.now()
    this.#edges.renew(began)
    this.#resume()
    for (let isDone = this.#edges.isEmpty; !isDone && performance.now() - began < SWEEP_MS; )
      isDone = await this.#sweep.look(Date.now())
    const then = performance.now()
    for (let isDone = false; !isDone && performance.now() - then < SWEEP_MS; )
      isDone = await this.#chords.look(Date.now())
  }

  /** Resolves when the dependents of jobs that ended here are released, or cannot be. Never rejects. */
  async end(): Promise<void> {
    // Until all edges were read it is unknown which jobs depend on those that ended here.
    if (this.#edges.hasSeenEnds) await this.#begun
    await this.#working
  }

  /**
   * The first round runs at once, because a worker that ends when its queues are empty may not live until the first
   * regular one.
   */
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

  #addMember(outcome: MemberOutcome | undefined): void {
    if (outcome === undefined || this.#members.length >= MAX_PENDING) return
    this.#members.push(outcome)
    this.#work()
  }

  #resume(): void {
    this.#isWaitingForTransport = false
    this.#work()
  }

  #work(): void {
    if (this.#isWorking || this.#isWaitingForTransport || !this.#hasWork) return
    this.#isWorking = true
    this.#working = this.#drain()
  }

  get #hasWork(): boolean {
    return this.#ended.size > 0 || this.#members.length > 0
  }

  /** Never rejects. Jobs that end meanwhile are part of the next slice. */
  async #drain(): Promise<void> {
    while (this.#hasWork && !this.#isWaitingForTransport) {
      const some = new Map([...this.#ended].slice(0, AT_A_TIME))
      const members = this.#members.slice(0, MEMBERS_AT_A_TIME)
      try {
        await this.#releaseDependents(some, members)
      } catch (cause) {
        this.#leaveForLater(cause)
        this.#isWaitingForTransport = asTransportError(cause).retryable
        // A slice that fails for another reason is left to the sweep, so that it does not hold up the others.
        if (this.#isWaitingForTransport) break
      }
      this.#members = this.#members.slice(members.length)
      for (const [id, ending] of some) if (this.#ended.get(id) === ending) this.#ended.delete(id)
    }
    this.#isWorking = false
  }

  async #releaseDependents(
    some: ReadonlyMap<string, ParentOutcome | undefined>,
    members: ReadonlyArray<MemberOutcome>,
  ): Promise<void> {
    const unknown = [...some].flatMap(([id, ending]) => (ending === undefined ? [id] : []))
    const asked = await findParentOutcomes(this.#connection, unknown)
    const endings = [...some].map(([id, ending]) => [id, ending ?? asked.get(id) ?? "open"] as const)
    await afterEnds(this.#connection, new Map(endings), members)
  }

  #leaveForLater(cause: unknown): void {
    this.#log.debug("dependent jobs could not be released now; trying again", { cause: String(cause) })
  }
}
