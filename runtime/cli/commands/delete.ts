/** `callboard delete ID…`: forgets jobs; waiting ones will not run, running ones are refused. */
import type { Command } from "commander"
import type { JobHandle } from "../../jobs/handle.ts"
import { ID_HELP } from "../job-id.ts"
import { runs } from "./command.ts"
import { decideAll } from "./decide.ts"

export const addDelete = (program: Command): void => {
  const command = program
    .command("delete")
    .description("forget jobs and what came of them")
    .argument("<id...>", ID_HELP)
  command.option("--dependents", "also those that wait for them")
  runs(command, ({ output, withClient }) => {
    const { dependents = false } = command.opts<{ readonly dependents?: true }>()
    const forget = async (job: JobHandle) => {
      await job.delete({ dependents })
      return undefined
    }
    return withClient((client) => decideAll(client, output, command.args, forget, "deleted"))
  })
}
