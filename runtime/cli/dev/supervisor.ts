/**
 * The supervisor of `callboard dev`: starts the process that runs worker and HTTP, and another one when a file has changed.
 * The new process loads its files first. Only when that succeeded is the old one stopped, which lets its jobs finish. With a
 * broken file the last version that worked keeps running.
 */
import type { ChildProcess } from "node:child_process"
import { makeLog } from "../../log/log.ts"
import { onSignals } from "../../service/signals.ts"
import { EXIT } from "../failure.ts"
import { onEnding, passSignal, startWorkProcess } from "../work-process.ts"
import { onChanges, type Watched } from "./changes.ts"
import { isProcessMessage, type SupervisorMessage } from "./message.ts"

export interface DevOptions {
  readonly watched: Watched
  /** A line for people, on standard error. */
  readonly note: (text: string) => void
}

interface DevProcess {
  readonly child: ChildProcess
  state: "loading" | "starting" | "ready" | "leaving"
  /** Names of the jobs that it runs, as it last reported them. */
  running: string
  /** Whether it has announced a normal end. */
  isEnding: boolean
}

/** Runs until a signal stops it; resolves with the exit code of the last process. */
export const superviseDev = (options: DevOptions): Promise<number> => {
  const supervisor = new Supervisor(options)
  return supervisor.run()
}

class Supervisor {
  readonly #options: DevOptions
  readonly #all = new Set<DevProcess>()
  readonly #end = new AbortController()
  /** The process that serves, or is about to. */
  #current: DevProcess | undefined
  /** The process that loads the changed files, and will replace the current one. */
  #next: DevProcess | undefined
  #port: number | undefined
  #wasReady = false
  #stopping = false
  #resolve: (exitCode: number) => void = () => undefined

  constructor(options: DevOptions) {
    this.#options = options
  }

  async run(): Promise<number> {
    const ended = new Promise<number>((resolve) => {
      this.#resolve = resolve
    })
    const offSignals = onSignals({
      soft: () => this.#stop(),
      hurry: () => this.#stop(),
      // The processes log their stop themselves.
      log: makeLog({ level: "none" }),
    })
    // A third signal ends this process at once, and its children with it.
    const killAll = () => {
      for (const { child } of this.#all) passSignal(child, "SIGKILL")
    }
    process.once("exit", killAll)
    await onChanges(this.#options.watched, () => this.#load(), this.#end.signal)
    this.#load()
    const exitCode = await ended
    this.#end.abort()
    offSignals()
    return exitCode
  }

  /** Starts a process that loads the current files. */
  #load(): void {
    if (this.#stopping) return
    // This process has loaded outdated files, and has not started anything.
    if (this.#next !== undefined) passSignal(this.#next.child, "SIGKILL")
    const child = startWorkProcess()
    const devProcess: DevProcess = { child, state: "loading", running: "", isEnding: false }
    this.#all.add(devProcess)
    this.#next = devProcess
    child.on("message", (message: unknown) => {
      if (!isProcessMessage(message)) return
      if (message.type === "loaded") this.#replace(devProcess)
      else if (message.type === "running") devProcess.running = message.jobs
      else this.#ready(devProcess, message.port)
    })
    onEnding(child, () => {
      devProcess.isEnding = true
    })
    child.on("error", (error) => {
      this.#options.note(`the process could not be started: ${error.message}`)
      this.#exited(devProcess, 1)
    })
    child.on("exit", (code, signal) => this.#exited(devProcess, code, signal))
  }

  #replace(devProcess: DevProcess): void {
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
      ...(this.#port === undefined ? {} : { port: this.#port }),
    })
  }

  #ready(devProcess: DevProcess, port: number): void {
    if (devProcess.state === "starting") devProcess.state = "ready"
    this.#port = port
    this.#wasReady = true
  }

  #exited(devProcess: DevProcess, exitCode: number | null, signal: NodeJS.Signals | null = null): void {
    if (!this.#all.delete(devProcess)) return
    const { state } = devProcess
    const outdated = state === "loading" && devProcess !== this.#next
    if (this.#next === devProcess) this.#next = undefined
    if (this.#current === devProcess) this.#current = undefined
    if (this.#stopping) {
      if (this.#all.size === 0) this.#resolve(state === "loading" ? 0 : (exitCode ?? 1))
      return
    }
    if (outdated) return
    const isUnasked = (!devProcess.isEnding || exitCode === EXIT.stuck) && (state === "ready" || state === "leaving")
    if (isUnasked)
      this.#options.note(`${endText(devProcess, exitCode, signal)}${state === "ready" ? "; starting again" : ""}`)
    if (state === "leaving") return
    if (state === "ready" && isUnasked) {
      this.#load()
    } else if (state === "starting" && !this.#wasReady) {
      // The files were loaded, so the cause lies elsewhere: the port is in use, or the transport cannot be reached.
      this.#stopping = true
      this.#resolve(exitCode ?? 1)
    } else if (this.#current !== undefined) {
      this.#options.note("the last version that worked goes on; waiting for a change")
    } else {
      this.#options.note("waiting for a change")
    }
  }

  /** Passes each signal to the processes, which count signals and stop like a worker. */
  #stop(): void {
    this.#stopping = true
    for (const { child } of this.#all) passSignal(child, "SIGTERM")
    if (this.#all.size === 0) this.#resolve(0)
  }
}

/** Describes an end that was not announced: a handler called `process.exit`, blocked its thread, or took all memory. */
const endText = ({ running }: DevProcess, exitCode: number | null, signal: NodeJS.Signals | null): string => {
  const how = exitCode === null ? `was ended by ${signal ?? "a signal"}` : `ended with exit code ${exitCode}`
  return `the process that runs the actors ${how}, ${running === "" ? "while no job ran" : `while it ran ${running}`}`
}

const send = ({ child }: DevProcess, message: SupervisorMessage): void => {
  if (child.connected) child.send(message)
}
