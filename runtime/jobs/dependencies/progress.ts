/** Moves jobs on that wait for others, by compare-and-set, when it is known how those have ended. */
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

/** Several parents may end at the same time; more often than this in a row is not chance. */
const TRIES = 10
/** Longest wait before such a try, times its number: those who have met would only meet again. */
const BACKOFF_MS = 10
/** Records that are held at a time, with their tasks. */
const AT_A_TIME = 64

/** A job that waits, on its way. */
interface Moving {
  readonly child: string
  readonly endings: ParentOutcomes
  /** What the transport has said where it can never store what it was asked to: the job ends then. */
  readonly refusals: ReadonlyArray<TransportError>
}

/** First it ends with its message and errbacks, then without, should those be too large. */
const MAX_REFUSALS = 2

/**
 * Moves each of these jobs (by id) on, as far as its endings say, and removes the edges that are not needed any more. Resolves with the
 * ids of those that have failed by that. Fails as the transport does; one that refuses one job of all does so only once the
 * others are done. A sweep finds again what was not.
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
  /** Somebody else has changed them, or they end now. */
  readonly again: Array<Moving>
  error?: TransportError
}

/** One try. */
const move = async (connection: Connection, pending: ReadonlyArray<Moving>): Promise<Moved> => {
  const moved: Moved = { failed: [], again: [] }
  const obsolete: Array<Edge> = []
  const steps: Array<Step> = []
  const ids = pending.map(({ child }) => child)
  const found = await findAll(connection.jobs, ids, (there) => there)
  for (const moving of pending) {
    const stored = found.get(moving.child)
    // Not there: it is being submitted this moment, or was never accepted.
    if (stored === undefined) continue
    const change = changeOf(connection, stored, moving)
    if (change !== undefined) steps.push({ moving, change })
    else {
      // Whoever has ended it may have died before what follows was posted.
      const { state, fence, followUps = [] } = stored.record
      if (isTerminal(state) && fence === NO_FENCE) await postMissing(connection, followUps)
      obsolete.push(...obsoleteEdges(stored.record, moving))
    }
  }
  const results = steps.length === 0 ? [] : await connection.jobs.decide(steps.map(({ change }) => change))
  for (const [at, { moving, change }] of steps.entries()) {
    const result = results[at]
    if (result?.status === "changed") {
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

/** Edges to the job that it does not need any more. */
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
