/** What can be done with a claimed job: its owner ends the claim or changes its time, and anyone asks for both. */
import * as Result from "effect/Result"
import type { DurationInput } from "../options/duration.ts"
import { type BoardRecord, checkOwner, claimEnded, extended, liveClaim, type StoredClaim } from "../protocol/board.ts"
import { change, type Rule } from "./changing.ts"
import { accepted } from "./failure.ts"
import { type GivenJob, type Held, idOf } from "./handles.ts"
import { checkClaimNumber, expiryOf } from "./requests.ts"
import type { Run, Session } from "./session.ts"
import { type BoardJobView, expiresIn, viewOf } from "./view.ts"

/** Tells a claim from an earlier one of an owner of the same name. */
export interface HeldOptions {
  /** Number of the claim. A handle that has claimed the job knows it. */
  readonly claim?: number
}

export interface ExtendOptions extends HeldOptions {
  readonly owner?: string
}

/** How an owner ends its claim. */
export type End = "consumed" | "abandoned" | "trashed"

/** Name of the renewal of a claim. */
export const renewalOf = (id: string, number: number): string => `${id} ${number}`

/**
 * Fails with `invalid-input`, with `not-found` where no claim holds, and with `not-owner`. `lost`: the claim that this one has
 * taken over, where it is given back with an abandoned job.
 */
export const end = async (
  run: Run,
  how: End,
  job: GivenJob,
  given: string,
  options: HeldOptions = {},
  lost?: StoredClaim,
): Promise<BoardJobView> => {
  const owner = accepted(checkOwner(given))
  checkClaimNumber(options.claim)
  const id = idOf(job)
  return run(async ({ entries, renewals, candidates, news, board }) => {
    const held = board.handles.heldOf(job)
    const claim = options.claim ?? (held?.claim?.owner === owner ? held.claim.number : undefined)
    const request = { id, owner, lost, ...(claim === undefined ? {} : { claim }) }
    const rule: Rule<{ readonly record: BoardRecord; readonly now: number; readonly number: number }> = (record, now) =>
      Result.map(claimEnded(record, how, request, now), (ended) => ({
        to: how === "abandoned" ? ended : null,
        ...(how === "trashed" ? { trash: ended } : {}),
        answer: { record: ended, now, number: record?.claim?.number ?? 0 },
      }))
    const { answer, sequence } = await change(entries, held, id, rule)
    renewals.remove(renewalOf(id, answer.number))
    const last = { ...answer.record, sequence }
    if (held !== undefined) Object.assign(held, { last, claim: undefined })
    if (how === "abandoned") candidates.clear()
    else news.announce("REMOVAL", last)
    return viewOf(last, answer.now, how === "abandoned" ? "UNCLAIMED" : "COMPLETE")
  })
}

/** False where no claim holds. Fails with `not-owner` and with `invalid-input`. */
export const extendExpiry = async (
  run: Run,
  job: GivenJob,
  expiry: DurationInput | null,
  { owner, claim }: ExtendOptions = {},
): Promise<boolean> => {
  const expiryMs = expiryOf(expiry)
  if (owner !== undefined) accepted(checkOwner(owner))
  checkClaimNumber(claim)
  const id = idOf(job)
  return run(async (session) => {
    const held = session.board.handles.heldOf(job)
    const own =
      held?.claim === undefined || (owner !== undefined && owner !== held.claim.owner) ? undefined : held.claim
    const asked = {
      ...(owner === undefined ? (own === undefined ? {} : { owner: own.owner }) : { owner }),
      ...(claim === undefined ? (own === undefined ? {} : { claim: own.number }) : { claim }),
    }
    const number = await extend(session, held, id, expiryMs, asked)
    if (number !== undefined) session.renewals.remove(renewalOf(id, number))
    return number !== undefined
  })
}

/**
 * The number of the claim that was extended; `undefined` where none holds. `isWanted` is asked again at each try: an owner
 * may have extended the claim while its renewal was under way.
 */
export const extend = async (
  { entries }: Session,
  held: Held | undefined,
  id: string,
  expiryMs: number | null,
  asked: { readonly owner?: string; readonly claim?: number },
  isWanted: () => boolean = () => true,
): Promise<number | undefined> => {
  const { answer } = await change(entries, held, id, (record, now) =>
    Result.map(extended(isWanted() ? record : undefined, { id, expiryMs, ...asked }, now), (to) => ({
      to,
      answer: to?.claim?.number,
    })),
  )
  return answer
}

export const findOwner = async ({ entries }: Session, job: GivenJob): Promise<string | null> => {
  const known = await entries.job(idOf(job))
  return liveClaim(known?.record, await entries.store.now())?.owner ?? null
}

export const timeLeft = async ({ entries }: Session, job: GivenJob): Promise<BoardJobView["expiresIn"]> => {
  const known = await entries.job(idOf(job))
  const now = await entries.store.now()
  return expiresIn(liveClaim(known?.record, now), now)
}
