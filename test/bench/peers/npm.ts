/** The peers that come from npm, installed into this folder when they are used for the first time. */
import { execFile } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { searchPath } from "../../support/servers/process.ts"
import { Unavailable } from "../harness/workload.ts"

const folder = fileURLToPath(new URL(".", import.meta.url))

const wanted: Readonly<Record<string, string>> = JSON.parse(
  readFileSync(join(folder, "package.json"), "utf8"),
).dependencies

/** The version of a package that is installed here; nothing where there is none. */
const installed = (name: string): string | undefined => {
  const manifest = join(folder, "node_modules", name, "package.json")
  return existsSync(manifest) ? JSON.parse(readFileSync(manifest, "utf8")).version : undefined
}

let installation: Promise<Readonly<Record<string, string>>> | undefined

/** Installs the peers where they are missing or have another version. Rejects with `Unavailable`. */
export const npmPeers = (): Promise<Readonly<Record<string, string>>> => {
  installation ??= (async () => {
    if (Object.entries(wanted).some(([name, version]) => installed(name) !== version)) {
      const quiet = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
      const env = { ...process.env, PATH: searchPath }
      try {
        await promisify(execFile)("npm", ["install", ...quiet], { cwd: folder, env, timeout: 300_000 })
      } catch (error) {
        const lines = (error as Error).message.split("\n")
        throw new Unavailable(
          `npm install in test/bench/peers: ${lines.find((line) => /npm err/i.test(line)) ?? lines[0]}`,
        )
      }
    }
    return wanted
  })()
  return installation
}
