/**
 * What can be done with a claimed job: its owner ends the claim or sets how long it holds, and every process can read
 * both.
 */
import * as Result from "effect/Result"
import type { DurationInput } from "../options/duration.ts"
import { type BoardRecord, checkOwner, claimEnded, extended, liveClaim } from "../protocol/board.ts"
import { checkCallOptions } from "./call-options.ts"
import { change, inOrder, type Rule } from "./changing.ts"
import { accepted } from "./failure.ts"
import { type GivenJob, idOf, type KnownJob } from "./handles.ts"
import { checkClaimNumber, expiryOf } from "./requests.ts"
import type { InSession, Session } from "./session.ts"
import { type BoardJobView, expiresIn, viewOf } from "./view.ts"

/** Distinguishes a claim from an earlier one of an owner of the same name. */
export interface HeldOptions {
  /** Number of the claim. A handle that has claimed the job has it. */
  readonly claim?: number | undefined
}

export interface ExtendOptions extends HeldOptions {
  readonly owner?: string | undefined
}

/** How an owner ends its claim. */
export type End = "consumed" | "abandoned" | "trashed"

const CALLS = { consumed: "consume", abandoned: "abandon", trashed: "trash" } as const

/** Name of the renewal of a claim. */
export const renewalOf = (id: string, number: number): string => `${id} ${number}`

/** Ends a claim. Fails with `invalid-input`, with `not-found` where no claim holds, and with `not-owner`. */
export const end = async (
  run: InSession,
  how: End,
  job: GivenJob,
  given: string,
  options: HeldOptions = {},
): Promise<BoardJobView> => {
  checkCallOptions(CALLS[how], options)
  const owner = accepted(checkOwner(given))
  checkClaimNumber(options.claim)
  return endClaim(run, how, job, idOf(job), owner, options.claim)
}

/** Ends a claim, as {@link end} does, with arguments that were checked already. */
export const endClaim = (
  run: InSession,
  how: End,
  job: GivenJob,
  id: string,
  owner: string,
  number: number | undefined,
): Promise<BoardJobView> =>
  run(async ({ entries, renewals, candidates, places, notifications, board }) => {
    const held = board.handles.knownOf(job)
    const claim = number ?? (held?.claim?.owner === owner ? held.claim.number : undefined)
    const request = claim === undefined ? { id, owner } : { id, owner, claim }
    const rule: Rule<{ readonly record: BoardRecord; readonly now: number; readonly number: number }> = (record, now) =>
      Result.map(claimEnded(record, how, request, now), (ended) => ({
        to: how === "abandoned" ? ended : null,
        ...(how === "trashed" ? { trash: ended } : {}),
        answer: { record: ended, now, number: record?.claim?.number ?? 0 },
      }))
    const { answer, sequence, key } = await change(entries, held, id, rule)
    renewals.remove(renewalOf(id, answer.number))
    const last = inOrder(answer.record, sequence)
    if (held !== undefined) {
      held.last = last
      held.claim = undefined
    }
    if (how === "abandoned") candidates.clear()
    else {
      if (key !== undefined) places.freed(key)
      notifications.announce("REMOVAL", last)
    }
    return viewOf(last, answer.now, how === "abandoned" ? "UNCLAIMED" : "COMPLETE")
  })

/**
 * Sets how long a claim holds from now on; false where no claim holds. Fails with `not-owner` and with `invalid-input`.
 */
export const extendExpiry = async (
  run: InSession,
  job: GivenJob,
  expiry: DurationInput | null,
  options: ExtendOptions = {},
): Promise<boolean> => {
  checkCallOptions("extendExpiry", options)
  const { owner, claim } = options
  const expiryMs = expiryOf(expiry)
  if (owner !== undefined) accepted(checkOwner(owner))
  checkClaimNumber(claim)
  const id = idOf(job)
  return run(async (session) => {
    const held = session.board.handles.knownOf(job)
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
  held: KnownJob | undefined,
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
  return liveClaim(known?.record, await entries.now())?.owner ?? null
}

export const timeLeft = async ({ entries }: Session, job: GivenJob): Promise<BoardJobView["expiresIn"]> => {
  const known = await entries.job(idOf(job))
  const now = await entries.now()
  return expiresIn(liveClaim(known?.record, now), now)
}
