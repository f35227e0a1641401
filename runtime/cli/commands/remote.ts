/** `callboard inspect COMMAND` and `callboard control COMMAND ARGUMENTS`: send a command to workers and print the answers. */
import type { Command } from "commander"
import { Result } from "effect"
import { COMMANDS, type CommandName, isCommand, type Reply } from "../../cluster/remote/command.ts"
import { parseAutoscale } from "../../options/autoscale.ts"
import { didYouMean } from "../../options/refuse.ts"
import { printAnswers } from "../answers.ts"
import { CommandFailed, EXIT, wrongUsage } from "../failure.ts"
import { idText, timeText } from "../format.ts"
import { numberOrText } from "../input.ts"
import { runs } from "../invocation.ts"
import { fullId } from "../job-id.ts"
import type { Output } from "../output.ts"
import { decideAll } from "./decide.ts"

interface Options {
  readonly workers?: string
  readonly timeout?: string
}

const namesOf = (kind: "inspect" | "control"): ReadonlyArray<CommandName> =>
  Object.keys(COMMANDS).filter((name): name is CommandName => isCommand(name) && COMMANDS[name].kind === kind)

const helpOf = (kind: "inspect" | "control"): string =>
  namesOf(kind)
    .map(
      (name) =>
        `  ${[name, ...(kind === "control" ? COMMANDS[name].takes : [])].join(" ").padEnd(28)} ${COMMANDS[name].summary.toLowerCase()}`,
    )
    .join("\n")

const known = (kind: "inspect" | "control", name: string, others: ReadonlyArray<string>): CommandName => {
  if (isCommand(name) && COMMANDS[name].kind === kind) return name
  if (isCommand(name)) return wrongUsage(`${kind} ${name}: is a command of \`callboard ${COMMANDS[name].kind}\``)
  const all = [...namesOf(kind), ...others]
  return wrongUsage(`${kind} ${name}: is not a command${didYouMean(name, all)}; there are ${all.join(", ")}`)
}

/** Names the given arguments, in the order in which the command declares them. Numerals become numbers. */
const argumentsOf = (name: CommandName, given: ReadonlyArray<string>): Record<string, string | number> => {
  const { takes } = COMMANDS[name]
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
    .option("--workers <names>", "only these workers, with commas between their names")
    .option("--timeout <duration>", "longest wait for answers (default: 1 second)")

const askOptions = ({ workers, timeout }: Options) => ({
  ...(workers === undefined ? {} : { workers: workers.split(",").map((name) => name.trim()) }),
  ...(timeout === undefined ? {} : { timeout: numberOrText(timeout) }),
})

/** Refuses options about workers for a command that asks no worker, instead of ignoring them. */
const refuseWorkerOptions = (name: string, { workers, timeout }: Options): void => {
  if (workers === undefined && timeout === undefined) return
  wrongUsage(`${name}: asks no worker, and takes neither --workers nor --timeout`)
}

/** The command that lists scheduled jobs. It asks the transport, since scheduled jobs wait there and not in a worker. */
const SCHEDULED = "scheduled"

const addInspect = (program: Command): void => {
  const command = addOptions(
    program
      .command("inspect")
      .description("ask workers how they are")
      .argument("<command>", "what to ask for")
      .argument("[id]", "with put-off, one job"),
  ).addHelpText("after", `\nCommands:\n${helpOf("inspect")}\n  ${SCHEDULED.padEnd(28)} jobs whose time has not come`)
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
    const takesId = COMMANDS[wanted].takes.includes("id")
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
      .description("tell workers what to do")
      .argument("<command>", "what to do")
      .argument("[arguments...]", "what the command takes"),
  ).addHelpText(
    "after",
    `\nCommands:\n${helpOf("control")}\n  ${"revoke id...".padEnd(28)} cancel jobs\n  ${"terminate id...".padEnd(28)} cancel jobs, and end isolated handlers at once`,
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
