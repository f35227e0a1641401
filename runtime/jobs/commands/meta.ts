/** Changes the meta data of an ended job. */
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { isPlainObject } from "../../protocol/value.ts"
import { goneError } from "../tracking/finding.ts"
import { decide } from "./decide.ts"

/** A merge patch (RFC 7396): `null` removes. */
const mergePatch = (
  target: Readonly<Record<string, unknown>>,
  patch: Readonly<Record<string, unknown>>,
): Record<string, unknown> => {
  // Without a prototype, `__proto__` and `constructor` are keys like any other.
  const merged: Record<string, unknown> = Object.assign(Object.create(null), target)
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else if (isMap(value)) {
      const before = merged[name]
      merged[name] = mergePatch(isMap(before) ? before : {}, value)
    } else merged[name] = value
  }
  return merged
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && isPlainObject(value)

/**
 * Changes the meta data of an ended job by a merge patch. Fails with `unsupported` before the job has ended, because until
 * then its meta data travels with the task and the outcome would overwrite the change. Fails with `gone`, `not-found`.
 */
export const patchMeta = (
  connection: Connection,
  id: string,
  patch: Readonly<Record<string, unknown>>,
): Promise<JobRecord> =>
  decide(connection, id, ({ record }) => {
    if (record.tombstone) throw goneError(id)
    if (!isTerminal(record.state)) {
      throw new CallboardError(
        "unsupported",
        `job ${id} is ${record.state}: its meta data can be changed once it has ended`,
        { id },
      )
    }
    return { record: { ...record, meta: mergePatch(record.meta ?? {}, patch) } }
  })
