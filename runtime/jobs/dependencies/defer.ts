/**
 * Checks and submits jobs that wait for other jobs (their parents). The parents must exist, and the transport must take the
 * task later. Then the edges are written, then the record that holds the whole task, and only then the parents are looked
 * at. So a process that ends a parent finds the edge, or has ended the parent before that look. A submitter that dies in
 * between has accepted nothing, or leaves a job that the sweep releases, which finds it by its edges.
 */

import * as Result from "effect/Result"
import type { Connection } from "../../connection/connection.ts"
import { asTransportError, CallboardError } from "../../errors.ts"
import { compact } from "../../protocol/compact.ts"
import { deferred } from "../../protocol/dependencies.ts"
import { encodeEnvelope } from "../../protocol/envelope.ts"
import { isPlainObject } from "../../protocol/guards.ts"
import { OWN_HEADER, parseTask, type Task } from "../../protocol/headers.ts"
import type { JobPosting, Message } from "../../protocol/message.ts"
import { afterTombstone } from "../../protocol/outside.ts"
import type { Found } from "../../transport/job-store/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import { findAll } from "../tracking/finding.ts"
import { findPromised } from "../tracking/promises.ts"
import { type Edge, writeEdges } from "./edges.ts"
import { afterEnds, memberOutcomesOf } from "./ended.ts"
import { byChild, findParentOutcomes, moveOn } from "./release.ts"

/** `conflict`: something is stored under its id already. */
export type Deferred = "deferred" | "conflict" | CallboardError | TransportError

/**
 * One result per posting, in order. A task that waits for another task of the list comes after it. `accepted`: ids of jobs
 * that are known to exist and are not looked up; `tombstones`: of deleted jobs, whose next runs tasks are. A task that waits for an unknown job fails with `invalid-input`, field
 * `after`. Never rejects.
 */
export const defer = async (
  connection: Connection,
  postings: ReadonlyArray<JobPosting>,
  accepted: ReadonlySet<string>,
  tombstones: ReadonlyMap<string, Found> = new Map(),
): Promise<ReadonlyArray<Deferred>> => {
  const answers = new Map<string, Deferred>()
  let error = new TransportError("internal", "the transport did not answer", { outcome: "unknown" })
  try {
    const { acceptable, refused } = await checkAll(connection, postings, accepted)
    for (const [id, problem] of refused) answers.set(id, problem)
    const now = Date.now()
    await writeEdges(connection.store, edgesTo(acceptable), now)
    for (const rank of ranksOf(acceptable)) await store(connection, rank, tombstones, now, answers)
    await releaseEnded(
      connection,
      acceptable.filter(({ posting }) => answers.get(posting.id) === "deferred"),
    )
  } catch (cause) {
    error = asTransportError(cause)
  }
  return postings.map(({ id }) => answers.get(id) ?? error)
}

const edgesTo = (jobs: ReadonlyArray<DeferredTask>): ReadonlyArray<Edge> =>
  jobs.flatMap(({ posting, parents }) => parents.map((parent) => ({ parent, child: posting.id })))

/** Groups tasks by rank: first those that wait for no task of the list, then those that wait for these, and so on. */
const ranksOf = (jobs: ReadonlyArray<DeferredTask>): ReadonlyArray<ReadonlyArray<DeferredTask>> => {
  const ranks: Array<Array<DeferredTask>> = []
  const rankOf = new Map<string, number>()
  for (const job of jobs) {
    const rank = job.parents.reduce((highest, parent) => Math.max(highest, (rankOf.get(parent) ?? -1) + 1), 0)
    rankOf.set(job.posting.id, rank)
    const others = ranks[rank]
    if (others === undefined) ranks[rank] = [job]
    else others.push(job)
  }
  return ranks
}

/**
 * Stores the records of one rank. A job whose parent was submitted with it and could not be stored is not stored
 * either.
 */
const store = async (
  connection: Connection,
  jobs: ReadonlyArray<DeferredTask>,
  tombstones: ReadonlyMap<string, Found>,
  now: number,
  answers: Map<string, Deferred>,
): Promise<void> => {
  const fit: Array<DeferredTask> = []
  for (const job of jobs) {
    const parent = job.parents.find((id) => answers.get(id) instanceof Error)
    if (parent === undefined) fit.push(job)
    else answers.set(job.posting.id, withoutParent(parent, answers.get(parent)))
  }
  if (fit.length === 0) return
  const changed = await connection.jobs.decide(
    fit.map(({ posting, task }) => {
      const record = deferred(posting, task, now)
      const over = tombstones.get(posting.id)
      return over === undefined
        ? { id: posting.id, expect: "", record }
        : { id: posting.id, expect: over.revision, record: afterTombstone(record, over.record) }
    }),
  )
  for (const [at, { posting }] of fit.entries()) {
    const answer = changed[at]
    if (answer?.status === "failed") answers.set(posting.id, answer.error)
    else if (answer !== undefined) answers.set(posting.id, answer.status === "decided" ? "deferred" : "conflict")
  }
}

const withoutParent = (parent: string, why: Deferred | undefined): Deferred => {
  const message = `job ${parent} was not accepted`
  const mayPass = why instanceof TransportError && why.retryable
  return mayPass ? new TransportError("unavailable", message) : invalidAfter(message)
}

/** Releases jobs whose parents have ended already. */
const releaseEnded = async (connection: Connection, jobs: ReadonlyArray<DeferredTask>): Promise<void> => {
  try {
    const endings = await findParentOutcomes(
      connection,
      jobs.flatMap(({ parents }) => parents),
    )
    const failed = await moveOn(connection, byChild(edgesTo(jobs), endings))
    await afterEnds(connection, new Map(), memberOutcomesOf(failed))
  } catch {
    // The jobs are accepted. The sweep releases those whose parents have ended.
  }
}

/** A task that waits for other jobs. */
interface DeferredTask {
  readonly posting: JobPosting
  readonly task: Task
  /** Ids of the jobs that it waits for. */
  readonly parents: ReadonlyArray<string>
}

/** Whether a submitted task waits for other jobs, or for the members of a chord. Called for each submission, so it parses as little as possible. */
export const isDeferred = ({ headers }: Message): boolean => {
  const own = headers[OWN_HEADER]
  return isPlainObject(own) && ("after" in own || "chord" in own)
}

/** The first task that waits for a later task of the same list: tasks are accepted in order, so it would be refused. */
export const firstBeforeItsParent = (
  postings: ReadonlyArray<JobPosting>,
): { readonly index: number; readonly error: CallboardError } | undefined => {
  if (!postings.some(({ message }) => isDeferred(message))) return undefined
  const positions = new Map(postings.map(({ id }, index) => [id, index]))
  for (const [index, posting] of postings.entries()) {
    const later = isDeferred(posting.message)
      ? deferredTaskOf(posting).parents.find((id) => (positions.get(id) ?? -1) > index)
      : undefined
    if (later !== undefined)
      return {
        index,
        error: invalidAfter(`job ${later} comes later in the list; put it before the tasks that wait for it`),
      }
  }
  return undefined
}

/** The acceptable tasks, and by id why each other one is refused. */
interface CheckedTasks {
  readonly acceptable: ReadonlyArray<DeferredTask>
  readonly refused: ReadonlyMap<string, CallboardError>
}

/**
 * Checks tasks that wait for other jobs. A task that waits for another task of the list comes after it. `accepted`: ids of
 * jobs that are known to exist and are not looked up. Fails as the transport does.
 */
const checkAll = async (
  connection: Connection,
  postings: ReadonlyArray<JobPosting>,
  accepted: ReadonlySet<string>,
): Promise<CheckedTasks> => {
  const jobs = postings.map(deferredTaskOf)
  const submittedTogether = new Set(postings.map(({ id }) => id))
  const asked = jobs.flatMap(({ parents }) => parents.filter((id) => !accepted.has(id) && !submittedTogether.has(id)))
  const found = await findAll(connection.jobs, asked, () => true)
  const promised = await findPromised(
    connection,
    asked.filter((id) => !found.has(id)),
  )
  const known = new Set([...accepted, ...found.keys(), ...promised.keys()])
  const acceptable: Array<DeferredTask> = []
  const refused = new Map<string, CallboardError>()
  for (const job of jobs) {
    const { id } = job.posting
    const problem = problemOf(connection, job, known)
    if (problem === undefined) {
      known.add(id)
      acceptable.push(job)
    } else refused.set(id, problem)
  }
  return { acceptable, refused }
}

/**
 * Why tasks of a list would be refused if they were submitted now, by their ids: a job that they wait for is not known. The
 * tasks that wait for none count as accepted. Fails as the transport does.
 */
export const findRefused = async (
  connection: Connection,
  postings: ReadonlyArray<JobPosting>,
): Promise<ReadonlyMap<string, CallboardError>> => {
  const [waiting = [], others = []] = [true, false].map((waits) =>
    postings.filter(({ message }) => isDeferred(message) === waits),
  )
  return (await checkAll(connection, waiting, new Set(others.map(({ id }) => id)))).refused
}

const deferredTaskOf = (posting: JobPosting): DeferredTask => {
  const task = parseTask(posting.message)
  // The planner made these headers a moment ago, so they parse.
  if (Result.isFailure(task)) throw new Error(task.failure.message)
  return { posting, task: task.success, parents: task.success.own.after?.ids ?? [] }
}

const problemOf = (
  { transport }: Connection,
  { posting, parents }: DeferredTask,
  known: ReadonlySet<string>,
): CallboardError | undefined => {
  const { id, message } = posting
  const unknown = parents.find((parent) => !known.has(parent))
  if (unknown !== undefined) {
    return invalidAfter(`there is no job ${unknown}; if it ended long ago and is no longer kept, leave it out`, id)
  }
  // The task is published only when the job is released. A task that the transport can never take must be refused now.
  const frame = encodeEnvelope(message)
  if (Result.isFailure(frame)) return new CallboardError("invalid-input", frame.failure.message, { id })
  const { maxTask } = transport.capabilities
  if (frame.success.length <= maxTask) return undefined
  const why = `the task has ${frame.success.length} bytes; transport ${transport.name} takes at most ${maxTask}`
  return new CallboardError("too-large", why, { id })
}

/** An `invalid-input` about the field `after`. `id`: the refused job. */
const invalidAfter = (why: string, id?: string): CallboardError =>
  new CallboardError("invalid-input", `after: ${why}`, { field: "after", ...compact({ id }) })
