/** A link to one job: a token with which its holder reaches this job alone, until it ends. Schemas of its request and answer. */
import * as Schema from "effect/Schema"
import { SCOPES } from "../config/scopes.ts"
import type { DurationInput } from "../options/duration.ts"
import { duration } from "../options/duration-field.ts"
import { Time } from "../options/fields.ts"

/** What a link may be given. */
export const LINK_SCOPES = ["read", "operate", "no-payload"] as const

export type LinkScope = (typeof LINK_SCOPES)[number]

export const DEFAULT_LINK_TTL = "1 day"
const MAX_LINK_MS = 30 * 86_400_000

const Scopes = Schema.Array(Schema.Literals(LINK_SCOPES)).annotate({
  description:
    "`read`: see the state, the events, the outcome and the error of the job; `operate`: cancel it and run it again; `no-payload`, next to another one: without its result and the details of its progress",
  default: ["read"],
})

const Ttl = duration({ min: 1_000, max: MAX_LINK_MS }).annotate({
  description: "How long the link is valid: seconds, or text such as `1d`; 1 second to 30 days",
  default: DEFAULT_LINK_TTL,
})

export const LinkRequest = Schema.Struct({
  scopes: Schema.optionalKey(Scopes),
  ttl: Schema.optionalKey(Ttl),
}).annotate({ identifier: "LinkRequest" })

export const JobLink = Schema.Struct({
  id: Schema.String.annotate({ description: "Id of the job" }),
  token: Schema.String.annotate({ description: "Sent as `Authorization: Bearer <token>`" }),
  scopes: Schema.Array(Schema.Literals(SCOPES)).annotate({
    description: "What its holder may do with the job, with the scopes that others include",
  }),
  expires: Time,
}).annotate({ identifier: "JobLink", description: "A token for one job" })

/** A token with which its holder reaches one job until `expires`. */
export type JobLink = typeof JobLink.Type

export interface LinkOptions {
  /**
   * `read`: see the state, the events, the outcome and the error of the job, but not its input; `operate`: cancel it and run it
   * again; `no-payload`, next to another one: without its result and the details of its progress. Defaults to `read`.
   */
  readonly scopes?: ReadonlyArray<LinkScope> | undefined
  /** How long the link is valid: seconds, or text such as `"1d"`; 1 second to 30 days. Defaults to 1 day. */
  readonly ttl?: DurationInput | undefined
}
