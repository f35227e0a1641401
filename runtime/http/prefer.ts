/** The `Prefer` header (RFC 7240): what a client would like. What cannot be honoured is passed over, as it says there. */
import { MAX_WAIT_MS } from "./limits.ts"

export interface Preferences {
  /** `wait=10`: longest wait for the result, in milliseconds. */
  readonly waitMs: number | undefined
  /** `handling=lenient`: accept tasks that nobody is known to serve. */
  readonly lenient: boolean
}

export const parsePrefer = (header: string | null): Preferences => {
  const found = new Map<string, string>()
  for (const part of (header ?? "").split(",")) {
    const [preference = ""] = part.split(";")
    const equals = preference.indexOf("=")
    const name = (equals === -1 ? preference : preference.slice(0, equals)).trim().toLowerCase()
    const value = equals === -1 ? "" : preference.slice(equals + 1).trim()
    // Of two of one name the first one counts.
    if (!found.has(name)) found.set(name, value.replace(/^"(.*)"$/, "$1"))
  }
  const wait = found.get("wait") ?? ""
  return {
    waitMs: /^\d{1,6}$/.test(wait) ? Math.min(Number(wait) * 1000, MAX_WAIT_MS) : undefined,
    lenient: found.get("handling")?.toLowerCase() === "lenient",
  }
}
