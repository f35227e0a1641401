/** `callboard cancel`, `retry` and `delete`: one decision about each of several jobs. */
import type { Command } from "commander"
import type { Client } from "../../client/client.ts"
import type { JobQuery } from "../../client/job-query.ts"
import type { JobHandle } from "../../jobs/handle.ts"
import type { JobView } from "../../jobs/view.ts"
import { TransportError } from "../../transport/mod.ts"
import { CommandFailed, EXIT, lineOf, wrongUsage } from "../failure.ts"
import { stateText } from "../format.ts"
import { runs } from "../invocation.ts"
import { fullId, ID_HELP } from "../job-id.ts"
import type { Output } from "../output.ts"

interface Decided {
  readonly id: string
  readonly job?: JobView
  readonly error?: { readonly message: string }
}

/**
 * Applies a decision to each job. A job that refuses it does not stop the others, and makes the command fail at the end. A
 * transport that cannot be reached ends the command at once.
 */
export const decideAll = async (
  client: Client,
  output: Output,
  ids: Iterable<string> | AsyncIterable<string>,
  decide: (handle: JobHandle) => Promise<JobView | undefined>,
  done: string,
): Promise<void> => {
  const all: Array<Decided> = []
  for await (const given of ids) {
    try {
      const id = await fullId(client, given)
      const job = await decide(client.job(id))
      all.push({ id, ...(job === undefined ? {} : { job }) })
      if (!output.json) output.line(`${id}  ${job === undefined ? done : stateText(output.paint, job.state)}`)
    } catch (error) {
      if (error instanceof TransportError) throw error
      all.push({ id: given, error: { message: lineOf(error) } })
      if (!output.json) output.note(`callboard: ${lineOf(error)}`)
    }
  }
  if (output.json) output.document(all)
  if (all.some((each) => each.error !== undefined)) throw new CommandFailed(EXIT.failed)
}

/** `callboard cancel ID…`: a waiting job will not run; the handler of a running job is told, and its outcome is refused. */
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

/** `callboard delete ID…`: removes jobs; a waiting job will not run, and the outcome of a running job is refused. */
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

/** Which jobs a command is about. */
export interface JobFilter {
  readonly task?: string
  readonly queue?: string
}

/** The options of a filter, without others. */
export const filterOf = ({ task, queue }: JobFilter): JobFilter => ({
  ...(task === undefined ? {} : { task }),
  ...(queue === undefined ? {} : { queue }),
})

export const addFilter = (command: Command): Command =>
  command.option("--task <name>", "only of this task").option("--queue <name>", "only of this queue")

const PAGE = 200

/** Ids of all jobs of a query, read before the first is decided about: a job that fails again returns to the list. */
export const idsOf = async (
  client: Client,
  query: Omit<JobQuery, "limit" | "after">,
): Promise<ReadonlyArray<string>> => {
  const ids: Array<string> = []
  for (let after: string | undefined, more = true; more; more = after !== undefined) {
    const page = await client.jobs({ ...query, limit: PAGE, ...(after === undefined ? {} : { after }) })
    ids.push(...page.jobs.map((job) => job.id))
    after = page.next
  }
  return ids
}

/** `callboard retry ID…`: starts the next run of jobs that have ended; with `--all` of those that have failed. */
export const addRetry = (program: Command): void => {
  const command = addFilter(program.command("retry").description("run ended jobs again")).argument("[id...]", ID_HELP)
  command.option("--all", "all that have failed, or those of them that the filters name")
  runs(command, ({ output, withClient }) => {
    const { all = false, ...filter } = command.opts<JobFilter & { readonly all?: true }>()
    const ids = command.args
    const isFiltered = filter.task !== undefined || filter.queue !== undefined
    if (all === ids.length > 0 || (isFiltered && !all)) wrongUsage("retry: name jobs, or say --all")
    return withClient(async (client) => {
      const chosen = all ? await idsOf(client, { states: ["failed"], ...filterOf(filter) }) : ids
      if (chosen.length === 0 && !output.json) output.note("no failed jobs")
      await decideAll(client, output, chosen, (job) => job.retry(), "queued")
    })
  })
}
