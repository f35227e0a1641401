/** Begins an attempt by a claim: it commits the started record over the revision that was read. */
import { claimed, isClaimOf, type JobRecord, recordOfPosting, unclaimed } from "../../protocol/record.ts"
import { asError, TransportError } from "../mod.ts"
import type { Revision } from "../store.ts"
import { type DeliveryToken, readToken } from "./attempt.ts"
import { type BatchedDriver, contended, MAX_TRIES } from "./batching.ts"
import { decodeStored, toCommitRecord } from "./codec.ts"
import { isOfAnother, isPreceded, isSuspect, judgeStart, positionOf } from "./judge.ts"
import type { Notes } from "./notes.ts"
import type { Revisions } from "./revisions.ts"
import type { Claim, ClaimAnswer } from "./transport.ts"
import { isAbout, reportedRecord, viewOf } from "./view.ts"

/**
 * Answers as {@link Jobs.begin} says. Rejects only with an error that the driver threw before anything was tried. A claim
 * may be sent again after that, or after a lost answer: it then finds that it is stored.
 */
export const claim = async (
  batched: BatchedDriver,
  revisions: Revisions,
  notes: Pick<Notes, "of">,
  start: Claim,
): Promise<ClaimAnswer> => {
  const { token, id, posting } = start
  let attempt: DeliveryToken
  try {
    attempt = readToken(token)
    if (posting.id !== id) throw new TransportError("invalid", `${id}: not the job of its posting`)
  } catch (thrown) {
    return { status: "failed", error: asError(thrown) }
  }
  let revision: Revision = ""
  let stored: JobRecord | undefined
  // Only this delivery can have stored anything about the job of a fresh delivery, so the record need not be read.
  let unread = !attempt.fresh || revisions.get(token) !== undefined
  for (let round = 0; round < MAX_TRIES; round++) {
    if (unread) {
      // A worker that died may have reported its attempt in a run note only; that attempt counts too.
      const [known, [note]] = await Promise.all([
        batched.read(id, attempt.external ? "all" : "record"),
        attempt.first ? [] : notes.of([id]),
      ])
      try {
        revision = known?.revision ?? ""
        const before = known?.record && decodeStored(known.record)
        stored = note !== undefined && isAbout(note, revision, before) ? reportedRecord(note, revision, before) : before
        if (stored === undefined && attempt.external && isPreceded(known, posting.message, attempt, start.at)) {
          const by = known && viewOf(known, undefined, start.at)
          if (by !== undefined) return { status: "taken", by }
        }
      } catch (thrown) {
        return { status: "failed", error: asError(thrown) }
      }
    }
    if (stored !== undefined) {
      if (isOfAnother(stored, start, attempt)) return { status: "taken", by: stored }
      switch (judgeStart(stored, positionOf(posting), attempt)) {
        case "finished":
          return { status: "finished", record: stored }
        case "superseded":
          return { status: "superseded" }
        case "repeated":
          if (start.reverts && !stored.reverts) break
          revisions.set(token, revision)
          return { status: "started", record: unclaimed(stored) }
      }
      if (start.unlessSuspect && isSuspect(stored)) return { status: "suspect" }
    }
    let record: ReturnType<typeof toCommitRecord>
    try {
      record = toCommitRecord(startedRecord(start, attempt, stored), revision, Date.now())
    } catch (thrown) {
      return { status: "failed", error: asError(thrown) }
    }
    const committed = await batched.commit({ id, record })
    if (committed.status === "failed") return committed
    if (committed.status === "committed") {
      revisions.set(token, committed.revision)
      // The handler runs already, and does not know of the change: the outcome takes it over.
      if (start.reverts && stored?.metaChange !== undefined) revisions.setChange(token, stored.metaChange)
      return { status: "started", ...(stored === undefined ? {} : { record: stored }) }
    }
    unread = true
  }
  return { status: "failed", error: contended(id) }
}

const startedRecord = (
  { worker, version, at, id, posting, digest, reverts }: Claim,
  { fence }: DeliveryToken,
  stored: JobRecord | undefined,
): JobRecord => {
  const mark = { ...(digest === undefined ? {} : { digest }), ...(reverts ? { reverts } : {}) }
  if (stored !== undefined) {
    // This delivery has claimed the job already: only the mark is missing.
    if (reverts && isClaimOf(stored, fence)) return { ...stored, ...mark }
    return { ...claimed(stored, { fence, worker, version, at }), ...mark }
  }
  const derived = recordOfPosting(posting, at)
  if (derived._tag === "Success") return { ...claimed(derived.success, { fence, worker, version, at }), ...mark }
  throw new TransportError("invalid", `${id}: ${derived.failure.message}`)
}
