/** `callboard conductor BOARD`: has the jobs of a job board run as jobs of queues, until Ctrl+C. */
import type { Command } from "commander"
import { wrongUsage } from "../failure.ts"
import { clockTime, oneLine } from "../format.ts"
import { runs } from "../invocation.ts"

const SIGNALS = ["SIGINT", "SIGTERM", "SIGQUIT"] as const

export const addConductor = (program: Command): void => {
  const command = program
    .command("conductor")
    .description("take the jobs of a job board, and run the task that each names, until Ctrl+C")
    .argument("<board>", "name of the board")
    .option("--max <count>", "number of jobs at a time; 0 for no bound", "1")
  command.addHelpText(
    "after",
    `
The task of a job is the text \`flow\` of its details, its input the object
\`store\`. The id of the task's job is board-ID, with the ID of the board's job.`,
  )
  runs(command, ({ output, withClient }) => {
    const [board = ""] = command.args
    const { max } = command.opts<{ readonly max: string }>()
    if (!/^\d{1,9}$/.test(max)) wrongUsage(`--max ${max}: must be a whole number`)
    return withClient(async (client) => {
      const conductor = client.conductor({
        board,
        maxSimultaneousJobs: Number(max),
        onEvent: (told) => {
          if (output.json) return output.record(told)
          const { event, id, name, why } = told
          const rest = why === undefined ? "" : `  ${oneLine(why)}`
          output.line(`${clockTime(new Date(), true)}  ${event.padEnd(13)}  ${id}  ${oneLine(name)}${rest}`)
        },
      })
      const end = () => conductor.stop()
      // Not `once`, since `bun run` delivers Ctrl+C twice.
      for (const signal of SIGNALS) process.on(signal, end)
      if (!output.json) output.note(`conducting board ${oneLine(board)}; Ctrl+C ends`)
      try {
        await conductor.run()
      } finally {
        for (const signal of SIGNALS) process.off(signal, end)
      }
    })
  })
}
