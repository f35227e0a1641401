/** `callboard jobs`: lists jobs, newest first, one page per call; `callboard group`: the same for groups of jobs. */
import type { Command } from "commander"
import type { Client } from "../../client/client.ts"
import type { GroupHandle } from "../../client/group.ts"
import type { JobQuery } from "../../client/job-query.ts"
import type { JobView } from "../../jobs/view.ts"
import { compact, ifGiven } from "../../protocol/compact.ts"
import { STATES, type State } from "../../protocol/state.ts"
import { didYouMean } from "../../protocol/suggest.ts"
import { wrongUsage } from "../failure.ts"
import { countText, idText, oneLine, remarkOf, runTime, stateText, timeText } from "../format.ts"
import { interruptible, notDone } from "../going-on.ts"
import { fullId } from "../input.ts"
import { runs } from "../invocation.ts"
import type { Output } from "../output.ts"

interface Options {
  readonly state?: string
  readonly task?: string
  readonly queue?: string
  readonly root?: string
  readonly parent?: string
  readonly group?: string
  readonly error?: string
  readonly limit: string
  readonly cursor?: string
  readonly count?: true
}

const isState = (text: string): text is State => (STATES as ReadonlyArray<string>).includes(text)

export const statesOf = (text: string): ReadonlyArray<State> =>
  text.split(",").map((part) => {
    const state = part.trim()
    return isState(state)
      ? state
      : wrongUsage(`--state ${state}: no such state${didYouMean(state, STATES)}; the states are ${STATES.join(", ")}`)
  })

const MAX_LIMIT = 1_000

export const limitOf = (text: string): number => {
  const limit = Number(text)
  return Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT
    ? limit
    : wrongUsage(`--limit ${text}: must be a whole number from 1 to ${MAX_LIMIT}`)
}

const queryOf = (options: Options): JobQuery => ({
  limit: limitOf(options.limit),
  ...compact({
    states: ifGiven(options.state, statesOf),
    task: options.task,
    queue: options.queue,
    rootId: options.root,
    parentId: options.parent,
    group: options.group,
    error: options.error,
    after: options.cursor,
  }),
})

/** Prints a page of jobs, and the option that prints the next page. */
const printJobs = (output: Output, jobs: ReadonlyArray<JobView>, next: string | undefined, empty: string): void => {
  const rows = jobs.map((job) => [
    timeText(job.times.submitted, output),
    stateText(output.paint, job.state),
    oneLine(job.name),
    idText(job.id, output),
    job.queue,
    ...(output.wide ? [String(job.attempts)] : []),
    runTime(job),
    remarkOf(job),
  ])
  const heading = ["SUBMITTED", "STATE", "NAME", "ID", "QUEUE", ...(output.wide ? ["ATTEMPTS"] : []), "TOOK", ""]
  output.table(heading, rows, empty)
  if (next !== undefined) output.note(`there are more: --cursor ${next}`)
}

export const addJobs = (program: Command): void => {
  const command = program
    .command("jobs")
    .description("list jobs, newest first")
    .option("--state <states>", `only jobs in these states: ${STATES.join(", ")}`)
    .option("--task <name>", "only jobs of this task")
    .option("--queue <name>", "only jobs of this queue")
    .option("--root <id>", "only jobs that descend from this one")
    .option("--parent <id>", "only jobs that this one submitted")
    .option("--group <name>", "only jobs that were submitted with this group")
    .option("--error <fingerprint>", "only jobs that failed for this cause, as listed by `callboard errors`")
    .option("--limit <count>", "number of jobs on a page", "50")
    .option("--cursor <cursor>", "continue after this cursor")
    .option("--count", "only print their number")
  runs(command, async ({ output, withClient }) => {
    const query = queryOf(command.opts<Options>())
    const fullQuery = async (client: Client): Promise<JobQuery> => ({
      ...query,
      ...compact({
        rootId: await ifGiven(query.rootId, (id) => fullId(client, id)),
        parentId: await ifGiven(query.parentId, (id) => fullId(client, id)),
      }),
    })
    if (command.opts<Options>().count) {
      const found = await withClient(async (client) => client.count(await fullQuery(client)))
      return output.json ? output.document({ more: false, ...found }) : output.line(countText(found))
    }
    const page = await withClient(async (client) => client.jobs(await fullQuery(client)))
    if (output.json) output.document(page)
    else printJobs(output, page.jobs, page.next, "no jobs")
  })
}

interface GroupOptions {
  readonly cancel?: true
  readonly limit: string
  readonly cursor?: string
}

/** Cancels a group, call by call. */
const cancelWhole = (group: Pick<GroupHandle, "id" | "cancel">): Promise<void> =>
  interruptible(async (signal) => {
    let done = 0
    for (;;) {
      const { changed, partial } = await group.cancel()
      done += changed
      if (partial === undefined) return
      if (signal.aborted) throw notDone(`group ${group.id}: ${done} cancelled, ${partial.left} left`)
    }
  })

/** `callboard group`: lists the groups that have jobs, or shows one of them by state and cancels it. */
export const addGroup = (program: Command): void => {
  const command = program
    .command("group")
    .description("list groups of jobs, or show one by state")
    .argument("[id]", "name of a group; its jobs: callboard jobs --group ID")
    .option("--cancel", "cancel its jobs that have not ended")
    .option("--limit <count>", "number of groups on a page", "50")
    .option("--cursor <cursor>", "continue after this cursor")
  runs(command, async ({ output, withClient }) => {
    const { cancel, limit, cursor } = command.opts<GroupOptions>()
    const [id] = command.args
    if (id === undefined) {
      const max = limitOf(limit)
      const page = await withClient((client) => client.groups({ limit: max, ...compact({ after: cursor }) }))
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
      if (cancel === true) await cancelWhole(group)
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
