/** Stores decisions that no delivery makes (cancel, rerun, delete), over the revision that the caller has read. */
import { isUndecodable, type JobPosting, publishKey } from "../../protocol/message.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Commit } from "../driver.ts"
import type { Known } from "../known.ts"
import { asError, TransportError } from "../mod.ts"
import { orderOfMessage } from "./attempt.ts"
import type { BatchedDriver } from "./batching.ts"
import { decodeContent, decodeStored, toCommitRecord, toPosting } from "./codec.ts"
import { isPosted, type KnownJob } from "./judge.ts"
import { type Decision, type DecisionAnswer, TOMBSTONE_MS } from "./transport.ts"

/** Rejects only with an error that the driver threw before anything was tried. */
export const decide = async (
  batched: BatchedDriver,
  { id, expect, record, withdraw, post = [] }: Decision,
): Promise<DecisionAnswer> => {
  const now = Date.now()
  let commit: Commit
  try {
    const wanted = record.id === id ? record : { ...record, id }
    const owed = await owedFollowUps(batched, wanted, expect, now)
    if (owed === "conflict") return { status: "conflict" }
    commit = {
      id,
      record: toCommitRecord(owed.record, expect, now),
      post: [...owed.post, ...post].map((posting) => toPosting(posting, now)),
      ...(withdraw ? { task: { kind: "withdraw" } } : {}),
    }
  } catch (thrown) {
    return { status: "failed", error: asError(thrown) }
  }
  const committed = await batched.commit(commit)
  if (committed.status !== "failed") return committed.status === "committed" ? { status: "decided" } : committed
  const { error, revision } = committed
  // The record is stored, and the same decision would meet a conflict. Maintenance publishes the missing tasks.
  const half = revision !== undefined && error.outcome === "none"
  const { reason, message } = error
  return {
    status: "failed",
    error: half ? new TransportError(reason, message, { outcome: "unknown", cause: error }) : error,
  }
}

/**
 * The follow-ups of a job that its new record keeps, and that are not published yet: the worker that stored the outcome may
 * have died before it published them. They are published with the new record. A job that has no task in a queue, and that
 * ended longer ago than tombstones stay, owes none: its follow-ups may have run and been forgotten, and must not run again.
 */
const owedFollowUps = async (
  batched: BatchedDriver,
  record: JobRecord,
  expect: string,
  now: number,
): Promise<{ readonly record: JobRecord; readonly post: NonNullable<Decision["post"]> } | "conflict"> => {
  const { id, followUps = [] } = record
  const none = { record, post: [] }
  if (expect === "" || followUps.every((posting) => posting.id === id)) return none
  const known = await batched.read(id, "all")
  if ((known?.revision ?? "") !== expect) return "conflict"
  const before = known?.record && decodeStored(known.record)
  const old = new Set(before?.followUps?.flatMap((posting) => (posting.id === id ? [] : publishKey(posting))))
  const others = followUps.filter((posting) => old.has(publishKey(posting)))
  if (before === undefined || others.length === 0) return none
  const isPast = isTerminal(before.state) && now - (before.endedAt ?? now) >= TOMBSTONE_MS
  if (known?.task !== undefined || !isPast) return { record, post: await missingFollowUps(batched, id, others) }
  const { followUps: _over, ...kept } = record
  const left = followUps.filter((posting) => !others.includes(posting))
  return { record: left.length === 0 ? kept : { ...kept, followUps: left }, post: [] }
}

const knownJobOf = (known: Known | undefined): KnownJob | undefined => {
  if (known === undefined) return undefined
  const message = known.task && decodeContent(known.task.content)
  return {
    ...(known.record === undefined ? {} : { record: decodeStored(known.record) }),
    ...(message === undefined || isUndecodable(message) ? {} : { task: orderOfMessage(message) }),
  }
}

/** The follow-ups of the job `owner` that are not published yet. */
export const missingFollowUps = async (
  batched: BatchedDriver,
  owner: string,
  followUps: ReadonlyArray<JobPosting>,
): Promise<ReadonlyArray<JobPosting>> => {
  if (followUps.length === 0) return followUps
  const known = await Promise.all(followUps.map(({ id }) => batched.read(id, "all")))
  return followUps.filter((posting, at) => !isPosted(posting, owner, knownJobOf(known[at])))
}
