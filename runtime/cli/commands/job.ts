/**
 * `callboard job ID`: prints all that is known about one job, with `--watch` also its changes, until it ends;
 * `callboard why ID`: why a job does not run.
 */
import type { Command } from "commander"
import type { Client } from "../../client/client.ts"
import type { JobEvent } from "../../jobs/lists.ts"
import type { QueuePlace } from "../../jobs/tracking/waiting.ts"
import type { JobView, RunView, TransitionView } from "../../jobs/view.ts"
import { compact } from "../../protocol/compact.ts"
import type { StepPage } from "../../steps/listing.ts"
import { CommandFailed, EXIT, wrongUsage } from "../failure.ts"
import { clockTime, localTime, oneLine, percent, spanText, stateText } from "../format.ts"
import { fullId, ID_HELP } from "../input.ts"
import { runs } from "../invocation.ts"
import { jobFacts } from "../job-facts.ts"
import { columns, type Output, type Paint, wrapped } from "../output.ts"
import { printTree } from "./job-tree.ts"

export const addJob = (program: Command): void => {
  const command = program
    .command("job")
    .description("show a job: state, times, result or error, and its history")
    .argument("<id>", ID_HELP)
    .option("-w, --watch", "follow it until it ends; exit code 1 unless it succeeds")
    .option("--tree", "show its workflow: each job below the job that submitted it or that it follows")
    .option("--steps", "show its durable steps: done, failed or reverted, with their results")
    .option("--results", "show the outcomes of its last ten runs, newest first")
  runs(command, ({ output, withClient }) =>
    withClient(async (client) => {
      const { watch, tree, results, steps } =
        command.opts<{ readonly [Flag in "watch" | "tree" | "results" | "steps"]?: true }>()
      if ([watch, tree, results, steps].filter(Boolean).length > 1)
        wrongUsage("--watch, --tree, --steps and --results cannot be combined: use one of them")
      const job = client.job(await fullId(client, command.args[0] ?? ""))
      if (tree) return printTree(client.connection, job.id, output)
      if (steps) return printSteps(client, job.id, output)
      if (results) {
        const runs = await job.results()
        return output.json ? output.document({ id: job.id, results: runs }) : output.line(runsReport(runs, output))
      }
      const first = await job.find()
      if (!watch) {
        if (output.json) return output.document(first)
        const place = first.state === "queued" ? await client.position(job.id).catch(() => null) : null
        return output.line(jobReport(first, place, output))
      }
      if (!output.json) output.line(`${output.paint(oneLine(first.name), "bold")}  ${first.id}`)
      for await (const event of job.events()) {
        if (output.json) output.record(event)
        else output.line(eventLine(event, output.paint))
      }
      const last = await job.find()
      if (output.json) output.record({ type: "end", job: last })
      else if (last.state === "succeeded") output.line(`  result  ${JSON.stringify(last.result)}`)
      else if (last.error !== undefined) output.line(`  error   ${last.error.name}: ${last.error.message}`)
      if (last.state !== "succeeded") throw new CommandFailed(EXIT.failed)
    }),
  )
}

const printSteps = async (client: Client, id: string, output: Output): Promise<void> => {
  const steps: Array<StepPage["steps"][number]> = []
  let page: StepPage | undefined
  do {
    page = await client.steps(id, { limit: 1_000, ...compact({ after: page?.next }) })
    steps.push(...page.steps)
  } while (page.next !== undefined)
  const { unreverted } = page
  if (output.json) return output.document({ id, steps, ...compact({ unreverted }) })
  output.line(stepsReport(steps, output))
  if (unreverted !== undefined) output.line(`not reverted: ${unreverted.map((name) => oneLine(name, 60)).join(", ")}`)
}

/** One line for each run: its number, how and when it ended, how long it took, and what came of it. */
const runsReport = (runs: ReadonlyArray<RunView>, { width }: Page): string =>
  runs.length === 0
    ? "no run has ended yet"
    : columns(
        runs.map((run) => [
          `${run.run}`,
          run.type,
          localTime(run.ended),
          run.ran === undefined ? "" : spanText(run.ran * 1_000),
          run.worker ?? "",
          outcomeText(run),
        ]),
        width,
      )

const waitText = ({ signal, job, until }: Pick<StepPage["steps"][number], "signal" | "job" | "until">): string =>
  [
    ...(signal === undefined ? [] : [`for the signal ${oneLine(signal, 60)}`]),
    ...(job === undefined ? [] : [`for the job ${job}`]),
    ...(until === undefined ? [] : [`until ${localTime(until)}`]),
  ].join(", ")

const stepsReport = (steps: StepPage["steps"], { width }: Page): string =>
  steps.length === 0
    ? "no step has ended yet"
    : columns(
        steps.map(({ name, state, took, tries, value, large, error, ...wait }) => [
          oneLine(name, 60),
          state,
          state === "waiting" ? "" : spanText(took * 1_000),
          tries <= 1 ? "" : `${tries} tries`,
          state === "waiting"
            ? waitText(wait)
            : error === undefined
              ? (value ?? (large ? "(large)" : ""))
              : oneLine(`${error.name}: ${error.message}`, 200),
        ]),
        width,
      )

const outcomeText = ({ result, omitted, error }: RunView): string => {
  if (error !== undefined) return oneLine(`${error.name}: ${error.message}`, 200)
  if (omitted) return "(too large to be kept)"
  return result === undefined ? "" : JSON.stringify(result)
}

const indented = (text: string): string =>
  text
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n")

/** One transition as cells: time, state, details. */
const stepCells = (step: TransitionView, paint: Paint): ReadonlyArray<string> => [
  `  ${clockTime(new Date(step.at), true)}`,
  stateText(paint, step.state),
  [
    ...(step.attempt === undefined ? [] : [`attempt ${step.attempt}`]),
    ...(step.worker === undefined ? [] : [`on ${step.worker}`]),
    ...(step.reason === undefined ? [] : [step.reason]),
    ...(step.due === undefined ? [] : [`due ${localTime(step.due)}`]),
    ...(step.error === undefined ? [] : [oneLine(`${step.error.name}: ${step.error.message}`, 200)]),
  ].join(", "),
]

/** Lines of a field before it is cut. */
const MAX_LINES = 10

/** The lines of a field, with its name before the first. */
const factLines = (name: string, value: string, nameWidth: number, { paint, width }: Page): ReadonlyArray<string> => {
  const room = Math.max(20, width - nameWidth - 4)
  const lines = wrapped(value, room)
  const shown = lines.slice(0, MAX_LINES)
  if (lines.length > MAX_LINES) shown.push("… (all of it: --wide)")
  return shown.map(
    (line, at) =>
      `  ${paint(at === 0 ? name : "", "dim")}${" ".repeat(at === 0 ? nameWidth - name.length : nameWidth)}  ${line}`,
  )
}

type Page = Pick<Output, "paint" | "width">

/** The whole report as text. */
const jobReport = (job: JobView, place: QueuePlace | null, page: Page): string => {
  const { paint, width } = page
  const rows = jobFacts(job, place)
  const nameWidth = Math.max(...rows.map(([name]) => name.length))
  return [
    `${paint(oneLine(job.name, Math.max(12, width - job.id.length - job.state.length - 4)), "bold")}  ${job.id}  ${stateText(paint, job.state)}`,
    ...rows.flatMap(([name, value]) => factLines(name, value, nameWidth, page)),
    ...(job.error?.traceback === undefined ? [] : [indented(job.error.traceback)]),
    "",
    columns(
      job.transitions.map((step) => stepCells(step, paint)),
      width,
    ),
  ].join("\n")
}

/** A transition or a progress event as one line. */
const eventLine = (event: JobEvent, paint: Paint): string =>
  event.type === "transition"
    ? stepCells(event, paint).join("  ").trimEnd()
    : [
        `  ${clockTime(new Date(event.at), true)}`,
        percent(event.fraction),
        ...(event.detail === undefined ? [] : [JSON.stringify(event.detail)]),
      ].join("  ")

/** `callboard why ID`: why a job does not run, one cause per line, the deciding one first. */
export const addWhy = (program: Command): void => {
  const command = program
    .command("why")
    .description("explain why a job is not running, the actual cause first")
    .argument("<id>", ID_HELP)
  runs(command, async ({ output, withClient }) => {
    const why = await withClient(async (client) => client.why(await fullId(client, command.args[0] ?? "")))
    if (output.json) output.document(why)
    else {
      const rows = why.causes.map(({ code, message }, at) => [output.paint(code, at === 0 ? "bold" : "dim"), message])
      output.line(columns(rows))
    }
    if (why.causes.some(({ code }) => code === "transport-down")) throw new CommandFailed(EXIT.unreachable)
  })
}
