/** Changes the meta data of a job from outside. */
import type { Connection } from "../../connection/connection.ts"
import { bothPatches, type Meta } from "../../protocol/meta-patch.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { changedMeta } from "../changed-meta.ts"
import { goneError } from "../tracking/finding.ts"
import { decide } from "./decide.ts"

/**
 * Changes the meta data of a job by a merge patch. While a task of the job waits or runs, its worker may not know of the
 * change: it is stored beside the record as well, and the outcome takes it over. So where handler and submitter change the same
 * field, the submitter's value stays. Fails with `invalid-input`, `gone`, `not-found`.
 */
export const patchMeta = (connection: Connection, id: string, patch: unknown): Promise<JobRecord> =>
  decide(connection, id, ({ record, revision }) => {
    if (record.tombstone) throw goneError(id)
    const meta = changedMeta(record.meta ?? {}, patch, id)
    const change: Meta = JSON.parse(JSON.stringify(patch))
    const changed = { ...record, meta, changedAt: Date.now() }
    if (isTerminal(record.state) || record.state === "deferred") return { record: changed }
    const { about = revision, patch: before = {} } = record.metaChange ?? {}
    return { record: { ...changed, metaChange: { about, patch: bothPatches(before, change) } } }
  })
