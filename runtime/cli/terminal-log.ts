/**
 * What a worker prints on a terminal: one short line per entry of its log, on standard error, and one per attempt that ended.
 */

import type { Client } from "../client/client.ts"
import { type JobView, jobView } from "../jobs/view.ts"
import { type Fields, type LineLevel, type Log, type LogSettings, logOver, takesColour } from "../log/log.ts"
import { inOneLine } from "../log/log-value.ts"
import { isTerminal } from "../protocol/state.ts"
import type { Settlement } from "../transport/job-store/transport.ts"
import { clockTime, oneLine, runTime, shortId, stateText } from "./format.ts"
import { type Colour, type Output, painter, shown } from "./output.ts"

const COLOURS: Partial<Record<LineLevel, Colour>> = { debug: "dim", warn: "yellow", error: "red" }

const MAX_FIELD = 200

const text = (value: unknown): string =>
  inOneLine(oneLine(typeof value === "string" ? value : (JSON.stringify(value) ?? ""), MAX_FIELD))

/** Entries that other output repeats: the banner says that the worker is ready, and job lines show errors. */
export interface PrintedElsewhere {
  readonly ready: boolean
  readonly jobs: boolean
}

const isPrintedElsewhere = (message: string, fields: Fields, printed: PrintedElsewhere): boolean =>
  (printed.jobs && "reason" in fields && "job" in fields && / failed: /.test(message)) ||
  (printed.ready && message === "ready")

/** Names the job of an entry the way job lines do. */
const subjectOf = ({ job, task, method }: Fields): ReadonlyArray<string> => [
  ...(typeof task === "string" && typeof method === "string" ? [inOneLine(oneLine(`${task}.${method}`))] : []),
  ...(typeof job === "string" ? [inOneLine(shortId(job))] : []),
]

const SUBJECT: ReadonlySet<string> = new Set(["logger", "job", "task", "method", "queue"])

const fieldsOf = (fields: Fields): string =>
  Object.entries(fields)
    .flatMap(([name, value]) => {
      const isUsual = "job" in fields && (SUBJECT.has(name) || (name === "attempt" && value === 1))
      return isUsual || name === "logger" || value === undefined || value === null ? [] : [`${name}=${text(value)}`]
    })
    .join(" ")

export const terminalLog = (settings: LogSettings, printed: PrintedElsewhere): Log => {
  const paint = painter(takesColour(settings.color ?? "auto", process.stderr))
  return logOver(
    (level, message, fields) => {
      if (isPrintedElsewhere(message, fields, printed)) return
      const line = [
        clockTime(new Date()),
        paint(level, COLOURS[level]),
        inOneLine(message),
        ...subjectOf(fields),
        paint(fieldsOf(fields), "dim"),
      ]
      process.stderr.write(`${shown(line.filter((cell) => cell !== "").join("  "))}\n`)
    },
    { ...settings, settings },
  )
}

const STATE_WIDTH = "succeeded".length

/** What is printed of a job that goes on, by the reason of its last transition. */
const NEXT: Readonly<Record<string, string>> = { repeat: "repeated", suspended: "suspended", signalled: "suspended" }

/** Time, state, name, short id, duration, error. */
const jobLine = (job: JobView, { paint }: Output): string => {
  const goesOn = job.state === "scheduled" || job.state === "queued"
  const next = NEXT[job.transitions.at(-1)?.reason ?? ""] ?? "retry"
  const state = goesOn ? paint(next, "yellow") : stateText(paint, job.state)
  const padding = " ".repeat(Math.max(0, STATE_WIDTH - (goesOn ? next : job.state).length))
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

/** Prints one line per attempt that ended: the job has ended, or will be tried again. */
export class JobLines {
  readonly #output: Output
  readonly #said = new Set<string>()

  constructor(output: Output) {
    this.#output = output
  }

  /** Prints an attempt of this process. */
  readonly settled = ({ record }: Settlement): void => {
    if (record !== undefined) this.#say(jobView(record))
  }

  /** Also prints jobs that end without an attempt here, cancelled or expired while they waited. Until the signal. */
  async follow(client: Client, signal: AbortSignal): Promise<void> {
    for await (const { job } of client.events(signal)) {
      if (isTerminal(job.state)) this.#say(job)
    }
  }

  #say(job: JobView): void {
    // A cancelled job ends once for who cancels it and once for who runs it, after as many transitions as each knows of.
    const last = isTerminal(job.state) ? "end" : (job.transitions.at(-1)?.id ?? "")
    const key = `${job.id} ${job.run} ${last}`
    if (this.#said.has(key)) return
    if (this.#said.size >= CAPACITY) this.#said.clear()
    this.#said.add(key)
    if (this.#output.json) this.#output.record({ type: "job", job })
    else this.#output.line(jobLine(job, this.#output))
  }
}
