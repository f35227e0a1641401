/**
 * The shared state of one limit and tenant in the store: which workers hold permits, which request more, and when the
 * rate has its next token.
 */
import { createHash } from "node:crypto"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ErasedMethod } from "../../actor/actor.ts"
import { isPromiseLike } from "../../async/timers.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import { fieldOf, isTenant, TENANT_RULE } from "../../protocol/name.ts"
import { decoder, encoder } from "../../protocol/text.ts"

const State = Schema.Struct({
  /** Time of the first token of the rate that no worker has taken, by the store's clock. */
  tat: Schema.optionalKey(Schema.Finite),
  /** Permits, by the id of the worker that holds them. They count while that worker is alive. */
  held: Schema.optionalKey(Schema.Record(Schema.String, Schema.Int)),
  /** Requests, by worker id: since when, by the store's clock, and how many permits in all. */
  asking: Schema.optionalKey(Schema.Record(Schema.String, Schema.Tuple([Schema.Finite, Schema.Int]))),
})

/** A worker's request for permits. */
export interface PermitRequest {
  readonly since: number
  /** Permits that it could use in all, including those that it holds. */
  readonly wanted: number
}

export interface LimitState {
  readonly tat: number | undefined
  readonly held: ReadonlyMap<string, number>
  readonly asking: ReadonlyMap<string, PermitRequest>
}

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(State))

/** Decodes the state. A state that is missing or cannot be read is that of a limit that was never used. */
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
/** Prefix of the entries that workers with permits or requests keep alive. */
export const HOLDER_PREFIX = "limit-holder/"

/** Longest tenant that is used in a key as it is, in bytes: a key may have 512. Longer ones are hashed. */
const MAX_TENANT = 200

/** Key of a method's limit in the store; `tenant` is "" where the limit has no tenants. */
export const limitKey = (method: string, tenant: string): string => {
  const plain = Buffer.byteLength(tenant) <= MAX_TENANT && !tenant.startsWith("#")
  return `${LIMIT_PREFIX}${method}/${plain ? tenant : `#${createHash("sha256").update(tenant).digest("hex")}`}`
}

type Key = NonNullable<ErasedMethod["limit"]>["key"]

/**
 * The tenant of a job: the value that the key of its method's limit takes from the input; "" for a limit without a key.
 */
export const tenantOf = (key: Key, input: unknown): string | { readonly problem: string } => {
  if (key === undefined) return ""
  const isField = typeof key === "string"
  try {
    const tenant = isField ? fieldOf(input, key) : key(input)
    // A promise is no valid tenant; its rejection must not stay unhandled.
    if (isPromiseLike(tenant)) tenant.then(undefined, () => undefined)
    if (isTenant(tenant)) return tenant
    const rule = isField ? `limit.key: the field ${key} must be` : "limit.key must return"
    return { problem: `${rule} ${TENANT_RULE}, not ${kindOf(tenant)}` }
  } catch (thrown) {
    return { problem: `limit.key failed: ${jobError(thrown).message}` }
  }
}

const kindOf = (value: unknown): string => {
  if (typeof value === "string") return `${Buffer.byteLength(value)} bytes`
  return value === null ? "null" : typeof value
}
