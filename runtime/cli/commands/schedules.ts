/** `callboard schedules`: lists schedules; `schedules create|show|change|pause|resume|run|delete` decides about them. */
import type { Command } from "commander"
import type { Client } from "../../client/client.ts"
import { compact } from "../../protocol/compact.ts"
import { parseScheduleFields, type ScheduleFields } from "../../schedules/fields.ts"
import type { ScheduleView } from "../../schedules/view.ts"
import { localTime, oneLine, timeText } from "../format.ts"
import { jsonOf, numberOrText, objectOf } from "../input.ts"
import { runs } from "../invocation.ts"
import type { Output } from "../output.ts"
import { limitOf } from "./jobs.ts"

interface Options {
  readonly cron?: string
  readonly timeZone?: string
  readonly every?: string
  readonly at?: string
  readonly catchUp?: string
  readonly overlap?: string
  readonly most?: string
  readonly jitter?: string
  readonly queue?: string
  readonly priority?: string
  readonly task?: string
  readonly input?: string
  readonly fields?: string
  readonly force?: true
}

/** Options whose texts may be numbers. */
const NUMBERS: ReadonlySet<string> = new Set(["every", "most", "jitter", "priority"])

const addFields = (command: Command): Command =>
  command
    .option(
      "--cron <text>",
      "cron expression: minute, hour, day, month, weekday; if there are six fields, the second first",
    )
    .option("--time-zone <zone>", "zone of --cron, such as Europe/Berlin (default: UTC)")
    .option("--every <duration>", "interval; due now, and then after each interval")
    .option("--at <time>", "a single time: ISO 8601")
    .option("--catch-up <rule>", "due times that passed while no worker was running: skip, last or all (default: last)")
    .option(
      "--overlap <rule>",
      "what to do if the previous job is still running: allow, skip or queue (default: allow)",
    )
    .option("--most <count>", "maximum number of waiting due times (default: 100)")
    .option("--jitter <duration>", "delay each due time by up to this much")
    .option("--queue <name>", "queue to wait in (default: the actor's)")
    .option("--priority <level>", "0 to 9, 9 first")
    .option("--fields <json>", "any further fields, as over HTTP: JSON or @file")
    .option("--force", "accept it even if no worker has the method yet, or its published schema refuses the input")

/** Fields from the options. Their values are checked like those of every other schedule. */
const fieldsOf = async ({
  fields,
  force: _,
  input,
  ...named
}: Options): Promise<Readonly<Record<string, unknown>>> => ({
  ...Object.fromEntries(
    Object.entries(named).map(([field, text]) => [field, NUMBERS.has(field) ? numberOrText(text) : text]),
  ),
  ...(input === undefined ? {} : { input: await jsonOf("the input", input) }),
  ...(fields === undefined ? {} : await objectOf("--fields", fields)),
})

const whenOf = ({ cron, timeZone, every, at }: ScheduleFields): string =>
  cron !== undefined
    ? `${cron}${timeZone === undefined ? "" : ` ${timeZone}`}`
    : every !== undefined
      ? `every ${typeof every === "number" ? `${every} s` : every}`
      : `at ${at}`

const taskOf = ({ task, meth }: ScheduleFields): string => (meth === undefined ? task : `${task}.${meth}`)

const stateText = ({ state, next }: ScheduleView, output: Output): string =>
  next === undefined ? output.paint(state, "dim") : timeText(next, output)

const show = (view: ScheduleView, output: Output): void => {
  if (output.json) {
    output.document(view)
    return
  }
  const { name, fields, runs, missed, waiting } = view
  output.line(`${name}  ${whenOf(fields)}  ${taskOf(fields)}`)
  output.line(`  next     ${view.next === undefined ? view.state : localTime(view.next)}`)
  if (waiting > 0) output.line(`  waiting  ${waiting}, until the previous job has ended`)
  for (const { id, due, state } of runs) output.line(`  run      ${localTime(due)}  ${id}  ${state ?? ""}`.trimEnd())
  for (const { from, count, why, detail } of missed.latest)
    output.line(`  missed   ${localTime(from)}  ${count}, ${why}${detail === undefined ? "" : `: ${oneLine(detail)}`}`)
}

const addDecision = (
  schedules: Command,
  action: "pause" | "resume" | "run" | "delete",
  description: string,
  decide: (client: Client, name: string) => Promise<object>,
): void => {
  const command = schedules.command(action).description(description).argument("<name...>", "schedules")
  runs(command, ({ output, withClient }) =>
    withClient(async (client) => {
      for (const name of command.args) {
        const decided = await decide(client, name)
        if (output.json) output.record(decided)
        else
          output.line(
            "id" in decided ? String(decided.id) : `${name}  ${"state" in decided ? decided.state : "deleted"}`,
          )
      }
    }),
  )
}

export const addSchedules = (program: Command): void => {
  const schedules = program
    .command("schedules")
    .description("list the schedules")
    .option("--limit <count>", "number of schedules on a page", "50")
    .option("--cursor <cursor>", "continue after this cursor")
  runs(schedules, async ({ output, withClient }) => {
    const { limit, cursor } = schedules.opts<{ readonly limit: string; readonly cursor?: string }>()
    const query = { limit: limitOf(limit), ...compact({ after: cursor }) }
    const page = await withClient((client) => client.schedules.list(query))
    if (output.json) return output.document(page)
    const rows = page.schedules.map((view) => [
      view.name,
      whenOf(view.fields),
      taskOf(view.fields),
      stateText(view, output),
      view.runs[0] === undefined ? "" : timeText(view.runs[0].posted, output),
      view.missed.count === 0 ? "" : output.paint(String(view.missed.count), "red"),
    ])
    output.table(["NAME", "WHEN", "TASK", "NEXT", "LAST", "MISSED"], rows, "no schedules")
    if (page.next !== undefined) output.note(`there are more: --cursor ${page.next}`)
  })

  const create = addFields(schedules.command("create").description("create a schedule"))
    .argument("<name>", "the ids of its jobs begin with it")
    .argument("<task>", "actor and method: text.count")
    .argument("[input]", "input of the method: JSON, @file, or - for standard input")
  runs(create, async ({ output, withClient }) => {
    const [name = "", task = "", input] = create.args
    const options = create.opts<Options>()
    const fields = await fieldsOf({ ...options, task, ...compact({ input }) })
    await withClient(async ({ schedules }) =>
      show(await schedules.create(name, parseScheduleFields(fields), { lenient: options.force === true }), output),
    )
  })

  const showing = schedules.command("show").description("show a schedule, its last runs and its missed due times")
  showing.argument("<name>", "the schedule")
  runs(showing, ({ output, withClient }) =>
    withClient(async (client) => show(await client.schedules.find(showing.args[0] ?? ""), output)),
  )

  const change = addFields(schedules.command("change").description("change fields of a schedule"))
    .argument("<name>", "the schedule")
    .option("--task <name>", "actor and method: text.count")
    .option("--input <json>", "input of the method: JSON, @file, or - for standard input")
  runs(change, async ({ output, withClient }) => {
    const options = change.opts<Options>()
    const changes = await fieldsOf(options)
    await withClient(async ({ schedules }) => {
      const lenient = options.force === true
      show(await schedules.changeFrom(change.args[0] ?? "", changes, { lenient }), output)
    })
  })

  addDecision(schedules, "pause", "pause schedules", ({ schedules }, name) => schedules.pause(name))
  addDecision(schedules, "resume", "resume paused schedules", ({ schedules }, name) => schedules.resume(name))
  addDecision(schedules, "run", "run schedules now; prints the ids of the jobs", ({ schedules }, name) =>
    schedules.run(name),
  )
  addDecision(
    schedules,
    "delete",
    "delete schedules; jobs that they have submitted continue",
    async ({ schedules }, name) => {
      await schedules.delete(name)
      return { name, deleted: true }
    },
  )
}
