/**
 * Links to one job: tokens of the form `cbl1.<payload>.<mac>`, where the payload is JSON in base64url, and the MAC is the
 * HMAC-SHA-256 of the text before its dot. Nothing is stored: a process with the secret can make a link and check one. `cbl1` names
 * the algorithm and the form of the payload, so that a token cannot choose either.
 */
import { createHmac, timingSafeEqual } from "node:crypto"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { granted, SCOPES, type Scope, whyNotTogether } from "../config/scopes.ts"
import type { Connection } from "../connection/connection.ts"
import { CallboardError } from "../errors.ts"
import { DEFAULT_LINK_TTL, type JobLink, LinkRequest } from "../jobs/link.ts"
import { findRecord, goneError } from "../jobs/tracking/finding.ts"
import { parserOf } from "../options/check.ts"
import { milliseconds } from "../options/duration.ts"
import { refuseInput } from "../options/refuse.ts"
import { decoder } from "../protocol/text.ts"

export const LINK_PREFIX = "cbl1."

/** Whether a token is a link, or pretends to be one. */
export const isLink = (token: string): boolean => token.startsWith(LINK_PREFIX)

const Payload = Schema.Struct({
  /** Id of the job. */
  id: Schema.String,
  scopes: Schema.Array(Schema.Literals(SCOPES)),
  /** When the link ends, in milliseconds since the epoch. */
  until: Schema.Finite,
})
export type Link = typeof Payload.Type

// A field that this version does not know may be a limit of the link: such a link is refused.
const decodePayload = Schema.decodeUnknownResult(Schema.fromJsonString(Payload), { onExcessProperty: "error" })

const macOf = (secret: string, text: string): string => createHmac("sha256", secret).update(text).digest("base64url")

const signed = (secret: string, link: Link): string => {
  const text = `${LINK_PREFIX}${Buffer.from(JSON.stringify(link)).toString("base64url")}`
  return `${text}.${macOf(secret, text)}`
}

const isSame = (a: string, b: string): boolean => {
  const [one, other] = [Buffer.from(a), Buffer.from(b)]
  return one.length === other.length && timingSafeEqual(one, other)
}

const unauthorized = (message: string): CallboardError => new CallboardError("unauthorized", message)

/** What a token says that is a link. Fails with `unauthorized` if it was not made with this secret, or has ended by the clock of this process. */
export const openLink = (secret: string | undefined, token: string): Link => {
  if (secret === undefined) throw unauthorized("this service accepts no links: set http.linkSecret")
  const dot = token.lastIndexOf(".")
  const text = token.slice(0, dot)
  if (!isSame(token.slice(dot + 1), macOf(secret, text)))
    throw unauthorized("this link is not valid: it was changed, or was made with another http.linkSecret")
  const payload = decodePayload(decoder.decode(Buffer.from(text.slice(LINK_PREFIX.length), "base64url")))
  if (Result.isFailure(payload)) throw unauthorized("this link was made by another version of Callboard")
  checkLinkTime(payload.success)
  return payload.success
}

/** Fails with `unauthorized` once a link has ended by the clock of this process. */
export const checkLinkTime = ({ until }: Pick<Link, "until">): void => {
  if (Date.now() >= until) throw unauthorized(`this link ended at ${new Date(until).toISOString()}`)
}

const parseRequest = parserOf(LinkRequest, "link()", "body")

interface Issuer {
  /** `http.linkSecret`; `undefined` if none is set. */
  readonly secret: string | undefined
  may(scope: Scope): boolean
}

/**
 * Makes a link to a job. Fails with `unsupported` without a secret, with `forbidden` for a scope that the issuer lacks, with
 * `invalid-input`, naming the option, and with `not-found` and `gone`.
 */
export const makeLink = async (
  connection: Connection,
  { secret, may }: Issuer,
  id: string,
  given: unknown,
): Promise<JobLink> => {
  const { scopes: asked = ["read"], ttl = DEFAULT_LINK_TTL } = parseRequest(given)
  if (secret === undefined)
    throw new CallboardError(
      "unsupported",
      "links to jobs need a secret: set http.linkSecret to 32 characters or more",
      {
        field: "http.linkSecret",
      },
    )
  if (asked.length === 0) refuseInput("scopes", "must name read, operate or both")
  const why = whyNotTogether(asked)
  if (why !== undefined) refuseInput("scopes", why)
  const scopes = granted(asked)
  const lacking = scopes.find((scope) => !may(scope))
  if (lacking !== undefined) {
    const help = lacking === "payload" ? ": ask for read and no-payload" : ""
    throw new CallboardError(
      "forbidden",
      `this token lacks the scope ${lacking}, and so cannot give it to a link${help}`,
      {
        scope: lacking,
      },
    )
  }
  const { record } = await findRecord(connection, id)
  if (record.tombstone) throw goneError(id, record)
  const until = Date.now() + milliseconds("ttl", ttl)
  return { id, token: signed(secret, { id, scopes, until }), scopes, expires: new Date(until).toISOString() }
}
