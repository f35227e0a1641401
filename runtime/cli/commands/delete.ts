/** `callboard delete ID…`: forgets jobs; waiting ones will not run, running ones are refused. */
import type { Command } from "commander"
import { runs } from "./command.ts"
import { decideAll } from "./decide.ts"

export const addDelete = (program: Command): void => {
  const command = program.command("delete").description("forget jobs and what came of them").argument("<id...>", "jobs")
  const forget = async (job: { delete(): Promise<void> }) => {
    await job.delete()
    return undefined
  }
  runs(command, ({ output, withClient }) =>
    withClient((client) => decideAll(client, output, command.args, forget, "deleted")),
  )
}
