/** Decides about jobs from outside of any delivery: reads all that is known, and commits over the revision that was read. */
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Commit, DriverCapabilities } from "../driver.ts"
import { type Change, type Changed, TOMBSTONE_MS } from "../mod.ts"
import { decodeStored, toPost, toStore } from "./codec.ts"
import { type Asking, asError } from "./commits.ts"
import { missing } from "./owed.ts"

/** Never rejects but with what the driver threw before anything was tried. */
export const decide = async (
  asking: Asking,
  capabilities: DriverCapabilities,
  { id, expect, record, withdraw, post = [] }: Change,
): Promise<Changed> => {
  const now = Date.now()
  let commit: Commit
  try {
    const wanted = record.id === id ? record : { ...record, id }
    const debt = await debtOf(asking, wanted, expect, now)
    if (debt === "conflict") return { status: "conflict" }
    commit = {
      id,
      record: toStore(debt.record, expect, now),
      post: [...debt.post, ...post].map((posting) => toPost(posting, now, capabilities)),
      ...(withdraw ? { task: { kind: "withdraw" } } : {}),
    }
  } catch (thrown) {
    return { status: "failed", error: asError(thrown) }
  }
  const committed = await asking.commit(commit)
  return committed.status === "committed" ? { status: "changed" } : committed
}

/**
 * What a job still owes to others when its record is replaced: the worker that decided the outcome may have died before its
 * follow-ups were out. They are posted with the new record. A job whose tasks are gone, and that ended longer ago than
 * tombstones stay, owes nothing: a follow-up that ran may be forgotten, and must not run again.
 */
const debtOf = async (
  asking: Asking,
  record: JobRecord,
  expect: string,
  now: number,
): Promise<{ readonly record: JobRecord; readonly post: NonNullable<Change["post"]> } | "conflict"> => {
  const { id, followUps = [] } = record
  const others = followUps.filter((posting) => posting.id !== id)
  if (others.length === 0 || expect === "") return { record, post: [] }
  const known = await asking.read(id, "all")
  if ((known?.revision ?? "") !== expect) return "conflict"
  const before = known?.record && decodeStored(known.record)
  const isPast = before !== undefined && isTerminal(before.state) && now - (before.endedAt ?? now) >= TOMBSTONE_MS
  if (known?.task !== undefined || !isPast) return { record, post: await missing(asking, id, others) }
  const { followUps: _over, ...kept } = record
  return { record: kept, post: [] }
}
