/**
 * A client that runs each submitted task at once, in its own process. The task is in no queue of the transport: it runs
 * over a transport in memory, and its record is stored when it has ended.
 */

import * as Schema from "effect/Schema"
import { type ActorDefinition, checkActors, describeActor } from "../actor/actor.ts"
import { Client, clientParts } from "../client/client.ts"
import { CLIENT_FIELDS, type ClientSettings } from "../client/settings.ts"
import { nextRunOf, submitNextRuns } from "../client/submitting/deleted-job.ts"
import { resultOfEarlier } from "../client/submitting/publisher.ts"
import type { Prepared } from "../client/submitting/submitter.ts"
import { type OptionsFor, TABLE } from "../config/table.ts"
import { asTransportError, CallboardError } from "../errors.ts"
import { generateId } from "../id.ts"
import { isDeferred } from "../jobs/dependencies/defer.ts"
import { publishFailed, type SubmitResult } from "../jobs/receipt.ts"
import { isSameTask } from "../jobs/same-task.ts"
import { outcomesOf } from "../jobs/tracking/history.ts"
import { optionsChecker } from "../options/check.ts"
import { compact } from "../protocol/compact.ts"
import type { JobPosting } from "../protocol/message.ts"
import { afterTombstone, NO_FENCE } from "../protocol/outside.ts"
import type { JobRecord } from "../protocol/record.ts"
import { isTerminal } from "../protocol/state.ts"
import type { Found } from "../transport/job-store/transport.ts"
import { TransportError } from "../transport/mod.ts"
import { serve } from "./serve.ts"
import type { Service } from "./service.ts"

export interface SyncSettings extends ClientSettings, Pick<OptionsFor<"serve">, "timeLimit" | "retry" | "resultTtl"> {
  /** The actors that run the tasks. A task of another actor fails as `unknown-actor`. */
  readonly actors: ReadonlyArray<ActorDefinition>
}

const fields = {
  ...CLIENT_FIELDS,
  // These are checked by themselves, also where there are none.
  actors: Schema.optionalKey(Schema.Unknown),
  timeLimit: Schema.optionalKey(TABLE.timeLimit.code),
  retry: Schema.optionalKey(TABLE.retry.code),
  resultTtl: Schema.optionalKey(TABLE.resultTtl.code),
}
const checkSettings = optionsChecker(fields, "connectSync()")

/** Queue of the transport in memory. The task's own queue is only in its record. */
const LOCAL = "sync"

/**
 * Connects to a transport as `connect` does, with a client whose `submit` resolves when the job has ended, whatever its
 * state, which is `job.receipt.state`. Tasks that its handlers submit, and its callbacks and chains, run in this
 * process as well. A task with `delay`, `eta`, `after` or `chord` is submitted as by any other client, and waits for a
 * worker. Nothing is stored about a job before it has ended: one whose process dies is lost. Needs Bun, Deno, or Node 24 or newer.
 *
 * @example
 * ```ts
 * await using client = await connectSync("sqlite:.callboard/board.db", { actors: [orders] })
 * const job = await client.submit("orders.total", { input: { items: ["tea"] } })
 * console.log(job.receipt.state)
 * ```
 */
export const connectSync = async (target: string | object, settings: SyncSettings): Promise<Client> => {
  checkSettings(settings)
  const { actors, timeLimit, retry, resultTtl, ...clientSettings } = settings
  checkActors(actors)
  const { connection, options } = await clientParts(target, clientSettings)
  try {
    const local = await serve({
      transport: `memory://${generateId()}`,
      actors,
      queues: [...new Set([LOCAL, "default", ...actors.flatMap(queuesOf)])],
      unknownGrace: 0,
      signals: false,
      logLevel: "warn",
      ...compact({ timeLimit, retry, resultTtl, failureTtl: settings.failureTtl, taskNames: settings.taskNames }),
    })
    const client = new SyncClient(connection, { ...options, actors: actors.map(describeActor) }, local)
    await client.begin()
    return client
  } catch (cause) {
    await connection.transport.close()
    throw cause
  }
}

const queuesOf = (actor: ActorDefinition): ReadonlyArray<string> =>
  [actor.queue, ...[...actor.methods.values()].map((method) => method.queue)].flatMap((queue) => queue ?? [])

/** A job that was submitted here and has not ended. */
interface Running {
  readonly run: number
  readonly ended: (record: JobRecord) => void
  readonly closed: (cause: Error) => void
}

/** No outcomes, where a job is not kept any more. */
const noneOfGone = (cause: unknown): ReadonlyArray<never> => {
  if (cause instanceof CallboardError && cause.code === "gone") return []
  throw cause
}

class SyncClient extends Client {
  readonly #local: Service
  readonly #stop = new AbortController()
  /** By id. */
  readonly #running = new Map<string, Running>()
  /**
   * The last submission of each id that has not ended: the next one of that id waits for it, and then finds its record.
   */
  readonly #lines = new Map<string, Promise<unknown>>()
  /** Other jobs that have ended here, while they are being stored. */
  readonly #storing = new Set<Promise<unknown>>()

  constructor(connection: Client["connection"], options: ConstructorParameters<typeof Client>[1], local: Service) {
    super(connection, options)
    this.#local = local
  }

  /** Follows the jobs that end here. Those that handlers have submitted are stored as well. */
  async begin(): Promise<void> {
    const { jobs } = this.#local.client.connection
    const ended = (record: JobRecord) => {
      if (!isTerminal(record.state)) return
      const running = this.#running.get(record.id)
      if (running !== undefined) {
        if (record.run >= running.run) running.ended(record)
        return
      }
      const storing = this.#store(record, record.queue, undefined)
        .catch(() => undefined)
        .finally(() => this.#storing.delete(storing))
      this.#storing.add(storing)
    }
    await jobs.watch({}, ended, this.#stop.signal)
  }

  override async post(prepared: Prepared): Promise<ReadonlyArray<SubmitResult>> {
    // These are stored together, and wait for a worker like those that are due later.
    if (prepared.atomic || prepared.chords !== undefined) return super.post(prepared)
    const results: Array<SubmitResult> = []
    for (const posting of prepared.postings) {
      const waits = isDeferred(posting.message) || (posting.due !== undefined && posting.due > prepared.now)
      const posted = waits
        ? await super.post({ ...prepared, postings: [posting] })
        : [await this.#run(posting, prepared)]
      results.push(...posted)
    }
    await Promise.all(this.#storing)
    return results
  }

  /** Submissions of the same id run one after the other. */
  async #run(posting: JobPosting, ids: Prepared): Promise<SubmitResult> {
    const before = this.#lines.get(posting.id)
    const result = before === undefined ? this.#runNow(posting, ids) : before.then(() => this.#runNow(posting, ids))
    const over = result.catch(() => undefined)
    this.#lines.set(posting.id, over)
    await over
    if (this.#lines.get(posting.id) === over) this.#lines.delete(posting.id)
    return result
  }

  async #runNow(posting: JobPosting, ids: Prepared): Promise<SubmitResult> {
    const { id, queue } = posting
    const earlier = ids.known.has(id) ? await resultOfEarlier(this.connection, posting, ids, "none") : undefined
    if (earlier !== undefined && !("record" in earlier)) return earlier
    const { connection } = this.#local.client
    const next = earlier && nextRunOf(posting, earlier)
    const task = { ...(next?.posting ?? posting), queue: LOCAL }
    const end = Promise.withResolvers<JobRecord>()
    this.#running.set(id, { run: task.run, ended: end.resolve, closed: end.reject })
    try {
      // A job of this id may have run here before it was deleted.
      const before = next && (await connection.jobs.find(id))
      const [answer] =
        next === undefined || before === undefined
          ? await connection.jobs.publish([task])
          : await submitNextRuns(connection, [{ ...next, posting: task, over: before }], ids.now)
      if (answer?.status === "failed") return publishFailed(id, answer.error, "none")
      if (answer?.status === "duplicate") {
        // The job has run here, and could not be stored then: it does not run again.
        const ran = (await connection.jobs.find(id))?.record
        if (ran === undefined || !isTerminal(ran.state) || !isSameTask(ran, task))
          return new CallboardError("job-exists", `another job has the id ${id}`, { id, field: "id" })
        end.resolve(ran)
      }
      const record = await end.promise
      const stored = await this.#store(record, queue, earlier)
      if (stored === "conflict") {
        const raced = await resultOfEarlier(this.connection, posting, ids, "unknown")
        return raced === undefined || "record" in raced ? publishFailed(id, undefined) : raced
      }
      return { id, state: record.state, durability: this.connection.transport.capabilities.durability }
    } catch (cause) {
      return cause instanceof CallboardError ? cause : publishFailed(id, asTransportError(cause))
    } finally {
      this.#running.delete(id)
    }
  }

  /** Stores the record of a job that has ended here. Fails as the transport does. */
  async #store(ended: JobRecord, queue: string, over: Found | undefined): Promise<"stored" | "conflict"> {
    const { connection } = this.#local.client
    const { followUps: _out, earlier: _earlier, ...record } = ended
    // A job that is not kept after its end is gone here by now, and so are its earlier runs.
    const outcomes = record.tombstone ? [] : await outcomesOf(connection, record.id).catch(noneOfGone)
    const earlier = outcomes.filter(({ run }) => run < record.run)
    const copy = { ...record, queue, fence: NO_FENCE, ...(earlier.length === 0 ? {} : { earlier }) }
    const [stored] = await this.connection.jobs.decide([
      over === undefined
        ? { id: copy.id, expect: "", record: copy }
        : { id: copy.id, expect: over.revision, record: afterTombstone(copy, over.record) },
    ])
    if (stored?.status === "failed") throw stored.error
    return stored?.status === "decided" ? "stored" : "conflict"
  }

  override async close(): Promise<void> {
    await this.#local.stop()
    const cause = new TransportError("closed", "the client was closed while the job was running")
    for (const { closed } of this.#running.values()) closed(cause)
    await Promise.all(this.#storing)
    this.#stop.abort()
    await super.close()
  }
}
