/** How a process for isolated handlers is started: by the runtime that runs the worker, with what it needs to find modules. */
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

// In the repository this is TypeScript, in the package JavaScript: the process's file is of the same kind.
const program = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./process.ts" : "./process.js", import.meta.url),
)

/** Program and arguments. */
export const processCommand = (): { readonly command: string; readonly args: ReadonlyArray<string> } => {
  const own = [program, String(process.pid)]
  return { command: process.execPath, args: "deno" in process.versions ? ["run", ...denoOptions(), ...own] : own }
}

/**
 * Deno does not hand its options on. A worker that may start processes may do anything, so that all permissions are no
 * more than it has. Packages come from `node_modules` if this one's do, and the import map is the one that Deno found
 * for the program itself.
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

/** The nearest `deno.json` above the program's main module, as Deno looks for it. */
const denoConfig = (): string | undefined => {
  const main = process.argv[1]
  if (main === undefined) return undefined
  for (let folder = dirname(main); ; folder = dirname(folder)) {
    const found = ["deno.json", "deno.jsonc"].map((name) => join(folder, name)).find((path) => existsSync(path))
    if (found !== undefined || dirname(folder) === folder) return found
  }
}
