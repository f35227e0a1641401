/**
 * A process that another one watches over. The launcher watches over the process of `dev` and of a single worker, the
 * supervisor of a pool over its worker processes. A process that is watched stops when its watcher is gone.
 *
 * Plain JavaScript, because the launcher runs on Node.
 */
import { spawn } from "node:child_process"
import { passSignal, runArguments } from "./runtimes.js"

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

const FIRST_WAIT_MS = 1_000
const MAX_WAIT_MS = 30_000

/** Number of processes in a row that were killed before they were ready, after which the worker is given up. */
const MAX_UNREADY = 5

/** A process that lived this long is counted as having started well. */
const STABLE_MS = 60_000

/** Exit code of a worker that is given up, or killed while it stops. */
const FAILED = 1

/**
 * @typedef {object} RestartedOptions
 * @property {() => ChildProcess} start Starts a process.
 * @property {ChildProcess} [first] A process that was started already.
 * @property {string} name Name in messages to people.
 * @property {(child: ChildProcess) => void} [onStart] Called with each process.
 * @property {(again: boolean) => void} [onExit] Called when a process has ended. `again`: another one will be started.
 */

export class Restarted {
  /** @type {RestartedOptions} */
  #options
  /** @type {(exitCode: number) => void} */
  #resolve = () => undefined
  /** @type {number | undefined} */
  #exitCode
  /** @type {ChildProcess | undefined} */
  #child
  #isReady = false
  /** Whether the process has announced a normal end. */
  #isEnding = false
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer
  #stopping = false
  #waitMs = FIRST_WAIT_MS
  /** Processes in a row that were ended before they were ready. */
  #unready = 0

  /** @param {RestartedOptions} options */
  constructor(options) {
    this.#options = options
    /**
     * Resolves with the exit code once the worker has ended by itself or was stopped.
     *
     * @type {Promise<number>}
     */
    this.done = new Promise((resolve) => {
      this.#resolve = resolve
    })
    this.#run(options.first ?? options.start())
  }

  /** The exit code, once it is known. */
  get exitCode() {
    return this.#exitCode
  }

  /** The current process. */
  get child() {
    return this.#child
  }

  /** Whether the current process has become ready. */
  get isReady() {
    return this.#isReady
  }

  stop() {
    this.#stopping = true
    clearTimeout(this.#timer)
    if (this.#child === undefined) this.#end(0)
    else passSignal(this.#child, "SIGTERM")
  }

  kill() {
    if (this.#child !== undefined) passSignal(this.#child, "SIGKILL")
  }

  /** @param {number} exitCode */
  #end(exitCode) {
    this.#exitCode = exitCode
    this.#resolve(exitCode)
  }

  /** @param {ChildProcess} child */
  #run(child) {
    const { name, onStart, onExit } = this.#options
    const startedAt = performance.now()
    this.#child = child
    this.#isReady = false
    this.#isEnding = false
    child.on("message", (message) => {
      if (message !== READY) return
      this.#isReady = true
      this.#unready = 0
    })
    onEnding(child, () => {
      if (this.#child === child) this.#isEnding = true
    })
    child.on("error", (error) => {
      note(`${name} cannot be started: ${error.message}`)
      this.#end(FAILED)
    })
    child.on("exit", (code, signal) => {
      this.#child = undefined
      const again = this.#decide(code, signal, performance.now() - startedAt)
      onExit?.(again)
    })
    onStart?.(child)
  }

  /**
   * Handles the end of the process. Returns whether another one will be started.
   *
   * @param {number | null} code
   * @param {NodeJS.Signals | null} signal
   * @param {number} livedMs
   */
  #decide(code, signal, livedMs) {
    const { name, start } = this.#options
    // A process that did not announce its end was killed by a signal, or a handler called `process.exit` or threw an
    // error that could not be caught. A stuck one does not announce it either, since it is needed again.
    if (this.#isEnding || this.#stopping) {
      // A signal that stops it before it is ready ends it at once.
      this.#end(code ?? (this.#isReady ? FAILED : 0))
      return false
    }
    const how = code === null ? `was ended by ${signal}` : `ended unexpectedly with exit code ${code}`
    if (!this.#isReady && ++this.#unready >= MAX_UNREADY) {
      note(`${name} ${how} ${this.#unready} times before it was ready; giving up`)
      this.#end(FAILED)
      return false
    }
    if (livedMs > STABLE_MS) this.#waitMs = FIRST_WAIT_MS
    note(`${name} ${how}; restarting it in ${this.#waitMs / 1_000} s`)
    this.#timer = setTimeout(() => this.#run(start()), this.#waitMs)
    this.#waitMs = Math.min(MAX_WAIT_MS, this.#waitMs * 2)
    return true
  }
}
