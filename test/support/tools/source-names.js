/**
 * Preloaded on Node: the published names mean the sources in the checkout, as on Bun, which reads tsconfig.json, and on Deno. By
 * itself, Node would look them up in package.json and load dist/, a second copy of the package.
 */

import { readFileSync } from "node:fs"
import module from "node:module"

const root = new URL("../../../", import.meta.url)
/** @type {{ imports: Record<string, string> }} */
const { imports } = JSON.parse(readFileSync(new URL("deno.json", root), "utf8"))

// Tests start Node 20 too, which knows no hooks and runs none of the sources.
module.registerHooks?.({
  resolve: (specifier, context, next) => {
    // Projects outside of the checkout have a package of their own.
    const source = context.parentURL?.startsWith(root.href) ? imports[specifier] : undefined
    return next(source === undefined ? specifier : new URL(source, root).href, context)
  },
})
