/**
 * `callboard stats`: jobs, queues and workers in numbers, and what is wrong; `callboard errors`: why jobs fail, by
 * cause.
 */
import type { Command } from "commander"
import { milliseconds } from "../../options/duration.ts"
import { ERROR_SORTS, ERROR_STATES } from "../../statistics/errors.ts"
import type { Stats } from "../../statistics/schema.ts"
import { wrongUsage } from "../failure.ts"
import { countText, oneLine, percent, spanText, timeText } from "../format.ts"
import { runs } from "../invocation.ts"
import { columns, type Output } from "../output.ts"
import { limitOf } from "./jobs.ts"

const MIN_RANGE_MS = 60_000
const MAX_RANGE_MS = 86_400_000

const RANGE = ["--range <duration>", "how far back, at most 24h", "1h"] as const

const rangeOf = (text: string): number => {
  const range = milliseconds("--range", text, (field, message) => wrongUsage(`${field} ${text}: ${message}`))
  if (range >= MIN_RANGE_MS && range <= MAX_RANGE_MS) return range
  return wrongUsage(`--range ${text}: must be from 1 minute to 24 hours`)
}

const oneOf = <A extends string>(flag: string, text: string, all: ReadonlyArray<A>): A =>
  all.find((each) => each === text) ?? wrongUsage(`${flag} ${text}: must be one of ${all.join(", ")}`)

const printStats = (output: Output, stats: Stats): void => {
  const { verdict, findings, counts, more, ended, perMinute, wait, handlers, workers } = stats
  const worst = findings[0]?.severity
  output.line(output.paint(verdict, worst === "bad" ? "red" : worst === "warn" ? "yellow" : "green"))
  for (const { severity, code, title, detail, since, action } of findings) {
    output.line()
    output.line(`${output.paint(code, severity === "bad" ? "red" : "yellow")} ${title}`)
    output.line(`  ${detail}`)
    output.line(`  since ${timeText(since, output)}${action === undefined ? "" : `; ${action.method} ${action.href}`}`)
  }
  output.line()
  const rows: Array<readonly [string, string]> = Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => [state, countText({ count, more: more.includes(state) })])
  rows.push(["handlers", `${handlers.busy} of ${handlers.all} busy`])
  rows.push(["workers", `${workers.alive} alive${workers.lost === 0 ? "" : `, ${workers.lost} lost`}`])
  if (perMinute !== undefined)
    rows.push(["a minute", `${perMinute.in} in, ${perMinute.started} started, ${perMinute.ended} ended`])
  if (wait !== undefined)
    rows.push(["waited", `${spanText(wait.p50 * 1_000)} (p50), ${spanText(wait.p95 * 1_000)} (p95)`])
  rows.push([
    "ended",
    Object.entries(ended)
      .map(([state, count]) => `${count} ${state}`)
      .join(", "),
  ])
  output.line(columns(rows.map(([name, value]) => [output.paint(name, "dim"), value])))
}

export const addStats = (program: Command): void => {
  const command = program
    .command("stats")
    .description("show the state of the system and its problems")
    .option(...RANGE)
  runs(command, async ({ output, withClient }) => {
    const range = rangeOf(command.opts<{ readonly range: string }>().range)
    const stats = await withClient((client) => client.statistics.stats(range))
    if (output.json) output.document(stats)
    else printStats(output, stats)
  })
}

interface ErrorOptions {
  readonly range: string
  readonly task?: string
  readonly queue?: string
  readonly state?: string
  readonly sort: string
  readonly limit: string
  readonly cursor?: string
}

export const addErrors = (program: Command): void => {
  const command = program
    .command("errors")
    .description("list failures by cause; with a fingerprint, show one cause")
    .argument("[fingerprint]", "of a cause")
    .option(...RANGE)
    .option("--task <task>", "only this task, actor.method, or all methods of an actor")
    .option("--queue <queue>", "only this queue")
    .option("--state <state>", `${ERROR_STATES.join(" or ")}`)
    .option("--sort <by>", `${ERROR_SORTS.join(", ")}`, "last")
    .option("--limit <count>", "number of causes on a page", "50")
    .option("--cursor <cursor>", "continue after this cursor")
  runs(command, async ({ output, withClient }) => {
    const { state, sort, limit, cursor, ...given } = command.opts<ErrorOptions>()
    const range = rangeOf(given.range)
    const [fingerprint] = command.args
    if (fingerprint !== undefined) {
      const cause = await withClient((client) => client.statistics.error(fingerprint, range))
      if (output.json) return output.document(cause)
      output.line(`${output.paint(cause.name, "red")}: ${cause.template}`)
      const shares = Object.entries(cause.by).map(([name, all]): [string, string] => [
        name,
        all.map(({ key, count }) => `${key} ${percent(count / Math.max(cause.count, 1))}`).join(", "),
      ])
      const rows: ReadonlyArray<readonly [string, string]> = [
        ["thrown in", cause.frame ?? ""],
        ["attempts", String(cause.count)],
        ["first", timeText(cause.first, output)],
        ["last", timeText(cause.last, output)],
        ["status", cause.status],
        ...shares,
        ["jobs", cause.ids.slice(0, 10).join(" ")],
      ]
      output.line(columns(rows.map(([name, value]) => [output.paint(name, "dim"), value])))
      if (cause.traceback !== undefined) output.line(`\n${cause.traceback}`)
      return
    }
    const query = {
      range,
      task: given.task,
      queue: given.queue,
      state: state === undefined ? undefined : oneOf("--state", state, ERROR_STATES),
      sort: oneOf("--sort", sort, ERROR_SORTS),
      limit: limitOf(limit),
      after: cursor,
    }
    const page = await withClient((client) => client.statistics.errors(query))
    if (output.json) return output.document(page)
    const rows = page.errors.map((cause) => [
      cause.fingerprint,
      String(cause.count),
      timeText(cause.last, output),
      output.paint(cause.status, cause.status === "quiet" ? "dim" : "red"),
      cause.tasks.join(", "),
      oneLine(`${cause.name}: ${cause.template}`),
    ])
    output.table(["CAUSE", "COUNT", "LAST", "STATUS", "TASKS", ""], rows, "no failures")
    if (page.next !== undefined) output.note(`there are more: --cursor ${page.next}`)
  })
}
