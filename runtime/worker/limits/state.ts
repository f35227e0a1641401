/** What the store holds of one limit and tenant: when the rate allows the next, who holds how many slots, who is called. */
import { createHash } from "node:crypto"
import { Result, Schema } from "effect"

const State = Schema.Struct({
  /** Theoretical arrival time of the next task (GCRA), by the store's clock. */
  tat: Schema.optionalKey(Schema.Finite),
  /** Slots in use, by the id of the worker that holds them. They count while that worker is alive. */
  held: Schema.optionalKey(Schema.Record(Schema.String, Schema.Int)),
  /** No task that waits and was not called has a place before this one. Absent: as far as is known, none waits. */
  head: Schema.optionalKey(Schema.String),
  /** By place, until when a called task is expected, by the store's clock, and how often it was called. */
  called: Schema.optionalKey(Schema.Record(Schema.String, Schema.Tuple([Schema.Finite, Schema.Int]))),
})

export interface Call {
  readonly until: number
  readonly tries: number
}

export interface LimitState {
  readonly tat: number | undefined
  readonly held: ReadonlyMap<string, number>
  readonly head: string | undefined
  readonly called: ReadonlyMap<string, Call>
}

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(State))
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** What is not there, or cannot be read, is a limit that nobody used yet. */
export const decodeState = (value: Uint8Array | undefined): LimitState => {
  const decoded = value === undefined ? undefined : Result.getOrUndefined(decode(decoder.decode(value)))
  const calls = Object.entries(decoded?.called ?? {}).map(
    ([place, [until, tries]]) => [place, { until, tries }] as const,
  )
  return {
    tat: decoded?.tat,
    held: new Map(Object.entries(decoded?.held ?? {})),
    head: decoded?.head,
    called: new Map(calls),
  }
}

export const encodeState = ({ tat, held, head, called }: LimitState): Uint8Array => {
  const calls = [...called].map(([place, { until, tries }]) => [place, [until, tries]])
  return encoder.encode(
    JSON.stringify({
      ...(tat === undefined ? {} : { tat }),
      ...(held.size === 0 ? {} : { held: Object.fromEntries(held) }),
      ...(head === undefined ? {} : { head }),
      ...(called.size === 0 ? {} : { called: Object.fromEntries(calls) }),
    }),
  )
}

export const LIMIT_PREFIX = "limit/"
/** A worker that holds slots keeps an entry here alive. */
export const HOLDER_PREFIX = "limit-holder/"
/** Tasks that wait for a slot. */
export const WAITING_PREFIX = "limit-waiting/"
const NEWS_PREFIX = "limit-news/"

/** Longest tenant that is a part of the key as it is, in bytes: a key may have 512. */
const LONGEST_TENANT = 200

/** Key of a method's limit; `tenant` is "" where it has no key of its own. */
export const limitKey = (method: string, tenant: string): string => {
  const plain = Buffer.byteLength(tenant) <= LONGEST_TENANT && !tenant.startsWith("#")
  return `${LIMIT_PREFIX}${method}/${plain ? tenant : `#${digest(tenant)}`}`
}

/** Where is said what was put on the list of a limit. */
export const newsKey = (key: string): string => `${NEWS_PREFIX}${digest(key).slice(0, 32)}`

/** What the keys of those begin with who wait for a limit. Of one length: no tenant's is the beginning of another's. */
export const waitingPrefix = (key: string): string => `${WAITING_PREFIX}${digest(key).slice(0, 32)}/`

const digest = (text: string): string => createHash("sha256").update(text).digest("hex")
