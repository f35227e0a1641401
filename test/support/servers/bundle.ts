/**
 * Bundles the programs of tests. A process that is started often spends most of its time on reading the hundreds of
 * modules of the runtime; from a bundle it reads them in half the time, and on Node it need not remove their types. The
 * threads of a run share the bundles.
 */

import { spawnSync } from "node:child_process"
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { findRuntime } from "../../../runtime/cli/runtimes.js"
import { currentRuntime } from "../../../runtime/platform/runtime.js"
import { removeWithProcess } from "./process.ts"

/**
 * Entry points of threads and processes that the runtime starts: it looks for them next to the module that starts them.
 */
const STARTED = ["leases/lease-thread.ts", "isolation/handler-program.ts"].map((file) =>
  fileURLToPath(new URL(`../../../runtime/worker/${file}`, import.meta.url)),
)

/**
 * The file to start for a TypeScript program: on Bun and Node its bundle, on Deno the program itself. `beside`: further files
 * that the program loads or starts by path; they share its modules.
 */
export const bundled = (program: string, beside: ReadonlyArray<string> = []): string => {
  const target = currentRuntime()
  const bun = findRuntime("bun")?.path
  if (target === "deno" || bun === undefined) return program
  const name = basename(program, ".ts")
  const folder = join(tmpdir(), `callboard-bundle-${process.pid}-${basename(dirname(program))}-${name}`)
  // The runtime takes a folder `runtime` two levels above its modules for its own, and hides the stack frames of the files
  // in it. A frame of a test, which may lie in the same temporary folder, is shown.
  const inside = "runtime/bundle/modules"
  const file = join(folder, inside, `${name}.js`)
  if (existsSync(file)) return file
  const work = mkdtempSync(join(tmpdir(), "callboard-bundle-"))
  const output = [`--outdir=${join(work, inside)}`, "--entry-naming=[name].js"]
  const args = ["build", program, ...beside, ...STARTED, `--target=${target}`, "--splitting", ...output]
  const { status, stderr } = spawnSync(bun, args, { encoding: "utf8" })
  if (status !== 0) throw new Error(`${program} could not be bundled:\n${stderr}`)
  // Node looks there for what a file is.
  writeFileSync(join(work, "package.json"), '{ "type": "module" }')
  try {
    renameSync(work, folder)
    removeWithProcess(folder)
  } catch (error) {
    // Another thread of this run has made the bundle in the meantime.
    rmSync(work, { recursive: true, force: true })
    if (!existsSync(file)) throw error
  }
  return file
}
