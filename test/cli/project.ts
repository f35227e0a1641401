/** A folder as a user of Callboard has it, outside of the repository, and the command line run in it. */
import { mkdirSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { currentRuntime } from "../../runtime/platform/runtime.js"
import { bundled } from "../support/servers/bundle.ts"
import { type Exit, type Spawned, spawnOnTerminal, spawnScript, temporaryFolder } from "../support/servers/process.ts"
import { type Answer, runCommand } from "./command-pool.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const mod = join(root, "runtime/mod.ts")
const launcher = join(root, "runtime/cli/launcher.js")
const commandProcess = join(root, "test/cli/command-process.ts")

/** The command line, what actors import, and the process that runs short commands: files of one bundle. */
const programs = () => {
  const main = bundled(join(root, "runtime/cli/main.ts"), [launcher, mod, commandProcess])
  const beside = (file: string) =>
    main.endsWith(".js") ? join(dirname(main), basename(file).replace(/ts$/, "js")) : file
  return { launcher: beside(launcher), mod: beside(mod), commandProcess: beside(commandProcess) }
}

export interface Ran extends Exit {
  readonly stdout: string
  readonly stderr: string
}

export interface Project extends Disposable {
  readonly path: string
  write(file: string, text: string): void
  /** Starts a command that goes on. */
  start(...args: readonly string[]): Spawned
  /** Starts a command on a terminal of 80 columns: what it prints is standard output. */
  onTerminal(...args: readonly string[]): Spawned
  /** Runs a command to its end, in a process of its own. */
  run(...args: readonly string[]): Promise<Ran>
  /** Runs a short command to its end, in a process that runs further commands afterwards. */
  ask(...args: readonly string[]): Promise<Answer>
  /** {@link Project.ask} with `--json`; takes the answer apart. */
  json<A>(...args: readonly string[]): Promise<A>
  /** Added to the environment of all commands. */
  readonly env: Record<string, string | undefined>
}

/** An actor with one method per way in which a job can go. */
export const works = `
import { actor } from "callboard"
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
export default actor("works", {
  methods: {
    echo: async (input) => input,
    headers: async (_, job) => job.headers,
    fail: async () => { throw new RangeError("out of luck") },
    nap: async ({ ms }, job) => { job.progress(0.5, { ms }); console.log("napping " + process.pid + " " + job.attempt); await sleep(ms); return { pid: process.pid, attempt: job.attempt } },
    stubborn: async ({ ms }) => { console.log("stubborn", process.pid); await sleep(ms); return process.pid },
  },
})
`

export const makeProject = (files: Readonly<Record<string, string>> = { "actors/works.ts": works }): Project => {
  const folder = temporaryFolder()
  const env: Record<string, string | undefined> = {}
  const write = (file: string, text: string) => {
    const path = join(folder.path, file)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  // In place of an installed package: the sources, for each runtime.
  const { launcher, mod, commandProcess } = programs()
  write("tsconfig.json", JSON.stringify({ compilerOptions: { paths: { callboard: [mod] } } }))
  write("deno.json", JSON.stringify({ imports: { callboard: mod } }))
  if (currentRuntime() === "node") {
    write("node_modules/callboard/package.json", '{ "type": "module", "exports": "./mod.js" }')
    write("node_modules/callboard/mod.js", `export * from ${JSON.stringify(pathToFileURL(mod).href)}`)
  }
  for (const [file, text] of Object.entries(files)) write(file, text)
  const start = (...args: readonly string[]) => spawnScript(launcher, args, { cwd: folder.path, env })
  const run = async (...args: readonly string[]): Promise<Ran> => {
    await using child = start(...args)
    const exit = await child.closed
    return { ...exit, stdout: child.stdout, stderr: child.stderr }
  }
  const ask = (...args: readonly string[]) => runCommand(commandProcess, { cwd: folder.path, env, args })
  return {
    path: folder.path,
    env,
    write,
    start,
    onTerminal: (...args) => spawnOnTerminal(launcher, args, { cwd: folder.path, env }),
    run,
    ask,
    json: async <A>(...args: readonly string[]): Promise<A> => {
      const { code, stdout, stderr } = await ask(...args, "--json")
      if (code !== 0) throw new Error(`callboard ${args.join(" ")} ended with ${code}: ${stderr}`)
      return JSON.parse(stdout)
    },
    [Symbol.dispose]: () => folder.remove(),
  }
}
