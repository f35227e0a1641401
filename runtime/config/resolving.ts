/**
 * Resolves the settings from flags, environment and configuration file: a flag wins over a variable, a variable over the
 * file. Each resolved setting says where its value was given.
 */
import * as Result from "effect/Result"
import { checkerOf } from "../options/check.ts"
import { isObject } from "../protocol/guards.ts"
import { didYouMean } from "../protocol/suggest.ts"
import { ConfigError, type ConfigFile, checkConfig } from "./file.ts"
import { TOKEN_SCOPES } from "./scopes.ts"
import type { Reading } from "./setting.ts"
import { type ListedSetting, SETTINGS } from "./settings.ts"
import type { Config } from "./table.ts"

/** A setting that was given as a flag: the flag as it was written (`--port`), and its text. */
export interface FlagValue {
  readonly flag: string
  readonly text: string
}

export interface Sources {
  /** By the path of the setting, such as `http.port`. */
  readonly flags?: ReadonlyMap<string, FlagValue>
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly file?: ConfigFile | undefined
}

/** A setting with its value and where it was given: `default`, a file, a variable or a flag. */
export interface ResolvedSetting {
  readonly setting: ListedSetting
  /** Absent: the default holds. */
  readonly value?: unknown
  readonly origin: string
}

export interface Resolved {
  /** The settings that were given anywhere. Defaults are not filled in. */
  readonly config: Config
  /** All settings, in the order of the table. */
  readonly entries: ReadonlyArray<ResolvedSetting>
}

/** Variables that begin with `CALLBOARD_` and are no settings. */
const FOREIGN_VARIABLES = [
  /^CALLBOARD_RUNTIME$/,
  /^CALLBOARD_TEST_/,
  // Kubernetes sets these in every pod that starts after a service with the name "callboard".
  /^CALLBOARD_SERVICE_(HOST|PORT)(_|$)/,
  /^CALLBOARD_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$/,
]

const checkVariables = (env: Readonly<Record<string, string | undefined>>): void => {
  const known = SETTINGS.flatMap((setting) => setting.variable ?? [])
  for (const name of Object.keys(env)) {
    if (!name.startsWith("CALLBOARD_") || known.includes(name)) continue
    if (FOREIGN_VARIABLES.some((external) => external.test(name))) continue
    throw new ConfigError(`${name} is not a setting${didYouMean(name, known)}`)
  }
}

const SWITCHES: ReadonlyMap<string, boolean> = new Map([
  ...["true", "yes", "on", "1"].map((text) => [text, true] as const),
  ...["false", "no", "off", "0"].map((text) => [text, false] as const),
])

/** Converts the text of a flag or a variable to a value. The schema checks the value afterwards. */
export const readText = (how: Reading, text: string): unknown => {
  switch (how) {
    case "number":
    case "duration":
      // A duration with a unit stays text.
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
      // A token can contain neither a comma nor a colon, so both can separate.
      return text.split(",").map((part, place) => {
        const at = part.indexOf(":")
        if (at < 0) {
          throw new ConfigError(
            `token ${place + 1} has no scope: write scope:token, with one of the scopes ${TOKEN_SCOPES.join(", ")}, or several with + between them`,
          )
        }
        return { token: part.slice(at + 1).trim(), scopes: part.slice(0, at).trim().split("+") }
      })
    default:
      return text
  }
}

const valueOf = (setting: ListedSetting, text: string, origin: string): unknown => {
  let value: unknown
  try {
    value = readText(setting.read, text)
  } catch (cause) {
    throw new ConfigError(`${origin}: ${cause instanceof Error ? cause.message : String(cause)}`)
  }
  // Text that is no number is checked as NaN, so that the message says which number is allowed.
  const checked = setting.read === "number" && typeof value === "string" ? Number.NaN : value
  const found = checkerOf(setting.schema)(checked)
  if (Result.isFailure(found)) throw new ConfigError(`${origin}: ${found.failure.message}`)
  return value
}

const at = (value: unknown, path: string): unknown =>
  path.split(".").reduce<unknown>((inner, key) => (isObject(inner) ? Reflect.get(inner, key) : undefined), value)

const entryOf = (setting: ListedSetting, sources: Sources): ResolvedSetting => {
  const flag = sources.flags?.get(setting.path)
  if (flag !== undefined) {
    const origin = `flag ${flag.flag}`
    return { setting, value: valueOf(setting, flag.text, flag.flag), origin }
  }
  const text = setting.variable === undefined ? undefined : sources.env?.[setting.variable]
  // An empty variable counts as absent: a shell or a compose file leaves a variable out like this.
  if (setting.variable !== undefined && text !== undefined && text !== "") {
    return { setting, value: valueOf(setting, text, setting.variable), origin: `variable ${setting.variable}` }
  }
  const value = at(sources.file?.value, setting.path)
  if (value !== undefined && sources.file !== undefined) return { setting, value, origin: sources.file.name }
  return { setting, origin: "default" }
}

/** Resolves all settings. Throws {@link ConfigError} where any source holds an unknown name or a wrong value. */
export const resolveConfig = (sources: Sources): Resolved => {
  if (sources.file !== undefined) checkConfig(sources.file.name, sources.file.value)
  if (sources.env !== undefined) checkVariables(sources.env)
  const entries = SETTINGS.map((setting) => entryOf(setting, sources))
  const config: Record<string, unknown> = {}
  const groups: Record<string, Record<string, unknown>> = {}
  for (const { setting, value } of entries) {
    if (value === undefined) continue
    const [name = "", key] = setting.path.split(".")
    if (key === undefined) config[name] = value
    else groups[name] = { ...groups[name], [key]: value }
  }
  return { config: checkConfig("the configuration", { ...config, ...groups }), entries }
}
