/** `callboard dead` lists dead letters with their reasons; `dead redrive` runs them again. */
import type { Command } from "commander"
import { compact } from "../../protocol/compact.ts"
import { wrongUsage } from "../failure.ts"
import { idText, oneLine, timeText } from "../format.ts"
import { ID_HELP } from "../input.ts"
import { runs } from "../invocation.ts"
import { addFilter, decideAll, filterOf, idsOf, type JobFilter } from "./decide.ts"
import { limitOf } from "./jobs.ts"

interface DeadFilter extends JobFilter {
  readonly reason?: string
}

const addDeadFilter = (command: Command): Command =>
  addFilter(command).option("--reason <reason>", "only dead letters with this reason, such as worker-lost")

const queryOf = ({ reason, ...filter }: DeadFilter) => ({
  dead: true,
  ...filterOf(filter),
  ...compact({ reason }),
})

export const addDead = (program: Command): void => {
  const command = addDeadFilter(program.command("dead").description("list the dead letters, with the reason"))
    .option("--limit <count>", "number of tasks on a page", "50")
    .option("--cursor <cursor>", "continue after this cursor")
  runs(command, async ({ output, withClient }) => {
    const options = command.opts<DeadFilter & { readonly limit: string; readonly cursor?: string }>()
    const { cursor } = options
    const query = { ...queryOf(options), limit: limitOf(options.limit) }
    const page = await withClient((client) => client.jobs({ ...query, ...compact({ after: cursor }) }))
    if (output.json) return output.document(page)
    const rows = page.jobs.map((job) => [
      timeText(job.times.ended ?? job.times.submitted, output),
      oneLine(job.name),
      idText(job.id, output),
      job.queue,
      output.paint(job.dead ?? "", "red"),
      oneLine(job.error?.message ?? ""),
    ])
    output.table(["ENDED", "NAME", "ID", "QUEUE", "DEAD", ""], rows, "no dead letters")
    if (page.next !== undefined) output.note(`there are more: --cursor ${page.next}`)
  })

  const redrive = addDeadFilter(command.command("redrive").description("run dead letters again")).argument(
    "[id...]",
    ID_HELP,
  )
  redrive.option("--all", "all dead letters, or all that match the filters")
  runs(redrive, ({ output, withClient }) => {
    // `dead` has the same filter options, and commander gives them to `dead` instead of to `redrive`.
    const { all = false, ...filter } = redrive.optsWithGlobals<DeadFilter & { readonly all?: boolean }>()
    const ids = redrive.args
    if (all === ids.length > 0) wrongUsage("dead redrive: name jobs, or use --all")
    return withClient(async (client) => {
      const chosen = all ? await idsOf(client, queryOf(filter)) : ids
      if (chosen.length === 0 && !output.json) output.note("no dead letters")
      await decideAll(client, output, chosen, (job) => job.retry(), "queued")
    })
  })
}
