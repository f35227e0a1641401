/** Finds the browser of the tests: Chromium without a window, and a font. */

import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { delimiter, join } from "node:path"
import { promisify } from "node:util"
import { debianPackage, environmentOf, ownSuiteFirst, unpackedAt } from "./debian.ts"
import { type FoundProgram, foundEarlier, MissingServer } from "./missing.ts"

/** Name of the program in the results of the search and in the summary of `npm test`. */
export const chromiumName = "chromium"

/** The first release with everything that the page uses: `light-dark()`, Trusted Types, `URLPattern`. */
const OLDEST = 123

const PACKAGE = "chromium-headless-shell"

/** Names of the program on Debian, on other systems and in Chromium's own releases. */
const NAMES = [PACKAGE, "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"]

/**
 * Dependencies that are unpacked: libraries, except those of every machine and of graphics cards; files that the
 * browser shares with its other package; and one family of fonts.
 */
const LIBRARIES =
  /^(chromium-common|fontconfig-config|fonts-dejavu-core|lib(?!c6$|gcc|stdc|llvm|z3|gl1-mesa|glapi|glx|gl1$|drm-|sensors|debconf).*)$/

async function accepted(path: string): Promise<FoundProgram | undefined> {
  if (!existsSync(path)) return undefined
  try {
    const env = { ...process.env, ...environmentOf(unpackedAt(path)) }
    const { stdout } = await promisify(execFile)(path, ["--version"], { timeout: 30_000, env })
    const version = /(\d+)(\.\d+)+/.exec(stdout)?.[0] ?? ""
    return Number.parseInt(version, 10) >= OLDEST ? { path, version } : undefined
  } catch {
    return undefined
  }
}

async function find(): Promise<FoundProgram> {
  const given = process.env["CHROMIUM"]
  if (given) {
    const found = await accepted(given)
    if (found === undefined) throw new Error(`$CHROMIUM does not run, or is older than ${OLDEST}: ${given}`)
    return found
  }
  for (const folder of (process.env["PATH"] ?? "").split(delimiter).filter((each) => each !== "")) {
    for (const name of NAMES) {
      const found = await accepted(join(folder, name))
      if (found !== undefined) return found
    }
  }
  return debianPackage({
    name: PACKAGE,
    suites: ownSuiteFirst(["trixie", "bookworm"]),
    libraries: LIBRARIES,
    // The script in usr/bin would look for the browser in one fixed place.
    accept: (folder) => accepted(join(folder, "usr/lib/chromium", PACKAGE)),
  })
}

let search: Promise<FoundProgram> | undefined

/** `$CHROMIUM`, then PATH, then the cache folder, which is filled from Debian. Rejects with `MissingServer`. */
export function chromiumProgram(): Promise<FoundProgram> {
  search ??= (async () => {
    const earlier = foundEarlier(chromiumName)
    if (earlier !== undefined) return earlier
    try {
      return await find()
    } catch (error) {
      const advice = `install Chromium ${OLDEST} or newer (the package ${PACKAGE} or chromium), or name its program in $CHROMIUM`
      throw new MissingServer(chromiumName, `${advice} (${(error as Error).message})`)
    }
  })()
  return search
}
