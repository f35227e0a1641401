/** The program `callboard`: its commands, and how their failures are printed. */
import { Command, CommanderError, Help } from "commander"
import { visible } from "../log/log-value.ts"
import { didYouMean } from "../protocol/suggest.ts"
import { VERSION } from "../version.ts"
import { addActors } from "./commands/actors.ts"
import { addBoard } from "./commands/board.ts"
import { addConductor } from "./commands/conductor.ts"
import { addDead } from "./commands/dead.ts"
import { addCancel, addDelete, addRetry, addRevoke, addSignal } from "./commands/decide.ts"
import { addDoctor } from "./commands/doctor.ts"
import { addEvents } from "./commands/events.ts"
import { addInit } from "./commands/init.ts"
import { addJob, addWhy } from "./commands/job.ts"
import { addGroup, addJobs } from "./commands/jobs.ts"
import { addLink } from "./commands/link.ts"
import { addPausing, addQueue, addQueues } from "./commands/queues.ts"
import { addRemote } from "./commands/remote.ts"
import { addSchedules } from "./commands/schedules.ts"
import { addErrors, addStats } from "./commands/stats.ts"
import { addSubmit } from "./commands/submit.ts"
import { addDev, addServe, addWorker } from "./commands/worker.ts"
import { addSuspend, addWorkers } from "./commands/workers.ts"
import { EXIT, exitCodeOf, lineOf, stackOf, wrongUsage } from "./failure.ts"
import { addSettings, COMMON_SETTINGS, wantsStack } from "./invocation.ts"

const commands = [
  addInit,
  addDev,
  addWorker,
  addServe,
  addSubmit,
  addJob,
  addLink,
  addWhy,
  addJobs,
  addGroup,
  addCancel,
  addSignal,
  addRetry,
  addDelete,
  addSchedules,
  addRevoke,
  addDead,
  addBoard,
  addConductor,
  addStats,
  addErrors,
  addQueues,
  addQueue,
  addWorkers,
  addActors,
  addPausing,
  addSuspend,
  addRemote,
  addEvents,
  addDoctor,
]

/** A command and its arguments. `[options]`, which nearly all have, would leave too little room for what it does. */
const subcommandTerm = (command: Command): string => new Help().subcommandTerm(command).replace(" [options]", "")

/** The program with all of its commands. */
export const makeProgram = (): Command => {
  const program = new Command("callboard")
    .description("Submit tasks, run the actors that process them, and follow each job by its id.")
    .version(VERSION, "-V, --version", "show the version")
    .helpOption("-h, --help", "show this help")
    .helpCommand(false)
    .configureHelp({ showGlobalOptions: true, subcommandTerm })
    // The error is printed once, below.
    .configureOutput({ outputError: () => undefined })
    .exitOverride()
  addSettings(program, COMMON_SETTINGS)
  program.option("--json", "print one JSON document; streaming commands print one object per line")
  program.addHelpText(
    "after",
    `
Settings come from flags, CALLBOARD_* variables, callboard.config.ts and
defaults, in this order; see: callboard doctor
Exit codes: ${EXIT.done} done, ${EXIT.failed} failed, ${EXIT.usage} wrong usage, ${EXIT.timeout} timeout,
${EXIT.unreachable} transport unreachable, ${EXIT.stuck} worker with handlers that do not stop,
${EXIT.partial} ended before it was done`,
  )
  program.option("--wide", "print tables in full: all columns, ids and texts, without a limit on line length")
  for (const add of commands) add(program)
  addHelp(program)
  return program
}

/** `callboard help jobs`: the same as `callboard jobs --help`. */
const addHelp = (program: Command): void => {
  program
    .command("help")
    .description("show this help, or the help of a command")
    .argument("[command...]", "the command")
    .action((path: ReadonlyArray<string>) => {
      let shown = program
      for (const name of path) {
        // What `control` and `inspect` take is no command of its own: their help lists it.
        if (shown.registeredArguments.some((argument) => argument.name() === "command")) break
        const known = shown.commands.map((command) => command.name())
        const where = ["callboard", ...path.slice(0, path.indexOf(name))].join(" ")
        shown =
          shown.commands.find((command) => command.name() === name) ??
          wrongUsage(`help ${name}: is not a command of ${where}${didYouMean(name, known)}; see: ${where} --help`)
      }
      shown.help()
    })
}

/** The command that failed, as far as the arguments tell. */
const calledIn = (command: Command, args: ReadonlyArray<string>): Command => {
  for (const [at, word] of args.entries()) {
    const found = command.commands.find((each) => each.name() === word)
    if (found !== undefined) return calledIn(found, args.slice(at + 1))
  }
  return command
}

/** The words that call a command: `callboard dead redrive`. */
const wordsOf = (command: Command): string =>
  command.parent === null ? command.name() : `${wordsOf(command.parent)} ${command.name()}`

/** Runs a command line, prints its output and errors, and returns the exit code. */
export const run = async (args: ReadonlyArray<string>): Promise<number> => {
  const program = makeProgram()
  try {
    await program.parseAsync([...args], { from: "user" })
    return EXIT.done
  } catch (error) {
    if (error instanceof CommanderError) return usageFailure(error, calledIn(program, args))
    const line = lineOf(error)
    const command = calledIn(program, args)
    if (line !== "") process.stderr.write(`callboard: ${visible(wantsStack(command) ? stackOf(error) : line)}\n`)
    return exitCodeOf(error)
  }
}

const usageFailure = (error: CommanderError, command: Command): number => {
  if (error.exitCode === 0) return EXIT.done
  // "(outputHelp)": no command was given, and the help was printed.
  if (error.code !== "commander.help") {
    const line = error.message
      .replace(/^error: /, "")
      .replace(/\.?\n\(Did you mean (.*)\?\)/, " (did you mean $1?)")
      .replace(/(?<!\s)\s*\n\s*/g, " ")
    process.stderr.write(`callboard: ${visible(line)}; see: ${wordsOf(command)} --help\n`)
  }
  return EXIT.usage
}
