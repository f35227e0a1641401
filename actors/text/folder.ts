/** Confines submitted paths to a folder: no path, pattern or link leads out of it. */
import { glob, realpath, stat } from "node:fs/promises"
import { isAbsolute, join, relative, sep } from "node:path"

/** A path or pattern that is outside the folder. */
export class OutsideRoot extends Error {
  readonly _tag = "OutsideRoot"
  override readonly name = "OutsideRoot"
}

/** No file has this name, or none matches this pattern. */
export class NoSuchFile extends Error {
  readonly _tag = "NoSuchFile"
  override readonly name = "NoSuchFile"
}

/** A pattern whose matching could take for ever. */
export class CostlyPattern extends Error {
  readonly _tag = "CostlyPattern"
  override readonly name = "CostlyPattern"
}

export class TooManyFiles extends Error {
  readonly _tag = "TooManyFiles"
  override readonly name = "TooManyFiles"
}

export interface TextFile {
  /** Path for people: relative to the folder, with forward slashes. */
  readonly path: string
  /** Real path, with links resolved. */
  readonly location: string
  readonly bytes: number
}

export interface Found {
  /** In order of their paths. */
  readonly files: ReadonlyArray<TextFile>
  readonly skipped: ReadonlyArray<{ readonly file: string; readonly reason: string }>
}

// `..` as a whole segment, also as an alternative: `a/../b`, `{..,x}/b`, `@(..|x)/b`.
const CLIMBS = /(?:^|[\\/{},(|])\.\.(?:$|[\\/{},)|])/
const WILD = /[*?[\]{}()!]/

/**
 * Whether matching a pattern could take for ever: the runtimes make expressions of patterns that backtrack over each name, and
 * write out all alternatives of braces.
 */
const isCostly = (pattern: string): boolean => {
  const parts = pattern.split("/")
  const deep = parts.filter((part) => part === "**").length
  const stars = parts.map((part) => (part === "**" ? 0 : part.split("*").length - 1))
  const braces = pattern.split("{").length - 1
  return deep > 2 || Math.max(...stars) > 3 || braces > 1 || /[?*+@!]\(|\{[^}]*\.\./.test(pattern)
}

const isInside = (root: string, location: string): boolean => {
  const path = relative(root, location)
  return path !== ".." && !path.startsWith(`..${sep}`) && !isAbsolute(path)
}

const hasCode = (cause: unknown, ...codes: ReadonlyArray<string>): boolean =>
  cause instanceof Error && "code" in cause && codes.includes(String(cause.code))

/**
 * The files that paths and patterns name, each once. Fails with {@link OutsideRoot}, {@link CostlyPattern},
 * {@link NoSuchFile}, {@link TooManyFiles}.
 */
export const findFiles = async (root: string, patterns: ReadonlyArray<string>, max: number): Promise<Found> => {
  const realRoot = await realpath(root).catch((cause: unknown) => {
    throw new NoSuchFile(`the actor's folder ${root} does not exist; set TEXT_ROOT`, { cause })
  })
  const files = new Map<string, TextFile>()
  const skipped = new Map<string, string>()
  for (const pattern of patterns) {
    if (isAbsolute(pattern) || CLIMBS.test(pattern)) throw new OutsideRoot(`${pattern}: must be relative to ${root}`)
    if (isCostly(pattern))
      throw new CostlyPattern(
        `${pattern}: use at most three * in a name, two ** in all, and one list in braces, without ranges and +(…)`,
      )
    let matched = false
    for await (const path of WILD.test(pattern) ? expand(realRoot, pattern) : [join(realRoot, pattern)]) {
      const name = relative(realRoot, path).split(sep).join("/")
      const file = await look(realRoot, path, name)
      // A folder that a pattern matches is none of its files.
      if (file === undefined && WILD.test(pattern)) continue
      if (file === undefined) throw new NoSuchFile(`${pattern} is not a file in ${root}`)
      matched = true
      if (file === "outside" && !WILD.test(pattern)) throw new OutsideRoot(`${pattern} is outside ${root}`)
      if (file === "outside") skipped.set(name, "is outside the folder")
      else files.set(file.location, file)
      if (files.size > max) throw new TooManyFiles(`${pattern}: more than ${max} files; narrow the patterns`)
    }
    if (!matched) throw new NoSuchFile(`no file in ${root} matches ${pattern}`)
  }
  return {
    files: [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1)),
    skipped: [...skipped].map(([file, reason]) => ({ file, reason })),
  }
}

const expand = async function* (root: string, pattern: string): AsyncGenerator<string> {
  const entries = glob(pattern, {
    cwd: root,
    withFileTypes: true,
    exclude: (entry) => entry.name.startsWith(".") || entry.name === "node_modules",
  })
  for await (const entry of entries) yield join(entry.parentPath, entry.name)
}

/** What a path leads to: a file, a file outside of the folder, or nothing that can be read. */
const look = async (root: string, path: string, name: string): Promise<TextFile | "outside" | undefined> => {
  try {
    const location = await realpath(path)
    const found = await stat(location)
    if (!isInside(root, location)) return "outside"
    return found.isFile() ? { path: name, location, bytes: found.size } : undefined
  } catch (cause) {
    if (hasCode(cause, "ENOENT", "ENOTDIR", "ELOOP")) return undefined
    throw cause
  }
}
