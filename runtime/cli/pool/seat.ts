/** One worker of a pool, again and again: started again when it was killed, or ended by what it ran. */
import type { ChildProcess } from "node:child_process"
import { EXIT } from "../failure.ts"
import { onToldEnding, onToldReady, passSignal, startWorkProcess } from "../work-process.ts"
import { type Report, reportOf } from "./message.ts"

const FIRST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 30_000

/** Processes in a row that may be killed before they are ready: more of the same would come to nothing. */
const MOST_UNREADY = 5

/** Who has lived this long did not die of how it starts. */
const STABLE_MS = 60_000

export interface SeatOptions {
  /** What its process is told beside this command line. */
  readonly arguments: ReadonlyArray<string>
  /** For people. */
  readonly name: string
  /** Says something to people. */
  readonly note: (text: string) => void
  /** Its process has said how it is. */
  readonly onReport: (report: Report) => void
  /** Its process has ended, and says nothing more; `again`: another takes its place. */
  readonly onExit: (again: boolean) => void
}

export class Seat {
  readonly #options: SeatOptions
  readonly #done = Promise.withResolvers<number>()
  readonly #asked = new Map<number, (report: Report) => void>()
  #exitCode: number | undefined
  #child: ChildProcess | undefined
  /** Whether the process there is was ready: only then it answers. */
  #isReady = false
  /** Whether it has said that it ends by its own decision. */
  #isEnding = false
  #questions = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #stopping = false
  #waitMs = FIRST_WAIT_MS
  /** Processes in a row that were ended before they were ready. */
  #unready = 0

  constructor(options: SeatOptions) {
    this.#options = options
    this.#start()
  }

  /** Resolves with the exit code of the worker that ended by itself, or was stopped. */
  get done(): Promise<number> {
    return this.#done.promise
  }

  /** The same, once it is known. */
  get exitCode(): number | undefined {
    return this.#exitCode
  }

  get isAlive(): boolean {
    return this.#child !== undefined
  }

  /** Asks its process how it is. `undefined`: there is none that could say, or it does not within so many milliseconds. */
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
    onToldReady(child, () => {
      this.#isReady = true
      this.#unready = 0
    })
    onToldEnding(child, () => {
      if (this.#child === child) this.#isEnding = true
    })
    child.on("message", (message: unknown) => {
      const report = reportOf(message)
      // What was on its way when it died comes too late.
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

  /** What becomes of a seat whose process has ended. True: another is started soon. */
  #decide(code: number | null, signal: NodeJS.Signals | null, livedMs: number): boolean {
    const { name, note } = this.#options
    // Who has not said that it ends was ended: by a signal, or because a handler called `process.exit`, or threw where
    // nobody could catch it.
    if (this.#isEnding || this.#stopping) {
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
