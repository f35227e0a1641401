/** Changes a job of the board by compare-and-set, as a rule decides. */
import * as Result from "effect/Result"
import { beforeTry, MAX_TRIES } from "../async/conflicts.ts"
import { CallboardError } from "../errors.ts"
import type { BoardRecord, BoardRefusal } from "../protocol/board.ts"
import type { BoardEntries, Known } from "./entries.ts"
import { accepted } from "./failure.ts"
import type { KnownJob } from "./handles.ts"

/**
 * What a rule decides: the new entry (`null` removes it, `undefined` leaves it as it is), and the record that goes into
 * the trash with that.
 */
interface Change<A> {
  readonly to: BoardRecord | null | undefined
  readonly trash?: BoardRecord
  readonly answer: A
}

export type Rule<A> = (record: BoardRecord | undefined, now: number) => Result.Result<Change<A>, BoardRefusal>

const hasSequence = (record: BoardRecord): record is Known["record"] => record.sequence !== undefined

/** The record with its sequence. A record that a rule has made of a known one has its sequence already. */
export const inOrder = (record: BoardRecord, sequence: number): Known["record"] =>
  hasSequence(record) ? record : { ...record, sequence }

/**
 * Changes a job: `to` is the new entry, `null` removes it, and without one nothing is written. The entry that the
 * handle knows is tried first; the rule refuses only by the entry that the store has now.
 */
export const change = async <A>(
  entries: BoardEntries,
  held: KnownJob | undefined,
  id: string,
  rule: Rule<A>,
): Promise<{
  readonly answer: A
  readonly known: Known | undefined
  readonly sequence: number
  /** Key of the entry that was changed. */
  readonly key?: string
}> => {
  let known = held?.known
  let isFresh = false
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    // Of two tries the first may go by an entry that was old.
    if (tries > 1) await beforeTry(tries)
    if (known === undefined && !isFresh) {
      known = await entries.job(id)
      isFresh = true
    }
    const now = await entries.now()
    const decided = rule(known?.record, now)
    if (Result.isSuccess(decided) && (isFresh || decided.success.to !== undefined)) {
      const { to, trash, answer } = decided.success
      const sequence = known?.record.sequence ?? 0
      if (known === undefined || to === undefined) return { answer, known, sequence }
      const { key, revision } = known
      const next = to === null ? undefined : inOrder(to, sequence)
      const changed = { key, value: next === undefined ? null : entries.encode(next), expect: revision }
      const kept =
        trash === undefined ? [] : [{ key: entries.trashed(id), value: entries.encode(inOrder(trash, sequence)) }]
      const written = await entries.store.write([changed, ...kept])
      if (written !== "conflict") {
        const now = next && { key, record: next, revision: written[0] ?? "" }
        if (held !== undefined) {
          held.known = now
          if (now !== undefined) held.last = now.record
        }
        return { answer, known: now, sequence, key }
      }
    } else if (isFresh) accepted(decided)
    known = undefined
    isFresh = false
  }
  throw new CallboardError("overloaded", `too many concurrent changes to job ${id}: try again`, { id })
}
