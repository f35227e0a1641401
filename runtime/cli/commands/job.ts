/** `callboard job ID`: prints all that is known about one job; with `--watch` also its changes, until it ends. */
import type { Command } from "commander"
import { CommandFailed, EXIT } from "../failure.ts"
import { oneLine } from "../format.ts"
import { fullId, ID_HELP } from "../job-id.ts"
import { eventLine, jobReport } from "../job-report.ts"
import { runs } from "./command.ts"

export const addJob = (program: Command): void => {
  const command = program
    .command("job")
    .description("show a job: state, times, result or error, and its story")
    .argument("<id>", ID_HELP)
    .option("-w, --watch", "follow it until it ends; exit code 1 unless it succeeds")
  runs(command, ({ output, withClient }) =>
    withClient(async (client) => {
      const job = client.job(await fullId(client, command.args[0] ?? ""))
      const first = await job.find()
      if (!command.opts<{ readonly watch?: boolean }>().watch) {
        return output.json ? output.document(first) : output.line(jobReport(first, output))
      }
      if (!output.json) output.line(`${output.paint(oneLine(first.name), "bold")}  ${first.id}`)
      for await (const event of job.events()) {
        if (output.json) output.record(event)
        else output.line(eventLine(event, output.paint))
      }
      const last = await job.find()
      if (output.json) output.record({ type: "end", job: last })
      else if (last.state === "succeeded") output.line(`  result  ${JSON.stringify(last.result)}`)
      else if (last.error !== undefined) output.line(`  error   ${last.error.name}: ${last.error.message}`)
      if (last.state !== "succeeded") throw new CommandFailed(EXIT.failed)
    }),
  )
}
