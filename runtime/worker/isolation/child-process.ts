/**
 * The child process for isolated handlers: the command that starts it, how it is killed, and the mark that it carries.
 */
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import type { ActorDefinition } from "../../actor/actor.ts"
import { SETTINGS } from "../../config/settings.ts"
import { mainArguments, mainProgram, ownProgram, runtimeOptions } from "../../platform/program.ts"

const program = ownProgram("./handler-program", import.meta.url)

/** Whether the process loads an actor from its file. Otherwise it is started with the main program, whose serve() has the actors. */
export const loadsFiles = program !== undefined

/** The variable that makes a program run isolated handlers: the process id of the worker. */
const WORKER = "CALLBOARD_HANDLERS_OF"

/** The variables of secret settings, such as the tokens of the HTTP interface: a handler has no use for them. */
const SECRETS = SETTINGS.flatMap(({ secret, variable }) => (secret && variable !== undefined ? [variable] : []))

interface ProcessCommand {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly env: Readonly<Record<string, string | undefined>>
}

/** How to start the process: the runtime of the worker itself, with its options. */
export const processCommand = (): ProcessCommand => {
  const command = process.execPath
  const options = "deno" in process.versions ? ["run", ...denoOptions()] : runtimeOptions()
  const env: NodeJS.ProcessEnv = { ...process.env, [WORKER]: String(process.pid) }
  for (const name of SECRETS) delete env[name]
  if (program !== undefined) return { command, args: [...options, fileURLToPath(program)], env }
  const main = mainProgram()
  const start = isInBinary(main) ? [] : [...options, main]
  return { command, args: [...start, ...mainArguments()], env }
}

/** Whether a file is in the program that `bun build --compile` makes, which starts it without an argument. */
const isInBinary = (file: string): boolean => /^(?:\/\$bunfs\/|[A-Z]:[\\/]~BUN[\\/])/.test(file)

/**
 * The worker for which this process runs isolated handlers: its process id. `undefined` in every other process. The variable is
 * removed, because processes that a handler starts must not inherit it. So are secrets, which Bun reads from `.env` again.
 */
export const takeWorker = (parent: number = process.ppid): number | undefined => {
  const given = process.env[WORKER] ?? ""
  delete process.env[WORKER]
  // The first process of a container has the parent 0, which is also the number of an empty text.
  if (!/^[1-9]\d*$/.test(given) || Number(given) !== parent) return undefined
  for (const name of SECRETS) delete process.env[name]
  return parent
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

type Serving = (actors: ReadonlyArray<ActorDefinition>) => void

/**
 * Marks a process that runs isolated handlers for a worker. The mark is on the global object, because another copy of
 * the package that is loaded in this process must see it. It is not in the environment, because child processes of a
 * handler would inherit it.
 */
const KEY = Symbol.for("callboard.isolated")

/** Sets the mark. Called once, when the process begins. `serving` is called with the actors of a serve() in this process. */
export const markHandlerProcess = (serving: Serving): void => {
  Reflect.set(globalThis, KEY, serving)
}

/** What serve() calls with its actors in a process for isolated handlers; `undefined` in every other process. */
export const servingHere = (): Serving | undefined => {
  const mark: unknown = Reflect.get(globalThis, KEY)
  return typeof mark === "function" ? (actors) => void mark(actors) : undefined
}
