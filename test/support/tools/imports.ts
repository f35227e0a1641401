/** Reads which file imports what, and compares it with a table of directions. */

import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join, posix, sep } from "node:path"
import { fileURLToPath } from "node:url"

/** Source text by path from the root of the repository, with forward slashes. */
export type Sources = ReadonlyMap<string, string>

const root = fileURLToPath(new URL("../../..", import.meta.url))

/** The sources in some folders, without the files that `callboard init` writes. */
export function sourcesBelow(...folders: readonly string[]): Sources {
  const files = folders
    .filter((folder) => existsSync(join(root, folder)))
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => join(folder, file)),
    )
    .filter((file) => /\.(tsx?|js)$/.test(file) && !file.split(sep).includes("templates"))
  return new Map(files.map((file) => [file.split(sep).join("/"), readFileSync(join(root, file), "utf8")]))
}

export interface Import {
  /** A path from the root, the name of a package, or a `node:` module. */
  readonly target: string
  /** "type" is gone at run time, "dynamic" is resolved when it is reached. */
  readonly kind: "value" | "type" | "dynamic"
}

/**
 * Which files may import which. `*` stands for anything within a folder, `**` for anything, and `{own}` for the folder of
 * a file: `plugins/nats/` for the files in it, `actors/text/` also for `actors/text.ts`.
 */
export interface Direction {
  readonly why: string
  /** Patterns of the files. For each file the first direction that matches applies. */
  readonly files: string
  readonly may: readonly string[]
  /** May be imported by `import type` alone. */
  readonly mayTypes?: readonly string[]
  /** Stronger than `may`. */
  readonly never?: readonly string[]
  /** May be reached by `import()` alone. */
  readonly onlyDynamic?: string
  /** What the code, comments and texts aside, must not say. */
  readonly words?: readonly RegExp[]
}

const matchers = new Map<string, RegExp>()

function matches(pattern: string, target: string): boolean {
  let matcher = matchers.get(pattern)
  if (matcher === undefined) {
    const source = pattern
      .replace(/[.+^$()|[\]\\]/g, "\\$&")
      .replace(/\*\*|\*/g, (star) => (star === "**" ? ".*" : "[^/]*"))
    matcher = new RegExp(`^${source}$`)
    matchers.set(pattern, matcher)
  }
  return matcher.test(target)
}

/** Strings, templates, comments and regular expressions: the parts of a source in which code means nothing. */
const opaque =
  /(?<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[\s\S]|[^`\\])*`)|(?<comment>\/\/[^\n]*|\/\*[\s\S]*?\*\/)|(?<=(?:[(,=:[!&|?{};]|=>|return)\s*)(?<regex>\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])*\/[a-z]*)/g

function withoutComments(source: string): string {
  return source.replace(opaque, (...match) => {
    const { comment, regex }: Record<string, string | undefined> = match.at(-1)
    return comment !== undefined ? " " : regex !== undefined ? "/r/" : match[0]
  })
}

/** The texts and templates of a source, without their quotes. A template within another one ends it. */
export const textsOf = (source: string): ReadonlyArray<string> =>
  [...source.matchAll(opaque)].flatMap(({ groups }) =>
    groups?.["text"] === undefined ? [] : [groups["text"].slice(1, -1)],
  )

function codeOnly(source: string): string {
  return withoutComments(source).replace(opaque, (...match) => {
    const { text }: Record<string, string | undefined> = match.at(-1)
    // What stands between `${` and `}` is code.
    if (text?.startsWith("`")) return `\`${[...text.matchAll(/\$\{([^}]*)\}/g)].map(([, code]) => code).join(" ")}\``
    return text !== undefined ? '""' : match[0]
  })
}

const statement = /(?:^|[;}\n])\s*(?:(?:import|export)\s+(type\s+)?[\w$*\s,{}]*?\bfrom|import)\s*["']([^"'\n]+)["']/g
const expression = /\bimport\s*\(\s*["'`]([^"'`$\n]+)["'`]|\bnew\s+URL\(\s*["']([^"'\n]+)["']\s*,\s*import\.meta\.url/g

/** Everything that a file imports, re-exports, imports dynamically, or names by `new URL(…, import.meta.url)`. */
export function importsOf(path: string, source: string): Import[] {
  const code = withoutComments(source)
  const resolve = (specifier: string) =>
    /^\.\.?\//.test(specifier) ? posix.normalize(posix.join(posix.dirname(path), specifier)) : specifier
  const found: Import[] = []
  for (const [, type, specifier = ""] of code.matchAll(statement)) {
    found.push({ target: resolve(specifier), kind: type === undefined ? "value" : "type" })
  }
  for (const [, specifier, url] of code.matchAll(expression)) {
    found.push({ target: resolve(specifier ?? url ?? ""), kind: "dynamic" })
  }
  return found
}

function ownOf(path: string): string {
  const [area = "", name = ""] = path.split("/")
  return `${area}/${name.replace(/\.[a-z]+$/, "")}/**`
}

/** One line per violation, with the file, what it does, and why it must not. */
export function violations(sources: Sources, table: readonly Direction[]): string[] {
  const found: string[] = []
  for (const [path, source] of sources) {
    const direction = table.find(({ files }) => matches(files, path))
    if (direction === undefined) {
      found.push(`${path}: no direction names it`)
      continue
    }
    const report = (what: string) => found.push(`${path} ${what} (${direction.why})`)
    const own = ownOf(path)
    const covers = (patterns: readonly string[], target: string) =>
      patterns.some((pattern) => matches(pattern === "{own}" ? own : pattern, target))
    for (const { target, kind } of importsOf(path, source)) {
      const allowed = kind === "type" ? [...direction.may, ...(direction.mayTypes ?? [])] : direction.may
      if (!covers(allowed, target) || covers(direction.never ?? [], target)) report(`imports ${target}`)
      if (direction.onlyDynamic !== undefined && matches(direction.onlyDynamic, target) && kind !== "dynamic") {
        report(`imports ${target} statically`)
      }
    }
    const code = direction.words === undefined ? "" : codeOnly(source)
    for (const word of direction.words ?? []) {
      const match = code.match(word)
      if (match) report(`says ${match[0].trim()}`)
    }
  }
  return found
}

/** Code that stands in one module, which others import. */
export interface Single {
  /** What to write instead, and from which module. */
  readonly use: string
  readonly home: string
  /** Matches what no other file says, comments and texts aside. */
  readonly words: RegExp
  /** Patterns of files that have their own. */
  readonly but?: readonly string[]
}

/** One line per file that defines anew what stands in one module. */
export function repeated(sources: Sources, singles: readonly Single[]): string[] {
  return [...sources].flatMap(([path, source]) => {
    const code = codeOnly(source)
    return singles.flatMap(({ use, home, words, but = [] }) => {
      const match = path === home || but.some((pattern) => matches(pattern, path)) ? null : code.match(words)
      return match === null ? [] : [`${path} says ${match[0].trim().replace(/\s+/g, " ")}: use ${use} of ${home}`]
    })
  })
}

/** The list of rooms, the highest first: each is the folders and files of the runtime that its row names. */
export type Rooms = readonly (readonly string[])[]

/**
 * Reads the rows of the table under "## Rooms": the first column names the folders (with a slash at the end) and files.
 */
export function roomsOf(page: string): Rooms {
  const section = page.split(/^## /m).find((text) => text.startsWith("Rooms\n")) ?? ""
  return [...section.matchAll(/^\|([^|]*)\|/gm)]
    .map(([, cell = ""]) => [...cell.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => `runtime/${path}`))
    .filter((paths) => paths.length > 0)
}

/** The position of a file's room in the list; the longest path that fits counts. */
function roomOf(path: string, rooms: Rooms): number | undefined {
  const fits = rooms
    .flatMap((paths, room) => paths.map((own) => ({ room, own })))
    .filter(({ own }) => (own.endsWith("/") ? path.startsWith(own) : path === own))
  return fits.toSorted((a, b) => b.own.length - a.own.length)[0]?.room
}

/** Files of the runtime that no room of the list names. */
export function homeless(sources: Sources, rooms: Rooms): string[] {
  return [...sources.keys()].filter((path) => path.startsWith("runtime/") && roomOf(path, rooms) === undefined)
}

function* arrows(sources: Sources): Generator<readonly [from: string, to: string]> {
  for (const [path, source] of sources) {
    for (const { target } of importsOf(path, source)) if (target !== path && sources.has(target)) yield [path, target]
  }
}

/** The arrows between rooms that run up the list, each with the imports behind it. */
export function arrowsUp(sources: Sources, rooms: Rooms): string[] {
  const found = new Map<string, string[]>()
  for (const [from, to] of arrows(sources)) {
    const [low, high] = [roomOf(from, rooms), roomOf(to, rooms)]
    if (low === undefined || high === undefined || low <= high) continue
    const arrow = `${rooms[low]?.[0]} → ${rooms[high]?.[0]}`
    found.set(arrow, [...(found.get(arrow) ?? []), `${from} imports ${to}`])
  }
  return [...found].map(([arrow, imports]) => `${arrow}: ${[...new Set(imports)].join(", ")}`)
}

/** The groups of more than one node in which each reaches each: the strongly connected components (Tarjan). */
function components(graph: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const found: string[][] = []
  const index = new Map<string, number>()
  const stack: string[] = []
  const visit = (node: string): number => {
    let low = index.size
    index.set(node, low)
    stack.push(node)
    for (const next of graph.get(node) ?? []) {
      if (!index.has(next)) low = Math.min(low, visit(next))
      else if (stack.includes(next)) low = Math.min(low, index.get(next) ?? low)
    }
    if (low === index.get(node)) {
      const group = stack.splice(stack.indexOf(node))
      if (group.length > 1) found.push(group.toSorted())
    }
    return low
  }
  for (const node of graph.keys()) if (!index.has(node)) visit(node)
  return found
}

function graphOf(pairs: Iterable<readonly [from: string, to: string]>): Map<string, Set<string>> {
  const graph = new Map<string, Set<string>>()
  for (const [from, to] of pairs) graph.set(from, (graph.get(from) ?? new Set()).add(to))
  return graph
}

/** Circles of files, imports of types among them. */
export function fileCircles(sources: Sources): string[][] {
  return components(graphOf(arrows(sources)))
}

/**
 * Circles within a folder: what lies directly in it, files and folders, counts as one each, with all that is inside.
 */
export function folderCircles(sources: Sources): string[][] {
  const within = new Map<string, [string, string][]>()
  for (const [from, to] of arrows(sources)) {
    const [a, b] = [from.split("/"), to.split("/")]
    const depth = a.findIndex((part, i) => part !== b[i])
    // Which of the repository's areas may import which is for the table of directions to say.
    if (depth === 0) continue
    const folder = a.slice(0, depth).join("/")
    const pair: [string, string] = [a.slice(0, depth + 1).join("/"), b.slice(0, depth + 1).join("/")]
    within.set(folder, [...(within.get(folder) ?? []), pair])
  }
  return [...within.values()].flatMap((pairs) => components(graphOf(pairs)))
}
