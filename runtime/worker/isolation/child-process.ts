/**
 * The child process for isolated handlers: the command that starts it, how it is killed, and the mark that it carries.
 */
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

// The repository runs TypeScript and the package JavaScript; the file of the process has the same extension as this
// one.
const program = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./process.ts" : "./process.js", import.meta.url),
)

/** Program and arguments of the process: the runtime of the worker itself, with the options that it needs to find modules. */
export const processCommand = (): { readonly command: string; readonly args: ReadonlyArray<string> } => {
  const own = [program, String(process.pid)]
  return { command: process.execPath, args: "deno" in process.versions ? ["run", ...denoOptions(), ...own] : own }
}

/**
 * Deno does not pass its options to child processes. A worker that may start processes may do anything, so that
 * granting all permissions gives the process no more than the worker has. Packages come from `node_modules` if this
 * one's do, and the import map is the one that Deno found for the main module.
 */
const denoOptions = (): ReadonlyArray<string> => {
  const config = denoConfig()
  return [
    "-A",
    ...(fromNodeModules() ? ["--node-modules-dir=manual"] : []),
    ...(config === undefined ? [] : [`--config=${config}`]),
  ]
}

const fromNodeModules = (): boolean => {
  try {
    return /[/\\]node_modules[/\\]/.test(createRequire(import.meta.url).resolve("effect"))
  } catch {
    return false
  }
}

/** The nearest `deno.json` or `deno.jsonc` above the main module, which is where Deno looks for it. */
const denoConfig = (): string | undefined => {
  const main = process.argv[1]
  if (main === undefined) return undefined
  for (let folder = dirname(main); ; folder = dirname(folder)) {
    const found = ["deno.json", "deno.jsonc"].map((name) => join(folder, name)).find((path) => existsSync(path))
    if (found !== undefined || dirname(folder) === folder) return found
  }
}

// The process is killed together with everything that its handlers started: it leads a process group of its own, except on
// Windows.

const send = (target: number): void => {
  try {
    process.kill(target, "SIGKILL")
  } catch {
    // The process has ended already.
  }
}

const hasGroups = process.platform !== "win32"

/** Kills a process that has not ended as far as is known, and its group. */
export const killGroup = (pid: number): void => {
  if (hasGroups) send(-pid)
  send(pid)
}

/** Kills the rest of the group of a process that has ended. */
export const killRest = (pid: number): void => {
  if (hasGroups) send(-pid)
}

/**
 * Marks a process that runs isolated handlers for a worker. The mark is on the global object, because another copy of
 * the package that is loaded in this process must see it. It is not in the environment, because child processes of a
 * handler would inherit it.
 */
const KEY = Symbol.for("callboard.isolated")

/** Sets the mark. Called once, when the process begins. */
export const markHandlerProcess = (): void => {
  Reflect.set(globalThis, KEY, true)
}

export const isHandlerProcess = (): boolean => Reflect.get(globalThis, KEY) === true
