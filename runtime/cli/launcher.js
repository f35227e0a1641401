#!/usr/bin/env node
/**
 * The `callboard` command: starts the command line (main.ts) in Bun, or else in Deno. It watches over the process of `dev`
 * and of a single worker, and starts it again when it crashes, or when a file has changed.
 *
 * npm links commands to Node, which can run neither TypeScript in place nor, in every version that is in use,
 * `node:sqlite`; so this file is plain JavaScript that Node 18, Bun and Deno all run. CALLBOARD_RUNTIME picks one.
 */
import { existsSync, realpathSync } from "node:fs"
import { constants } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
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
if (forced !== undefined && forced !== "bun" && forced !== "deno") {
  fail(`CALLBOARD_RUNTIME is "${forced}"; it can be bun or deno`, 2)
}

const args = process.argv.slice(2)
// The process itself says whether it needs a watcher, since it knows its arguments and settings. Another command with
// one of these words among its arguments asks for none.
const isWatched = args.some((each) => each === "dev" || each === "worker")
const current = ownRuntime()
const isHere = current !== undefined && (forced ?? current) === current

if (isHere && !isWatched) await import(pathToFileURL(program).href)
else {
  const runtime = isHere ? { name: current, path: process.execPath } : runtimeOf(forced)
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

/** @returns {import("./runtimes.js").RuntimeName | undefined} */
function ownRuntime() {
  if ("bun" in process.versions) return "bun"
  return "deno" in process.versions ? "deno" : undefined
}

/** @param {import("./runtimes.js").RuntimeName | undefined} forced */
function runtimeOf(forced) {
  const wanted = forced === undefined ? /** @type {const} */ (["bun", "deno"]) : [forced]
  const runtime = wanted.map(findRuntime).find((each) => each !== undefined)
  if (runtime !== undefined) return runtime
  const names = wanted.map((name) => (name === "bun" ? "Bun" : "Deno")).join(" or ")
  return fail(`needs ${names}: npm install ${wanted[0]} (or put ${wanted.join(" or ")} on PATH)`, 127)
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
