/** Checks a change of a job's meta data, from its handler or from outside. */
import { CallboardError } from "../errors.ts"
import { type Meta, mergePatch } from "../protocol/meta-patch.ts"
import { isPlainObject } from "../protocol/value.ts"

/** Most characters of the JSON of a job's meta data after a change: every record of the job holds it. */
const MAX_META = 64 * 1024

/**
 * The meta data after a change by a merge patch (RFC 7396): `null` removes a field. Fails with `invalid-input` for a patch
 * that is no JSON object, and where the result would be larger than meta data may be.
 */
export const changedMeta = (before: Meta, patch: unknown, id: string): Meta => {
  const refused = (why: string) => new CallboardError("invalid-input", `meta: ${why}`, { field: "meta", id })
  if (typeof patch !== "object" || patch === null || Array.isArray(patch) || !isPlainObject(patch))
    throw refused("a change is an object")
  let text: string
  try {
    text = JSON.stringify(mergePatch(before, patch))
  } catch (cause) {
    throw refused(cause instanceof Error ? cause.message : String(cause))
  }
  if (text.length > MAX_META) throw refused(`has ${text.length} characters, and ${MAX_META} are allowed`)
  // What is stored is what JSON keeps of it, and no later change of the caller's objects.
  const meta: Meta = JSON.parse(text)
  return meta
}
