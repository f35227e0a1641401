/**
 * Detects changed source files by comparing their times a few times a second. This works on every system, also in
 * containers and network folders, where notifications do not arrive, and costs less than a percent of a core.
 */
import { readdir, stat } from "node:fs/promises"
import { join } from "node:path"

export interface Watched {
  /** Folder whose code files are watched, at any depth. */
  readonly folder: string
  /** Single files, which need not exist. */
  readonly files: ReadonlyArray<string>
}

const EVERY_MS = 200

/** Only these files are watched, so that data which an actor writes beside itself does not cause a reload. */
const CODE = /\.([mc]?[jt]sx?|json)$/

/** Code and JSON files below a folder, without `node_modules` and names that begin with a dot. */
export const filesBelow = async (folder: string): Promise<ReadonlyArray<string>> => {
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

/** Names, sizes and times of the files in one text, which changes with any of them. */
const fingerprint = async ({ folder, files }: Watched): Promise<string> => {
  const all = [...(await filesBelow(folder)), ...files].sort()
  const parts = await Promise.all(
    all.map(async (path) => {
      const found = await stat(path).catch(() => undefined)
      return found === undefined ? "" : `${path} ${found.size} ${found.mtimeMs} ${found.ino}`
    }),
  )
  return parts.join("\n")
}

/** Calls back after a change, once two checks in a row found the same files. Ends when the signal fires. */
export const onChanges = async (watched: Watched, changed: () => void, signal: AbortSignal): Promise<void> => {
  let known = await fingerprint(watched)
  let seen = known
  const look = async () => {
    const now = await fingerprint(watched)
    if (now === seen && now !== known && !signal.aborted) {
      known = now
      changed()
    }
    seen = now
    if (!signal.aborted) timer = setTimeout(look, EVERY_MS)
  }
  let timer = setTimeout(look, EVERY_MS)
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true })
}
