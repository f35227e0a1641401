/**
 * `callboard dev` itself: starts the process that does the work, and another one when a file has changed. The new one
 * loads first; only when that went well is the old one told to stop, which it does softly, finishing the jobs that it
 * runs. So a broken file costs nothing: the last version that worked goes on.
 */
import type { ChildProcess } from "node:child_process"
import { makeLog } from "../../log/log.ts"
import { onSignals } from "../../service/signals.ts"
import { onToldEnding, passSignal, startWorkProcess } from "../work-process.ts"
import { onChanges, type Watched } from "./changes.ts"
import { isNews, type Order } from "./message.ts"

export interface DevOptions {
  readonly watched: Watched
  /** A line for people, on standard error. */
  readonly note: (text: string) => void
}

interface Generation {
  readonly child: ChildProcess
  state: "loading" | "starting" | "ready" | "leaving"
  /** The jobs that it runs, as far as it has told. */
  running: string
  /** Whether it has said that it ends by its own decision. */
  isEnding: boolean
}

/** Runs until a signal stops it; resolves with the exit code of the last process. */
export const superviseDev = (options: DevOptions): Promise<number> => {
  const supervisor = new Supervisor(options)
  return supervisor.run()
}

class Supervisor {
  readonly #options: DevOptions
  readonly #all = new Set<Generation>()
  readonly #end = new AbortController()
  /** The one that works, or is about to. */
  #current: Generation | undefined
  /** The one that loads, to take its place. */
  #next: Generation | undefined
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
      // The processes say it.
      log: makeLog({ level: "none" }),
    })
    // A third signal ends this process at once, and nothing may outlive it.
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

  /** Starts loading what is in the files now. */
  #load(): void {
    if (this.#stopping) return
    // It has not started anything, and what it loads is outdated.
    if (this.#next !== undefined) passSignal(this.#next.child, "SIGKILL")
    const child = startWorkProcess()
    const generation: Generation = { child, state: "loading", running: "", isEnding: false }
    this.#all.add(generation)
    this.#next = generation
    child.on("message", (news: unknown) => {
      if (!isNews(news)) return
      if (news.type === "loaded") this.#replace(generation)
      else if (news.type === "running") generation.running = news.jobs
      else this.#ready(generation, news.port)
    })
    onToldEnding(child, () => {
      generation.isEnding = true
    })
    child.on("error", (error) => {
      this.#options.note(`the process could not be started: ${error.message}`)
      this.#exited(generation, 1)
    })
    child.on("exit", (code, signal) => this.#exited(generation, code, signal))
  }

  #replace(generation: Generation): void {
    if (generation !== this.#next || this.#stopping) return
    const before = this.#current
    this.#next = undefined
    this.#current = generation
    generation.state = "starting"
    if (before !== undefined) {
      before.state = "leaving"
      send(before, { type: "stop" })
    }
    send(generation, {
      type: "start",
      reload: this.#wasReady,
      ...(this.#port === undefined ? {} : { port: this.#port }),
    })
  }

  #ready(generation: Generation, port: number): void {
    if (generation.state === "starting") generation.state = "ready"
    this.#port = port
    this.#wasReady = true
  }

  #exited(generation: Generation, exitCode: number | null, signal: NodeJS.Signals | null = null): void {
    if (!this.#all.delete(generation)) return
    const { state } = generation
    const outdated = state === "loading" && generation !== this.#next
    if (this.#next === generation) this.#next = undefined
    if (this.#current === generation) this.#current = undefined
    if (this.#stopping) {
      if (this.#all.size === 0) this.#resolve(state === "loading" ? 0 : (exitCode ?? 1))
      return
    }
    if (outdated) return
    const isUnasked = !generation.isEnding && (state === "ready" || state === "leaving")
    if (isUnasked)
      this.#options.note(`${endText(generation, exitCode, signal)}${state === "ready" ? "; starting again" : ""}`)
    if (state === "leaving") return
    if (state === "ready" && isUnasked) {
      this.#load()
    } else if (state === "starting" && !this.#wasReady) {
      // Nothing in the files is to blame: the port is taken, or the transport cannot be reached.
      this.#stopping = true
      this.#resolve(exitCode ?? 1)
    } else if (this.#current !== undefined) {
      this.#options.note("the last version that worked goes on; waiting for a change")
    } else {
      this.#options.note("waiting for a change")
    }
  }

  /** Each signal goes on to the processes, which count them and stop as a worker does. */
  #stop(): void {
    this.#stopping = true
    for (const { child } of this.#all) passSignal(child, "SIGTERM")
    if (this.#all.size === 0) this.#resolve(0)
  }
}

/** How a process ended that has not said so: a handler called `process.exit`, blocked its thread, or took all the memory. */
const endText = ({ running }: Generation, exitCode: number | null, signal: NodeJS.Signals | null): string => {
  const how = exitCode === null ? `was ended by ${signal ?? "a signal"}` : `ended with exit code ${exitCode}`
  return `the process that runs the actors ${how}, ${running === "" ? "while no job ran" : `while it ran ${running}`}`
}

const send = ({ child }: Generation, order: Order): void => {
  if (child.connected) child.send(order)
}
