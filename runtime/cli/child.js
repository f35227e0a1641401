/**
 * What a process that watches over another one does: starts it, and hears from it. The launcher
 * watches over the process of `dev` and of a single worker, and the supervisor of a pool over its worker processes. A
 * process that is watched stops when its watcher is gone.
 *
 * Plain JavaScript, because the launcher runs on Node.
 */

import { spawn } from "node:child_process"
import { runArguments } from "./runtimes.js"

/** @typedef {import("node:child_process").ChildProcess} ChildProcess */

/**
 * Messages of a process that is watched; `callboard dev` has more of them.
 *
 * `RESTART`: this is a worker, which is to be started again from now on when its process crashes. `READY`: it is ready.
 * `ENDING`: it ends normally. An end without that is a crash.
 */
export const [RESTART, READY, ENDING] = /** @type {const} */ (["restart", "ready", "ending"])

/** The answer to `ENDING`: the process waits for it, since otherwise its exit could be seen before its message. */
export const ACKNOWLEDGED = "noted"

/**
 * Starts the command line in a runtime, on the same terminal.
 *
 * @param {import("./runtimes.js").Runtime} runtime
 * @param {string} program
 * @param {ReadonlyArray<string>} args
 * @param {{ readonly isWatched: boolean }} options
 * @returns {ChildProcess}
 */
export function startProcess(runtime, program, args, { isWatched }) {
  return spawn(runtime.path, [...runArguments(runtime.name, program), ...args], {
    stdio: isWatched ? ["inherit", "inherit", "inherit", "ipc"] : "inherit",
  })
}

/**
 * Calls back when the process announces a normal end.
 *
 * @param {ChildProcess} child
 * @param {() => void} ending
 */
export function onEnding(child, ending) {
  child.on("message", (message) => {
    if (message !== ENDING) return
    ending()
    // The process may have exited already.
    child.send(ACKNOWLEDGED, () => undefined)
  })
}

/**
 * Prints a line for people on standard error.
 *
 * @param {string} text
 */
export function note(text) {
  process.stderr.write(`callboard: ${text}\n`)
}
