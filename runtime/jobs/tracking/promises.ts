/**
 * Ids that were promised: callbacks and links of chains whose ids the submitter has named can be waited for before their jobs
 * exist. An entry of the store for each such id names the jobs that come before it.
 */
import { Buffer } from "node:buffer"
import * as Schema from "effect/Schema"
import { StoreEntry } from "../../async/store-entry.ts"
import { type MemberEnd, memberEndOf } from "../../protocol/chord.ts"
import type { Jobs } from "../../transport/job-store/transport.ts"
import type { Store } from "../../transport/store.ts"

/**
 * A job to come, and before it, in their order, those that must succeed first. The first of them may be promised itself: so what
 * is kept of a chain grows with its length, and not with the square of that.
 */
export type Promised = ReadonlyArray<string>

/** How long a promise is kept: a job that comes later than this, and has not begun to wait by then, is unknown. */
const KEPT_MS = 30 * 86_400_000

const ENTRIES = new StoreEntry("promised/", Schema.Struct({ ids: Schema.Array(Schema.String), at: Schema.Finite }), {
  ttlMs: KEPT_MS,
})

/** A job that has not come this long after what comes before it will not come: a living process submits it at once. */
const UNKNOWN_MS = 3_600_000

const nameOf = (id: string): string => Buffer.from(id).toString("base64url")

/** Notes promises, before the first job is submitted. Fails as the store does. */
export const promise = async (store: Store, promised: ReadonlyArray<Promised>, now: number): Promise<void> => {
  await Promise.all(promised.map((ids) => store.write([ENTRIES.put(nameOf(ids.at(-1) ?? ""), { ids, at: now })])))
}

/**
 * What became of jobs that do not exist, by id, where they are promised: `open` while they may come, else how the job before
 * them has ended that should have led to them. Fails as the transport does.
 */
export const findPromised = async (
  { store, jobs }: { readonly store: Store; readonly jobs: Pick<Jobs, "find"> },
  ids: ReadonlyArray<string>,
): Promise<ReadonlyMap<string, MemberEnd["state"] | "open">> => {
  const found = await Promise.all(ids.map(async (id) => [id, await stateOf({ store, jobs }, id)] as const))
  return new Map(found.flatMap(([id, state]) => (state === undefined ? [] : [[id, state]])))
}

const stateOf = async (
  { store, jobs }: { readonly store: Store; readonly jobs: Pick<Jobs, "find"> },
  id: string,
): Promise<MemberEnd["state"] | "open" | undefined> => {
  const since = Date.now() - UNKNOWN_MS
  let state: MemberEnd["state"] | "open" | undefined
  // From promise to promise back to a job that is there. Submitters may have made a circle of them.
  const seen = new Set<string>()
  for (let next = id; !seen.has(next); ) {
    seen.add(next)
    const [entry] = await store.get([ENTRIES.key(nameOf(next))])
    const promised = entry && ENTRIES.decode(entry.value)
    if (promised === undefined) break
    const before = await Promise.all(promised.ids.map(async (each) => [each, await jobs.find(each)] as const))
    const records = new Map(before.flatMap(([each, there]) => (there === undefined ? [] : [[each, there.record]])))
    state = memberEndOf(promised.ids, records, promised.at, since)?.state ?? "open"
    if (records.size > 0) break
    next = promised.ids[0] ?? next
  }
  return state
}
