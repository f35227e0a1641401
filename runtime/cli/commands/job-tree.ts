/**
 * `callboard job ID --tree`: the workflow of a job, each job below the one that submitted it or that it follows, and one that
 * waits for others below the first of these.
 */
import type { Connection } from "../../connection/connection.ts"
import type { TreeNode } from "../../jobs/lists.ts"
import { treeOf } from "../../jobs/tree.ts"
import { listText, oneLine, stateText } from "../format.ts"
import type { Output } from "../output.ts"

/** Most jobs in a tree. */
const MAX_JOBS = 1_000

/** Longest search for the jobs of a tree, in milliseconds. */
const MAX_MS = 30_000

/** A job and the jobs below it, in the order of submission. */
interface Branch {
  readonly job: TreeNode
  readonly below: ReadonlyArray<Branch>
}

/** The trees of these jobs: one, unless jobs in between are missing. */
const branchesOf = (jobs: ReadonlyArray<TreeNode>): ReadonlyArray<Branch> => {
  const known = new Set(jobs.map(({ id }) => id))
  const below = new Map<string, Array<TreeNode>>()
  const tops: Array<TreeNode> = []
  for (const job of jobs) {
    const { id, parentId, after = [] } = job
    const above = [parentId, ...after].find((each) => each !== undefined && each !== id && known.has(each))
    if (above === undefined) tops.push(job)
    else below.set(above, [...(below.get(above) ?? []), job])
  }
  const placed = new Set<string>()
  const branchOf = (job: TreeNode): Branch => {
    placed.add(job.id)
    return { job, below: (below.get(job.id) ?? []).flatMap(place) }
  }
  const place = (job: TreeNode): ReadonlyArray<Branch> => (placed.has(job.id) ? [] : [branchOf(job)])
  // Parents are what submitters say: of jobs that are in a circle the first one is a top.
  return [...tops, ...jobs].flatMap(place)
}

/** Indented lines; the members of a group stand below its name. */
const linesOf = (branches: ReadonlyArray<Branch>, depth: number, asked: string, output: Output): Array<string> => {
  const lines: Array<string> = []
  let group: string | undefined
  // A group stands where its first member does.
  const byGroup = [...Map.groupBy(branches, ({ job }) => job.group ?? job.id).values()].flat()
  for (const { job, below } of byGroup) {
    if (job.group !== undefined && job.group !== group) lines.push(`${"  ".repeat(depth)}group ${oneLine(job.group)}`)
    group = job.group
    const own = depth + (group === undefined ? 0 : 1)
    const name = oneLine(job.name)
    const after = job.after === undefined ? "" : `, after ${listText(job.after)}`
    const mark = job.id === asked ? "  <-" : ""
    const text = `${output.paint(name, "bold")}  ${job.id}  ${stateText(output.paint, job.state)}${after}${mark}`
    lines.push(`${"  ".repeat(own)}${text}`, ...linesOf(below, own + 1, asked, output))
  }
  return lines
}

/** As JSON the tree is what `GET /v1/jobs/{id}/tree` answers. */
export const printTree = async (connection: Connection, id: string, output: Output): Promise<void> => {
  const { signal } = new AbortController()
  const tree = await treeOf(connection, id, { limit: MAX_JOBS, budget: MAX_MS, signal })
  if (output.json) return output.document(tree)
  for (const line of linesOf(branchesOf(tree.nodes), 0, id, output)) output.line(line)
  if (tree.more) output.note(`there may be more: these are the newest ${tree.nodes.length}`)
}
