/**
 * Authentication of requests. With tokens a request needs one whose scopes allow the route, or a link to its job. Without tokens every request
 * that reaches the address may do everything; three checks protect that: the service listens on loopback only, it answers
 * only requests that name this machine as their host (so that a page whose name resolves to loopback, DNS rebinding, is
 * refused), and it takes no writes from pages of other origins.
 */
import { createHash, timingSafeEqual } from "node:crypto"
import {
  granted,
  SCOPES,
  type Scope,
  TOKEN_SCOPES,
  type Token,
  type TokenScope,
  whyNotTogether,
} from "../config/scopes.ts"
import { CallboardError } from "../errors.ts"
import { compact } from "../protocol/compact.ts"
import { isLink, LINK_PREFIX, type Link, openLink } from "./link.ts"

/** The sender of a request, identified by its token. */
export interface Caller {
  /** Hash of the token: differs between tokens, and does not reveal one. Empty where the service has no tokens. */
  readonly key: string
  readonly name?: string
  /** What it may do, with the scopes that others include. */
  readonly scopes: ReadonlyArray<Scope>
  /** Whether the service asks for no tokens. */
  readonly open: boolean
  /** The job that a link is for, and when it ends, in milliseconds since the epoch. Absent for every other caller. */
  readonly link?: Pick<Link, "id" | "until">
  may(scope: Scope): boolean
}

const UNRESTRICTED: Caller = { key: "", scopes: SCOPES, open: true, may: () => true }

/** The caller on a route that needs no token. */
export const ANONYMOUS: Caller = { key: "", scopes: [], open: false, may: () => false }

/** Shortest token of a service that other machines reach, in characters. */
const MIN_TOKEN_LENGTH = 16

/** Fails with `invalid-input` on a token that other machines could guess, naming it by its place in the list. */
export const checkTokenLengths = (tokens: ReadonlyArray<Token>, host: string): void => {
  for (const [at, { token }] of tokens.entries()) {
    if (token.length >= MIN_TOKEN_LENGTH) continue
    refuse(
      at,
      `token: must have at least ${MIN_TOKEN_LENGTH} characters, because ${host} is reachable from other machines; make one with \`openssl rand -hex 32\``,
    )
  }
}

/** What RFC 6750 allows in a header. */
const BEARER_TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/

const isTokenScope = (text: unknown): text is TokenScope => (TOKEN_SCOPES as ReadonlyArray<unknown>).includes(text)

const digest = (text: string): Buffer => createHash("sha256").update(text).digest()

const refuse = (at: number, message: string): never => {
  const field = `http.tokens[${at}]`
  throw new CallboardError("invalid-input", `${field}: ${message}`, { field })
}

interface KnownToken {
  readonly digest: Buffer
  readonly caller: Caller
}

const knownToken = ({ token, scopes, name }: Token, at: number): KnownToken => {
  if (typeof token !== "string" || !BEARER_TOKEN.test(token)) {
    refuse(at, "token: use letters, digits and - . _ ~ + /, for example from `openssl rand -hex 32`")
  }
  if (!Array.isArray(scopes) || scopes.length === 0 || !scopes.every(isTokenScope)) {
    refuse(at, `scopes: name at least one of ${TOKEN_SCOPES.join(", ")}`)
  }
  if (isLink(token)) refuse(at, `token: must not begin with ${LINK_PREFIX}, as links to jobs do`)
  const why = whyNotTogether(scopes)
  if (why !== undefined) refuse(at, `scopes: ${why}`)
  const hash = digest(token)
  return {
    digest: hash,
    caller: { key: hash.toString("base64url"), ...compact({ name }), ...mayBy(granted(scopes)) },
  }
}

const mayBy = (scopes: ReadonlyArray<Scope>): Pick<Caller, "scopes" | "open" | "may"> => ({
  scopes,
  open: false,
  may: (scope) => scopes.includes(scope),
})

/** The holder of a link. Its streams count together with those of every other link to the job. */
const linkCaller = ({ id, scopes, until }: Link): Caller => ({
  key: `link ${id}`,
  ...mayBy(scopes),
  link: { id, until },
})

/** Finds the caller of a request by its `Authorization` header. Fails with `unauthorized`. */
export type Authenticate = (authorization: string | undefined) => Caller

/**
 * The callers with these tokens, and with links signed with this secret. Fails with `invalid-input`, naming the token by its
 * place in the list and never by its text.
 */
export const authenticatorOf = (tokens: ReadonlyArray<Token> = [], linkSecret?: string): Authenticate => {
  const byToken = tokenAuthenticator(tokens)
  if (tokens.some(({ token }) => token === linkSecret)) {
    throw new CallboardError(
      "invalid-input",
      "http.linkSecret: must differ from every token, since the holder of that token could make links",
      { field: "http.linkSecret" },
    )
  }
  return (authorization) => {
    const given = bearerOf(authorization)
    // A link stays limited to its job on a service without tokens too, so that a page meets the same refusals there.
    return given !== undefined && isLink(given) ? linkCaller(openLink(linkSecret, given)) : byToken(given)
  }
}

/** The token of a header `Authorization`, if it holds one. */
export const bearerOf = (authorization: string | undefined): string | undefined =>
  /^bearer +(\S+) *$/i.exec(authorization ?? "")?.[1]

const tokenAuthenticator = (tokens: ReadonlyArray<Token>): ((given: string | undefined) => Caller) => {
  if (tokens.length === 0) return () => UNRESTRICTED
  const known = tokens.map(knownToken)
  if (new Set(known.map(({ caller }) => caller.key)).size < known.length) {
    throw new CallboardError("invalid-input", "http.tokens: a token is used twice", { field: "http.tokens" })
  }
  return (given) => {
    if (given === undefined) {
      throw new CallboardError("unauthorized", "send a token: `Authorization: Bearer <token>`")
    }
    // Digests are compared, all of them, in constant time: neither length nor a common beginning shows.
    const hash = digest(given)
    let found: Caller | undefined
    for (const each of known) if (timingSafeEqual(each.digest, hash)) found = each.caller
    if (found === undefined) throw new CallboardError("unauthorized", "this token is not known")
    return found
  }
}

const LOOPBACK_NAME = /^(?:localhost|[a-z0-9-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])\.?$/i

/** Whether an address to listen on can be reached from this machine only. */
export const isLoopback = (host: string): boolean => LOOPBACK_NAME.test(hostText(host))

/** An address as it stands in a URL. */
export const hostText = (host: string): string => (host.includes(":") && !host.startsWith("[") ? `[${host}]` : host)

/** Fails with `forbidden` unless the request names this machine as its host. */
export const checkHost = (host: string | undefined): void => {
  const name = (host ?? "").replace(/:\d+$/, "")
  if (LOOPBACK_NAME.test(name)) return
  throw new CallboardError(
    "forbidden",
    `without tokens this service answers only to localhost, not to ${JSON.stringify(name.slice(0, 100))}; set http.tokens to serve other names`,
    { field: "Host" },
  )
}

/** Fails with `forbidden` when a page of another origin asks for a change. Programs send none of these headers. */
export const checkOrigin = (request: Request): void => {
  const { headers } = request
  const origin = headers.get("origin")
  const site = headers.get("sec-fetch-site")
  const own = origin === null || hostOf(origin) === headers.get("host")?.toLowerCase()
  if (own && (site === null || site === "same-origin" || site === "none")) return
  throw new CallboardError(
    "forbidden",
    "a web page of another origin cannot change anything here: send the request from a server, or set http.tokens and send a token",
    { field: "Origin" },
  )
}

const hostOf = (origin: string): string | undefined => {
  try {
    return new URL(origin).host
  } catch {
    return undefined
  }
}
