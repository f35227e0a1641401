/** `callboard group`: the groups that have jobs, one of them by state, and cancelling it. */
import type { Command } from "commander"
import { STATES } from "../../protocol/state.ts"
import { stateText } from "../format.ts"
import { runs } from "../invocation.ts"
import { limitOf } from "./jobs.ts"

interface Options {
  readonly cancel?: true
  readonly limit: string
  readonly cursor?: string
}

export const addGroup = (program: Command): void => {
  const command = program
    .command("group")
    .description("list groups of jobs, or show one by state")
    .argument("[id]", "name of a group; its jobs: callboard jobs --group ID")
    .option("--cancel", "cancel those of its jobs that have not ended")
    .option("--limit <count>", "groups on a page", "50")
    .option("--cursor <cursor>", "the page after this one")
  runs(command, async ({ output, withClient }) => {
    const { cancel, limit, cursor } = command.opts<Options>()
    const [id] = command.args
    if (id === undefined) {
      const most = limitOf(limit)
      const page = await withClient((client) =>
        client.groups({ limit: most, ...(cursor === undefined ? {} : { after: cursor }) }),
      )
      if (output.json) return output.document(page)
      output.table(
        ["GROUP"],
        page.groups.map((group) => [group]),
        "no groups",
      )
      if (page.next !== undefined) output.note(`there are more: --cursor ${page.next}`)
      return
    }
    const found = await withClient(async (client) => {
      const group = client.group(id)
      for (let more = cancel === true; more; ) more = (await group.cancel()).next !== undefined
      return group.find()
    })
    if (output.json) return output.document(found)
    const rows = STATES.flatMap((state) => {
      const count = found.states[state]
      return count === undefined ? [] : [[stateText(output.paint, state), String(count)]]
    })
    output.table(["STATE", "JOBS"], rows, "no jobs")
  })
}
