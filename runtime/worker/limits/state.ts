/** What the store holds of one limit and tenant: who holds how many permits, who asks for more, what the rate allows next. */
import { createHash } from "node:crypto"
import { Result, Schema } from "effect"
import type { ErasedMethod } from "../../actor/actor.ts"
import { isPromiseLike } from "../../async/promise-like.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import { fieldOf, isTenant, TENANT_RULE } from "../../protocol/limit-key.ts"

const State = Schema.Struct({
  /** The first moment of the rate that no worker has taken, by the store's clock. */
  tat: Schema.optionalKey(Schema.Finite),
  /** Permits by the id of the worker that holds them. They count while that worker is alive. */
  held: Schema.optionalKey(Schema.Record(Schema.String, Schema.Int)),
  /** Workers that could use more than they hold: since when, by the store's clock, and how many in all. */
  asking: Schema.optionalKey(Schema.Record(Schema.String, Schema.Tuple([Schema.Finite, Schema.Int]))),
})

/** What a worker asks for. */
export interface PermitRequest {
  readonly since: number
  /** Those that it holds included. */
  readonly wanted: number
}

export interface LimitState {
  readonly tat: number | undefined
  readonly held: ReadonlyMap<string, number>
  readonly asking: ReadonlyMap<string, PermitRequest>
}

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(State))
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** What is not there, or cannot be read, is a limit that was never used. */
export const decodeState = (value: Uint8Array | undefined): LimitState => {
  const decoded = value === undefined ? undefined : Result.getOrUndefined(decode(decoder.decode(value)))
  const asking = Object.entries(decoded?.asking ?? {}).map(([id, [since, wanted]]) => [id, { since, wanted }] as const)
  return { tat: decoded?.tat, held: new Map(Object.entries(decoded?.held ?? {})), asking: new Map(asking) }
}

export const encodeState = ({ tat, held, asking }: LimitState): Uint8Array => {
  const requests = [...asking].map(([id, { since, wanted }]) => [id, [since, wanted]])
  return encoder.encode(
    JSON.stringify({
      ...(tat === undefined ? {} : { tat }),
      ...(held.size === 0 ? {} : { held: Object.fromEntries(held) }),
      ...(asking.size === 0 ? {} : { asking: Object.fromEntries(requests) }),
    }),
  )
}

export const LIMIT_PREFIX = "limit/"
/** A worker that holds permits, or asks for some, keeps an entry here alive. */
export const HOLDER_PREFIX = "limit-holder/"

/** Longest tenant that is a part of the key as it is, in bytes: a key may have 512. */
const LONGEST_TENANT = 200

/** Key of a method's limit; `tenant` is "" where it has no key of its own. */
export const limitKey = (method: string, tenant: string): string => {
  const plain = Buffer.byteLength(tenant) <= LONGEST_TENANT && !tenant.startsWith("#")
  return `${LIMIT_PREFIX}${method}/${plain ? tenant : `#${createHash("sha256").update(tenant).digest("hex")}`}`
}

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
