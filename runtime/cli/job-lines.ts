/** Prints one line per attempt that ended: the job has ended, or will be tried again. */
import type { Client } from "../client/client.ts"
import { type JobView, jobView } from "../jobs/view.ts"
import { isTerminal } from "../protocol/state.ts"
import type { AttemptEnd } from "../transport/lift/transport.ts"
import { clockTime, oneLine, runTime, shortId, stateText } from "./format.ts"
import type { Output } from "./output.ts"

const STATE_WIDTH = "succeeded".length

/** Time, state, name, short id, duration, error. */
const jobLine = (job: JobView, { paint }: Output): string => {
  const retried = job.state === "scheduled" || job.state === "queued"
  const state = retried ? paint("retry", "yellow") : stateText(paint, job.state)
  const padding = " ".repeat(Math.max(0, STATE_WIDTH - (retried ? "retry" : job.state).length))
  const error = job.error === undefined ? "" : oneLine(`${job.error.name}: ${job.error.message}`, 200)
  const cells = [
    clockTime(new Date()),
    state + padding,
    oneLine(job.name),
    paint(shortId(job.id), "dim"),
    runTime(job),
    paint(error, "red"),
  ]
  return cells.filter((cell) => cell !== "").join("  ")
}

/** Lines that are remembered, so that none is printed twice. */
const CAPACITY = 1_000

export class JobLines {
  readonly #output: Output
  readonly #said = new Set<string>()

  constructor(output: Output) {
    this.#output = output
  }

  /** Prints an attempt of this process. */
  readonly settled = ({ record }: AttemptEnd): void => {
    if (record !== undefined) this.#say(jobView(record))
  }

  /** Also prints jobs that end without an attempt here, cancelled or expired while they waited. Until the signal. */
  async follow(client: Client, signal: AbortSignal): Promise<void> {
    for await (const { job } of client.events(signal)) {
      if (isTerminal(job.state)) this.#say(job)
    }
  }

  #say(job: JobView): void {
    const key = `${job.id} ${job.transitions.at(-1)?.id ?? ""}`
    if (this.#said.has(key)) return
    if (this.#said.size >= CAPACITY) this.#said.clear()
    this.#said.add(key)
    if (this.#output.json) this.#output.record({ type: "job", job })
    else this.#output.line(jobLine(job, this.#output))
  }
}
