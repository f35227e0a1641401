/** Checks a change of a job's meta data, from its handler or from outside. */
import { CallboardError } from "../errors.ts"
import { isPlainObject } from "../protocol/guards.ts"
import { type Meta, mergePatch } from "../protocol/meta-patch.ts"
import { plainValue } from "./plain-value.ts"

/** Most characters of the JSON of a job's meta data after a change, and of the changes: every record of the job holds them. */
const MAX_META = 64 * 1024

const refused = (why: string, id: string) => new CallboardError("invalid-input", `meta: ${why}`, { field: "meta", id })

/** A copy of meta data, or of a change, as JSON keeps it. Fails with `invalid-input`, also by its size. */
export const metaInJson = (make: () => unknown, id: string): Meta => {
  const json = plainValue(make(), "meta", id)
  const { length } = json
  if (length > MAX_META) throw refused(`has ${length} characters; at most ${MAX_META} are allowed`, id)
  return JSON.parse(json)
}

/**
 * The meta data after a change by a merge patch (RFC 7396): `null` removes a field. Fails with `invalid-input` for a patch
 * that is no JSON object, and where the result would be larger than meta data may be.
 */
export const changedMeta = (before: Meta, patch: unknown, id: string): Meta => {
  if (!isPlainObject(patch)) throw refused("a change must be an object", id)
  return metaInJson(() => mergePatch(before, patch), id)
}
