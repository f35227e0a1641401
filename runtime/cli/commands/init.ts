/** `callboard init`: writes the files of a first project into the current folder. Existing files are not overwritten. */
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import type { Command } from "commander"
import { DEFAULTS } from "../../config/table.ts"
import { isMap, isObject } from "../../protocol/guards.ts"
import { filesBelow } from "../dev/changes.js"
import { CommandFailed, EXIT } from "../failure.ts"
import { givenSettings } from "../invocation.ts"
import { type OutputOptions, outputFor } from "../output.ts"

const TEMPLATES = fileURLToPath(new URL("../templates", import.meta.url))

const SCRIPTS = { dev: "callboard dev", worker: "callboard worker", serve: "callboard serve" }

/** How the templates start the command. */
const NPX = "npx callboard"

/** How the user starts the command: `bunx` names itself in the environment, and where it is used there may be no npm. */
const ownCommand = (): string =>
  process.env["npm_config_user_agent"]?.startsWith("bun/") === true ? "bunx callboard" : NPX

/** In the code and not among the templates, since npm leaves `.gitignore` files out of packages. */
const GITIGNORE = "node_modules\n.callboard\n"

interface Made {
  readonly path: string
  readonly what: "written" | "completed" | "kept"
  /** A remark about the file for the author of the project. */
  readonly note?: string
}

const isThere = (cause: unknown): boolean => isObject(cause) && "code" in cause && cause.code === "EEXIST"

/** Writes a file unless it exists. */
const writeNew = async (path: string, text: string): Promise<Made["what"]> => {
  await mkdir(dirname(path), { recursive: true })
  try {
    await writeFile(path, text, { flag: "wx" })
    return "written"
  } catch (cause) {
    if (isThere(cause)) return "kept"
    throw cause
  }
}

const COMMONJS = `"type": "commonjs"`

/**
 * Adds missing fields to package.json and leaves the others as they are, with one exception, which is printed: `npm init`
 * writes `"type": "commonjs"`, with which TypeScript refuses actors. In a folder with code (`hasCode`), which may need it, it stays.
 */
const completeManifest = async (path: string, hasCode: boolean): Promise<Omit<Made, "path">> => {
  const fresh = { name: nameOf(dirname(path)), private: true, type: "module", scripts: SCRIPTS }
  const text = await readFile(path, "utf8").catch(() => undefined)
  if (text === undefined) return { what: await writeNew(path, `${JSON.stringify(fresh, null, 2)}\n`) }
  let manifest: unknown
  try {
    manifest = JSON.parse(text)
  } catch (cause) {
    throw new CommandFailed(EXIT.failed, `${path} is not JSON: ${cause instanceof Error ? cause.message : ""}`, {
      cause,
    })
  }
  if (!isMap(manifest)) throw new CommandFailed(EXIT.failed, `${path} is not a JSON object`)
  const scripts = isMap(manifest["scripts"]) ? manifest["scripts"] : {}
  const isCommonJs = manifest["type"] === "commonjs"
  const type = isCommonJs && !hasCode ? fresh.type : (manifest["type"] ?? fresh.type)
  const note = !isCommonJs
    ? {}
    : hasCode
      ? {
          note: `${COMMONJS} was not changed because this folder contains code: actors are ES modules, and tsc needs "type": "module"`,
        }
      : { note: `${COMMONJS}, as written by npm, was changed to "type": "module"` }
  if (type === manifest["type"] && Object.keys(SCRIPTS).every((name) => name in scripts)) {
    return { what: "kept", ...note }
  }
  const completed = { ...manifest, type, scripts: { ...SCRIPTS, ...scripts } }
  const indent = /^\{\r?\n([ \t]+)/.exec(text)?.[1] ?? "  "
  await writeFile(path, `${JSON.stringify(completed, null, indent)}\n`)
  return { what: "completed", ...note }
}

/** The name of a folder as a valid npm package name. */
const nameOf = (folder: string): string =>
  basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+|(?<!-)-+$/g, "") || "tasks"

/** Whether a folder has source files, which may be actors. */
const hasFiles = async (folder: string): Promise<boolean> =>
  (await readdir(folder).catch((): ReadonlyArray<string> => [])).some((name) => /\.[mc]?[jt]sx?$/.test(name))

export const addInit = (program: Command): void => {
  const command = program.command("init").description("create a first actor and its settings; overwrites nothing")
  command.action(async () => {
    const output = outputFor(command.optsWithGlobals<Pick<OutputOptions, "json">>())
    const folder = process.cwd()
    const actors = givenSettings(command).get("actors")?.text ?? DEFAULTS.actors
    const made: Array<Made> = []
    const hasCode = (await filesBelow(folder)).some((path) => !path.endsWith(".json"))
    const own = ownCommand()
    const copy = async (template: string, path: string) => {
      const text = (await readFile(join(TEMPLATES, template), "utf8")).replaceAll(NPX, own)
      made.push({ path, what: await writeNew(join(folder, path), text) })
    }
    // A project that has actors gets no example actor.
    const example = join(actors, "hello.ts")
    if (await hasFiles(join(folder, actors))) made.push({ path: example, what: "kept" })
    else await copy("actors/hello.ts", example)
    await copy("callboard.config.ts", "callboard.config.ts")
    await copy("tsconfig.json", "tsconfig.json")
    made.push({ path: "package.json", ...(await completeManifest(join(folder, "package.json"), hasCode)) })
    made.push({ path: ".gitignore", what: await writeNew(join(folder, ".gitignore"), GITIGNORE) })
    await copy("README.md", "README.md")
    if (output.json) return output.document({ files: made })
    for (const { path, what, note } of made) {
      output.line(`${what.padEnd(9)}  ${path}`)
      if (note !== undefined) output.line(`           ${note}`)
    }
    output.line(`\nNext:  ${own} dev`)
  })
}
