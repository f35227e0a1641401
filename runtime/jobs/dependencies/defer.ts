/**
 * Submits jobs that wait for other jobs (their parents): first the edges are written, then the record that holds the whole
 * task, and only then the parents are looked at. So a process that ends a parent finds the edge, or has ended the parent
 * before that look. A submitter that dies in between has accepted nothing, or leaves a job that the sweep releases; the edges
 * come first because the sweep goes by them.
 */
import type { Connection } from "../../connection/connection.ts"
import { asTransportError, type CallboardError } from "../../errors.ts"
import { deferred } from "../../protocol/dependencies.ts"
import type { AddressedTask } from "../../protocol/message.ts"
import { afterTombstone } from "../../protocol/outside.ts"
import type { Found } from "../../transport/lift/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import { checkAll, type DeferredTask, invalidAfter } from "./checking.ts"
import { type Edge, writeEdges } from "./edges.ts"
import { byChild, findParentOutcomes } from "./parent-outcomes.ts"
import { moveOn } from "./release.ts"

/** `conflict`: something is stored under its id already. */
export type Deferred = "deferred" | "conflict" | CallboardError | TransportError

/**
 * One result per posting, in order. A task that waits for another task of the list comes after it. `accepted`: ids of jobs
 * that are known to exist and are not looked up; `tombstones`: of deleted jobs, whose next runs tasks are. A task that waits for an unknown job fails with `invalid-input`, field
 * `after`. Never rejects.
 */
export const defer = async (
  connection: Connection,
  postings: ReadonlyArray<AddressedTask>,
  accepted: ReadonlySet<string>,
  tombstones: ReadonlyMap<string, Found> = new Map(),
): Promise<ReadonlyArray<Deferred>> => {
  const answers = new Map<string, Deferred>()
  let error = new TransportError("internal", "the transport gave no answer", { outcome: "unknown" })
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
      connection.jobs,
      jobs.flatMap(({ parents }) => parents),
    )
    await moveOn(connection, byChild(edgesTo(jobs), endings))
  } catch {
    // The jobs are accepted. The sweep releases those whose parents have ended.
  }
}
