/** Releases or fails deferred jobs, by compare-and-set, by what is known about their parents. */
import type { Connection } from "../../connection/connection.ts"
import { advance } from "../../protocol/dependencies.ts"
import { NO_FENCE } from "../../protocol/outside.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Decision, Found } from "../../transport/lift/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import { type Edge, removeEdges } from "./edges.ts"
import { findAll } from "./find-all.ts"
import { failure, parentGone, refused, unreadable } from "./never-released.ts"
import type { ParentOutcomes } from "./parent-outcomes.ts"
import { postMissing } from "./posting-again.ts"

/** Most tries. Several parents of one job may end at the same time, but hardly this many in a row. */
const TRIES = 10
/** Longest random wait before the second try on, times its number, so that processes that met do not meet again. */
const BACKOFF_MS = 10
/** Records, with their tasks, that are in memory at a time. */
const AT_A_TIME = 64

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
 * more. Resolves with the ids of the jobs that have failed by that. Fails as the transport does; a refusal of a single job is
 * thrown only after the other jobs are done. The sweep finds again what was not done.
 */
export const progress = async (
  connection: Connection,
  jobs: ReadonlyMap<string, ParentOutcomes>,
): Promise<ReadonlyArray<string>> => {
  const failed: Array<string> = []
  let error: TransportError | undefined
  const all = [...jobs].map(([child, endings]): Moving => ({ child, endings, refusals: [] }))
  for (let from = 0; from < all.length; from += AT_A_TIME) {
    let pending = all.slice(from, from + AT_A_TIME)
    for (let tried = 0; pending.length > 0; tried++) {
      if (tried === TRIES) throw new TransportError("unavailable", "jobs that wait for others change too fast")
      if (tried > 1) await new Promise((resolve) => setTimeout(resolve, Math.random() * tried * BACKOFF_MS))
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
  readonly failed: Array<string>
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
      if (change.record.state === "failed") moved.failed.push(moving.child)
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

const isPermanent = ({ reason }: TransportError): boolean =>
  reason === "too-large" || reason === "invalid" || reason === "unsupported"

/** Edges of the job to parents that it does not wait for any more. */
const obsoleteEdges = ({ state, after }: JobRecord, { child, endings }: Moving): ReadonlyArray<Edge> => {
  const waiting = new Set(state === "deferred" ? after?.waiting : [])
  return [...endings.keys()].filter((parent) => !waiting.has(parent)).map((parent) => ({ parent, child }))
}

const changeOf = (
  { keepFailed }: Connection,
  { record, revision }: Found,
  { endings, refusals }: Moving,
): Decision | undefined => {
  const now = Date.now()
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
