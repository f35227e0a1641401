/**
 * Programs of tests as one file each. A process that is started often spends most of its time on reading the modules of
 * the runtime, hundreds of files; of one file it reads them in half the time. The threads of a run share what is built.
 */

import { spawnSync } from "node:child_process"
import { existsSync, mkdtempSync, renameSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { removeAtEnd } from "./process.ts"

/** Started beside a program as a thread of its own: looked for next to the module that starts it. */
const LEASE_THREAD = fileURLToPath(new URL("../../../runtime/worker/leases/lease-thread.ts", import.meta.url))

/** The file to start for a program in TypeScript: on Bun all of it in one file, elsewhere the program itself. */
export const bundled = (program: string): string => {
  if (!("bun" in process.versions)) return program
  const name = basename(program, ".ts")
  const folder = join(tmpdir(), `callboard-bundle-${process.pid}-${basename(dirname(program))}-${name}`)
  const file = join(folder, `${name}.js`)
  if (existsSync(file)) return file
  const work = mkdtempSync(join(tmpdir(), "callboard-bundle-"))
  const args = ["build", program, LEASE_THREAD, "--target=bun", `--outdir=${work}`, "--entry-naming=[name].js"]
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" })
  if (status !== 0) throw new Error(`${program} could not be bundled:\n${stderr}`)
  try {
    renameSync(work, folder)
    removeAtEnd(folder)
  } catch (error) {
    // Another thread of this run was faster.
    rmSync(work, { recursive: true, force: true })
    if (!existsSync(file)) throw error
  }
  return file
}
