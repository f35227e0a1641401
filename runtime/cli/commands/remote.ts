/** `callboard inspect COMMAND` and `callboard control COMMAND ARGUMENTS`: send a command to workers and print the answers. */

import type { Command } from "commander"
import * as Result from "effect/Result"
import {
  COMMAND_NAMES,
  COMMANDS,
  type CommandName,
  isCommand,
  type Reply,
  takesOf,
} from "../../cluster/remote-command.ts"
import { parseAutoscale } from "../../options/autoscale.ts"
import { compact } from "../../protocol/compact.ts"
import { isMap, isObject } from "../../protocol/guards.ts"
import { didYouMean } from "../../protocol/suggest.ts"
import { CommandFailed, EXIT, wrongUsage } from "../failure.ts"
import { bytesText, idText, listText, oneLine, spanText, timeText } from "../format.ts"
import { fullId, numberOrText } from "../input.ts"
import { runs } from "../invocation.ts"
import type { Output } from "../output.ts"
import { decideAll } from "./decide.ts"

interface Options {
  readonly workers?: string
  readonly timeout?: string
}

const namesOf = (kind: "inspect" | "control"): ReadonlyArray<CommandName> =>
  COMMAND_NAMES.filter((name) => COMMANDS[name].kind === kind)

const helpOf = (kind: "inspect" | "control"): string =>
  namesOf(kind)
    .map(
      (name) =>
        `  ${[name, ...(kind === "control" ? takesOf(name) : [])].join(" ").padEnd(28)} ${COMMANDS[name].summary.toLowerCase()}`,
    )
    .join("\n")

const known = (kind: "inspect" | "control", name: string, others: ReadonlyArray<string>): CommandName => {
  if (isCommand(name) && COMMANDS[name].kind === kind) return name
  if (isCommand(name)) return wrongUsage(`${kind} ${name}: is a command of \`callboard ${COMMANDS[name].kind}\``)
  const all = [...namesOf(kind), ...others]
  return wrongUsage(`${kind} ${name}: is not a command${didYouMean(name, all)}; use ${all.join(", ")}`)
}

/** Names the given arguments, in the order in which the command declares them. Numerals become numbers. */
const argumentsOf = (name: CommandName, given: ReadonlyArray<string>): Record<string, string | number> => {
  const takes = takesOf(name)
  if (name === "autoscale" && given.length === 1) return boundsOf(given[0] ?? "")
  if (given.length > takes.length) {
    wrongUsage(`control ${name}: takes ${takes.length === 0 ? "no arguments" : takes.join(" and ")}`)
  }
  return Object.fromEntries(given.map((text, at) => [takes[at] ?? "", numberOrText(text)]))
}

/** Bounds in one argument, in the form of `--autoscale`. */
const boundsOf = (text: string): Record<string, number> => {
  const parsed = parseAutoscale(text)
  return Result.isSuccess(parsed) ? { ...parsed.success } : wrongUsage(`control autoscale: ${parsed.failure}`)
}

const show = (output: Output, answers: ReadonlyArray<Reply>): void => {
  if (output.json) output.document({ answers })
  else printAnswers(output, answers)
  if (answers.length === 0 || answers.some(({ error }) => error !== undefined)) throw new CommandFailed(EXIT.failed)
}

const addOptions = (command: Command): Command =>
  command
    .option("--workers <names>", "only these workers, separated by commas")
    .option("--timeout <duration>", "how long to wait for responses (default: 1 second)")

const askOptions = ({ workers, timeout }: Options) => ({
  ...compact({ workers: workers?.split(",").map((name) => name.trim()) }),
  ...(timeout === undefined ? {} : { timeout: numberOrText(timeout) }),
})

/** Refuses options about workers for a command that asks no worker, instead of ignoring them. */
const refuseWorkerOptions = (name: string, { workers, timeout }: Options): void => {
  if (workers === undefined && timeout === undefined) return
  wrongUsage(`${name} does not query workers: remove --workers and --timeout`)
}

/** The command that lists scheduled jobs. It asks the transport, since scheduled jobs wait there and not in a worker. */
const SCHEDULED = "scheduled"

const addInspect = (program: Command): void => {
  const command = addOptions(
    program
      .command("inspect")
      .description("query workers")
      .argument("<command>", "the query")
      .argument("[id]", "a job, with put-off"),
  ).addHelpText("after", `\nCommands:\n${helpOf("inspect")}\n  ${SCHEDULED.padEnd(28)} scheduled jobs`)
  runs(command, ({ output, withClient }) => {
    const [name = ""] = command.args
    const options = askOptions(command.opts<Options>())
    if (name === SCHEDULED) {
      refuseWorkerOptions(`inspect ${name}`, command.opts<Options>())
      return withClient(async (client) => {
        const page = await client.jobs({ states: ["scheduled"], limit: 1_000 })
        if (output.json) return output.document(page)
        const { jobs } = page
        const rows = jobs.map((job) => [
          idText(job.id, output),
          job.name,
          job.queue,
          job.times.due === undefined ? "" : timeText(job.times.due, output),
        ])
        output.table(["ID", "NAME", "QUEUE", "DUE"], rows, "nothing is scheduled")
      })
    }
    const wanted = known("inspect", name, [SCHEDULED])
    const [, id, ...others] = command.args
    const takesId = takesOf(wanted).includes("id")
    if (others.length > 0 || (id !== undefined && !takesId))
      wrongUsage(`inspect ${name}: takes ${takesId ? "an id" : "no arguments"}`)
    return withClient(async (client) => {
      const taken = id === undefined ? {} : { id: await fullId(client, id) }
      return show(output, await client.control(wanted, taken, options))
    })
  })
}

/** Commands that only change the record of a job, which every worker obeys; no worker is asked. */
const DECISIONS = ["revoke", "terminate"]

const addControl = (program: Command): void => {
  const command = addOptions(
    program
      .command("control")
      .description("control workers")
      .argument("<command>", "the command")
      .argument("[arguments...]", "the arguments of the command"),
  ).addHelpText(
    "after",
    `\nCommands:\n${helpOf("control")}\n  ${"revoke id...".padEnd(28)} cancel jobs\n  ${"terminate id...".padEnd(28)} cancel jobs; kill isolated and blocking handlers`,
  )
  runs(command, ({ output, withClient }) => {
    const [name = "", ...given] = command.args
    const options = askOptions(command.opts<Options>())
    if (DECISIONS.includes(name)) {
      refuseWorkerOptions(`control ${name}`, command.opts<Options>())
      if (given.length === 0) wrongUsage(`control ${name}: name the jobs`)
      const terminate = name === "terminate"
      return withClient((client) => decideAll(client, output, given, (job) => job.cancel({ terminate }), "cancelled"))
    }
    const wanted = known("control", name, DECISIONS)
    const taken = argumentsOf(wanted, given)
    return withClient(async (client) => show(output, await client.control(wanted, taken, options)))
  })
}

export const addRemote = (program: Command): void => {
  addInspect(program)
  addControl(program)
}

type Fields = Readonly<Record<string, unknown>>

const isPlain = (value: unknown): boolean => !isObject(value)

/** `startedAt` as a heading: `STARTED AT`. */
const headingOf = (key: string): string => key.replace(/[A-Z]/g, (letter) => ` ${letter}`).toUpperCase()

/** These fields hold milliseconds since the epoch, seconds, and bytes, as their names say. */
const isMoment = (key: string, value: unknown): value is number => key === "until" && typeof value === "number"
const isSpan = (key: string, value: unknown): value is number => key.endsWith("Seconds") && typeof value === "number"
const isBytes = (key: string, value: unknown): value is number => key.startsWith("memory ") && typeof value === "number"

const cellOf = (key: string, value: unknown, output: Output): string => {
  if (value === null || value === undefined) return ""
  if (isMoment(key, value)) return timeText(new Date(value).toISOString(), output)
  if (isSpan(key, value)) return spanText(value * 1_000)
  if (isBytes(key, value)) return bytesText(value)
  if (Array.isArray(value)) return listOf(key, value, output)
  if (isMap(value))
    return listText(Object.entries(value).map(([name, each]) => `${name} ${cellOf(name, each, output)}`))
  const text = String(value)
  if (key === "id" || key === "running") return idText(text, output)
  return key.endsWith("At") ? timeText(text, output) : oneLine(text)
}

/** Plain values joined by commas; for objects and lists only their number. */
const listOf = (key: string, list: ReadonlyArray<unknown>, output: Output): string =>
  list.every(isPlain)
    ? listText(
        list.map((each) => cellOf(key, each, output)),
        output.wide ? list.length : 10,
      )
    : String(list.length)

/** One row for each field of an answer. Nested fields are named by both names. */
const factsOf = (fields: Fields, output: Output, within = ""): ReadonlyArray<ReadonlyArray<string>> =>
  Object.entries(fields).flatMap(([key, value]) =>
    isMap(value)
      ? factsOf(value, output, `${key} `)
      : [
          [
            headingOf(`${within}${key.replace(/Seconds$/, "")}`).toLowerCase(),
            cellOf(`${within}${key}`, value, output) || "-",
          ],
        ],
  )

interface Row {
  readonly worker: string
  readonly fields: Fields
}

/** One row for each element of a list, one row for any other value. */
const rowsOf = ({ worker, value }: Reply): ReadonlyArray<Row> => {
  const list: ReadonlyArray<unknown> = Array.isArray(value) && !value.every(isPlain) ? value : [value]
  return list.map((each) => ({ worker, fields: isMap(each) ? each : { answer: each } }))
}

/** Whether an answer has nested fields, for which a table has no room. */
const isLong = ({ value }: Reply): boolean => isMap(value) && Object.values(value).some((each) => !isPlain(each))

/**
 * Prints the answers as tables (fields in columns, or one field per line where there are many), then the errors of workers
 * that could not answer.
 */
export const printAnswers = (output: Output, answers: ReadonlyArray<Reply>): void => {
  const values = answers.filter(({ error }) => error === undefined)
  const errors = answers.filter(({ error }) => error !== undefined)
  const empty = values.filter(({ value }) => Array.isArray(value) && value.length === 0)
  const long = values.filter(isLong)
  const rows = values.filter((answer) => !long.includes(answer) && !empty.includes(answer)).flatMap(rowsOf)
  if (answers.length === 0) output.note("no workers are running")
  for (const { worker, value } of long) {
    const facts = isMap(value) ? factsOf(value, output) : []
    output.table(["WORKER", worker], facts, "")
  }
  if (rows.length > 0 || empty.length > 0) {
    const keys = [...new Set(rows.flatMap(({ fields }) => Object.keys(fields)))]
    const columns = keys.length === 0 ? ["answer"] : keys
    output.table(
      ["WORKER", ...columns.map(headingOf)],
      [
        ...rows.map(({ worker, fields }) => [worker, ...columns.map((key) => cellOf(key, fields[key], output))]),
        ...empty.map(({ worker }) => [worker, "-"]),
      ],
      "",
    )
  }
  if (errors.length > 0) {
    output.table(
      ["WORKER", "ERROR"],
      errors.map(({ worker, error = "" }) => [worker, output.paint(error, "red")]),
      "",
    )
  }
}
