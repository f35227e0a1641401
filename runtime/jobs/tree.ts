/** The workflow of a job: the jobs of its root, those that it waits for, and those that wait for it. */
import type { Connection } from "../connection/connection.ts"
import { compact } from "../protocol/compact.ts"
import { HeaderProblem } from "../protocol/header-field.ts"
import type { JobPosting } from "../protocol/message.ts"
import { OWN_HEADER, ownOf } from "../protocol/own-headers.ts"
import type { JobRecord } from "../protocol/record.ts"
import type { State } from "../protocol/state.ts"
import { edgePrefixOf, parseEdge } from "./dependencies/edges.ts"
import type { JobTree, TreeNode } from "./lists.ts"
import { findAll, findRecord, goneError, judged } from "./tracking/finding.ts"
import { jobView } from "./view.ts"

export interface TreeOptions {
  /** Most jobs, 1 to 1,000. */
  readonly limit: number
  /** How long to search, in milliseconds. */
  readonly budget: number
  readonly signal: AbortSignal
}

/** Fails with `not-found` and `gone`. */
export const treeOf = async (connection: Connection, id: string, options: TreeOptions): Promise<JobTree> => {
  const { limit, ...bounds } = options
  const { jobs, store } = connection
  const { record } = await findRecord(connection, id)
  if (record.tombstone) throw goneError(id)
  const root = record.rootId ?? id
  const [page, edges] = await Promise.all([
    jobs.list({ rootId: root, limit, ...bounds }),
    store.list({ prefix: edgePrefixOf(id), limit }),
  ])
  // The job itself first: where there are more jobs than fit, the newest of the others are shown.
  const listed = await judged(connection, page.records)
  const records = new Map([[id, record], ...listed.map((each) => [each.id, each] as const)])
  const waiting = edges.flatMap(({ key }) => parseEdge(key)?.child ?? [])
  const named = [root, ...(record.after?.ids ?? []), ...waiting].filter((each) => !records.has(each))
  const found = await findAll(jobs, named.slice(0, limit), (each) => each.record)
  for (const [each, other] of found) if (!other.tombstone) records.set(each, other)
  const shown = [...records.values()].slice(0, limit)
  const isAll =
    page.next === undefined && edges.length < limit && named.length <= limit && shown.length === records.size
  const kinds = kindsOf(records)
  const order = (each: JobRecord): number => (each.id === root ? Number.NEGATIVE_INFINITY : each.submittedAt)
  const inOrder = (a: JobRecord, b: JobRecord): number => order(a) - order(b) || (a.id < b.id ? -1 : 1)
  return {
    root,
    nodes: shown.sort(inOrder).map((each) => nodeOf(each, root, kinds)),
    more: !isAll,
  }
}

/** Which jobs are follow-ups of others, by the records that still name these. */
const kindsOf = (records: ReadonlyMap<string, JobRecord>): ReadonlyMap<string, TreeNode["kind"]> =>
  new Map(
    [...records.values()].flatMap(({ id, state, followUps = [] }) =>
      followUps.filter((posting) => posting.id !== id).map((posting) => [posting.id, kindOf(posting, state)] as const),
    ),
  )

const kindOf = ({ message }: JobPosting, parent: State): TreeNode["kind"] => {
  if (parent !== "succeeded") return "errback"
  const own = ownOf(message.headers[OWN_HEADER])
  return !(own instanceof HeaderProblem) && own.link ? "chain" : "callback"
}

const nodeOf = (record: JobRecord, root: string, kinds: ReadonlyMap<string, TreeNode["kind"]>): TreeNode => {
  const { id, name, state, times, parentId, group, after } = jobView(record)
  return {
    id,
    name,
    state,
    times,
    ...compact({ parentId, group }),
    kind: id === root ? "root" : (kinds.get(id) ?? "child"),
    ...compact({ after: after?.ids }),
  }
}
