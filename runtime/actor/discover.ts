/** Loads the actors of a folder: every exported value of its modules that is an actor. */
import { readdir } from "node:fs/promises"
import { extname, join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { loadFailure } from "../platform/load-failure.ts"
import { isObject } from "../protocol/guards.ts"
import { type ActorDefinition, isActor } from "./actor.ts"

/** The actors of a folder cannot be loaded: the message names the file or the folder, and what to do. */
export class DiscoveryFailed extends Error {
  readonly _tag = "DiscoveryFailed"
  override readonly name = "DiscoveryFailed"
}

const EXTENSIONS = new Set([".ts", ".js", ".mts", ".mjs", ".tsx", ".jsx"])

/** Modules that may export actors: the files of the folder, and `mod.ts` or `index.ts` of each folder in it. */
const modulesOf = async (folder: string): Promise<ReadonlyArray<string>> => {
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
    throw new DiscoveryFailed(`there is no folder ${folder}: create it, or name another folder with --actors`, {
      cause,
    })
  })
  const files: Array<string> = []
  for (const entry of entries.sort((a, b) => a.name.localeCompare(b.name))) {
    if (entry.name.startsWith(".") || entry.name.startsWith("_")) continue
    const path = join(folder, entry.name)
    if (entry.isFile() && EXTENSIONS.has(extname(entry.name)) && !/\.(test|spec|types|d)\.[a-z]+$/.test(entry.name))
      files.push(path)
    else if (entry.isDirectory() && entry.name !== "node_modules") {
      const inner = await readdir(path)
      const entryFile = inner.find((name) => /^(mod|index)\.[mc]?[jt]sx?$/.test(name))
      if (entryFile !== undefined) files.push(join(path, entryFile))
    }
  }
  return files
}

/**
 * Loads the actors of a folder and sets their `module`, from which child processes load them again. Fails with
 * {@link DiscoveryFailed} where a file cannot be loaded, where two actors have the same name, and where there are none.
 *
 * @example
 * ```ts
 * await serve({ actors: await discoverActors("actors") })
 * ```
 */
export const discoverActors = async (folder: string): Promise<ReadonlyArray<ActorDefinition>> => {
  const root = resolve(folder)
  const found = new Map<string, { readonly actor: ActorDefinition; readonly file: string }>()
  for (const file of await modulesOf(root)) {
    let module: unknown
    try {
      module = await import(pathToFileURL(file).href)
    } catch (cause) {
      throw new DiscoveryFailed(loadFailure(file, cause), { cause })
    }
    if (!isObject(module)) continue
    for (const value of Object.values(module)) {
      if (!isActor(value)) continue
      const other = found.get(value.name)
      if (other !== undefined && other.actor !== value) {
        throw new DiscoveryFailed(`${file} and ${other.file} both define an actor ${value.name}: names must be unique`)
      }
      found.set(value.name, { actor: value, file })
    }
  }
  if (found.size === 0)
    throw new DiscoveryFailed(`${root} holds no actors: a file there must export default actor("name", { methods: … })`)
  return [...found.values()].map(({ actor, file }) => ({ ...actor, module: actor.module ?? pathToFileURL(file).href }))
}
