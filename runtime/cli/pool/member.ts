/** One worker of a pool. Its process is started again when it was killed or crashed. */
import type { ChildProcess } from "node:child_process"
import { EXIT } from "../failure.ts"
import { onEnding, onReady, passSignal, startWorkProcess } from "../work-process.ts"
import { parseReport, type Report } from "./message.ts"

const FIRST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 30_000

/** After so many processes in a row that were killed before they were ready, the worker is given up. */
const MOST_UNREADY = 5

/** A process that lived this long is counted as having started well. */
const STABLE_MS = 60_000

export interface PoolMemberOptions {
  /** Arguments of the process besides those of this command line. */
  readonly arguments: ReadonlyArray<string>
  /** Name in messages to people. */
  readonly name: string
  /** Prints a line for people. */
  readonly note: (text: string) => void
  /** Called with each report of the process. */
  readonly onReport: (report: Report) => void
  /** Called when the process has ended. `again`: another one will be started. */
  readonly onExit: (again: boolean) => void
}

export class PoolMember {
  readonly #options: PoolMemberOptions
  readonly #done = Promise.withResolvers<number>()
  readonly #asked = new Map<number, (report: Report) => void>()
  #exitCode: number | undefined
  #child: ChildProcess | undefined
  /** Whether the current process has become ready; it answers no questions before. */
  #isReady = false
  /** Whether the process has announced a normal end. */
  #isEnding = false
  #questions = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #stopping = false
  #waitMs = FIRST_WAIT_MS
  /** Processes in a row that were ended before they were ready. */
  #unready = 0

  constructor(options: PoolMemberOptions) {
    this.#options = options
    this.#start()
  }

  /** Resolves with the exit code once the worker has ended by itself or was stopped. */
  get done(): Promise<number> {
    return this.#done.promise
  }

  /** The exit code, once it is known. */
  get exitCode(): number | undefined {
    return this.#exitCode
  }

  get isAlive(): boolean {
    return this.#child !== undefined
  }

  /** Asks the process for a report. `undefined` where no process is ready, or none answers within `ms` milliseconds. */
  ask(ms: number, options: { readonly metrics: boolean }): Promise<Report | undefined> {
    const child = this.#child
    if (child === undefined || !child.connected || !this.#isReady) return Promise.resolve(undefined)
    const question = ++this.#questions
    return new Promise((resolve) => {
      const settle = (report: Report | undefined) => {
        clearTimeout(timer)
        this.#asked.delete(question)
        child.off("exit", gone)
        resolve(report)
      }
      const gone = () => settle(undefined)
      const timer = setTimeout(gone, ms)
      child.once("exit", gone)
      this.#asked.set(question, settle)
      child.send({ ...options, question }, (error) => {
        if (error !== null) gone()
      })
    })
  }

  stop(): void {
    this.#stopping = true
    clearTimeout(this.#timer)
    if (this.#child === undefined) this.#end(0)
    else passSignal(this.#child, "SIGTERM")
  }

  kill(): void {
    if (this.#child !== undefined) passSignal(this.#child, "SIGKILL")
  }

  #end(exitCode: number): void {
    this.#exitCode = exitCode
    this.#done.resolve(exitCode)
  }

  #start(): void {
    const { name, note, onReport, onExit } = this.#options
    const startedAt = performance.now()
    const child = startWorkProcess(this.#options.arguments)
    this.#child = child
    this.#isReady = false
    this.#isEnding = false
    onReady(child, () => {
      this.#isReady = true
      this.#unready = 0
    })
    onEnding(child, () => {
      if (this.#child === child) this.#isEnding = true
    })
    child.on("message", (message: unknown) => {
      const report = parseReport(message)
      // A message of a process that has ended meanwhile is ignored.
      if (report === undefined || this.#child !== child) return
      onReport(report)
      if (report.answers !== undefined) this.#asked.get(report.answers)?.(report)
    })
    child.on("error", (error) => {
      note(`${name} cannot be started: ${error.message}`)
      this.#end(EXIT.failed)
    })
    child.on("exit", (code, signal) => {
      this.#child = undefined
      onExit(this.#decide(code, signal, performance.now() - startedAt))
    })
  }

  /** Handles the end of the process. Returns whether another one will be started. */
  #decide(code: number | null, signal: NodeJS.Signals | null, livedMs: number): boolean {
    const { name, note } = this.#options
    // A process that did not announce its end was killed by a signal, or a handler called `process.exit` or threw an
    // error that could not be caught.
    // A stuck one ends in order, and is needed again.
    if ((this.#isEnding && code !== EXIT.stuck) || this.#stopping) {
      this.#end(code ?? 0)
      return false
    }
    const how = code === null ? `was ended by ${signal}` : `ended with exit code ${code}, unasked`
    if (!this.#isReady && ++this.#unready >= MOST_UNREADY) {
      note(`${name} ${how} ${this.#unready} times before it was ready, and is given up`)
      this.#end(EXIT.failed)
      return false
    }
    if (livedMs > STABLE_MS) this.#waitMs = FIRST_WAIT_MS
    note(`${name} ${how}; starting it again in ${this.#waitMs / 1_000} s`)
    this.#timer = setTimeout(() => this.#start(), this.#waitMs)
    this.#waitMs = Math.min(LONGEST_WAIT_MS, this.#waitMs * 2)
    return true
  }
}
