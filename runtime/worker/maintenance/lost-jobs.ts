/**
 * Fails jobs that were acked early and whose worker is dead, since no lease brings them back. They become dead letters,
 * with their errbacks published. Several workers may find the same job; the first one records it.
 */

import { beforeTry, MAX_TRIES } from "../../async/conflicts.ts"
import { allEntries } from "../../async/store-entry.ts"
import { HEARTBEAT_MS, listWorkers, WORKERS } from "../../cluster/directory.ts"
import type { Connection } from "../../connection/connection.ts"
import { type Ended, postMissing } from "../../jobs/outcome/follow-ups.ts"
import { lostJobFailure } from "../../jobs/outcome/lost-job.ts"
import { because } from "../../jobs/outcome/settlement.ts"
import { NO_FENCE } from "../../protocol/outside.ts"
import { type JobError, type JobRecord, step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Decision, Found } from "../../transport/job-store/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import type { Entry } from "../../transport/store.ts"
import { EARLY_LISTS, type EarlyAcks, type EarlyList } from "../run/early-acks.ts"

export interface LostJobsOptions {
  readonly connection: Connection
  /** This worker's list of jobs. */
  readonly own: EarlyAcks
  /** Whether every worker that may be running jobs is registered. */
  readonly isComplete: () => Promise<boolean>
  /** Tokens of the deliveries that this worker has. */
  readonly held: () => ReadonlySet<string>
  readonly queueFor: (task: string, meth: string | null) => string | undefined
  readonly redactFor: NonNullable<Ended["redactFor"]>
  /** Called with each job that was failed here. */
  readonly onLost: (record: JobRecord) => void
}

/** A worker counts as dead when it was not registered for this long after its entry expired, in two looks at least. */
const GRACE_MS = 3 * HEARTBEAT_MS

const ERROR: JobError = {
  name: "WorkerLost",
  message: "its worker died while it ran, after it had left its queue: it does not run again automatically",
  reason: "worker-lost",
}

export class LostJobs {
  readonly #options: LostJobsOptions
  /** Lists without a living worker, and since when, by `performance.now()`. */
  readonly #orphans = new Map<string, number>()

  constructor(options: LostJobsOptions) {
    this.#options = options
  }

  /**
   * Looks for lost jobs once. `now`: of `performance.now()`. Fails as the transport does; the rest is found by the next
   * look.
   */
  async look(now: number): Promise<void> {
    const { connection, own, isComplete } = this.#options
    await this.#endOwn()
    // After an outage a living worker need not be registered yet.
    if (!(await isComplete())) return this.#orphans.clear()
    const lists = await this.#lists()
    for (const key of this.#orphans.keys()) if (!lists.some((entry) => entry.key === key)) this.#orphans.delete(key)
    if (lists.every(({ key }) => key === own.key)) return
    const living = new Set((await listWorkers(connection.store)).map(nameOf))
    for (const entry of lists) {
      const list = EARLY_LISTS.decode(entry.value)
      if (entry.key === own.key || list === undefined) continue
      if (living.has(nameOf({ name: list.worker, startedAt: list.startedAt }))) {
        this.#orphans.delete(entry.key)
        continue
      }
      const since = this.#orphans.get(entry.key)
      if (since === undefined) this.#orphans.set(entry.key, now)
      else if (now - since >= GRACE_MS && !(await this.#isAlive(list))) await this.#endJobsOf(entry, list)
    }
  }

  async #lists(): Promise<ReadonlyArray<Entry>> {
    const lists: Array<Entry> = []
    for await (const entry of allEntries(this.#options.connection.store, EARLY_LISTS.prefix)) lists.push(entry)
    return lists
  }

  /** The list of all workers is bounded, so the worker is looked up by name before its jobs are failed. */
  async #isAlive({ worker, startedAt }: EarlyList): Promise<boolean> {
    const found = await WORKERS.get(this.#options.connection.store, worker)
    return found !== undefined && (found.value === undefined || found.value.startedAt === startedAt)
  }

  /** Fails jobs whose outcome this worker could not store. */
  async #endOwn(): Promise<void> {
    const { own, held } = this.#options
    if (own.jobs.size === 0) return
    // Both are read at the same time, since a job that is acked early meanwhile is held.
    const tokens = held()
    for (const [token, [id, fence]] of [...own.jobs]) {
      if (tokens.has(token)) continue
      await this.#end(id, fence)
      own.done(token)
    }
  }

  async #endJobsOf({ key, revision }: Entry, { jobs }: EarlyList): Promise<void> {
    for (const [id, fence] of jobs) await this.#end(id, fence)
    // The list is removed last: if this worker dies before, another one continues. At a conflict another worker was
    // quicker, or the list's worker is alive.
    await this.#options.connection.store.write([{ key, value: null, expect: revision }])
    this.#orphans.delete(key)
  }

  async #end(id: string, fence: string): Promise<void> {
    const { connection, onLost } = this.#options
    for (let tried = 0; tried < MAX_TRIES; tried++) {
      await beforeTry(tried)
      const found = await connection.jobs.find(id)
      if (found === undefined) return
      const { record, revision } = found
      if (record.state !== "started" || record.acked !== true || record.fence !== fence) {
        // Follow-ups are published again only for an outcome of this delivery, or of a process that ended the job as
        // lost.
        if (record.fence === fence || record.fence === NO_FENCE) await this.#publishAgain(found)
        return
      }
      const change = this.#failed(record, Date.now())
      const [changed] = await connection.jobs.decide([{ id, expect: revision, ...change }])
      if (changed?.status === "failed") throw changed.error
      if (changed?.status !== "decided") continue
      onLost(change.record)
      return
    }
    // The list of its job stays, so that the next round tries again.
    throw new TransportError("unavailable", `job ${id} keeps changing`)
  }

  #failed(record: JobRecord, now: number): Pick<Decision, "record" | "post"> {
    const { connection, queueFor, redactFor } = this.#options
    const queue: Ended["queueFor"] = (task, meth) => queueFor(task, meth) ?? record.queue
    const dead = ERROR.reason
    const keepMs = connection.keepFailed(record.task, record.meth)
    const outside = { token: "", fence: NO_FENCE, now, keepMs, dead, queueFor: queue, redactFor }
    const settlement = lostJobFailure(record, ERROR, outside)
    if (settlement?.record !== undefined) return { record: settlement.record, post: settlement.followUps ?? [] }
    const { acked: _acked, claims: _claims, ...kept } = record
    const ended = step(kept, { at: now, state: "failed", reason: dead })
    return { record: { ...ended, fence: NO_FENCE, endedAt: now, ...because(ERROR), dead, keepMs } }
  }

  /**
   * The outcome is stored, but its worker may have died before it published the follow-ups, and no delivery would
   * repeat that.
   */
  async #publishAgain({ record, revision }: Found): Promise<void> {
    const { connection } = this.#options
    const { id, followUps = [], message, state } = record
    for (const posting of followUps) {
      if (posting.id !== id) await postMissing(connection, [posting])
      // The same change is written once more. It conflicts if the job has continued since. The record of a waiting job
      // contains its message.
      else if (!isTerminal(state) && message === undefined)
        await connection.jobs.decide([{ id, expect: revision, record, post: [posting] }])
    }
  }
}

const nameOf = ({ name, startedAt }: { readonly name: string; readonly startedAt: string }): string =>
  `${startedAt} ${name}`
