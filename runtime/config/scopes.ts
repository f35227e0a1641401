/** The scopes of the HTTP interface, and what a caller is told about its own. */
import * as Schema from "effect/Schema"

/** Scopes of the HTTP interface. */
export const SCOPES = ["read", "payload", "submit", "operate", "admin"] as const

/**
 * `read`: read everything. `payload`, which `read` includes: see what jobs were given and gave back (input, result, meta, headers).
 * `submit`: submit tasks. `operate`: cancel and retry jobs, pause and resume queues, schedules and workers. `admin`:
 * everything, also delete and purge, and control workers.
 */
export type Scope = (typeof SCOPES)[number]

/** What a token may be given: scopes, and the word that takes `payload` out of `read`. */
export const TOKEN_SCOPES = [...SCOPES, "no-payload"] as const

export type TokenScope = (typeof TOKEN_SCOPES)[number]

/** All scopes of a token or a link, with those that others include. */
export const granted = (given: ReadonlyArray<TokenScope>): ReadonlyArray<Scope> => {
  const all = new Set<TokenScope>(given.includes("admin") ? SCOPES : given)
  if (all.has("read")) all.add("payload")
  if (given.includes("no-payload")) all.delete("payload")
  return SCOPES.filter((scope) => all.has(scope))
}

/** Why `no-payload` cannot be given with these scopes; `undefined` if it can, or is not. */
export const whyNotTogether = (scopes: ReadonlyArray<TokenScope>): string | undefined => {
  if (!scopes.includes("no-payload")) return undefined
  const contrary = scopes.find((scope) => scope === "admin" || scope === "payload")
  if (contrary !== undefined) return `${contrary} contradicts no-payload; leave one of them out`
  return scopes.every((scope) => scope === "no-payload")
    ? "combine no-payload with another scope, such as read+no-payload"
    : undefined
}

export interface Token {
  /** Sent as `Authorization: Bearer <token>`. Long and random: `openssl rand -hex 32`. */
  readonly token: string
  readonly scopes: ReadonlyArray<TokenScope>
  /** Name of the person or program that holds the token, for people; nothing is decided by it. */
  readonly name?: string | undefined
}

const Text = Schema.String.check(Schema.isMinLength(1))

export const Tokens: Schema.Codec<ReadonlyArray<Token>> = Schema.Array(
  Schema.Struct({
    token: Text,
    scopes: Schema.Array(Schema.Literals(TOKEN_SCOPES)),
    name: Schema.optionalKey(Text),
  }),
)

export const Me = Schema.Struct({
  name: Schema.optionalKey(Schema.String.annotate({ description: "Name of the token, if it has one" })),
  scopes: Schema.Array(Schema.Literals(SCOPES)).annotate({
    description: "The scopes of the caller, including implied ones; all of them if the service has no tokens",
  }),
  open: Schema.Boolean.annotate({ description: "Whether the service requires no token" }),
  features: Schema.Array(Schema.String).annotate({
    description: "Features of this service: the first word of each path under `/v1`, such as `schedules`",
  }),
  zone: Schema.String.annotate({ description: "The time zone that applies to times without one" }),
}).annotate({ identifier: "Me" })
export type Me = typeof Me.Type
