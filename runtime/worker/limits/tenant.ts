/** Whose limit a job falls under: what the key of its method's limit says of its input. */
import type { ErasedMethod } from "../../actor/actor.ts"
import { isPromiseLike } from "../../async/promise-like.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import { fieldOf, isTenant, TENANT_RULE } from "../../protocol/limit-key.ts"

type Key = NonNullable<ErasedMethod["limit"]>["key"]

/** "" without a key. */
export const tenantOf = (key: Key, input: unknown): string | { readonly problem: string } => {
  if (key === undefined) return ""
  const isField = typeof key === "string"
  try {
    const tenant = isField ? fieldOf(input, key) : key(input)
    // Its failure is nobody's: it is refused all the same.
    if (isPromiseLike(tenant)) tenant.then(undefined, () => undefined)
    if (isTenant(tenant)) return tenant
    const rule = isField ? `limit.key: the field ${key} must be` : "limit.key must give"
    return { problem: `${rule} ${TENANT_RULE}, not ${kindOf(tenant)}` }
  } catch (thrown) {
    return { problem: `limit.key failed: ${jobError(thrown).message}` }
  }
}

const kindOf = (value: unknown): string => {
  if (typeof value === "string") return `${Buffer.byteLength(value)} bytes`
  return value === null ? "null" : typeof value
}
