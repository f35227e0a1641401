/** Finds and loads the configuration file of a folder. */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { ConfigError } from "./config-error.ts"

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
    const exported: unknown =
      typeof module === "object" && module !== null && "default" in module ? module.default : undefined
    const value: unknown = typeof exported === "function" ? await exported() : exported
    return { name, value }
  } catch (cause) {
    throw new ConfigError(`${name} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
  }
}
