/**
 * Ids that were promised: callbacks and links of chains whose ids the submitter has named can be waited for before their jobs
 * exist. An entry of the store for each such id names the jobs that come before it.
 */
import { Buffer } from "node:buffer"
import * as Schema from "effect/Schema"
import { StoreEntry } from "../../async/store-entry.ts"
import { type MemberEnd, memberEndOf } from "../../protocol/chord.ts"
import type { Jobs } from "../../transport/lift/transport.ts"
import type { Store } from "../../transport/store.ts"

/** A job to come, and before it, in their order, those that must succeed first. */
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
  const found = new Map<string, MemberEnd["state"] | "open">()
  if (ids.length === 0) return found
  const now = Date.now()
  const entries = await store.get(ids.map((id) => ENTRIES.key(nameOf(id))))
  for (const [at, id] of ids.entries()) {
    const entry = entries[at]
    const promised = entry && ENTRIES.decode(entry.value)
    if (promised === undefined) continue
    const before = await Promise.all(promised.ids.map(async (each) => [each, await jobs.find(each)] as const))
    const records = new Map(before.flatMap(([each, there]) => (there === undefined ? [] : [[each, there.record]])))
    found.set(id, memberEndOf(promised.ids, records, promised.at, now - UNKNOWN_MS)?.state ?? "open")
  }
  return found
}
