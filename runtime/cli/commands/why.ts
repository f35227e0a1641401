/** `callboard why ID`: why a job does not run, one cause per line, the deciding one first. */
import type { Command } from "commander"
import { CommandFailed, EXIT } from "../failure.ts"
import { runs } from "../invocation.ts"
import { fullId, ID_HELP } from "../job-id.ts"
import { columns } from "../output.ts"

export const addWhy = (program: Command): void => {
  const command = program
    .command("why")
    .description("say why a job does not run, the true cause first")
    .argument("<id>", ID_HELP)
  runs(command, async ({ output, withClient }) => {
    const why = await withClient(async (client) => client.why(await fullId(client, command.args[0] ?? "")))
    if (output.json) output.document(why)
    else {
      const rows = why.causes.map(({ code, message }, at) => [output.paint(code, at === 0 ? "bold" : "dim"), message])
      output.line(columns(rows))
    }
    if (why.causes.some(({ code }) => code === "transport-down")) throw new CommandFailed(EXIT.unreachable)
  })
}
