/**
 * Notices that source files have changed. Looks at their times a few times a second: that works on every system, in
 * containers and on network folders, where notifications do not arrive, and costs less than a percent of a core.
 */
import { readdir, stat } from "node:fs/promises"
import { join } from "node:path"

export interface Watched {
  /** Everything below it that is code, wherever it is. */
  readonly folder: string
  /** Files that may or may not exist. */
  readonly files: ReadonlyArray<string>
}

const EVERY_MS = 200

/** Data that an actor writes next to itself must not start it again. */
const CODE = /\.([mc]?[jt]sx?|json)$/

/** Code and JSON in a folder and those in it, without `node_modules` and what begins with a dot. */
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

/** Names, sizes and times in one text: two that are the same mean that nothing has changed. */
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

/** Calls back once per change, when it is complete: nothing has moved between two looks. Ends with the signal. */
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
