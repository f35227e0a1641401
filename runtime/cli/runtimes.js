/**
 * Finds Bun, Deno and Node on this machine.
 *
 * Plain JavaScript for Node 18 and newer: it runs before either of them is there, in the launcher and in the scripts
 * behind `npm run`.
 */

import { accessSync, constants, existsSync, realpathSync, statSync } from "node:fs"
import { delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { canRunWorkers, currentRuntime } from "../platform/runtime.js"

/** @typedef {import("../platform/runtime.js").RuntimeName} RuntimeName */
/** @typedef {{ name: RuntimeName, path: string }} Runtime */

const windows = process.platform === "win32"

/** Least size of a runtime, which has tens of megabytes; a smaller file is a stub. */
const leastProgramSize = 1_000_000

/**
 * Where the packages of each runtime hold the program itself. It comes in a platform package; the install script of
 * the main package, which may be switched off, moves it (Bun) or copies it (Deno) over a stub in the main package.
 *
 * @param {"bun" | "deno"} name
 * @returns {string[]} paths below a node_modules folder
 */
function packagedPaths(name) {
  const { arch, platform } = process
  if (name === "bun") {
    const cpu = arch === "arm64" ? "aarch64" : arch
    const program = windows ? "bun.exe" : "bun"
    const platforms = [`${windows ? "windows" : platform}-${cpu}`]
    if (platform === "linux") platforms.push(`linux-${cpu}-musl`)
    // npm installs only the package for the C library in use, Deno installs both.
    if (existsSync("/etc/alpine-release")) platforms.reverse()
    return [...platforms.map((each) => join("@oven", `bun-${each}`, "bin", program)), join("bun", "bin", "bun.exe")]
  }
  const system = platform === "linux" ? `linux-${arch}-glibc` : `${platform}-${arch}`
  return [join("@deno", system, windows ? "deno.exe" : "deno"), join("deno", windows ? "deno.exe" : "deno")]
}

/**
 * @param {string} path
 * @param {number} [min] bytes that it must have at least
 */
function isProgram(path, min = 0) {
  try {
    accessSync(path, constants.X_OK)
    const stats = statSync(path)
    return stats.isFile() && stats.size >= min
  } catch {
    return false
  }
}

/**
 * A folder and all its parents, nearest first.
 *
 * @param {string} start
 */
function upward(start) {
  const folders = [start]
  for (let parent = dirname(start); parent !== folders.at(-1); parent = dirname(parent)) folders.push(parent)
  return folders
}

/**
 * Looks in the node_modules folders from the working directory upward, then from here upward (a global installation
 * brings its runtime along), then on PATH. Node is the one of this process, if it can run workers.
 *
 * @param {RuntimeName} name
 * @returns {Runtime | undefined}
 */
export function findRuntime(name) {
  if (name === "node") {
    return currentRuntime() === "node" && canRunWorkers() ? { name, path: process.execPath } : undefined
  }
  const here = dirname(realpathSync(fileURLToPath(import.meta.url)))
  for (const folder of [...upward(process.cwd()), ...upward(here)]) {
    const modules = join(folder, "node_modules")
    if (!existsSync(modules)) continue
    // pnpm and Deno link packages into a store, and there the platform package lies beside the main package.
    const main = join(modules, name)
    const places = existsSync(main) ? [modules, dirname(realpathSync(main))] : [modules]
    for (const path of places.flatMap((place) => packagedPaths(name).map((path) => join(place, path)))) {
      if (isProgram(path, leastProgramSize)) return { name, path }
    }
  }
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    // npm and npx put node_modules/.bin on PATH; what is there is a script that fails without its install script.
    if (folder === "" || folder.endsWith(join("node_modules", ".bin"))) continue
    const path = join(folder, windows ? `${name}.exe` : name)
    if (isProgram(path)) return { name, path }
  }
  return undefined
}

/**
 * The arguments that run a program in a runtime.
 *
 * @param {RuntimeName} name
 * @param {string} program
 */
export function runArguments(name, program) {
  // The launcher was started through npm, so node_modules is used, whatever a deno.json says. Without the second flag
  // Deno prints a warning of four lines at the first request that is waited for, about a behaviour that is not used.
  return name === "deno" ? ["run", "-A", "--node-modules-dir=manual", "--unstable-no-legacy-abort", program] : [program]
}

/**
 * Sends a signal, also a second one: Deno's `child.kill` does nothing after the first.
 *
 * @param {import("node:child_process").ChildProcess} child
 * @param {NodeJS.Signals} signal
 */
export function passSignal(child, signal) {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  try {
    process.kill(child.pid, signal)
  } catch {
    // The process has ended in the meantime.
  }
}

/**
 * Starts a child and ends this process the way the child ended: with its exit code, or 128 + n when signal n ended it.
 *
 * Signals are passed to the child and do not end this process before it, since callers wait for this process. A terminal
 * delivers Ctrl+C to both processes, so that the child gets it twice; it counts both as one. The listeners stand before the
 * child is started: a signal that came in between would end this process and leave the child behind.
 *
 * @param {() => import("node:child_process").ChildProcess} start
 * @param {Record<string, number>} signalNumbers
 * @param {(error: Error) => void} onError when the child could not be started
 * @returns {{
 *   readonly child: import("node:child_process").ChildProcess,
 *   readonly isSignalled: () => boolean,
 *   readonly stop: () => void,
 * }} the child, whether a signal was passed, and how to stop following the child
 */
export function followChild(start, signalNumbers, onError) {
  const signals = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGQUIT", "SIGHUP"])
  let isSignalled = false
  /** @param {NodeJS.Signals} signal */
  const pass = (signal) => {
    isSignalled = true
    passSignal(child, signal)
  }
  /**
   * @param {number | null} code
   * @param {NodeJS.Signals | null} signal
   */
  const leave = (code, signal) => process.exit(code ?? 128 + (signal ? (signalNumbers[signal] ?? 0) : 0))
  for (const signal of signals) if (!windows || signal !== "SIGQUIT") process.on(signal, pass)
  const child = start()
  child.on("error", onError)
  child.on("exit", leave)
  const stop = () => {
    for (const signal of signals) process.off(signal, pass)
    child.off("error", onError)
    child.off("exit", leave)
  }
  return { child, isSignalled: () => isSignalled, stop }
}
