/**
 * Finds the versions of Node that the tests need, and fetches those that are missing. They are called by their path: as a
 * dependency, Node would come first in every npm script.
 */

import { spawnSync } from "node:child_process"
import { delimiter, join } from "node:path"
import { programFromNpm } from "./npm-program.js"

/** The Node that runs workers in the tests. */
const fetched = "24.21.0"

/** The oldest Node that launcher and clients run on. */
export const OLDEST_NODE = "20.20.2"

const program = process.platform === "win32" ? "node.exe" : "node"

/** @param {string} path */
function versionOf(path) {
  const { stdout } = spawnSync(path, ["--version"], { encoding: "utf8" })
  return (stdout ?? "").trim().slice(1)
}

/**
 * @param {string} [version] an exact version; by default any that runs workers
 * @returns {string} the path of this Node
 * @throws {Error} with one line that says what to install
 */
export function findNode(version) {
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    const own = versionOf(join(folder, program))
    if (version === undefined ? Number.parseInt(own, 10) >= 24 : own === version) return join(folder, program)
  }
  const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`
  const path = programFromNpm(name, version ?? fetched, join(name, "bin", program))
  if (path !== undefined) return path
  if (version !== undefined) throw new Error(`npm could not fetch Node ${version}`)
  throw new Error("install Node 24 or newer and put it on PATH (npm could not fetch it)")
}
