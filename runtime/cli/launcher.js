#!/usr/bin/env node
/**
 * The `callboard` command: starts the command line (main.ts) in Bun, or else in Deno.
 *
 * npm links commands to Node, which can run neither TypeScript in place nor, in every version that is in use,
 * `node:sqlite`; so this file is plain JavaScript that Node 18, Bun and Deno all run. CALLBOARD_RUNTIME picks one.
 */

import { spawn } from "node:child_process"
import { existsSync, realpathSync } from "node:fs"
import { constants } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { findRuntime, followChild, runArguments } from "./runtimes.js"

/**
 * @param {string} message
 * @param {number} code
 * @returns {never}
 */
function fail(message, code) {
  process.stderr.write(`callboard: ${message}\n`)
  process.exit(code)
}

const here = dirname(realpathSync(fileURLToPath(import.meta.url)))
// The source in the repository, the compiled program in the published package.
const program = [join(here, "main.ts"), join(here, "main.js")].find((path) => existsSync(path))
if (program === undefined) fail("this installation is incomplete, install the package again", 1)

const forced = process.env.CALLBOARD_RUNTIME || undefined
if (forced !== undefined && forced !== "bun" && forced !== "deno") {
  fail(`CALLBOARD_RUNTIME is "${forced}"; it can be bun or deno`, 2)
}

const current = "bun" in process.versions ? "bun" : "deno" in process.versions ? "deno" : "node"
if (current === forced || (forced === undefined && current !== "node")) {
  await import(pathToFileURL(program).href)
} else {
  const wanted = /** @type {import("./runtimes.js").RuntimeName[]} */ (
    forced === undefined ? ["bun", "deno"] : [forced]
  )
  const runtime = wanted.map(findRuntime).find((each) => each !== undefined)
  if (runtime === undefined) {
    const names = wanted.map((name) => (name === "bun" ? "Bun" : "Deno")).join(" or ")
    fail(`needs ${names}: npm install ${wanted[0]} (or put ${wanted.join(" or ")} on PATH)`, 127)
  }
  const child = spawn(runtime.path, [...runArguments(runtime.name, program), ...process.argv.slice(2)], {
    stdio: "inherit",
  })
  followChild(child, constants.signals, (error) => fail(`could not start ${runtime.path}: ${error.message}`, 1))
}
