/** Empties queues, and deletes them: each job that waits is cancelled, so that no caller waits for its result for ever. */
import * as Schema from "effect/Schema"
import { pausedQueues, pauseQueue, resumeQueue } from "../../cluster/pausing.ts"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { optionsChecker } from "../../options/check.ts"
import type { DurationInput } from "../../options/duration.ts"
import { compact } from "../../protocol/compact.ts"
import { endedOutside } from "../../protocol/outside.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { QueueDepth } from "../../transport/mod.ts"
import { sleep } from "../../transport/timers.ts"
import { afterEnds, memberOutcomesOf } from "../dependencies/ended.ts"
import type { PartlyDone } from "../responses.ts"
import { checkedQueue } from "../tracking/waiting.ts"
import { announceCancellation, cancelCalled, toBeReverted } from "./cancel.ts"
import { decide } from "./decide.ts"
import { deleteJob } from "./delete.ts"
import { BOUNDS, type Bounds, boundOf } from "./partial.ts"

export interface PurgeOptions {
  /** Deletes the records of the jobs as well. Defaults to false. */
  readonly forget?: boolean | undefined
  readonly budget?: undefined | undefined
  readonly signal?: undefined | undefined
}

/** A purge with a bound: it answers how far it came. */
export type BoundedPurgeOptions = Options & ({ readonly budget: DurationInput } | { readonly signal: AbortSignal })

/** What a purge did. */
export interface Purged {
  /** How many jobs it cancelled. */
  readonly purged: number
  /** It ended before the queue was empty, by its budget or its signal. Absent: nothing is left. */
  readonly partial?: PartlyDone
}

type Options = Omit<PurgeOptions, keyof Bounds> & Bounds

const OPTIONS = { forget: Schema.optionalKey(Schema.Boolean), ...BOUNDS } satisfies Record<keyof Options, Schema.Top>
const checkPurge = optionsChecker(OPTIONS, "purge()")
const checkDelete = optionsChecker(OPTIONS, "deleteQueue()")

const PAGE = 500
/** Decisions that run at the same time. */
const AT_A_TIME = 32
/**
 * How long a worker may take to give back what it has fetched of a queue that was paused, and to report what it has started,
 * in milliseconds.
 */
const GIVE_BACK_MS = 1_000

/**
 * Cancels the jobs that wait in a queue, until none waits or the bounds end it; jobs that are submitted during the call may
 * be among them. Running jobs go on. Fails with `invalid-input`, and with `unsupported` where the transport cannot list the
 * tasks that wait.
 */
export const purgeQueue = async (connection: Connection, queue: string, options: Options = {}): Promise<Purged> => {
  checkPurge(options)
  checkedQueue(queue)
  return new Purge(connection, queue, options).run()
}

/**
 * Pauses a queue, purges it, and, once it is empty, ends the pause and takes the queue off the list of queues, to which its
 * next use adds it again. Nothing that waited in it runs: where the bounds end the call, or the process dies, the queue stays
 * paused, and another call goes on. While a worker still runs jobs of the queue it is listed with these. Fails with
 * `not-found`, and like {@link purgeQueue}.
 */
export const deleteQueue = async (connection: Connection, queue: string, options: Options = {}): Promise<Purged> => {
  const { jobs, store } = connection
  checkDelete(options)
  checkedQueue(queue)
  const [names, depths = []] = await Promise.all([jobs.queueNames(), jobs.queues?.()])
  const isThere = depths.some((each) => each.queue === queue && each.ready + each.scheduled + each.held > 0)
  if (!isThere && !names.includes(queue)) throw new CallboardError("not-found", `there is no queue ${queue}`)
  const purge = new Purge(connection, queue, options)
  if (!(await pausedQueues(store)).includes(queue)) await pauseQueue(store, queue)
  const purged = await purge.runWithHeld()
  if (purged.partial !== undefined) return purged
  await resumeQueue(store, queue)
  await jobs.forgetQueue(queue)
  return purged
}

/** One purge of a queue. */
class Purge {
  readonly #connection: Connection
  readonly #queue: string
  readonly #forget: boolean
  /** Ids of the jobs that wait in the queue, so many at most. */
  readonly #waiting: (max: number) => Promise<ReadonlyArray<string>>
  readonly #isOver: (done: number) => boolean
  /** Jobs that stay in the queue: they run, revert their steps, or have ended by now. */
  readonly #kept = new Set<string>()
  /** Jobs of which nothing could be decided, for now. */
  readonly #refused = new Set<string>()
  #purged = 0

  /** Fails with `unsupported`, before anything is done. */
  constructor(connection: Connection, queue: string, { forget = false, ...bounds }: Options) {
    const { waiting } = connection.jobs
    if (waiting === undefined)
      throw new CallboardError(
        "unsupported",
        `transport ${connection.transport.name} cannot list the jobs that wait in a queue`,
      )
    this.#connection = connection
    this.#queue = queue
    this.#forget = forget
    this.#waiting = (max) => waiting.call(connection.jobs, { queue }, max)
    this.#isOver = boundOf(bounds)
  }

  /** Cancels what waits in the queue. */
  async run(): Promise<Purged> {
    for (;;) {
      const max = PAGE + this.#kept.size + this.#refused.size
      const listed = await this.#waiting(max)
      const ids = listed.filter((id) => !this.#kept.has(id) && !this.#refused.has(id))
      if (ids.length === 0) return this.#answer(this.#refused.size)
      const left = await this.#purge(ids)
      // What is listed is all that waits, unless the list is full.
      if (left > 0) return this.#answer(listed.length < max ? left : Math.max(left, await this.#depth()))
    }
  }

  /** Cancels also what workers have taken and not started. */
  async runWithHeld(): Promise<Purged> {
    const first = await this.run()
    if (first.partial !== undefined || (await this.#held()) === 0) return first
    // Most of it comes back to the queue; what a worker has that is out of reach does not.
    await sleep(GIVE_BACK_MS)
    const second = await this.run()
    if (second.partial !== undefined || (await this.#held()) === 0) return second
    const query = { queue: this.#queue, states: ["queued", "scheduled"], limit: PAGE } as const
    for (let after: string | undefined, more = true; more; more = after !== undefined) {
      const page = await this.#connection.jobs.list({ ...query, ...compact({ after }) })
      const ids = page.records.flatMap(({ id }) => (this.#kept.has(id) || this.#refused.has(id) ? [] : [id]))
      const left = await this.#purge(ids)
      if (left > 0) return this.#answer(left)
      after = page.next
    }
    return this.run()
  }

  /** Cancels these jobs. Resolves with how many are left when the call is to end. */
  async #purge(ids: ReadonlyArray<string>): Promise<number> {
    for (let from = 0; from < ids.length; from += AT_A_TIME) {
      if (this.#isOver(this.#purged)) return ids.length - from
      const ended = await Promise.all(ids.slice(from, from + AT_A_TIME).map((id) => this.#purgeOne(id)))
      // The jobs are purged; that a chord has lost members is found by the sweep as well.
      const members = memberOutcomesOf(ended.flatMap((record) => record ?? []))
      await afterEnds(this.#connection, new Map(), members).catch(() => undefined)
    }
    return 0
  }

  async #purgeOne(id: string): Promise<JobRecord | undefined> {
    try {
      const purged = await purgeJob(this.#connection, id)
      this.#purged++
      // A job whose steps are to be reverted ends afterwards, by what its record says.
      if (this.#forget && isTerminal(purged.state)) await deleteJob(this.#connection, id)
      return purged
    } catch (thrown) {
      if (!(thrown instanceof CallboardError)) throw thrown
      const stays = thrown === NOT_WAITING || thrown.code === "not-found" || thrown.code === "gone"
      ;(stays ? this.#kept : this.#refused).add(id)
      return undefined
    }
  }

  #answer(left: number): Purged {
    const purged = this.#purged
    return left === 0 ? { purged } : { purged, partial: { done: purged, left } }
  }

  async #counts(): Promise<QueueDepth | undefined> {
    return (await this.#connection.jobs.queues?.())?.find(({ queue }) => queue === this.#queue)
  }

  async #depth(): Promise<number> {
    const { ready = 0, scheduled = 0 } = (await this.#counts()) ?? {}
    return ready + scheduled - this.#kept.size
  }

  async #held(): Promise<number> {
    return (await this.#counts())?.held ?? 0
  }
}

/**
 * Cancels a waiting job, with the reason `purged`. One with steps that can be reverted ends when they are reverted, as every
 * cancelled job does. Resolves with its record. Throws {@link NOT_WAITING} for a job that runs, has ended or reverts its steps,
 * and leaves it as it is.
 */
const purgeJob = async (connection: Connection, id: string): Promise<JobRecord> => {
  let called: ReadonlyArray<string> = []
  const purged = await decide(connection, id, ({ record }) => {
    called = record.waits?.jobs ?? []
    if (record.tombstone || isTerminal(record.state) || record.state === "started" || record.reverting)
      throw NOT_WAITING
    const now = Date.now()
    if (record.reverts) return toBeReverted(record, now)
    const cancelled = step(record, { at: now, state: "cancelled", reason: "purged" })
    return { record: endedOutside(cancelled, now, connection.keepFailed), withdraw: true }
  })
  // A worker may have just started it, which no record shows yet.
  await announceCancellation(connection, purged, false)
  await cancelCalled(connection, called).catch(() => undefined)
  return purged
}

const NOT_WAITING = new CallboardError("already-terminal", "the job is no longer waiting")
