/** `callboard cancel ID…`: waiting jobs will not run; the handlers of running ones are told, and their outcome is refused. */
import type { Command } from "commander"
import { ID_HELP } from "../job-id.ts"
import { runs } from "./command.ts"
import { decideAll } from "./decide.ts"

export const addCancel = (program: Command): void => {
  const command = program.command("cancel").description("cancel jobs").argument("<id...>", ID_HELP)
  command.option("--terminate", "end the handlers of isolated methods at once")
  command.option("--release", "jobs that wait for them need not wait any more, also if they were cancelled before")
  runs(command, ({ output, withClient }) => {
    const { terminate = false, release = false } = command.opts<{
      readonly terminate?: true
      readonly release?: true
    }>()
    return withClient((client) =>
      decideAll(client, output, command.args, (job) => job.cancel({ terminate, release }), "cancelled"),
    )
  })
}
