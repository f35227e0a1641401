/**
 * Detects changed source files by comparing their times a few times a second. This works on every system, also in
 * containers and network folders, where notifications do not arrive, and costs less than a percent of a core.
 */

import { readdir, stat } from "node:fs/promises"
import { join } from "node:path"

/**
 * @typedef {object} Watched
 * @property {string} folder Folder whose code files are watched, at any depth.
 * @property {ReadonlyArray<string>} files Single files, which need not exist.
 */

const EVERY_MS = 200

/** Only these files are watched, so that data which an actor writes beside itself does not cause a reload. */
const CODE = /\.([mc]?[jt]sx?|json)$/

/**
 * Code and JSON files below a folder, without `node_modules` and names that begin with a dot.
 *
 * @param {string} folder
 * @returns {Promise<ReadonlyArray<string>>}
 */
export const filesBelow = async (folder) => {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  const found = await Promise.all(
    entries.map((entry) => {
      const path = join(folder, entry.name)
      if (entry.name.startsWith(".") || entry.name === "node_modules") return []
      if (entry.isDirectory()) return filesBelow(path)
      return CODE.test(entry.name) ? [path] : []
    }),
  )
  return found.flat()
}

/**
 * Names, sizes and times of the files in one text, which changes with any of them.
 *
 * @param {Watched} watched
 */
const fingerprint = async ({ folder, files }) => {
  const all = [...(await filesBelow(folder)), ...files].sort()
  const parts = await Promise.all(
    all.map(async (path) => {
      const found = await stat(path).catch(() => undefined)
      return found === undefined ? "" : `${path} ${found.size} ${found.mtimeMs} ${found.ino}`
    }),
  )
  return parts.join("\n")
}

/**
 * Calls back after each change, once two looks in a row found the same files. Resolves after the first look.
 *
 * @param {Watched} watched
 * @param {() => void} changed
 */
export const onChanges = async (watched, changed) => {
  let known = await fingerprint(watched)
  let seen = known
  const look = async () => {
    const now = await fingerprint(watched)
    if (now === seen && now !== known) {
      known = now
      changed()
    }
    seen = now
    setTimeout(look, EVERY_MS)
  }
  setTimeout(look, EVERY_MS)
}
