/** Finds the program of PostgreSQL. */

import { execFile } from "node:child_process"
import { existsSync, readdirSync } from "node:fs"
import { delimiter, dirname, join } from "node:path"
import { promisify } from "node:util"
import { debianPackage, environmentOf, ownSuiteFirst, unpackedAt } from "./debian.ts"
import { type FoundProgram, foundEarlier, MissingServer } from "./missing.ts"

/** Name of the server in the results of the search and in the summary of `npm test`. */
export const postgresServerName = "postgres"

/** The oldest version that the transport accepts. */
const OLDEST = 13

/** Packages by suite. Their libraries need the C library of the suite, so the machine's own suite comes first. */
const PACKAGES: Readonly<Record<string, string>> = { trixie: "postgresql-17", bookworm: "postgresql-15" }

/**
 * Dependencies that are unpacked: libraries, without those that every machine has and those of unused parts (JIT, Perl,
 * Python).
 */
const LIBRARIES = /^lib(?!c6$|c-bin$|gcc|stdc|llvm|z3|perl|python|tcl|debconf|systemd-shared)/

async function programIn(bin: string): Promise<FoundProgram | undefined> {
  const path = join(bin, "postgres")
  if (!existsSync(path) || !existsSync(join(bin, "initdb"))) return undefined
  try {
    const env = { ...process.env, ...environmentOf(unpackedAt(path)) }
    const { stdout } = await promisify(execFile)(path, ["--version"], { timeout: 10_000, env })
    const version = /(\d+)[.\d]*/.exec(stdout)?.[0] ?? ""
    return Number.parseInt(version, 10) >= OLDEST ? { path, version } : undefined
  } catch {
    return undefined
  }
}

/** The folders of programs below a root such as `/usr/lib/postgresql`, newest version first. */
const installed = (root: string): ReadonlyArray<string> =>
  existsSync(root)
    ? readdirSync(root)
        .sort((a, b) => Number(b) - Number(a))
        .map((version) => join(root, version, "bin"))
    : []

const firstOf = async (folders: ReadonlyArray<string>): Promise<FoundProgram | undefined> => {
  for (const folder of folders) {
    const found = folder === "" ? undefined : await programIn(folder)
    if (found !== undefined) return found
  }
  return undefined
}

/** The program from Debian's package. Exported for its test, since a machine that has PostgreSQL never calls it. */
export async function fetchPostgres(): Promise<FoundProgram> {
  const reasons: string[] = []
  for (const suite of ownSuiteFirst(Object.keys(PACKAGES))) {
    try {
      const accept = (folder: string) => firstOf(installed(join(folder, "usr/lib/postgresql")))
      const name = PACKAGES[suite] ?? ""
      return await debianPackage({ name, suites: [suite], libraries: LIBRARIES, accept })
    } catch (error) {
      reasons.push((error as Error).message)
    }
  }
  throw new Error(reasons.join("; "))
}

async function find(): Promise<FoundProgram> {
  const given = process.env.POSTGRES_SERVER
  if (given) {
    const found = await programIn(dirname(given))
    if (found === undefined)
      throw new Error(`$POSTGRES_SERVER does not run, or is too old, or has no initdb beside it: ${given}`)
    return found
  }
  const folders = [...(process.env.PATH ?? "").split(delimiter), ...installed("/usr/lib/postgresql")]
  return (await firstOf(folders)) ?? fetchPostgres()
}

let search: Promise<FoundProgram> | undefined

/**
 * `$POSTGRES_SERVER`, then PATH, then where Debian installs it, then the cache folder, which is filled from Debian.
 * Rejects with `MissingServer`.
 */
export function postgresProgram(): Promise<FoundProgram> {
  search ??= (async () => {
    const earlier = foundEarlier(postgresServerName)
    if (earlier !== undefined) return earlier
    try {
      return await find()
    } catch (error) {
      const advice = `install PostgreSQL ${OLDEST} or newer (the package postgresql), or name its program postgres in $POSTGRES_SERVER`
      throw new MissingServer(postgresServerName, `${advice} (${(error as Error).message})`)
    }
  })()
  return search
}
