/**
 * Looks again at chords, a few parts at a time: the process that stored the end of a member may have died before it noted that,
 * and the one that noted the last member before it released the body.
 */
import type { Connection } from "../../connection/connection.ts"
import { MEMBERS_PER_PART, type MemberOutcome, memberEndOf } from "../../protocol/chord.ts"
import { compact } from "../../protocol/compact.ts"
import { parentOutcomeOf } from "../../protocol/dependencies.ts"
import { NO_FENCE } from "../../protocol/outside.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { postMissing } from "../outcome/follow-ups.ts"
import { expire, findAll, isOverdue } from "../tracking/finding.ts"
import { type Chord, listChords, readParts, removeChord, settleChord } from "./chords.ts"
import { afterEnds, memberOutcomesOf } from "./ended.ts"

/** Chords that are listed together. */
const PAGE = 500
/** Parts that are looked at together. */
const PARTS = 4

/**
 * A member that is still unknown this long after its chord was submitted will not come, and a chord without a body is removed: a
 * living submitter stores both within seconds.
 */
const ABANDONED_MS = 3_600_000

/** What follows from a failed body is posted again for this long at most: after that its job may be forgotten already. */
const REPOSTED_MS = 1_800_000

export class ChordSweep {
  readonly #connection: Connection
  /** Chords that were listed and not looked at yet. */
  #listed: Array<Chord> = []
  /** Where the next list begins; `undefined`: with the first chord. */
  #after: string | undefined
  /** The first part of the next chord that was not looked at. */
  #part = 0

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /**
   * Looks at the next parts; `now` is in milliseconds since the epoch. Resolves with whether these were the last ones, after which
   * it begins anew. Fails as the transport does.
   */
  async look(now: number): Promise<boolean> {
    if (this.#listed.length === 0) {
      this.#listed = [...(await listChords(this.#connection.store, PAGE, this.#after))]
      this.#after = this.#listed.length === PAGE ? this.#listed.at(-1)?.body : undefined
    }
    const [chord] = this.#listed
    if (chord === undefined) return true
    const from = this.#part
    const to = Math.min(from + PARTS, chord.parts)
    // It moves on also where this look fails, so that one chord does not hold up the others.
    this.#part = to
    if (to >= chord.parts) {
      this.#part = 0
      this.#listed.shift()
    }
    const goesOn = await lookAtChord(this.#connection, chord, now, from, to)
    if (!goesOn && this.#part > 0) {
      this.#part = 0
      this.#listed.shift()
    }
    return this.#listed.length === 0 && this.#after === undefined
  }
}

/**
 * Notes members whose end was not noted, of the parts `from` to `to`, and moves the body on. Resolves with whether the chord is
 * still open.
 */
export const lookAtChord = async (
  connection: Connection,
  chord: Chord,
  now: number,
  from = 0,
  to = chord.parts,
): Promise<boolean> => {
  const { store, jobs } = connection
  const body = await jobs.find(chord.body)
  if (body === undefined || body.record.tombstone) {
    // A chord that was noted after the end of a deleted body is that of its next run, which is about to be stored.
    const isOver = chord.at <= (body?.record.endedAt ?? 0)
    if (isOver || now - chord.at > ABANDONED_MS) await removeChord(store, chord)
    return false
  }
  const { record } = body
  if (record.state === "deferred" && isOverdue(record, now)) {
    const { record: over } = await expire(connection, body)
    await afterEnds(connection, new Map([[over.id, parentOutcomeOf(over)]]), memberOutcomesOf([over]))
    return false
  }
  if (!record.chord?.waiting) {
    await removeChord(store, chord)
    return false
  }
  if (isTerminal(record.state)) {
    // It may be run again. The process that failed it may have died before it posted the errbacks.
    const { fence, followUps = [], endedAt = 0 } = record
    if (fence === NO_FENCE && now - endedAt < REPOSTED_MS) await postMissing(connection, followUps)
    return false
  }
  const outcomes: Array<MemberOutcome> = []
  for (const { n, part } of await readParts(store, chord.body, from, to)) {
    const open = part.ends.flatMap((end, place) => (end === null ? [{ place, ids: part.ids[place] ?? [] }] : []))
    const found = await findAll(
      jobs,
      open.flatMap(({ ids }) => ids),
      ({ record: { state, result, tombstone, deleted, endedAt } }): Ended => ({
        state,
        ...compact({ endedAt }),
        ...(tombstone ? { tombstone } : { result }),
        ...(deleted ? { deleted } : {}),
      }),
    )
    for (const { place, ids } of open) {
      const end = memberEndOf(ids, found, chord.at, now - ABANDONED_MS)
      if (end !== undefined) outcomes.push({ of: chord.body, at: n * MEMBERS_PER_PART + place, end })
    }
  }
  await afterEnds(connection, new Map(), outcomes)
  if (to < chord.parts) return true
  const failed = await settleChord(connection, chord)
  if (failed !== undefined) await afterEnds(connection, new Map([[failed.id, "failed"]]), memberOutcomesOf([failed]))
  return failed === undefined
}

type Ended = Pick<JobRecord, "state" | "result" | "tombstone" | "deleted" | "endedAt">
