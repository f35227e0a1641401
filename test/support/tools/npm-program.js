/** Fetches programs from npm into the cache of this user, for tests that call them by their path. */

import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"

/**
 * @param {string} name of the package and of its folder in the cache
 * @param {string} version
 * @param {string} program where the program is, below `node_modules`
 * @returns {string | undefined} the path of the program, or undefined if npm cannot fetch it
 */
export function programFromNpm(name, version, program) {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "callboard")
  const folder = join(cache, `${name}-${version}`)
  const path = join("node_modules", program)
  if (existsSync(join(folder, path))) return join(folder, path)

  mkdirSync(cache, { recursive: true })
  const work = mkdtempSync(join(cache, `${name}-`))
  try {
    const options = ["--prefix", work, "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
    const args = ["install", ...options, `${name}@${version}`]
    const npm = process.env.npm_execpath
    const { status } = npm?.endsWith(".js")
      ? spawnSync(process.execPath, [npm, ...args], { stdio: "ignore" })
      : spawnSync("npm", args, { stdio: "ignore" })
    if (status !== 0 || !existsSync(join(work, path))) return undefined
    // Renamed into place in one step, unless another run has done so in the meantime.
    if (!existsSync(folder)) renameSync(work, folder)
    return join(folder, path)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}
