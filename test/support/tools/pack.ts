/** Packs the package before the tests of the package run, as the README tells readers to, and removes it after them. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type { TestProject } from "vitest/node"

declare module "vitest" {
  interface ProvidedContext {
    /** The path of the packed package, which the tests share. */
    readonly tarball: string
  }
}

const root = fileURLToPath(new URL("../../..", import.meta.url))

export default (project: TestProject) => {
  const folder = mkdtempSync(join(tmpdir(), "callboard-pack-"))
  const { status } = spawnSync("npm", ["pack", "--silent", "--pack-destination", folder], {
    cwd: root,
    stdio: ["ignore", "ignore", "inherit"],
  })
  if (status !== 0) throw new Error(`npm pack ended with ${status}`)
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  project.provide("tarball", join(folder, `callboard-${version}.tgz`))
  return () => rmSync(folder, { recursive: true, force: true })
}
