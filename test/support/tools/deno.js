/**
 * Finds Deno for the tests, and fetches it when there is none or only an old one.
 *
 * The npm package `deno` cannot be a dependency: its optional packages for other systems break `deno install`.
 */

import { spawnSync } from "node:child_process"
import { dirname, join } from "node:path"
import { findRuntime } from "../../../runtime/cli/runtimes.js"
import { programFromNpm } from "./npm-program.js"

const fetched = "2.9.6"
/** The oldest minor version that the tests are known to pass on. */
const min = { major: 2, minor: 9 }

/** @param {string} path */
function isNewEnough(path) {
  const { stdout } = spawnSync(path, ["--version"], { encoding: "utf8" })
  const [, major = 0, minor = 0] = (stdout ?? "").match(/^deno (\d+)\.(\d+)/)?.map(Number) ?? []
  return major > min.major || (major === min.major && minor >= min.minor)
}

/**
 * @returns {string} the path of a Deno that is new enough
 * @throws {Error} with one line that says what to install
 */
export function findDeno() {
  const own = findRuntime("deno")
  if (own !== undefined && isNewEnough(own.path)) return own.path
  const { arch, platform } = process
  const system = platform === "linux" ? `linux-${arch}-glibc` : `${platform}-${arch}`
  const path = programFromNpm("deno", fetched, join("@deno", system, platform === "win32" ? "deno.exe" : "deno"))
  if (path !== undefined) return path
  throw new Error(`install Deno ${min.major}.${min.minor} or newer and put it on PATH (npm could not fetch it)`)
}

/**
 * The environment in which programs find this Deno too.
 *
 * @param {string} deno
 */
export function withDeno(deno) {
  const separator = process.platform === "win32" ? ";" : ":"
  return { PATH: `${dirname(deno)}${separator}${process.env.PATH ?? ""}`, DENO_NO_UPDATE_CHECK: "1" }
}
