/** Stores submitted tasks, with one result each: a task without `after` goes to its queue, one with `after` is deferred. */

import * as Result from "effect/Result"
import { Batcher } from "../../async/batcher.ts"
import type { EventSender } from "../../cluster/events.ts"
import type { Connection } from "../../connection/connection.ts"
import { asTransportError, CallboardError } from "../../errors.ts"
import { type Deferred, defer, findRefused, isDeferred } from "../../jobs/dependencies/defer.ts"
import { publishFailed, type Receipt, type SubmitResult } from "../../jobs/receipt.ts"
import { isSameTask } from "../../jobs/same-task.ts"
import { findPromised, type Promised } from "../../jobs/tracking/promises.ts"
import { type Redaction, taskEventFields } from "../../log/redaction.ts"
import { refuseInput } from "../../options/refuse.ts"
import { parseTask } from "../../protocol/headers.ts"
import type { JobPosting } from "../../protocol/message.ts"
import type { Found } from "../../transport/job-store/transport.ts"
import type { TransportError } from "../../transport/mod.ts"
import { type NextRun, nextRunOf, submitNextRuns } from "./deleted-job.ts"

/** The transport's answer for a task that was to be published. */
type Stored = Awaited<ReturnType<Connection["jobs"]["publish"]>>[number]

/** Ids of submitted tasks. */
export interface Ids {
  /** Those that the caller named: jobs with these ids may exist already. */
  readonly known: ReadonlySet<string>
  /** Those of them that no job may have yet. */
  readonly unique: ReadonlySet<string>
  /** Ids that this very submission has promised. */
  readonly promised?: ReadonlyArray<Promised>
}

/** Tasks that go to the transport at a time. */
const CHUNK = 1_000

export class Publisher {
  readonly #connection: Connection
  readonly #events: EventSender
  readonly #methodOf: MethodOf
  readonly #gathered = new Batcher<JobPosting, Stored>((postings) => this.#send(postings))
  /** Calls of the transport that are under way. */
  #underWay = 0

  constructor(connection: Connection, events: EventSender, methodOf: MethodOf) {
    this.#connection = connection
    this.#events = events
    this.#methodOf = methodOf
  }

  /** One answer per posting, in order. `now`: when they were planned. */
  async publish(postings: ReadonlyArray<JobPosting>, ids: Ids, now: number): Promise<ReadonlyArray<SubmitResult>> {
    if (postings.length <= CHUNK) return this.#publish(postings, ids, now)
    const results: Array<SubmitResult> = []
    for (let from = 0; from < postings.length; from += CHUNK) {
      results.push(...(await this.#publish(postings.slice(from, from + CHUNK), ids, now)))
    }
    return results
  }

  /**
   * Stores all of them or none. Fails as a whole; the error names the task that stands in the way, if one does. Tasks that
   * were stored before are duplicates, so that a submission without an answer can be repeated.
   */
  async publishTogether(postings: ReadonlyArray<JobPosting>, ids: Ids, now: number): Promise<ReadonlyArray<Receipt>> {
    if (postings.length > CHUNK) refuseInput("atomic", `takes at most ${CHUNK} tasks, not ${postings.length}`)
    if (postings.some(({ message }) => isDeferred(message)))
      throw new CallboardError(
        "unsupported",
        "after: a task that waits for other jobs cannot be part of an atomic submission",
        {
          field: "after",
        },
      )
    const before = new Map<string, Receipt>()
    const look = async (asked: ReadonlyArray<JobPosting>): Promise<void> => {
      const found = await Promise.all(asked.map((each) => resultOfEarlier(this.#connection, each, ids, "none")))
      for (const [at, earlier] of found.entries()) {
        const id = asked[at]?.id ?? ""
        if (earlier instanceof CallboardError) throw earlier
        if (earlier !== undefined && "record" in earlier)
          throw new CallboardError("job-exists", `job ${id} is no longer kept: submit its next run separately`, {
            id,
          })
        if (earlier !== undefined) before.set(id, earlier)
      }
    }
    await look(postings.filter(({ id }) => ids.known.has(id)))
    let fresh: ReadonlyArray<JobPosting>
    for (;;) {
      fresh = postings.filter(({ id }) => !before.has(id))
      const raced = new Set(
        await this.#connection.jobs.publishTogether(fresh).catch((cause: unknown) => {
          throw togetherFailed(asTransportError(cause))
        }),
      )
      if (raced.size === 0) break
      // Another client has submitted these since they were looked for. What is not found has ended, and is not kept.
      const again = fresh.filter(({ id }) => raced.has(id))
      for (const posting of again) before.set(posting.id, { ...this.#accepted(posting, now), duplicate: true })
      await look(again)
    }
    if (this.#events.enabled) for (const each of fresh) await this.sent(each)
    return postings.map((posting) => before.get(posting.id) ?? this.#accepted(posting, now))
  }

  /**
   * Why tasks would be refused if they were stored now, by their ids: another job has the id, or a job that they wait for is
   * not known. Fails as the transport does.
   */
  async findRefused(postings: ReadonlyArray<JobPosting>, ids: Ids): Promise<ReadonlyMap<string, CallboardError>> {
    const refused = new Map(await findRefused(this.#connection, postings))
    const named = postings.filter(({ id }) => ids.known.has(id))
    const earlier = await Promise.all(named.map((each) => resultOfEarlier(this.#connection, each, ids, "none")))
    for (const [at, { id }] of named.entries()) {
      const error = earlier[at]
      if (error instanceof CallboardError) refused.set(id, error)
    }
    return refused
  }

  /** Sends the event `task-sent` for an accepted task, if such events are on. Never rejects. */
  async sent(posting: JobPosting): Promise<void> {
    if (this.#events.enabled) await emitTaskSent(this.#events, posting, this.#methodOf)
  }

  async #publish(postings: ReadonlyArray<JobPosting>, ids: Ids, now: number): Promise<ReadonlyArray<SubmitResult>> {
    const { known } = ids
    const fresh: Array<JobPosting> = []
    const waiting: Array<JobPosting> = []
    const again: Array<NextRun> = []
    const results = new Map<string, SubmitResult>()
    // In parallel: a thousand round trips in sequence would outlast the deadline of a request.
    const before =
      known.size === 0
        ? []
        : await Promise.all(
            postings.map((each) =>
              known.has(each.id) ? resultOfEarlier(this.#connection, each, ids, "none") : undefined,
            ),
          )
    const tombstones = new Map<string, Found>()
    let place = 0
    for (const posting of postings) {
      const earlier = before[place++]
      if (earlier !== undefined && !("record" in earlier)) results.set(posting.id, earlier)
      else if (earlier === undefined) (isDeferred(posting.message) ? waiting : fresh).push(posting)
      else {
        const next = nextRunOf(posting, earlier)
        if (!isDeferred(posting.message)) again.push(next)
        else {
          waiting.push(next.posting)
          tombstones.set(posting.id, earlier)
        }
      }
    }
    await this.#enqueue(fresh, ids, now, results)
    if (again.length > 0) await this.#runAgain(again, ids, now, results)
    if (waiting.length > 0) await this.#defer(waiting, ids, tombstones, results)
    return postings.map(({ id }) => results.get(id) ?? publishFailed(id, undefined))
  }

  async #enqueue(
    postings: ReadonlyArray<JobPosting>,
    ids: Ids,
    now: number,
    results: Map<string, SubmitResult>,
  ): Promise<void> {
    const receipts = await this.#store(postings).catch((cause: unknown) => {
      const error = asTransportError(cause)
      return postings.map(() => ({ status: "failed" as const, error }))
    })
    let place = 0
    for (const posting of postings) {
      const receipt = receipts[place++]
      if (receipt === undefined || receipt.status === "failed") {
        results.set(posting.id, publishFailed(posting.id, receipt?.error))
        continue
      }
      const isDuplicate = receipt.status === "duplicate"
      // Another submission of this id may have come in between: it must have been the same.
      const raced =
        isDuplicate && ids.known.has(posting.id)
          ? await resultOfEarlier(this.#connection, posting, ids, "unknown")
          : undefined
      const accepted = this.#accepted(posting, now)
      if (raced !== undefined && !("record" in raced)) results.set(posting.id, raced)
      else results.set(posting.id, isDuplicate ? { ...accepted, duplicate: true } : accepted)
      if (this.#events.enabled && !isDuplicate) await this.sent(posting)
    }
  }

  /**
   * Publishes tasks. While a call is under way, tasks that are submitted one by one are gathered until the end of the turn of
   * the event loop: many clients of an HTTP endpoint then share a round trip and a write to the broker.
   */
  async #store(postings: ReadonlyArray<JobPosting>): Promise<ReadonlyArray<Stored>> {
    const [only] = postings
    if (postings.length === 1 && only !== undefined && this.#underWay > 0) return [await this.#gathered.add(only)]
    return this.#send(postings)
  }

  async #send(postings: ReadonlyArray<JobPosting>): Promise<ReadonlyArray<Stored>> {
    this.#underWay++
    try {
      return await this.#connection.jobs.publish(postings)
    } finally {
      this.#underWay--
    }
  }

  #accepted({ id, due }: JobPosting, now: number): Receipt {
    const { durability } = this.#connection.transport.capabilities
    return { id, state: due !== undefined && due > now ? "scheduled" : "queued", durability }
  }

  /** Stores tasks whose ids are those of deleted jobs. */
  async #runAgain(
    runs: ReadonlyArray<NextRun>,
    ids: Ids,
    now: number,
    results: Map<string, SubmitResult>,
  ): Promise<void> {
    const answers = await submitNextRuns(this.#connection, runs, now).catch((cause: unknown) => {
      const error = asTransportError(cause)
      return runs.map(() => ({ status: "failed" as const, error }))
    })
    for (const [at, { posting }] of runs.entries()) {
      const { id } = posting
      const answer = answers[at]
      if (answer?.status === "decided") {
        results.set(id, this.#accepted(posting, now))
        await this.sent(posting)
        continue
      }
      // Another submission of this id came in between: it must have been the same.
      const raced =
        answer?.status === "conflict" ? await resultOfEarlier(this.#connection, posting, ids, "unknown") : undefined
      const error = answer?.status === "failed" ? answer.error : undefined
      results.set(id, raced === undefined || "record" in raced ? publishFailed(id, error) : raced)
    }
  }

  /** Stores the tasks with `after`, last, because their parents may be among the other tasks. */
  async #defer(
    postings: ReadonlyArray<JobPosting>,
    ids: Ids,
    tombstones: ReadonlyMap<string, Found>,
    results: Map<string, SubmitResult>,
  ): Promise<void> {
    const { durability } = this.#connection.transport.capabilities
    const accepted = [...results.values()].flatMap((result) => (result instanceof CallboardError ? [] : [result.id]))
    const deferred = await defer(this.#connection, postings, new Set(accepted), tombstones)
    for (const [at, posting] of postings.entries()) {
      const { id } = posting
      const stored: Deferred | undefined = deferred[at]
      if (stored === "deferred") {
        results.set(id, { id, state: "deferred", durability })
        await this.sent(posting)
      } else if (stored === "conflict") {
        const raced = await resultOfEarlier(this.#connection, posting, ids, "unknown")
        results.set(id, raced === undefined || "record" in raced ? publishFailed(id, undefined) : raced)
      } else results.set(id, stored instanceof CallboardError ? stored : publishFailed(id, stored))
    }
  }
}

/** The error of tasks that were to be stored as one, and were not, or not for certain. */
const togetherFailed = (cause: TransportError): CallboardError => {
  const { code, message, details } = publishFailed("", cause)
  if (code !== "transport-unavailable") return new CallboardError(code, message, { cause })
  const why = `the tasks were not confirmed (${cause.message}); it is safe to submit them again if each has an id`
  return new CallboardError(code, why, { outcome: details.outcome ?? "unknown", cause })
}

/**
 * The result of a task whose id may have been submitted before: `undefined` where there is no such job, and its tombstone
 * where it was deleted, or is not kept any more and the task is unique. Never rejects.
 * `outcome` is that of a look-up that fails: `none` as long as nothing was published.
 */
export const resultOfEarlier = async (
  connection: Connection,
  posting: JobPosting,
  { unique, promised = [] }: Ids,
  outcome: "none" | "unknown",
): Promise<SubmitResult | Found | undefined> => {
  const { id } = posting
  // A callback or link that comes later would count as a duplicate of this job, and never run.
  const isOthers = outcome === "none" && !promised.some((ids) => ids.at(-1) === id)
  let found: Awaited<ReturnType<Connection["jobs"]["find"]>>
  let toCome: Awaited<ReturnType<typeof findPromised>>
  try {
    const asked = isOthers ? findPromised(connection, [id]) : new Map()
    ;[found, toCome] = await Promise.all([connection.jobs.find(id), asked])
  } catch (cause) {
    return publishFailed(id, asTransportError(cause), outcome)
  }
  if (found === undefined) {
    if (toCome.get(id) !== "open") return undefined
    const why = `id ${id} is reserved for a callback or link of another submission`
    return new CallboardError("job-exists", why, { id, field: "id" })
  }
  const { record } = found
  if (record.deleted) return found
  // The ids of members are made of that of their body, with which they are submitted again, also when they are not kept.
  const isOver = record.tombstone && record.member === undefined
  // A unique id is taken for as long as its job is kept. Once something was published, the tombstone may be that of this very task.
  if (isOver && outcome === "none" && unique.has(posting.id)) return found
  if (isOver || !isSameTask(record, posting)) {
    const why = isOver
      ? `the job ${posting.id} has ended and is no longer kept: submit the task with \`unique\` to run it again`
      : `another job has id ${posting.id}`
    return new CallboardError("job-exists", why, { id: posting.id, field: "id" })
  }
  if (unique.has(posting.id)) {
    const why = `job ${posting.id} is ${record.state} and its id must be unique: delete it before you submit it again`
    return new CallboardError("job-exists", why, { id: posting.id, field: "unique" })
  }
  const { durability } = connection.transport.capabilities
  return { id: posting.id, state: record.state, durability, duplicate: true }
}

/** Looks up how a method's arguments may be shown; `undefined` where the method is unknown. */
type MethodOf = (task: string, meth: string | null) => Promise<Redaction | undefined>

/** Sends the event `task-sent` for an accepted task. Never fails, since a lost event must not fail the submission. */
const emitTaskSent = async (events: EventSender, { message, queue }: JobPosting, methodOf: MethodOf): Promise<void> => {
  const parsed = parseTask(message)
  if (Result.isFailure(parsed)) return
  const task = parsed.success
  const method = await methodOf(task.task, task.meth).catch(() => undefined)
  // As in Celery: sent through the default exchange, where the routing key is the name of the queue.
  events.emit("task-sent", { ...taskEventFields(task, message, method), queue, exchange: "", routing_key: queue })
}
