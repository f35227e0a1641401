/** `callboard job ID`: prints all that is known about one job; with `--watch` also its changes, until it ends. */
import type { Command } from "commander"
import type { JobEvent } from "../../jobs/tracking/following.ts"
import type { QueuePlace } from "../../jobs/tracking/waiting.ts"
import type { JobView, TransitionView } from "../../jobs/view.ts"
import { CommandFailed, EXIT, wrongUsage } from "../failure.ts"
import { clockTime, listText, localTime, oneLine, percent, spanText, stateText } from "../format.ts"
import { runs } from "../invocation.ts"
import { fullId, ID_HELP } from "../job-id.ts"
import { columns, type Output, type Paint, wrapped } from "../output.ts"
import { printTree } from "./job-tree.ts"

export const addJob = (program: Command): void => {
  const command = program
    .command("job")
    .description("show a job: state, times, result or error, and its story")
    .argument("<id>", ID_HELP)
    .option("-w, --watch", "follow it until it ends; exit code 1 unless it succeeds")
    .option("--tree", "show its workflow: each job below the one that submitted it, or that it follows")
  runs(command, ({ output, withClient }) =>
    withClient(async (client) => {
      const { watch = false, tree = false } = command.opts<{ readonly watch?: true; readonly tree?: true }>()
      if (watch && tree) wrongUsage("--tree shows the workflow as it is now: leave out --watch")
      const job = client.job(await fullId(client, command.args[0] ?? ""))
      if (tree) return printTree(client, job.id, output)
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

const indented = (text: string): string =>
  text
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n")

const waited = ({ times }: JobView): string => {
  if (times.started === undefined) return ""
  const from = Math.max(Date.parse(times.submitted), times.due === undefined ? 0 : Date.parse(times.due))
  return `, waited ${spanText(Date.parse(times.started) - from)}`
}

const took = ({ times }: JobView): string =>
  times.started === undefined || times.ended === undefined
    ? ""
    : `, took ${spanText(Date.parse(times.ended) - Date.parse(times.started))}`

const afterText = ({ ids, allowFailure = false }: NonNullable<JobView["after"]>): string =>
  `${listText(ids)}${allowFailure ? " (failed ones will do)" : ""}`

const placeText = ({ position, more }: QueuePlace): string => (more ? `more than ${position}` : String(position))

const facts = (job: JobView, place: QueuePlace | null): ReadonlyArray<readonly [string, string]> => {
  const { times, progress, error } = job
  return [
    ["queue", `${job.queue}, priority ${job.front ? "front" : job.priority}`],
    ...(place === null ? [] : [["before it", placeText(place)] as const]),
    ["submitted", localTime(times.submitted)],
    ...(times.due === undefined ? [] : [["due", localTime(times.due)] as const]),
    ...(times.expires === undefined ? [] : [["expires", localTime(times.expires)] as const]),
    ...(times.started === undefined ? [] : [["started", `${localTime(times.started)}${waited(job)}`] as const]),
    ...(times.ended === undefined ? [] : [["ended", `${localTime(times.ended)}${took(job)}`] as const]),
    [
      "attempts",
      `${job.attempts}${job.retries > 0 ? `, ${job.retries} retried` : ""}${job.run > 1 ? `, run ${job.run}` : ""}`,
    ],
    ...(job.worker === undefined ? [] : [["worker", job.worker] as const]),
    ...(job.parentId === undefined ? [] : [["parent", job.parentId] as const]),
    ...(job.rootId === undefined || job.rootId === job.id ? [] : [["root", job.rootId] as const]),
    ...(job.group === undefined ? [] : [["group", job.group] as const]),
    ...(job.after === undefined ? [] : [["after", afterText(job.after)] as const]),
    ...(job.after?.waiting === undefined ? [] : [["waits for", listText(job.after.waiting)] as const]),
    ...(job.description === undefined ? [] : [["description", job.description] as const]),
    ...(job.meta === undefined ? [] : [["meta", JSON.stringify(job.meta)] as const]),
    ...(progress === undefined
      ? []
      : [
          [
            "progress",
            `${percent(progress.fraction)}${progress.detail === undefined ? "" : ` ${JSON.stringify(progress.detail)}`}`,
          ] as const,
        ]),
    ...(job.dead === undefined ? [] : [["dead", job.dead] as const]),
    ...(error === undefined ? [] : [["error", `${error.name}: ${error.message} (${error.reason})`] as const]),
    ...(error?.errors ?? []).map(({ name, message }) => ["", `${name}: ${message}`] as const),
    ...(job.result === undefined ? [] : [["result", JSON.stringify(job.result)] as const]),
  ]
}

/** One transition as cells: time, state, details. */
const stepCells = (step: TransitionView, paint: Paint): ReadonlyArray<string> => [
  `  ${clockTime(new Date(step.at), true)}`,
  stateText(paint, step.state),
  [
    ...(step.attempt === undefined ? [] : [`attempt ${step.attempt}`]),
    ...(step.worker === undefined ? [] : [`on ${step.worker}`]),
    ...(step.reason === undefined ? [] : [step.reason]),
    ...(step.due === undefined ? [] : [`due ${localTime(step.due)}`]),
  ].join(", "),
]

/** Lines of a field before it is cut. */
const MOST_LINES = 10

/** The lines of a field, with its name before the first. */
const factLines = (name: string, value: string, nameWidth: number, { paint, width }: Page): ReadonlyArray<string> => {
  const room = Math.max(20, width - nameWidth - 4)
  const lines = wrapped(value, room)
  const shown = lines.slice(0, MOST_LINES)
  if (lines.length > MOST_LINES) shown.push("… (all of it: --wide)")
  return shown.map(
    (line, at) =>
      `  ${paint(at === 0 ? name : "", "dim")}${" ".repeat(at === 0 ? nameWidth - name.length : nameWidth)}  ${line}`,
  )
}

type Page = Pick<Output, "paint" | "width">

/** The whole report as text. */
const jobReport = (job: JobView, place: QueuePlace | null, page: Page): string => {
  const { paint, width } = page
  const rows = facts(job, place)
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
