/**
 * What protects a service without tokens: it listens on loopback only, answers only to loopback's own names (a page of
 * another name that resolves here, DNS rebinding, is refused), and takes no writes from pages of other origins.
 */
import { CallboardError } from "../errors.ts"

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
    `without tokens this service answers to localhost only, not to ${JSON.stringify(name.slice(0, 100))}; set http.tokens to serve other names`,
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
    "a web page of another origin cannot change anything here: call from a server, or set http.tokens and send one",
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
