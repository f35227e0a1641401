/** `callboard cancel ID…`: waiting jobs will not run; the handlers of running ones are told, and their outcome is refused. */
import type { Command } from "commander"
import { runs } from "./command.ts"
import { decideAll } from "./decide.ts"

export const addCancel = (program: Command): void => {
  const command = program.command("cancel").description("cancel jobs").argument("<id...>", "jobs")
  command.option("--terminate", "end the handlers of isolated methods at once")
  runs(command, ({ output, withClient }) => {
    const { terminate = false } = command.opts<{ readonly terminate?: true }>()
    return withClient((client) =>
      decideAll(client, output, command.args, (job) => job.cancel({ terminate }), "cancelled"),
    )
  })
}
