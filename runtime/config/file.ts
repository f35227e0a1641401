/** Finds and loads the configuration file of a folder, checks it against the schema, and words what is wrong with it. */

import { existsSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { problemOf } from "../options/check.ts"
import { isObject } from "../protocol/guards.ts"
import { didYouMean } from "../suggest.ts"
import { type Config, ConfigSchema } from "./schema.ts"
import { SETTINGS } from "./settings.ts"

/** A wrong setting. The message names the setting, where it was given, and what it must be. */
export class ConfigError extends Error {
  readonly _tag = "ConfigError"
  override readonly name = "ConfigError"
}

/** A configuration file that was loaded: its default export, not checked yet. */
export interface ConfigFile {
  /** Name of the file for messages, relative to the folder. */
  readonly name: string
  readonly value: unknown
}

const FILE_NAMES = ["callboard.config.ts", "callboard.config.mts", "callboard.config.js", "callboard.config.mjs"]

/** Paths that a configuration file may have in a folder. */
export const configPaths = (folder: string): ReadonlyArray<string> => FILE_NAMES.map((name) => join(folder, name))

/** Loads the configuration file of a folder, if there is one. Fails with {@link ConfigError}. */
export const loadConfigFile = async (folder: string): Promise<ConfigFile | undefined> => {
  const [name, other] = FILE_NAMES.filter((each) => existsSync(join(folder, each)))
  if (name === undefined) return undefined
  if (other !== undefined) throw new ConfigError(`there are both ${name} and ${other}: remove one`)
  try {
    const module: unknown = await import(pathToFileURL(join(folder, name)).href)
    const exported: unknown = isObject(module) && "default" in module ? module.default : undefined
    const value: unknown = typeof exported === "function" ? await exported() : exported
    return { name, value }
  } catch (cause) {
    throw new ConfigError(`${name} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
  }
}

const decode = Schema.decodeUnknownResult(ConfigSchema, { onExcessProperty: "error", errors: "all" })

/** The valid names in the group of an unknown one, for "did you mean". */
const siblingsOf = (path: string): ReadonlyArray<string> => {
  const group = path.includes(".") ? path.slice(0, path.lastIndexOf(".") + 1) : ""
  const names = group === "" ? Object.keys(ConfigSchema.fields) : SETTINGS.map((setting) => setting.path)
  return names.filter((name) => name.startsWith(group))
}

/** Checks what a configuration file exports. Fails with {@link ConfigError}, naming file and setting. */
export const checkConfig = (file: string, value: unknown): Config => {
  const decoded = decode(value)
  if (Result.isSuccess(decoded)) return decoded.success
  const { path, message, isUnknown } = problemOf(decoded.failure.issue)
  if (isUnknown) throw new ConfigError(`${file}: ${path} is not a setting${didYouMean(path, siblingsOf(path))}`)
  throw new ConfigError(path === "" ? `${file}: its default export ${message}` : `${file}: ${path}: ${message}`)
}
