/** Claims jobs of a board for their owners: one that is named, or the next one. */
import * as Result from "effect/Result"
import { CallboardError } from "../errors.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { checkOwner, claimed, type EarlierClaim, lostBefore, rolledBack } from "../protocol/board.ts"
import { checkCallOptions } from "./call-options.ts"
import { change } from "./changing.ts"
import { accepted, missing } from "./failure.ts"
import { type GivenJob, idOf, type KnownJob } from "./handles.ts"
import { BoardJob } from "./job.ts"
import { noneToClaim } from "./no-job.ts"
import { type End, endClaim, extend, renewalOf } from "./owning.ts"
import { Loss } from "./renewals.ts"
import { expiryOf } from "./requests.ts"
import type { BoardParts, InSession, Session } from "./session.ts"
import { type BoardJobView, viewOf } from "./view.ts"
import { givenUp, waiting } from "./waiting.ts"

export interface ClaimOptions {
  /**
   * How long the claim holds: seconds, or text such as `30s`; `null`: until it is given up. Absent: the lease of the board,
   * renewed while the board is connected.
   */
  readonly expiry?: DurationInput | null | undefined
}

export interface TakeOptions extends ClaimOptions {
  /** Longest wait for a job that can be claimed. Defaults to 0. */
  readonly wait?: DurationInput | undefined
  readonly signal?: AbortSignal | undefined
}

/** A claim that was made here. */
export interface BoardClaim {
  readonly job: BoardJob
  readonly owner: string
  /** Number of the claim. It rises with each claim of the job. */
  readonly number: number
  /** The job right after the claim, with the claims before and the last owner. */
  readonly view: BoardJobView
  /** Fires when a renewed claim is lost: the work on the job must stop. */
  readonly signal: AbortSignal
  consume(): Promise<BoardJobView>
  abandon(): Promise<BoardJobView>
  trash(): Promise<BoardJobView>
}

interface Request {
  readonly owner: string
  readonly expiryMs: number | null
  readonly isRenewed: boolean
}

const requestOf = ({ leaseMs }: BoardParts, owner: string, { expiry }: ClaimOptions): Request => {
  const expiryMs = expiry === undefined ? leaseMs : expiryOf(expiry)
  return { owner: accepted(checkOwner(owner)), expiryMs, isRenewed: expiry === undefined }
}

export const claim = async (
  run: InSession,
  board: BoardParts,
  job: GivenJob,
  owner: string,
  options: ClaimOptions = {},
): Promise<BoardClaim> => {
  checkCallOptions("claim", options)
  const request = requestOf(board, owner, options)
  return run((session) => claimFor(run, session, board.handles.knownOf(job), idOf(job), request, job))
}

export const take = async (
  run: InSession,
  board: BoardParts,
  owner: string,
  options: TakeOptions = {},
): Promise<BoardClaim> => {
  checkCallOptions("take", options)
  const { wait = 0, signal } = options
  const request = requestOf(board, owner, options)
  const ms = milliseconds("wait", wait)
  const taken = await waiting(run, ms, signal, async (session) => {
    for (;;) {
      if (signal?.aborted) return undefined
      const known = session.candidates.known() ?? (await session.candidates.next())
      if (known === undefined) return undefined
      const handle = board.handles.handle(known)
      try {
        return await claimFor(run, session, board.handles.knownOf(handle), handle.id, request, handle)
      } catch (refused) {
        const code = refused instanceof CallboardError ? refused.code : undefined
        if (code === "unclaimable" || code === "not-found") continue
        // The claim failed for another reason, so that the job may still be free: the next claim looks at the store.
        session.candidates.clear()
        throw refused
      } finally {
        session.candidates.settled(handle.id)
      }
    }
  })
  if (taken === undefined) {
    if (signal?.aborted) return givenUp(board.name)
    throw noneToClaim(board.name, ms)
  }
  if (!signal?.aborted) return taken
  // The caller no longer waits for the job, so its claim is given up.
  await taken.abandon()
  return givenUp(board.name)
}

const claimFor = async (
  run: InSession,
  session: Session,
  held: KnownJob | undefined,
  id: string,
  { owner, expiryMs, isRenewed }: Request,
  given: GivenJob,
): Promise<BoardClaim> => {
  const { board, entries, renewals } = session
  const { leaseMs, reclaimAfterMs, onTakeover, handles } = board
  const askedAt = performance.now()
  const wanted = { id, owner, expiryMs, reclaimAfterMs, rollsBack: onTakeover !== undefined }
  const { known, answer } = await change(entries, held, id, (record, now) =>
    Result.map(claimed(record, wanted, now), (to) => ({ to, answer: { claim: to.claim, now } })),
  )
  if (known === undefined) return missing(id)
  const job = given instanceof BoardJob ? given : handles.handle(known)
  const { claim, now } = answer
  const { number } = claim
  const lost = lostBefore(claim)
  const own = handles.knownOf(job)
  if (own !== undefined) own.claim = { owner, number }
  const renewal = renewalOf(id, number)
  const loss = isRenewed
    ? renewals.add(renewal, askedAt, () =>
        extend(session, undefined, id, leaseMs, { owner, claim: number }, () => renewals.has(renewal)),
      )
    : new Loss()
  const ended = (how: End) => endClaim(run, how, job, id, owner, number)
  const made: BoardClaim = {
    job,
    owner,
    number,
    get view() {
      return viewOf(known.record, now)
    },
    get signal() {
      return loss.signal
    },
    consume: () => ended("consumed"),
    abandon: () => {
      // The renewal ends first, so that the claim lapses even if it cannot be given up now.
      renewals.remove(renewal)
      return ended("abandoned")
    },
    trash: () => ended("trashed"),
  }
  if (lost === undefined || onTakeover === undefined) return made
  try {
    await takeOver(onTakeover, made, lost)
    await change(entries, handles.knownOf(job), id, (record, at) =>
      Result.map(rolledBack(record, { id, owner, claim: number }, at), (to) => ({ to, answer: undefined })),
    )
  } catch (failure) {
    // Abandoning the new claim leaves the lapsed one in the record, so that the hook is called for the next claimer.
    await made.abandon().catch(() => undefined)
    throw failure
  }
  return made
}

const takeOver = async (
  onTakeover: NonNullable<BoardParts["onTakeover"]>,
  { job: { id }, view }: BoardClaim,
  lost: EarlierClaim,
): Promise<void> => {
  try {
    await onTakeover(view, lost)
  } catch (cause) {
    throw new CallboardError("internal", `onTakeover failed for job ${id}: ${String(cause)}`, { id, cause })
  }
}
