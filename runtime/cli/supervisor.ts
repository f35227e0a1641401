/**
 * Watches over workers: starts one again when it was killed. A handler that blocks its thread beyond its time limit can
 * be ended in no other way, and neither can one that takes all the memory.
 */
import type { ChildProcess } from "node:child_process"
import { makeLog } from "../log.ts"
import { onSignals } from "../signals.ts"
import { EXIT } from "./failure.ts"
import { onToldReady, passSignal, startWorkProcess } from "./work-process.ts"

const FIRST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 30_000

/** Processes in a row that may be killed before they are ready: more of the same would come to nothing. */
const MOST_UNREADY = 5

/** Who has lived this long did not die of how it starts. */
const STABLE_MS = 60_000

export interface Supervision {
  /** How many workers, each in a process of its own. */
  readonly count: number
  /** What a seat's process is told beside this command line. Seats are counted from 1. */
  readonly argumentsOf: (seat: number) => ReadonlyArray<string>
  /** Says something to people. */
  readonly note: (text: string) => void
}

/** Runs workers until each has ended by itself or a signal stops them; resolves with the highest of their exit codes. */
export const superviseWorkers = async ({ count, argumentsOf, note }: Supervision): Promise<number> => {
  const seats = Array.from(
    { length: count },
    (_, at) => new Seat(argumentsOf(at + 1), count === 1 ? "the worker" : `worker ${at + 1}`, note),
  )
  // Each signal goes on to the workers, which count them, and say what they do.
  const pass = () => {
    for (const seat of seats) seat.stop()
  }
  onSignals({ soft: pass, hurry: pass, log: makeLog({ level: "none" }) })
  // A third signal ends this process at once, and nothing may outlive it.
  process.once("exit", () => {
    for (const seat of seats) seat.kill()
  })
  return Math.max(...(await Promise.all(seats.map((seat) => seat.done))))
}

/** One worker, again and again. */
class Seat {
  readonly #arguments: ReadonlyArray<string>
  readonly #name: string
  readonly #note: (text: string) => void
  readonly #done = Promise.withResolvers<number>()
  #child: ChildProcess | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #stopping = false
  #waitMs = FIRST_WAIT_MS
  /** Processes in a row that were killed before they were ready. */
  #unready = 0

  constructor(args: ReadonlyArray<string>, name: string, note: (text: string) => void) {
    this.#arguments = args
    this.#name = name
    this.#note = note
    this.#start()
  }

  /** Resolves with the exit code of the worker that ended by itself, or was stopped. */
  get done(): Promise<number> {
    return this.#done.promise
  }

  stop(): void {
    this.#stopping = true
    clearTimeout(this.#timer)
    if (this.#child === undefined) this.#done.resolve(0)
    else passSignal(this.#child, "SIGTERM")
  }

  kill(): void {
    if (this.#child !== undefined) passSignal(this.#child, "SIGKILL")
  }

  #start(): void {
    const startedAt = performance.now()
    const child = startWorkProcess(this.#arguments)
    this.#child = child
    let isReady = false
    onToldReady(child, () => {
      isReady = true
      this.#unready = 0
    })
    child.on("error", (error) => {
      this.#note(`${this.#name} cannot be started: ${error.message}`)
      this.#done.resolve(EXIT.failed)
    })
    child.on("exit", (code, signal) => {
      this.#child = undefined
      if (code !== null || this.#stopping) return this.#done.resolve(code ?? 0)
      if (!isReady && ++this.#unready >= MOST_UNREADY) {
        this.#note(`${this.#name} was ended by ${signal} ${this.#unready} times before it was ready, and is given up`)
        return this.#done.resolve(EXIT.failed)
      }
      if (performance.now() - startedAt > STABLE_MS) this.#waitMs = FIRST_WAIT_MS
      this.#note(`${this.#name} was ended by ${signal}; starting it again in ${this.#waitMs / 1_000} s`)
      this.#timer = setTimeout(() => this.#start(), this.#waitMs)
      this.#waitMs = Math.min(LONGEST_WAIT_MS, this.#waitMs * 2)
    })
  }
}
