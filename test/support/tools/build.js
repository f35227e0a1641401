/**
 * Builds dist/ for `npm pack`: Deno runs no TypeScript from node_modules, so the package holds JavaScript.
 *
 * Files that tsc does not know are copied to the same place below dist/. So is every folder named `templates`, whatever
 * it holds: `callboard init` writes those files out as they are.
 */

import { spawnSync } from "node:child_process"
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join, sep } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../../..", import.meta.url))
const dist = join(root, "dist")

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  process.stderr.write(`build: ${message}\n`)
  process.exit(1)
}

rmSync(dist, { recursive: true, force: true })

// The page first, because its weight may fail the build.
const page = [join(root, "test/support/tools/bun.js"), "run", join(root, "test/support/tools/page.ts"), "--once"]
const bundled = spawnSync(process.execPath, [...page, "--licences", join(dist, "THIRD-PARTY.txt")], {
  stdio: "inherit",
})
if (bundled.status !== 0) fail("the page was not built")

const compiler = join(root, "node_modules/typescript/bin/tsc")
const config = join(root, "test/support/tools/tsconfig.build.json")
const compiled = spawnSync(process.execPath, [compiler, "--project", config], { stdio: "inherit" })
if (compiled.status !== 0) fail("tsc failed")

/** @type {{ version: string, exports: Record<string, string | Record<string, string>> }} */
const { version, exports: entryPoints } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
// tsc copies the manifest along with the file that imports it. With `exports` in it, `callboard/…` inside dist/ would be
// looked for below dist/dist.
writeFileSync(join(dist, "package.json"), `${JSON.stringify({ type: "module", version })}\n`)

for (const folder of ["runtime", "plugins", "test/kit"].filter((each) => existsSync(join(root, each)))) {
  for (const file of readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })) {
    const isTemplate = file.split(sep).slice(0, -1).includes("templates")
    const isAsset = /\.[a-z0-9]+$/.test(file) && !/\.(ts|js|md)$/.test(file)
    // What runs in the browser is bundled into one module of runtime/http, with types of its own.
    const isPage = folder === "runtime" && file.split(sep)[0] === "page"
    const isBundle = join(folder, file).split(sep).join("/").startsWith("runtime/http/page/assets.")
    if (isBundle || ((isTemplate || isAsset) && !isPage))
      cpSync(join(root, folder, file), join(dist, folder, file), { recursive: true })
  }
}

const missing = Object.values(entryPoints)
  .flatMap((target) => (typeof target === "string" ? [target] : Object.values(target)))
  .filter((target) => !existsSync(join(root, target)))
if (missing.length > 0) fail(`package.json exports files that do not exist: ${missing.join(", ")}`)
