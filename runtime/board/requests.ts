/** What callers of a board give, over code, HTTP and the command line: parsed here once, with one schema for each. */
import * as Schema from "effect/Schema"
import { type Given, parserOf } from "../options/check.ts"
import { DURATION_RULE, type DurationInput, milliseconds } from "../options/duration.ts"
import { Duration } from "../options/duration-field.ts"
import { isName, Name, wholeNumber } from "../options/fields.ts"
import { refuseInput } from "../options/refuse.ts"
import { isObject } from "../protocol/guards.ts"

const Details = Schema.Record(Schema.String, Schema.Unknown)
const Book = Schema.Struct({ name: Name, uuid: Name })

const postFields = {
  details: Schema.optionalKey(Details.annotate({ description: "The data for the worker: a JSON object" })),
  book: Schema.optionalKey(
    Book.annotate({ description: "The place in which the application stores the data of the job" }),
  ),
  priority: Schema.optionalKey(
    Schema.String.annotate({ description: "VERY_HIGH, HIGH, NORMAL (the default), LOW or VERY_LOW" }),
  ),
}
export const PostRequest = Schema.Struct({ name: Name, ...postFields }).annotate({ identifier: "BoardPost" })
/** What a job is posted with, besides its name. */
export type PostOptions = Omit<Given<typeof PostRequest.Type>, "name">

export const EntityRequest = Schema.Struct({
  kind: Name.annotate({ description: "Kind of process, such as `conductor`" }),
  name: Name,
  metadata: Schema.optionalKey(Details),
}).annotate({ identifier: "BoardEntity" })
/** A process that works for a board, as others see it. */
export type BoardEntity = typeof EntityRequest.Type

const Owner = Schema.String.annotate({ description: "The owner of the claim" })
const NO_CLAIM_NUMBER = "must be the number of a claim: 1, 2, 3 …"
const ClaimNumber = Schema.Number.annotate({ message: NO_CLAIM_NUMBER })
  .check(Schema.isFinite())
  .annotate({ description: "Only if the current claim has this number" })
const EXPIRY_RULE = `${DURATION_RULE}; null for a claim that does not expire`
const Expiry = Schema.NullOr(Duration).annotate({
  message: EXPIRY_RULE,
  description: "How long the claim is valid: seconds, or text such as 30s; null: until it is released",
})

export const ClaimRequest = Schema.Struct({ owner: Owner, expiry: Schema.optionalKey(Expiry) }).annotate({
  identifier: "BoardClaimRequest",
})
export const OwnerRequest = Schema.Struct({ owner: Owner, claim: Schema.optionalKey(ClaimNumber) }).annotate({
  identifier: "BoardOwnerRequest",
})
export const ExtendRequest = Schema.Struct({
  expiry: Expiry,
  owner: Schema.optionalKey(Owner),
  claim: Schema.optionalKey(ClaimNumber),
}).annotate({ identifier: "BoardExtendRequest" })

const parseWholePost = parserOf(PostRequest, "a board job", "job")

/**
 * Like {@link parseWholePost}, which takes ten times as long, with a short way for most jobs: those with a name and
 * details alone.
 */
export const parsePost = (value: unknown): typeof PostRequest.Type => {
  if (!isObject(value)) return parseWholePost(value)
  for (const field in value) if (field !== "name" && field !== "details") return parseWholePost(value)
  if (!("name" in value && isName(value.name))) return parseWholePost(value)
  const details = "details" in value ? value.details : undefined
  if (details === undefined) return { name: value.name }
  const isPlain = isObject(details) && Object.getPrototypeOf(details) === Object.prototype
  return isPlain ? { name: value.name, details: { ...details } } : parseWholePost(value)
}
export const parseEntity = parserOf(EntityRequest, "an entity", "entity")
export const parseClaim = parserOf(ClaimRequest, "a claim", "body")
export const parseOwner = parserOf(OwnerRequest, "an owner", "body")
export const parseExtend = parserOf(ExtendRequest, "an extension", "body")

/** Number of a claim, where one is given. Fails with `invalid-input`. */
export const checkClaimNumber = (claim: number | undefined): void => {
  if (claim !== undefined && !(Number.isSafeInteger(claim) && claim >= 1)) refuseInput("claim", NO_CLAIM_NUMBER)
}

export const checkLimit = (limit: number): void => {
  wholeNumber("limit", limit, { min: 1, max: 1_000 })
}

/** How long a claim holds, in milliseconds: more than 0, or `null` for one that does not expire. */
export const expiryOf = (expiry: DurationInput | null): number | null => {
  if (expiry === null) return null
  if (typeof expiry !== "number" && typeof expiry !== "string") refuseInput("expiry", EXPIRY_RULE)
  const ms = milliseconds("expiry", expiry)
  return ms > 0 ? ms : refuseInput("expiry", "must be more than 0, or null for a claim that does not expire")
}

/** Most bytes of kind and name of an entity in its key, which has 512 in all. */
const KEY_BYTES = { kind: 128, name: 300 }

/** The end of the key of an entity. Fails with `invalid-input` where kind or name is too long for it, or no whole text. */
export const entityKey = (entity: Pick<BoardEntity, "kind" | "name">): string => {
  const part = (field: "kind" | "name"): string => {
    const text = entity[field].isWellFormed() ? encodeURIComponent(entity[field]) : ""
    if (text.length >= 1 && text.length <= KEY_BYTES[field]) return text
    return refuseInput(field, `must be text of 1 to ${KEY_BYTES[field]} bytes, percent-encoded`)
  }
  return `${part("kind")}/${part("name")}`
}
