/**
 * Where settings come from: flags, the environment, the configuration file. Puts them together, the strongest last, and
 * remembers of each value where it was given.
 */
import { Result, Schema } from "effect"
import { didYouMean } from "../options/suggest.ts"
import { checkConfig, issueOf } from "./checking.ts"
import { ConfigError } from "./config-error.ts"
import type { ConfigFile } from "./file.ts"
import type { Config } from "./schema.ts"
import { SETTINGS, type Setting } from "./settings.ts"
import { readText } from "./text.ts"

/** A setting that was given as a flag: the flag as it was written, and its text. */
export interface FlagValue {
  readonly flag: string
  readonly text: string
}

export interface Sources {
  /** By the path of the setting. */
  readonly flags?: ReadonlyMap<string, FlagValue>
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly file?: ConfigFile | undefined
}

/** A setting with the value that holds and its origin: `default`, a file, a variable or a flag. */
export interface Entry {
  readonly setting: Setting
  /** Absent: the default. */
  readonly value?: unknown
  readonly origin: string
}

export interface Resolved {
  /** What was given anywhere; what was not is left to its default. */
  readonly config: Config
  /** All settings, in the order of the schema. */
  readonly entries: ReadonlyArray<Entry>
}

/** Variables that begin like ours and belong to the launcher or to the tests. */
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
    if (FOREIGN_VARIABLES.some((foreign) => foreign.test(name))) continue
    throw new ConfigError(`${name} is not a setting${didYouMean(name, known)}`)
  }
}

const valueOf = (setting: Setting, text: string, origin: string): unknown => {
  let value: unknown
  try {
    value = readText(setting.read, text)
  } catch (cause) {
    throw new ConfigError(`${origin}: ${cause instanceof Error ? cause.message : String(cause)}`)
  }
  // What is no number is told what number it must be.
  const checked = setting.read === "number" && typeof value === "string" ? Number.NaN : value
  const decoded = Schema.decodeUnknownResult(setting.schema)(checked)
  if (Result.isFailure(decoded)) throw new ConfigError(`${origin}: ${issueOf(decoded.failure.issue).message}`)
  return value
}

const at = (value: unknown, path: string): unknown =>
  path
    .split(".")
    .reduce<unknown>(
      (inner, key) => (typeof inner === "object" && inner !== null ? Reflect.get(inner, key) : undefined),
      value,
    )

const entryOf = (setting: Setting, sources: Sources): Entry => {
  const flag = sources.flags?.get(setting.path)
  if (flag !== undefined) {
    const origin = `flag ${flag.flag}`
    return { setting, value: valueOf(setting, flag.text, flag.flag), origin }
  }
  const text = setting.variable === undefined ? undefined : sources.env?.[setting.variable]
  // An empty variable is none: that is how a shell or a compose file leaves one out.
  if (setting.variable !== undefined && text !== undefined && text !== "") {
    return { setting, value: valueOf(setting, text, setting.variable), origin: `variable ${setting.variable}` }
  }
  const value = at(sources.file?.value, setting.path)
  if (value !== undefined && sources.file !== undefined) return { setting, value, origin: sources.file.name }
  return { setting, origin: "default" }
}

/** Puts the sources together. Fails with {@link ConfigError} on whatever is unknown or not valid in any of them. */
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
