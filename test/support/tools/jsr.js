/**
 * Makes the package of JSR, `@callboard/http`, from the built package: the client over HTTP alone, as JavaScript with
 * declarations. JSR refuses sources whose exported types must be inferred, such as schemas; declarations name them all.
 */

import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join, posix } from "node:path"

/** What follows `from` and `import(`; declarations name sources, as `.ts`. */
const imports = /((?:\bfrom|\bimport|\bimport\()\s*")([^"]+)(")/g

/**
 * Copies a file and all that it imports from its own package.
 *
 * @param {string} from @param {string} to folders
 * @param {string} entry @param {string} ending of the files to copy
 */
function copyWithImports(from, to, entry, ending) {
  const found = new Set([entry])
  for (const file of found) {
    const text = readFileSync(join(from, file), "utf8").replace(imports, (whole, before, target, after) => {
      if (!target.startsWith(".")) return whole
      const renamed = target.replace(/\.(?:ts|js)$/, ending)
      found.add(posix.join(posix.dirname(file), renamed))
      return `${before}${renamed}${after}`
    })
    mkdirSync(dirname(join(to, file)), { recursive: true })
    writeFileSync(join(to, file), text)
  }
}

/** @param {string} built the folder of the built package @param {string} folder for the package of JSR */
export function makeJsrPackage(built, folder) {
  const {
    version,
    license,
    exports: published,
    dependencies,
  } = JSON.parse(readFileSync(join(built, "package.json"), "utf8"))
  /** @type {{ types: string, default: string }} */
  const { types, default: entry } = published["./http"]
  copyWithImports(built, folder, posix.normalize(entry), ".js")
  copyWithImports(built, folder, posix.normalize(types), ".d.ts")
  writeFileSync(join(folder, "mod.js"), `/* @ts-self-types="./mod.d.ts" */\nexport * from "${entry}"\n`)
  writeFileSync(join(folder, "mod.d.ts"), `export * from "${types}"\n`)
  // Declarations alone name effect: a program that runs loads nothing of it.
  const names = { "effect/": `npm:/effect@${dependencies.effect}/` }
  const manifest = { name: "@callboard/http", version, license, exports: "./mod.js", imports: names }
  writeFileSync(join(folder, "deno.json"), `${JSON.stringify(manifest, null, 2)}\n`)
  cpSync(join(built, "LICENSE"), join(folder, "LICENSE"))
}
