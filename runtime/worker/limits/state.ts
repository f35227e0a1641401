/** What the store holds of one limit and tenant: when the rate allows the next, and who holds how many slots. */
import { createHash } from "node:crypto"
import { Result, Schema } from "effect"

const State = Schema.Struct({
  /** Theoretical arrival time of the next task (GCRA), by the store's clock. */
  tat: Schema.optionalKey(Schema.Finite),
  /** Slots in use, by the id of the worker that holds them. They count while that worker is alive. */
  held: Schema.optionalKey(Schema.Record(Schema.String, Schema.Int)),
})

export interface LimitState {
  readonly tat: number | undefined
  readonly held: ReadonlyMap<string, number>
}

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(State))
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** What is not there, or cannot be read, is a limit that nobody used yet. */
export const decodeState = (value: Uint8Array | undefined): LimitState => {
  const decoded = value === undefined ? undefined : Result.getOrUndefined(decode(decoder.decode(value)))
  return { tat: decoded?.tat, held: new Map(Object.entries(decoded?.held ?? {})) }
}

export const encodeState = ({ tat, held }: LimitState): Uint8Array =>
  encoder.encode(
    JSON.stringify({
      ...(tat === undefined ? {} : { tat }),
      ...(held.size === 0 ? {} : { held: Object.fromEntries(held) }),
    }),
  )

export const LIMIT_PREFIX = "limit/"
/** A worker that holds slots keeps an entry here alive. */
export const HOLDER_PREFIX = "limit-holder/"

/** Longest tenant that is a part of the key as it is, in bytes: a key may have 512. */
const LONGEST_TENANT = 200

/** Key of a method's limit; `tenant` is "" where it has no key of its own. */
export const limitKey = (method: string, tenant: string): string => {
  const plain = Buffer.byteLength(tenant) <= LONGEST_TENANT && !tenant.startsWith("#")
  return `${LIMIT_PREFIX}${method}/${plain ? tenant : `#${createHash("sha256").update(tenant).digest("hex")}`}`
}
