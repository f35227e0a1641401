/** One worker of a pool: answers for its process, which is started again when it was killed or crashed. */
import { Restarted } from "../restarted.js"
import { startWorkProcess } from "../work-process.ts"
import { parseReport, type Report } from "./message.ts"

export interface PoolMemberOptions {
  /** Arguments of the process besides those of this command line. */
  readonly arguments: ReadonlyArray<string>
  /** Name in messages to people. */
  readonly name: string
  /** Called with each report of the process. */
  readonly onReport: (report: Report) => void
  /** Called when the process has ended. `again`: another one will be started. */
  readonly onExit: (again: boolean) => void
}

export class PoolMember {
  readonly #worker: Restarted
  readonly #asked = new Map<number, (report: Report) => void>()
  #questions = 0

  constructor({ arguments: more, name, onReport, onExit }: PoolMemberOptions) {
    this.#worker = new Restarted({
      start: () => startWorkProcess(more),
      name,
      onStart: (child) => {
        child.on("message", (message: unknown) => {
          const report = parseReport(message)
          // A message of a process that has ended meanwhile is ignored.
          if (report === undefined || this.#worker.child !== child) return
          onReport(report)
          if (report.answers !== undefined) this.#asked.get(report.answers)?.(report)
        })
      },
      onExit,
    })
  }

  /** Resolves with the exit code once the worker has ended by itself or was stopped. */
  get done(): Promise<number> {
    return this.#worker.done
  }

  /** The exit code, once it is known. */
  get exitCode(): number | undefined {
    return this.#worker.exitCode
  }

  get isAlive(): boolean {
    return this.#worker.child !== undefined
  }

  /** Asks the process for a report. `undefined` where no process is ready, or none answers within `ms` milliseconds. */
  ask(ms: number, options: { readonly metrics: boolean }): Promise<Report | undefined> {
    const { child, isReady } = this.#worker
    // It answers no questions before it is ready.
    if (child === undefined || !child.connected || !isReady) return Promise.resolve(undefined)
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
    this.#worker.stop()
  }

  kill(): void {
    this.#worker.kill()
  }
}
