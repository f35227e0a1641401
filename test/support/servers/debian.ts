/**
 * Gets server programs from Debian packages without installing them: apt downloads the package of a suite into a
 * private folder and checks it against the suite's signature; then it is unpacked. Works on Debian and Ubuntu, as any
 * user.
 */

import { execFile } from "node:child_process"
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { homedir } from "node:os"
import { delimiter, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"

const run = promisify(execFile)

/** The cache is outside the repository, so that all clones on a machine share it. */
export const cacheFolder = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "callboard")

const unpackedFolder = join(cacheFolder, "debian")

/** The folders of the unpacked versions of a package, newest version first. */
export function unpackedPackages(name: string): string[] {
  if (!existsSync(unpackedFolder)) return []
  return readdirSync(unpackedFolder)
    .filter((folder) => folder.startsWith(`${name}_`))
    .sort((a, b) => b.localeCompare(a, "en", { numeric: true }))
    .map((folder) => join(unpackedFolder, folder))
}

/** The folder of an unpacked package above a program; `undefined` for one that is installed. */
export const unpackedAt = (program: string): string | undefined => {
  const [, folder] = /^(.*\/callboard\/debian\/[^/]+)\//.exec(program) ?? []
  return folder
}

/** The environment in which a program from an unpacked package finds its libraries. */
export const environmentOf = (folder: string | undefined): Readonly<Record<string, string>> => {
  if (folder === undefined) return {}
  const folders = ["usr/lib", "lib"].flatMap((name) => {
    const below = join(folder, name)
    const own = existsSync(below) ? readdirSync(below).filter((each) => each.includes("-linux-")) : []
    // The sound library has a part in a folder of its own.
    return own.flatMap((each) => [join(below, each), join(below, each, "pulseaudio")])
  })
  return { LD_LIBRARY_PATH: folders.filter((each) => existsSync(each)).join(delimiter) }
}

/** The suites with that of this machine first: its packages need the C library that is installed here. */
export const ownSuiteFirst = (suites: ReadonlyArray<string>): ReadonlyArray<string> => {
  const release = existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : ""
  const own = /^VERSION_CODENAME=(\S+)$/m.exec(release)?.[1]
  return suites.toSorted((a, b) => Number(b === own) - Number(a === own))
}

/** The Debian archive among the addresses that apt is configured with, one a line. Throws where there is none. */
export function debianArchive(addresses: string): string {
  const found = addresses.split("\n").find((address) => /\/debian\/?$/.test(address))
  if (found === undefined) throw new Error("apt on this machine is configured with no archive of Debian packages")
  return found
}

async function configuredArchive(): Promise<string> {
  const { stdout } = await run("apt-get", ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
  return debianArchive(stdout)
}

/** The keys with which Debian signs its suites. Ubuntu has them in a package. */
async function keyring(work: string): Promise<string> {
  const names = ["debian-archive-keyring.pgp", "debian-archive-keyring.gpg"]
  const find = (root: string) =>
    names.map((name) => join(root, "usr/share/keyrings", name)).find((path) => existsSync(path))
  const own = find("/")
  if (own !== undefined) return own
  await run("apt-get", ["download", "debian-archive-keyring"], { cwd: work })
  const file = readdirSync(work).find((name) => name.startsWith("debian-archive-keyring_"))
  if (file === undefined) throw new Error("apt-get download debian-archive-keyring left no file")
  await run("dpkg-deb", ["-x", file, "keyring"], { cwd: work })
  const unpacked = find(join(work, "keyring"))
  if (unpacked === undefined) throw new Error("the package debian-archive-keyring holds no key")
  return unpacked
}

/**
 * Downloads a package from one suite, with its dependencies whose names match `libraries`, and unpacks all into one
 * folder.
 *
 * @returns the folder that now holds its files, as `usr/…`
 */
async function download(
  { name, also = [], libraries }: Pick<DebianPackage<unknown>, "name" | "also" | "libraries">,
  suite: string,
  work: string,
): Promise<string> {
  const [uri, keys] = await Promise.all([configuredArchive(), keyring(work)])
  for (const folder of ["state/lists/partial", "cache/archives/partial"])
    mkdirSync(join(work, folder), { recursive: true })
  writeFileSync(join(work, "status"), "")
  // The archive may be an old copy, whose lists count as expired. Expiry only means that there may be newer packages;
  // the signatures are checked all the same, and the caller checks the version.
  const source = `deb [signed-by=${keys} check-valid-until=no] ${uri} ${suite} main`
  writeFileSync(join(work, "sources.list"), `${source}\n`)

  // Of the machine's apt configuration only network settings are used, since its hooks concern the machine's own
  // package lists.
  const { stdout: dump } = await run("apt-config", ["dump"])
  const network = dump.split("\n").filter((line) => /^Acquire::(http|https|socks|Proxy|ForceIPv)/i.test(line))
  const settings = {
    "Dir::Etc::main": "/dev/null",
    "Dir::Etc::parts": "/dev/null",
    "Dir::Etc::sourcelist": join(work, "sources.list"),
    "Dir::Etc::sourceparts": "/dev/null",
    "Dir::State": join(work, "state"),
    "Dir::State::status": join(work, "status"),
    "Dir::Cache": join(work, "cache"),
    "Acquire::Languages": "none",
    "Acquire::Retries": "2",
    "Acquire::http::Timeout": "30",
    "Acquire::https::Timeout": "30",
    // The user that apt would change to may not enter this folder.
    "APT::Sandbox::User": "root",
  }
  const lines = Object.entries(settings).map(([key, value]) => `${key} "${value}";`)
  writeFileSync(join(work, "apt.conf"), [...network, ...lines, ""].join("\n"))

  const options = {
    cwd: work,
    env: { ...process.env, APT_CONFIG: join(work, "apt.conf"), LC_ALL: "C" },
    timeout: 300_000,
  }
  await run("apt-get", ["update", "--quiet", "-o", "APT::Update::Error-Mode=any"], options)
  const others =
    libraries === undefined ? [] : (await dependencies(name, options)).filter((each) => libraries.test(each))
  await run("apt-get", ["download", "--quiet", name, ...also, ...others], options)
  const files = readdirSync(work).filter((each) => each.endsWith(".deb"))
  const file = files.find((each) => each.startsWith(`${name}_`))
  if (file === undefined) throw new Error(`apt-get download ${name} left no file`)
  for (const each of files) await run("dpkg-deb", ["-x", each, "unpacked"], options)

  mkdirSync(unpackedFolder, { recursive: true })
  const target = join(unpackedFolder, file.replace(/\.deb$/, ""))
  rmSync(target, { recursive: true, force: true })
  // Renamed into place in one step, since other processes may be looking for the folder.
  renameSync(join(work, "unpacked"), target)
  return target
}

/** All dependencies of a package, direct and indirect, as if nothing were installed. */
async function dependencies(name: string, options: object): Promise<string[]> {
  const plan = ["install", "--simulate", "--no-install-recommends", name]
  const { stdout } = await run("apt-get", plan, { encoding: "utf8", ...options })
  return [...stdout.matchAll(/^Inst (\S+) /gm)].flatMap(([, found = ""]) => (found === name ? [] : [found]))
}

/** Runs one thing at a time among all processes of this machine. */
async function locked<A>(name: string, body: () => Promise<A>): Promise<A> {
  mkdirSync(cacheFolder, { recursive: true })
  const file = join(cacheFolder, `${name}.lock`)
  for (;;) {
    try {
      const handle = openSync(file, "wx")
      writeFileSync(handle, String(process.pid))
      closeSync(handle)
      break
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    }
    if (isAbandoned(file)) rmSync(file, { force: true })
    else await sleep(200)
  }
  try {
    return await body()
  } finally {
    rmSync(file, { force: true })
  }
}

function isAbandoned(lockFile: string): boolean {
  try {
    const owner = Number(readFileSync(lockFile, "utf8"))
    // The file is empty for an instant, between its creation and the writing of the number.
    if (owner === 0) return false
    process.kill(owner, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH"
  }
}

export interface DebianPackage<A> {
  readonly name: string
  /** Code names, the preferred one first. */
  readonly suites: readonly string[]
  /** Packages that are unpacked with it although it does not depend on them. */
  readonly also?: ReadonlyArray<string>
  /** Dependencies whose names match are unpacked with the package. Defaults to none. */
  readonly libraries?: RegExp
  /** Returns what is needed from the folder of an unpacked package; `undefined` where the package does not fit. */
  readonly accept: (folder: string) => A | undefined | Promise<A | undefined>
}

/** Finds a package in the cache, else downloads it. Rejects with a reason in one line. */
export async function debianPackage<A>(wanted: DebianPackage<A>): Promise<A> {
  const { name, suites, accept } = wanted
  const cached = async () => {
    for (const folder of unpackedPackages(name)) {
      const accepted = await accept(folder)
      if (accepted !== undefined) return accepted
    }
    return undefined
  }
  const found = await cached()
  if (found !== undefined) return found
  if (!existsSync("/usr/bin/apt-get")) throw new Error("this is neither Debian nor Ubuntu")

  return locked(name, async () => {
    // Another process may have fetched it while this one waited.
    const foundNow = await cached()
    if (foundNow !== undefined) return foundNow
    const prefix = `apt-${name}-`
    const leftOver = readdirSync(cacheFolder).filter((folder) => folder.startsWith(prefix))
    for (const folder of leftOver) rmSync(join(cacheFolder, folder), { recursive: true, force: true })
    const reasons: string[] = []
    for (const suite of suites) {
      const work = mkdtempSync(join(cacheFolder, prefix))
      try {
        const accepted = await accept(await download(wanted, suite, work))
        if (accepted !== undefined) return accepted
        reasons.push(`${suite} has another version`)
      } catch (error) {
        const lines = String((error as { stderr?: string }).stderr || (error as Error).message).split("\n")
        reasons.push(`${suite}: ${lines.find((line) => line.startsWith("E:")) ?? lines[0]}`)
      } finally {
        rmSync(work, { recursive: true, force: true })
      }
    }
    throw new Error(reasons.join("; "))
  })
}
