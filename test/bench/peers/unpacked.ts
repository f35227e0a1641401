/** Programs of Debian's packages that only the bench needs: unpacked into the cache folder, never installed. */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { delimiter, join } from "node:path"
import { debianPackage } from "../../support/servers/debian.ts"
import { Unavailable } from "../harness/workload.ts"

/** The machine's own suite, since libraries fit the C library of their suite. */
const suites = (): ReadonlyArray<string> => {
  const release = existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : ""
  const own = /^VERSION_CODENAME=(\S+)$/m.exec(release)?.[1]
  return [...new Set([own ?? "bookworm", "trixie", "bookworm"])]
}

/** Libraries that a program finds beside it. */
export const libraryPath = (folder: string): string =>
  ["usr/lib", "lib"]
    .map((below) => join(folder, below))
    .filter((below) => existsSync(below))
    .flatMap((below) =>
      readdirSync(below)
        .filter((name) => name.includes("-linux-"))
        .map((name) => join(below, name)),
    )
    .join(delimiter)

/** The folder of a package and of those of its dependencies whose names match. Rejects with `Unavailable`. */
export const unpacked = async (name: string, program: string, libraries: RegExp): Promise<string> => {
  const accept = (folder: string) => (existsSync(join(folder, program)) ? folder : undefined)
  try {
    return await debianPackage({ name, suites: suites(), libraries, accept })
  } catch (error) {
    throw new Unavailable(`Debian's package ${name} cannot be fetched: ${(error as Error).message}`)
  }
}

/** The version in the name of a folder that holds an unpacked package. */
export const versionIn = (folder: string): string => /_(?:\d+%3a)?([\d.]+)/.exec(folder)?.[1] ?? "unknown"
