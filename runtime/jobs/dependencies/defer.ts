/**
 * Submits jobs that wait for others: first the edges, then the record that holds the whole task, and only then a look at
 * those that they wait for. So whoever ends one of them either finds the edge, or has ended it before that look. Who dies
 * in between has accepted nothing, or leaves a job that a sweep moves on: a sweep goes by the edges, so those are first.
 */
import type { Connection } from "../../connection/connection.ts"
import { asTransportError, type CallboardError } from "../../errors.ts"
import { deferred } from "../../protocol/dependencies.ts"
import type { AddressedTask } from "../../protocol/message.ts"
import { TransportError } from "../../transport/mod.ts"
import { checkAll, type DeferredTask, invalidAfter } from "./checking.ts"
import { type Edge, writeEdges } from "./edges.ts"
import { byChild, findParentOutcomes } from "./parent-outcomes.ts"
import { moveOn } from "./release.ts"

/** `conflict`: something is stored under its id already. */
export type Deferred = "deferred" | "conflict" | CallboardError | TransportError

/**
 * One answer per posting, in order; one that waits for another of them comes after it. `accepted`: jobs that are known to be
 * there, and need not be looked for. A job that nobody knows fails with `invalid-input`, field `after`. Never rejects.
 */
export const defer = async (
  connection: Connection,
  postings: ReadonlyArray<AddressedTask>,
  accepted: ReadonlySet<string>,
): Promise<ReadonlyArray<Deferred>> => {
  const answers = new Map<string, Deferred>()
  let error = new TransportError("internal", "the transport gave no answer", { outcome: "unknown" })
  try {
    const { acceptable, refused } = await checkAll(connection, postings, accepted)
    for (const [id, problem] of refused) answers.set(id, problem)
    const now = Date.now()
    await writeEdges(connection.store, edgesTo(acceptable), now)
    for (const rank of ranksOf(acceptable)) await store(connection, rank, now, answers)
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

/** Those that wait for none of the others, then those that wait for these, and so on. */
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

/** Stores the records of jobs of one rank, unless what they wait for was submitted with them and could not be stored. */
const store = async (
  connection: Connection,
  jobs: ReadonlyArray<DeferredTask>,
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
    fit.map(({ posting, task }) => ({ id: posting.id, expect: "", record: deferred(posting, task, now) })),
  )
  for (const [at, { posting }] of fit.entries()) {
    const answer = changed[at]
    if (answer?.status === "failed") answers.set(posting.id, answer.error)
    else if (answer !== undefined) answers.set(posting.id, answer.status === "changed" ? "deferred" : "conflict")
  }
}

const withoutParent = (parent: string, why: Deferred | undefined): Deferred => {
  const message = `job ${parent} was not accepted`
  const mayPass = why instanceof TransportError && why.retryable
  return mayPass ? new TransportError("unavailable", message) : invalidAfter(message)
}

/** How those stand that they wait for, and what becomes of them: at most a moment after they were accepted. */
const releaseEnded = async (connection: Connection, jobs: ReadonlyArray<DeferredTask>): Promise<void> => {
  try {
    const endings = await findParentOutcomes(
      connection.jobs,
      jobs.flatMap(({ parents }) => parents),
    )
    await moveOn(connection, byChild(edgesTo(jobs), endings))
  } catch {
    // They are accepted: a sweep finds out how those stand that they wait for.
  }
}
