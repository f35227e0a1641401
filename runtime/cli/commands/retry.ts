/** `callboard retry ID…`: ended jobs run again, as their next run. */
import type { Command } from "commander"
import { ID_HELP } from "../job-id.ts"
import { runs } from "./command.ts"
import { decideAll } from "./decide.ts"

export const addRetry = (program: Command): void => {
  const command = program.command("retry").description("run ended jobs again").argument("<id...>", ID_HELP)
  runs(command, ({ output, withClient }) =>
    withClient((client) => decideAll(client, output, command.args, (job) => job.retry(), "queued")),
  )
}
