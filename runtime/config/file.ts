/** Finds and loads the configuration file of a folder, checks it against the schema, and words what is wrong with it. */

import { existsSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { checkerOf, withoutAnyUndefined } from "../options/check.ts"
import { loadFailure } from "../platform/load-failure.ts"
import { isObject } from "../protocol/guards.ts"
import { didYouMean } from "../protocol/suggest.ts"
import { fieldsInFile } from "./setting.ts"
import { type Config, TABLE } from "./table.ts"

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
    throw new ConfigError(loadFailure(name, cause), { cause })
  }
}

const check = checkerOf(Schema.Struct(fieldsInFile(TABLE)))

/** Checks what a configuration file exports. Fails with {@link ConfigError}, naming file and setting. */
export const checkConfig = (file: string, value: unknown): Config => {
  const checked = check(withoutAnyUndefined(value))
  // The schema was made of the table, as the type was.
  if (Result.isSuccess(checked)) return checked.success as Config
  const { place, message, known } = checked.failure
  const group = place.slice(0, place.lastIndexOf(".") + 1)
  if (known !== undefined)
    throw new ConfigError(
      `${file}: ${place} is not a setting${didYouMean(
        place,
        known.map((name) => group + name),
      )}`,
    )
  throw new ConfigError(place === "" ? `${file}: its default export ${message}` : `${file}: ${place}: ${message}`)
}
