/** How the text of a flag or a variable becomes a value. */

import { SCOPES } from "../options/scopes.ts"
import type { About } from "./about.ts"
import { ConfigError } from "./config-error.ts"

const SWITCHES: ReadonlyMap<string, boolean> = new Map([
  ...["true", "yes", "on", "1"].map((text) => [text, true] as const),
  ...["false", "no", "off", "0"].map((text) => [text, false] as const),
])

/** Reads a value from text. What it may be is checked by the schema; this only gives it its form. */
export const readText = (how: About["read"], text: string): unknown => {
  switch (how) {
    case "number":
    case "duration":
      // A duration may have a unit, and is then left as text.
      return /^\s*[+-]?(\d+(?:\.\d*)?|\.\d+)(e\d+)?\s*$/i.test(text) ? Number(text) : text
    case "switch":
      return SWITCHES.get(text.trim().toLowerCase()) ?? text
    case "list":
      return text
        .split(",")
        .map((part) => part.trim())
        .filter((part) => part !== "")
    case "pairs":
      return Object.fromEntries(
        text
          .split(",")
          .filter((pair) => pair.trim() !== "")
          .map((pair) => {
            const at = pair.indexOf("=")
            if (at < 1)
              throw new ConfigError(`${JSON.stringify(pair.trim())} is not a pair: write name=value,name=value`)
            return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
          }),
      )
    case "tokens":
      // Neither sign can be part of a token.
      return text.split(",").map((part, place) => {
        const at = part.indexOf(":")
        if (at < 0) {
          throw new ConfigError(
            `token ${place + 1} has no scope: write scope:token, with one of the scopes ${SCOPES.join(", ")}, or several with + between them`,
          )
        }
        return { token: part.slice(at + 1).trim(), scopes: part.slice(0, at).trim().split("+") }
      })
    default:
      return text
  }
}
