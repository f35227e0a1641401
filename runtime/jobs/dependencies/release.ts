/**
 * Releases the dependents of ended jobs, found by their edges, a page at a time. Each is moved on by compare-and-set, by
 * what is known about its parents: released, or failed where it can never start.
 */
import { beforeTry, MAX_TRIES } from "../../async/conflicts.ts"
import type { Connection } from "../../connection/connection.ts"
import type { MemberEnd } from "../../protocol/chord.ts"
import { compact } from "../../protocol/compact.ts"
import { advance, type ParentOutcome, parentOutcomeOf } from "../../protocol/dependencies.ts"
import { type KeepFailed, keepOf, NO_FENCE } from "../../protocol/outside.ts"
import { type JobError, type JobRecord, step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { isSuspended } from "../../protocol/waits.ts"
import type { Decision, Found } from "../../transport/job-store/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import { postMissing } from "../outcome/follow-ups.ts"
import { lostJobFailure } from "../outcome/lost-job.ts"
import { startedNow } from "../outcome/run-now.ts"
import { findAll } from "../tracking/finding.ts"
import { findPromised } from "../tracking/promises.ts"
import { type Edge, edgePrefixOf, parseEdge, removeEdges } from "./edges.ts"

/** Known outcomes of the jobs that a job waits for, by their ids. */
export type ParentOutcomes = ReadonlyMap<string, ParentOutcome>

/**
 * The outcome of each of these jobs. A job without a record is gone, unless it is promised: then it is still open, or
 * it has the outcome of the job before it, which did not lead to it. Fails as the transport does.
 */
export const findParentOutcomes = async (
  { store, jobs }: Pick<Connection, "store" | "jobs">,
  ids: Iterable<string>,
): Promise<ParentOutcomes> => {
  const all = [...ids]
  const found = await findAll(jobs, all, ({ record }) => parentOutcomeOf(record))
  const promised = await findPromised(
    { store, jobs },
    all.filter((id) => !found.has(id)),
  )
  return new Map(all.map((id) => [id, found.get(id) ?? promisedOutcomeOf(promised.get(id))]))
}

const promisedOutcomeOf = (state: MemberEnd["state"] | "open" | undefined): ParentOutcome =>
  state === undefined || state === "succeeded" ? "gone" : state === "expired" ? "failed" : state

/** For each waiting job, by its id, the known outcomes of the jobs that it waits for. */
export const byChild = (edges: ReadonlyArray<Edge>, endings: ParentOutcomes): ReadonlyMap<string, ParentOutcomes> => {
  const children = new Map<string, Map<string, ParentOutcome>>()
  for (const { parent, child } of edges) {
    const known = children.get(child) ?? new Map<string, ParentOutcome>()
    children.set(child, known.set(parent, endings.get(parent) ?? "open"))
  }
  return children
}

const PAGE = 500
/** How many parents the children are looked up for in one request. */
const PARENTS_AT_A_TIME = 32

/**
 * Releases or fails the jobs that wait for these parents, and the jobs that wait for a job that fails by that; jobs that have
 * called one of them continue. A parent that has not ended changes nothing, and one that is cancelled only jobs that called it.
 * Resolves with the records of the jobs that have failed by that. Fails as the transport does; the sweep repeats what was not
 * done.
 */
export const release = async (connection: Connection, endings: ParentOutcomes): Promise<ReadonlyArray<JobRecord>> => {
  const failed: Array<JobRecord> = []
  const known = new Map([...endings].filter(([, ending]) => ending !== "open"))
  const open: Array<{ readonly parent: string; readonly after?: string }> = [...known.keys()].map((parent) => ({
    parent,
  }))
  while (open.length > 0) {
    const some = open.splice(0, PARENTS_AT_A_TIME)
    const pages = await Promise.all(
      some.map(({ parent, ...from }) => connection.store.list({ prefix: edgePrefixOf(parent), limit: PAGE, ...from })),
    )
    const edges: Array<Edge> = []
    for (const [at, { parent }] of some.entries()) {
      const page = pages[at] ?? []
      edges.push(...page.flatMap(({ key }) => parseEdge(key) ?? []))
      const last = page.at(-1)
      if (page.length === PAGE && last !== undefined) open.push({ parent, after: last.key })
    }
    for (const record of await progress(connection, byChild(edges, known))) {
      failed.push(record)
      known.set(record.id, "failed")
      open.push({ parent: record.id })
    }
  }
  return failed
}

/**
 * Releases or fails these jobs (by id), and the jobs that wait for one that fails by that. Fails as {@link release}
 * does.
 */
export const moveOn = async (
  connection: Connection,
  jobs: ReadonlyMap<string, ParentOutcomes>,
): Promise<ReadonlyArray<JobRecord>> => {
  const failed = await progress(connection, jobs)
  return [...failed, ...(await release(connection, new Map(failed.map(({ id }) => [id, "failed"]))))]
}

/** Ids of deferred jobs that wait for a job. */
export const waitingFor = async function* ({ store, jobs }: Connection, parent: string): AsyncGenerator<string> {
  for (let after: string | undefined; ; ) {
    const page = await store.list({
      prefix: edgePrefixOf(parent),
      limit: PAGE,
      ...compact({ after }),
    })
    const children = page.flatMap(({ key }) => parseEdge(key)?.child ?? [])
    const waits = await findAll(
      jobs,
      children,
      ({ record: { state, after: of } }) => state === "deferred" && of?.waiting?.includes(parent) === true,
    )
    for (const [id, isWaiting] of waits) if (isWaiting) yield id
    after = page.at(-1)?.key
    if (page.length < PAGE) return
  }
}

/** Records, with their tasks, that are in memory at a time. */
const MOVED_AT_A_TIME = 64

/** A deferred job that is being released. */
interface Moving {
  readonly child: string
  readonly endings: ParentOutcomes
  /** Permanent refusals of the transport so far. After the first one the job is failed instead of released. */
  readonly refusals: ReadonlyArray<TransportError>
}

/**
 * After the first refusal the job fails with its message and errbacks; after the second without them, since they may be
 * too large.
 */
const MAX_REFUSALS = 2

/**
 * Releases or fails each of these jobs (by id), as far as its parents allow, and removes the edges that are not needed any
 * more. Resolves with the records of the jobs that have failed by that. Fails as the transport does; a refusal of a single job is
 * thrown only after the other jobs are done. The sweep finds again what was not done.
 */
const progress = async (
  connection: Connection,
  jobs: ReadonlyMap<string, ParentOutcomes>,
): Promise<ReadonlyArray<JobRecord>> => {
  const failed: Array<JobRecord> = []
  let error: TransportError | undefined
  const all = [...jobs].map(([child, endings]): Moving => ({ child, endings, refusals: [] }))
  for (let from = 0; from < all.length; from += MOVED_AT_A_TIME) {
    let pending = all.slice(from, from + MOVED_AT_A_TIME)
    for (let tried = 0; pending.length > 0; tried++) {
      if (tried === MAX_TRIES) throw new TransportError("unavailable", "the waiting jobs keep changing; try again")
      // A second try is made at once: a refusal is answered by it as well.
      if (tried > 1) await beforeTry(tried)
      const moved = await move(connection, pending)
      failed.push(...moved.failed)
      error ??= moved.error
      pending = moved.again
    }
  }
  if (error !== undefined) throw error
  return failed
}

interface Moved {
  readonly failed: Array<JobRecord>
  /** Jobs to try again: their record has changed meanwhile, or they are to fail now. */
  readonly again: Array<Moving>
  error?: TransportError
}

/** One try for each job. */
const move = async (connection: Connection, pending: ReadonlyArray<Moving>): Promise<Moved> => {
  const moved: Moved = { failed: [], again: [] }
  const obsolete: Array<Edge> = []
  const steps: Array<Step> = []
  const ids = pending.map(({ child }) => child)
  const found = await findAll(connection.jobs, ids, (there) => there)
  for (const moving of pending) {
    const stored = found.get(moving.child)
    // Without a record the job is being submitted this moment, or was never accepted.
    if (stored === undefined) continue
    const change = changeOf(connection, stored, moving)
    if (change !== undefined) steps.push({ moving, change })
    else {
      // The process that ended the job may have died before it published the follow-ups.
      const { state, fence, followUps = [] } = stored.record
      if (isTerminal(state) && fence === NO_FENCE) await postMissing(connection, followUps)
      obsolete.push(...obsoleteEdges(stored.record, moving))
    }
  }
  const results = steps.length === 0 ? [] : await connection.jobs.decide(steps.map(({ change }) => change))
  for (const [at, { moving, change }] of steps.entries()) {
    const result = results[at]
    if (result?.status === "decided") {
      obsolete.push(...obsoleteEdges(change.record, moving))
      if (change.record.state === "failed") moved.failed.push(change.record)
    } else if (result?.status !== "failed") moved.again.push(moving)
    else if (isPermanent(result.error) && moving.refusals.length < MAX_REFUSALS) {
      moved.again.push({ ...moving, refusals: [...moving.refusals, result.error] })
    } else moved.error ??= result.error
  }
  await removeEdges(connection.store, obsolete)
  return moved
}

interface Step {
  readonly moving: Moving
  readonly change: Decision
}

export const isPermanent = ({ reason }: TransportError): boolean =>
  reason === "too-large" || reason === "invalid" || reason === "unsupported"

/** Edges of the job to parents that it does not wait for any more. A job that runs may be about to wait for jobs that it has called. */
const obsoleteEdges = (record: JobRecord, { child, endings }: Moving): ReadonlyArray<Edge> => {
  const { state, after, waits } = record
  const waiting = new Set(state === "deferred" ? after?.waiting : isSuspended(record) ? waits?.jobs : [])
  return [...endings.keys()]
    .filter((parent) => (state === "started" ? after?.ids.includes(parent) === true : !waiting.has(parent)))
    .map((parent) => ({ parent, child }))
}

const changeOf = (
  { keepFailed }: Connection,
  { record, revision }: Found,
  { endings, refusals }: Moving,
): Decision | undefined => {
  const now = Date.now()
  if (isSuspended(record)) {
    const hasEnded = record.waits?.jobs?.some((id) => (endings.get(id) ?? "open") !== "open")
    const next = hasEnded ? startedNow(record, now, "called") : undefined
    return next && { id: record.id, expect: revision, ...next }
  }
  const next = advance(record, endings, now)
  if (next === undefined) return undefined
  const at = { id: record.id, expect: revision }
  const [refusal] = refusals
  const fail = (error: JobError, bare: boolean): Decision => ({
    ...at,
    ...failure(record, error, now, { bare, keepFailed }),
  })
  if (next.kind === "never") return fail(parentGone(next.parent), refusal !== undefined)
  if (next.kind === "invalid") return fail(unreadable(next.why.message), refusal !== undefined)
  if (refusal !== undefined) return fail(refused(refusal), refusals.length > 1)
  return { ...at, record: next.record, ...(next.kind === "released" ? { post: [next.posting] } : {}) }
}

/** Why a job can never start: the record of a parent is not kept any more. */
const parentGone = (parent: string): JobError => ({
  name: "DependencyGone",
  message: `job ${parent}, for which it waited, is no longer kept and may not have succeeded; retry this job to run it anyway`,
  reason: "dependency-gone",
})

/** The deferred task cannot be parsed. */
export const unreadable = (why: string): JobError => ({ name: "InvalidTask", message: why, reason: "invalid-task" })

/** The transport refuses the task for good. */
export const refused = ({ message }: TransportError): JobError => ({
  name: "NotReleased",
  message: `the job is ready to start, but the transport refuses its task: ${message}`,
  reason: "not-released",
})

/**
 * The change that ends a job that can never start: it becomes a dead letter, and its errbacks are posted. `bare`: without its message and follow-ups, for a record that is too large with them.
 */
export const failure = (
  record: JobRecord,
  error: JobError,
  now: number,
  { keepFailed, bare = false }: { readonly keepFailed: KeepFailed; readonly bare?: boolean },
): Pick<Decision, "record" | "post"> => {
  const keepMs = keepOf(record, keepFailed)
  const dead = error.reason
  const { after, message, ...kept } = record
  const ended: JobRecord = after === undefined ? kept : { ...kept, after: withoutWaiting(after) }
  if (!bare && message !== undefined) {
    const settlement = lostJobFailure({ ...ended, message }, error, { token: "", fence: NO_FENCE, now, keepMs, dead })
    if (settlement?.record !== undefined) return { record: settlement.record, post: settlement.followUps ?? [] }
  }
  const { meta: _meta, ...small } = ended
  const over = step(small, { at: now, state: "failed", reason: dead })
  return { record: { ...over, fence: NO_FENCE, endedAt: now, error, dead, keepMs } }
}

const withoutWaiting = ({ waiting: _waiting, ...after }: NonNullable<JobRecord["after"]>) => after
