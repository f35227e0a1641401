/** Why a file of the application cannot be loaded: each runtime gives message and position in its own way. */
import { existsSync } from "node:fs"
import { dirname, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { stripVTControlCharacters } from "node:util"
import { isObject } from "../protocol/guards.ts"
import { currentRuntime, type RuntimeName } from "./runtime.js"

interface Found {
  /** `file:line:column`, as much of it as is known. */
  readonly where?: string
  readonly message: string
}

/** One line that names the file, with the position of the first error of a compiler, and says what to do where that is known. */
export const loadFailure = (file: string, cause: unknown): string => {
  const error: unknown = cause instanceof AggregateError ? cause.errors[0] : cause
  const message = isObject(error) && "message" in error ? String(error.message) : String(error)
  const found = isObject(error) ? FINDERS[currentRuntime()](error, message) : undefined
  return `${found?.where ?? file} cannot be loaded: ${found?.message ?? message}`
}

/** Bun gives the position in a field. */
const ofBun = (error: object, message: string): Found | undefined => {
  const position: unknown = Reflect.get(error, "position")
  if (!isObject(position) || !("file" in position)) return undefined
  const line = "line" in position ? `:${position.line}` : ""
  const column = "column" in position ? `:${position.column}` : ""
  return { where: `${position.file}${line}${column}`, message }
}

/** Deno gives the position in the message, after the line of the file. */
const ofDeno = (_: object, message: string): Found | undefined => {
  const [, file, position] = /^[ \t]*at (file:\S+)(:\d+:\d+)$/m.exec(stripVTControlCharacters(message)) ?? []
  if (file === undefined) return undefined
  return {
    where: `${fileURLToPath(file)}${position}`,
    message: (message.split("\n")[0] ?? "").replace(/^SyntaxError: /, ""),
  }
}

/** Node gives the position of a syntax error before its stack, and the importer of a missing file in the message. */
const ofNode = (error: object, message: string): Found => {
  const importer = / imported from (\/.*|[A-Za-z]:\\.*)$/.exec(message)?.[1]
  if (importer !== undefined) return { where: importer, message: missingOnNode(error, message, importer) }
  // The mark stands below the column, and lines before that of the error may come first.
  const [first = "", ...shown] = String(Reflect.get(error, "stack")).split("\n")
  const column = shown.findLast((line) => /^\s*\^+$/.test(line))?.indexOf("^") ?? -1
  const [, file, number] = /^(file:\/\/.*|\/.*|[A-Za-z]:\\.*):(\d+)$/.exec(first) ?? []
  const advice = adviceOnNode(message) ?? message
  if (file === undefined) return { message: advice }
  const path = file.startsWith("file:") ? fileURLToPath(file) : file
  return { where: `${path}:${number}${column < 0 ? "" : `:${column + 1}`}`, message: advice }
}

/** What Node cannot run, by its message, and what to write. */
const UNRUNNABLE: ReadonlyArray<readonly [RegExp, string]> = [
  [/^TypeScript enum /, 'Node cannot run an enum: write const Color = { Red: "red" } as const'],
  [
    /^TypeScript parameter property /,
    "Node cannot run a parameter property: write a field, and assign it in the constructor",
  ],
  // Without a position: the parser of TypeScript has accepted the file, and Node's has not.
  [
    /^Invalid or unexpected token$/,
    "invalid or unexpected token: Node cannot run a decorator, so call it as a function",
  ],
  [/^TypeScript namespace /, "Node cannot run a namespace with values: write a module"],
  [/^TypeScript import equals /, "Node cannot run import … = require(…): write import … from …"],
  [/^Unknown file extension "\.[tj]sx"/, "Node cannot run JSX: compile the file, or use Bun or Deno"],
  [
    /^Stripping types .* node_modules/,
    "Node cannot run TypeScript in node_modules: the package must contain JavaScript",
  ],
  [
    /needs an import attribute of "type: json"/,
    'Node imports JSON if you write import … from "./file.json" with { type: "json" }',
  ],
]

const adviceOnNode = (message: string): string | undefined => {
  const [, module, name] = /^The requested module '(.*)' does not provide an export named '(.*)'$/.exec(message) ?? []
  if (module !== undefined)
    return `${module} exports no value ${name}: for a type, write import type { ${name} } from "${module}"`
  const type = /^Export '(.*)' is not defined in module$/.exec(message)?.[1]
  if (type !== undefined) return `${type} is not a value: for a type, write export type { ${type} }`
  return UNRUNNABLE.find(([words]) => words.test(message))?.[1]
}

const EXTENSIONS = [".ts", ".mts", "/mod.ts", "/index.ts"]

/** Node imports a file by its full name, where Bun also finds `q.ts` for `q` and `q.js`. */
const missingOnNode = (error: object, message: string, importer: string): string => {
  const url: unknown = Reflect.get(error, "url")
  if (typeof url === "string" && url.startsWith("file:")) {
    const path = fileURLToPath(url)
    const stem = path.replace(/\.[cm]?js$/, "")
    const found = EXTENSIONS.map((extension) => stem + extension).find((file) => existsSync(file))
    if (found === undefined) return message
    const written = (file: string) =>
      relative(dirname(importer), file)
        .replaceAll("\\", "/")
        .replace(/^(?!\.)/, "./")
    return `there is no file ${written(path)}: write "${written(found)}", since Node imports files by their full names`
  }
  const alias = /^Cannot find package '([@~]\/.*)' imported/.exec(message)?.[1]
  if (alias === undefined) return message
  return `there is no package ${alias}: write a relative path, since Node does not read the paths of tsconfig.json`
}

const FINDERS: Readonly<Record<RuntimeName, (error: object, message: string) => Found | undefined>> = {
  bun: ofBun,
  deno: ofDeno,
  node: ofNode,
}
