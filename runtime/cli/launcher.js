#!/usr/bin/env node
/**
 * The `callboard` command: starts the command line (main.ts) in Bun, or else in Deno, or else in Node. It watches over the process of
 * `dev` and of a single worker, and starts it again when it crashes, or when a file has changed.
 *
 * npm links commands to Node, and not every version that is in use runs TypeScript in place or has `node:sqlite`; so this
 * file is plain JavaScript that Node 18, Bun and Deno all run. CALLBOARD_RUNTIME picks one.
 */
import { existsSync, realpathSync } from "node:fs"
import { constants } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { currentRuntime, WORKER_RUNTIMES } from "../platform/runtime.js"
import { onSignals } from "../service/signals.js"
import { note, RESTART, Restarted, startProcess } from "./child.js"
import { isWatchMessage, superviseDev } from "./dev/supervisor.js"
import { findRuntime, followChild } from "./runtimes.js"

/**
 * @param {string} message
 * @param {number} code
 * @returns {never}
 */
function fail(message, code) {
  note(message)
  process.exit(code)
}

const here = dirname(realpathSync(fileURLToPath(import.meta.url)))
// The source in the repository, the compiled program in the published package.
const program = [join(here, "main.ts"), join(here, "main.js")].find((path) => existsSync(path))
if (program === undefined) fail("this installation is incomplete; install the package again", 1)

const forced = process.env.CALLBOARD_RUNTIME || undefined
if (forced !== undefined && forced !== "bun" && forced !== "deno" && forced !== "node") {
  fail(`CALLBOARD_RUNTIME is "${forced}"; it can be bun, deno or node`, 2)
}

const args = process.argv.slice(2)
// The process itself says whether it needs a watcher, since it knows its arguments and settings. Another command with
// one of these words among its arguments asks for none.
const isWatched = args.some((each) => each === "dev" || each === "worker")
const runtime = runtimeOf(forced)

if (runtime.path === process.execPath && !isWatched) await import(pathToFileURL(program).href)
else {
  const start = () => startProcess(runtime, program, args, { isWatched })
  const following = followChild(start, constants.signals, (error) =>
    fail(`could not start ${runtime.path}: ${error.message}`, 1),
  )
  const first = following.child
  first.once("message", (message) => {
    // A process that was told to end is not started again.
    if (following.isSignalled()) return
    if (message === RESTART) restartWorker(start, first)
    else if (isWatchMessage(message)) superviseDev({ start, first, watched: message.watched })
    else return
    // The listeners of signals are removed last: a signal without a listener would be lost.
    following.stop()
  })
}

/**
 * The runtime that the command was started in, Bun, Deno or Node: Node is the last choice, because npm starts the command in it
 * whatever the application runs on.
 *
 * @param {import("./runtimes.js").RuntimeName | undefined} forced
 * @returns {import("./runtimes.js").Runtime}
 */
function runtimeOf(forced) {
  const current = currentRuntime()
  if (current === (forced ?? current) && current !== "node") return { name: current, path: process.execPath }
  const wanted = forced === undefined ? /** @type {const} */ (["bun", "deno", "node"]) : [forced]
  const runtime = wanted.map(findRuntime).find((each) => each !== undefined)
  if (runtime !== undefined) return runtime
  const here = current === "node" ? `, but this is Node ${process.version}` : ""
  if (forced === "node") return fail(`CALLBOARD_RUNTIME=node needs Node 24 or newer to start the command${here}`, 127)
  if (forced === undefined) return fail(`needs ${WORKER_RUNTIMES}${here}: npm install bun`, 127)
  return fail(`needs ${{ bun: "Bun", deno: "Deno" }[forced]}: npm install ${forced} (or put ${forced} on PATH)`, 127)
}

/**
 * Runs a worker until it has ended by itself or a signal stops it; then ends this process with its exit code.
 *
 * @param {() => import("node:child_process").ChildProcess} start
 * @param {import("node:child_process").ChildProcess} first
 */
function restartWorker(start, first) {
  const worker = new Restarted({ start, first, name: "the worker" })
  // The worker counts signals as well, and logs what they do.
  const pass = () => worker.stop()
  onSignals({ soft: pass, hurry: pass })
  // A third signal ends this process at once, and its child with it.
  process.once("exit", () => worker.kill())
  void worker.done.then((exitCode) => process.exit(exitCode))
}
