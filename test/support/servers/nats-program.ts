/** Finds the nats-server program. */

import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { delimiter, join } from "node:path"
import { promisify } from "node:util"
import { debianPackage } from "./debian.ts"
import { type FoundProgram, foundEarlier, MissingServer } from "./missing.ts"

export type NatsRelease = "current" | "old"

type Version = readonly [major: number, minor: number, patch: number]

/** Name of a release in the results of the search and in the summary of `npm test`. */
export const natsServerName = (release: NatsRelease) => (release === "old" ? "nats-server (old)" : "nats-server")

/** The versions that the nats transport accepts: at least 2.12.15, 2.14.5 or 2.15. */
function isCurrent([major, minor, patch]: Version): boolean {
  if (major !== 2) return major > 2
  if (minor === 12) return patch >= 15
  if (minor === 14) return patch >= 5
  return minor >= 15
}

/** A version that the transport refuses in any case. */
const isOld = ([major, minor]: Version) => major === 2 && minor < 12

async function versionOf(path: string): Promise<Version | undefined> {
  try {
    const { stdout } = await promisify(execFile)(path, ["--version"], { timeout: 10_000 })
    const [, major, minor, patch] = stdout.match(/(\d+)\.(\d+)\.(\d+)/) ?? []
    return major === undefined ? undefined : [Number(major), Number(minor), Number(patch)]
  } catch {
    return undefined
  }
}

async function programIn(folder: string, accept: (version: Version) => boolean): Promise<FoundProgram | undefined> {
  for (const path of [join(folder, "usr/sbin/nats-server"), join(folder, "usr/bin/nats-server")]) {
    const version = existsSync(path) ? await versionOf(path) : undefined
    if (version !== undefined && accept(version)) return { path, version: version.join(".") }
  }
  return undefined
}

async function find(release: NatsRelease): Promise<FoundProgram> {
  if (release === "old") {
    return debianPackage({ name: "nats-server", suites: ["trixie", "bookworm"], accept: (at) => programIn(at, isOld) })
  }
  const given = process.env.NATS_SERVER
  if (given) {
    const version = await versionOf(given)
    if (version === undefined) throw new Error(`$NATS_SERVER does not run: ${given}`)
    if (!isCurrent(version)) throw new Error(`$NATS_SERVER is version ${version.join(".")}`)
    return { path: given, version: version.join(".") }
  }
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    const path = join(folder, "nats-server")
    const version = folder !== "" && existsSync(path) ? await versionOf(path) : undefined
    if (version !== undefined && isCurrent(version)) return { path, version: version.join(".") }
  }
  return debianPackage({ name: "nats-server", suites: ["forky", "sid"], accept: (at) => programIn(at, isCurrent) })
}

const searches = new Map<NatsRelease, Promise<FoundProgram>>()

/** `$NATS_SERVER`, then PATH, then the cache folder, which is filled from Debian. Rejects with `MissingServer`. */
export function natsProgram(release: NatsRelease = "current"): Promise<FoundProgram> {
  const name = natsServerName(release)
  const search =
    searches.get(release) ??
    (async () => {
      const earlier = foundEarlier(name)
      if (earlier !== undefined) return earlier
      try {
        return await find(release)
      } catch (error) {
        throw new MissingServer(name, `${natsAdvice(release)} (${(error as Error).message})`)
      }
    })()
  searches.set(release, search)
  return search
}

function natsAdvice(release: NatsRelease): string {
  return release === "old"
    ? "configure apt with an archive of Debian packages, from which nats-server of trixie or bookworm is fetched"
    : "install nats-server 2.15 (or 2.14.5, or 2.12.15) and put it on PATH, or name it in $NATS_SERVER"
}
