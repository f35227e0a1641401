/**
 * Runs Bun with the given arguments: `node test/support/tools/bun.js run service.ts`.
 *
 * The `bun` in node_modules/.bin is an empty shell where install scripts are switched off; this looks for the program
 * itself, as the `callboard` command does.
 */

import { spawn } from "node:child_process"
import { constants } from "node:os"
import { findRuntime, followChild } from "../../../runtime/cli/runtimes.js"

const bun = findRuntime("bun")
if (bun === undefined) {
  process.stderr.write("Bun is missing: npm install\n")
  process.exit(127)
}
const start = () => spawn(bun.path, process.argv.slice(2), { stdio: "inherit" })
followChild(start, constants.signals, (error) => {
  process.stderr.write(`could not start ${bun.path}: ${error.message}\n`)
  process.exit(1)
})
