/** `callboard job ID --tree`: the workflow of a job, each job below the one that submitted it or that it follows. */
import type { Client } from "../../client/client.ts"
import type { JobView } from "../../jobs/view.ts"
import { oneLine, stateText } from "../format.ts"
import type { Output } from "../output.ts"

/** Most jobs in a tree. */
const MOST_JOBS = 1_000

/** Longest search for them, in milliseconds. */
const LONGEST_MS = 30_000

/** A job and its children, in the order of submission. */
interface JobTree {
  readonly job: JobView
  readonly children: ReadonlyArray<JobTree>
}

const inOrder = (a: JobView, b: JobView): number =>
  a.times.submitted.localeCompare(b.times.submitted) || a.id.localeCompare(b.id)

/** The trees of these jobs: one, unless jobs in between are missing. */
const treesOf = (jobs: ReadonlyArray<JobView>): ReadonlyArray<JobTree> => {
  const known = new Set(jobs.map(({ id }) => id))
  const children = new Map<string, Array<JobView>>()
  const tops: Array<JobView> = []
  for (const job of [...jobs].sort(inOrder)) {
    const { id, parentId } = job
    if (parentId === undefined || parentId === id || !known.has(parentId)) tops.push(job)
    else children.set(parentId, [...(children.get(parentId) ?? []), job])
  }
  const placed = new Set<string>()
  const treeOf = (job: JobView): JobTree => {
    placed.add(job.id)
    return { job, children: (children.get(job.id) ?? []).flatMap(place) }
  }
  const place = (job: JobView): ReadonlyArray<JobTree> => (placed.has(job.id) ? [] : [treeOf(job)])
  // Parents are what submitters say: of jobs that are in a circle the first one is a top.
  return [...tops, ...[...jobs].sort(inOrder)].flatMap(place)
}

/** Indented lines; the members of a group stand below its name. */
const linesOf = (trees: ReadonlyArray<JobTree>, depth: number, asked: string, output: Output): Array<string> => {
  const lines: Array<string> = []
  let group: string | undefined
  // A group stands where its first member does.
  const byGroup = [...Map.groupBy(trees, ({ job }) => job.group ?? job.id).values()].flat()
  for (const { job, children } of byGroup) {
    if (job.group !== undefined && job.group !== group) lines.push(`${"  ".repeat(depth)}group ${oneLine(job.group)}`)
    group = job.group
    const own = depth + (group === undefined ? 0 : 1)
    const name = oneLine(job.name)
    const mark = job.id === asked ? "  <-" : ""
    const text = `${output.paint(name, "bold")}  ${job.id}  ${stateText(output.paint, job.state)}${mark}`
    lines.push(`${"  ".repeat(own)}${text}`, ...linesOf(children, own + 1, asked, output))
  }
  return lines
}

const documentOf = ({ job, children }: JobTree): object => ({
  id: job.id,
  name: job.name,
  state: job.state,
  ...(job.group === undefined ? {} : { group: job.group }),
  children: children.map(documentOf),
})

export const printTree = async (client: Client, id: string, output: Output): Promise<void> => {
  const asked = await client.job(id).find()
  const jobs: Array<JobView> = []
  let after: string | undefined
  // A page ends early where the search for its jobs took long, as in many others on nats.
  const began = performance.now()
  do {
    const limit = MOST_JOBS - jobs.length
    const page = await client.jobs({ rootId: asked.rootId ?? id, limit, ...(after === undefined ? {} : { after }) })
    jobs.push(...page.jobs)
    after = page.next
  } while (after !== undefined && jobs.length < MOST_JOBS && performance.now() - began < LONGEST_MS)
  // The job itself is shown also where so many jobs are newer that it is not among those found.
  if (!jobs.some((job) => job.id === id)) jobs.push(asked)
  const trees = treesOf(jobs)
  const more = after !== undefined
  if (output.json) return output.document({ jobs: trees.map(documentOf), more })
  for (const line of linesOf(trees, 0, id, output)) output.line(line)
  if (more) output.note(`there may be more: these are the newest ${jobs.length}`)
}
