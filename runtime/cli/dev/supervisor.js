/**
 * The supervisor of `callboard dev`: watches the process that runs worker and HTTP, and starts another one when a file has
 * changed. The new process loads its files first. Only when that succeeded is the old one stopped, which lets its jobs
 * finish. With a broken file the last version that worked keeps running.
 *
 * Plain JavaScript, because it runs in the launcher, on Node.
 */

import { onSignals } from "../../service/signals.js"
import { note, onEnding } from "../child.js"
import { passSignal } from "../runtimes.js"
import { onChanges } from "./changes.js"

/** @typedef {import("node:child_process").ChildProcess} ChildProcess */
/** @typedef {import("./process.ts").ProcessMessage} ProcessMessage */
/** @typedef {import("./process.ts").SupervisorMessage} SupervisorMessage */

/**
 * @typedef {object} DevOptions
 * @property {() => ChildProcess} start Starts a process.
 * @property {ChildProcess} first A process that was started already, and has sent what is to be watched.
 * @property {import("./changes.js").Watched} watched
 */

/**
 * @typedef {object} DevProcess
 * @property {ChildProcess} child
 * @property {"loading" | "starting" | "ready" | "leaving"} state
 * @property {string} running Names of the jobs that it runs, as it last reported them.
 * @property {boolean} isEnding Whether it has announced a normal end.
 */

/**
 * @param {unknown} value
 * @returns {value is ProcessMessage}
 */
const isProcessMessage = (value) => typeof value === "object" && value !== null && "type" in value

/**
 * The first message of a process of `callboard dev`.
 *
 * @param {unknown} value
 * @returns {value is Extract<ProcessMessage, { type: "watch" }>}
 */
export const isWatchMessage = (value) => isProcessMessage(value) && value.type === "watch"

/**
 * Runs until a signal stops it, or the first process cannot serve; then ends this process with the exit code of the last
 * one.
 *
 * @param {DevOptions} options
 */
export function superviseDev(options) {
  new Supervisor(options).run()
}

class Supervisor {
  /** @type {DevOptions} */
  #options
  /** @type {Set<DevProcess>} */
  #all = new Set()
  /**
   * The process that serves, or is about to.
   *
   * @type {DevProcess | undefined}
   */
  #current
  /**
   * The process that loads the changed files, and will replace the current one.
   *
   * @type {DevProcess | undefined}
   */
  #next
  /** @type {number | undefined} */
  #port
  #wasReady = false
  #stopping = false

  /** @param {DevOptions} options */
  constructor(options) {
    this.#options = options
  }

  run() {
    const { first, watched } = this.#options
    const stop = () => this.#stop()
    // The processes log their stop themselves.
    onSignals({ soft: stop, hurry: stop })
    // A third signal ends this process at once, and its children with it.
    process.once("exit", () => {
      for (const { child } of this.#all) passSignal(child, "SIGKILL")
    })
    const devProcess = this.#take(first)
    // It loads its files after the first look at them, so that every later change is noticed.
    void onChanges(watched, () => this.#load()).then(() => send(devProcess, { type: "load" }))
  }

  /** Starts a process that loads the current files. */
  #load() {
    if (this.#stopping) return
    // This process has loaded outdated files, and has not started anything.
    if (this.#next !== undefined) passSignal(this.#next.child, "SIGKILL")
    const devProcess = this.#take(this.#options.start())
    devProcess.child.on("message", (message) => {
      if (isWatchMessage(message)) send(devProcess, { type: "load" })
    })
  }

  /**
   * @param {ChildProcess} child
   * @returns {DevProcess}
   */
  #take(child) {
    /** @type {DevProcess} */
    const devProcess = { child, state: "loading", running: "", isEnding: false }
    this.#all.add(devProcess)
    this.#next = devProcess
    child.on("message", (message) => {
      if (!isProcessMessage(message)) return
      if (message.type === "loaded") this.#replace(devProcess)
      else if (message.type === "running") devProcess.running = message.jobs
      else if (message.type === "ready") this.#ready(devProcess, message.port)
    })
    onEnding(child, () => {
      devProcess.isEnding = true
    })
    child.on("error", (error) => {
      note(`the process could not be started: ${error.message}`)
      this.#exited(devProcess, 1)
    })
    child.on("exit", (code, signal) => this.#exited(devProcess, code, signal))
    return devProcess
  }

  /** @param {DevProcess} devProcess */
  #replace(devProcess) {
    if (devProcess !== this.#next || this.#stopping) return
    const before = this.#current
    this.#next = undefined
    this.#current = devProcess
    devProcess.state = "starting"
    if (before !== undefined) {
      before.state = "leaving"
      send(before, { type: "stop" })
    }
    send(devProcess, {
      type: "start",
      reload: this.#wasReady,
      replaces: before !== undefined,
      ...(this.#port === undefined ? {} : { port: this.#port }),
    })
  }

  /**
   * @param {DevProcess} devProcess
   * @param {number} port
   */
  #ready(devProcess, port) {
    if (devProcess.state === "starting") devProcess.state = "ready"
    this.#port = port
    this.#wasReady = true
  }

  /**
   * @param {DevProcess} devProcess
   * @param {number | null} exitCode
   * @param {NodeJS.Signals | null} [signal]
   */
  #exited(devProcess, exitCode, signal = null) {
    if (!this.#all.delete(devProcess)) return
    const { state } = devProcess
    const outdated = state === "loading" && devProcess !== this.#next
    if (this.#next === devProcess) this.#next = undefined
    if (this.#current === devProcess) this.#current = undefined
    if (this.#stopping) {
      // Until its service runs, a signal ends a process at once.
      const ran = state === "ready" || state === "leaving"
      if (this.#all.size === 0) process.exit(exitCode ?? (ran ? 1 : 0))
      return
    }
    if (outdated) return
    const isUnasked = !devProcess.isEnding && (state === "ready" || state === "leaving")
    if (isUnasked) note(`${endText(devProcess, exitCode, signal)}${state === "ready" ? "; restarting" : ""}`)
    if (state === "leaving") return
    if (state === "ready" && isUnasked) {
      this.#load()
    } else if (state === "starting" && !this.#wasReady) {
      // The files were loaded, so the cause lies elsewhere: the port is in use, or the transport cannot be reached.
      process.exit(exitCode ?? 1)
    } else if (this.#current !== undefined) {
      note("the last working version keeps running; waiting for a change")
    } else {
      note("waiting for a change")
    }
  }

  /** Passes each signal to the processes, which count signals and stop like a worker. */
  #stop() {
    this.#stopping = true
    for (const { child } of this.#all) passSignal(child, "SIGTERM")
    if (this.#all.size === 0) process.exit(0)
  }
}

/**
 * Describes an end that was not announced: a handler called `process.exit`, blocked its thread, or took all memory.
 *
 * @param {DevProcess} devProcess
 * @param {number | null} exitCode
 * @param {NodeJS.Signals | null} signal
 */
const endText = ({ running }, exitCode, signal) => {
  const how = exitCode === null ? `was ended by ${signal ?? "a signal"}` : `ended with exit code ${exitCode}`
  return `the process that runs the actors ${how}, ${running === "" ? "while no job ran" : `while it ran ${running}`}`
}

/**
 * @param {DevProcess} devProcess
 * @param {SupervisorMessage} message
 */
const send = ({ child }, message) => {
  // A process that has just ended can receive no message.
  if (child.connected) child.send(message, () => undefined)
}
