/** Changes the meta data of a job from outside. */
import * as Schema from "effect/Schema"
import { StoreEntry } from "../../async/store-entry.ts"
import type { Connection } from "../../connection/connection.ts"
import { bothPatches } from "../../protocol/meta-patch.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { changedMeta, metaInJson } from "../changed-meta.ts"
import { goneError } from "../tracking/finding.ts"
import { decide } from "./decide.ts"

/**
 * Jobs whose meta data was changed before their first attempt, for a day from when they are due. A worker runs a task that was
 * never delivered without reading what is stored about its job, unless the job is one of these.
 */
export const CHANGED = new StoreEntry("meta/", Schema.Literal(true))
const DAY_MS = 86_400_000

/**
 * Changes the meta data of a job by a merge patch. While a task of the job waits or runs, its worker may not know of the
 * change: it is stored beside the record as well, and the outcome takes it over. So where handler and submitter change the same
 * field, the submitter's value stays. Fails with `invalid-input`, `gone`, `not-found`.
 */
export const patchMeta = async (connection: Connection, id: string, patch: unknown): Promise<JobRecord> => {
  // A wrong change is refused without looking for the job. The fields that it removes are stored as well.
  changedMeta({}, patch, id)
  const change = metaInJson(() => patch, id)
  const changed = await decide(connection, id, ({ record, revision }) => {
    if (record.tombstone) throw goneError(id)
    const meta = changedMeta(record.meta ?? {}, patch, id)
    const changed = { ...record, meta, changedAt: Date.now() }
    if (isTerminal(record.state) || record.state === "deferred") return { record: changed }
    const { about = revision, patch: before = {} } = record.metaChange ?? {}
    return { record: { ...changed, metaChange: { about, patch: metaInJson(() => bothPatches(before, change), id) } } }
  })
  const { state, attempt, dueAt = 0, metaChange } = changed
  if (attempt === 0 && metaChange !== undefined && state !== "started") {
    const ttlMs = Math.max(0, dueAt - Date.now()) + DAY_MS
    // The change is stored. Without this entry only the first attempt would not see it.
    await connection.store.write([CHANGED.put(id, true, ttlMs)]).catch(() => undefined)
  }
  return changed
}
