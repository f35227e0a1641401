/** Releases the dependents of ended jobs, found by their edges, a page at a time. */
import type { Connection } from "../../connection/connection.ts"
import { type Edge, edgePrefixOf, parseEdge } from "./edges.ts"
import { findAll } from "./find-all.ts"
import { byChild, type ParentOutcomes } from "./parent-outcomes.ts"
import { progress } from "./progress.ts"

const PAGE = 500
/** How many parents the children are looked up for in one request. */
const AT_A_TIME = 32

/**
 * Releases or fails the jobs that wait for these parents, and the jobs that wait for a job that fails by that. A parent
 * that is cancelled or has not ended changes nothing. Fails as the transport does; the sweep repeats what was not done.
 */
export const release = async (connection: Connection, endings: ParentOutcomes): Promise<void> => {
  const known = new Map([...endings].filter(([, ending]) => ending !== "open" && ending !== "cancelled"))
  const open: Array<{ readonly parent: string; readonly after?: string }> = [...known.keys()].map((parent) => ({
    parent,
  }))
  while (open.length > 0) {
    const some = open.splice(0, AT_A_TIME)
    const pages = await Promise.all(
      some.map(({ parent, ...from }) => connection.store.list({ prefix: edgePrefixOf(parent), limit: PAGE, ...from })),
    )
    const edges: Array<Edge> = []
    for (const [at, { parent }] of some.entries()) {
      const page = pages[at] ?? []
      edges.push(...page.flatMap(({ key }) => parseEdge(key) ?? []))
      const last = page.at(-1)
      if (page.length === PAGE && last !== undefined) open.push({ parent, after: last.key })
    }
    for (const parent of await progress(connection, byChild(edges, known))) {
      known.set(parent, "failed")
      open.push({ parent })
    }
  }
}

/**
 * Releases or fails these jobs (by id), and the jobs that wait for one that fails by that. Fails as {@link release}
 * does.
 */
export const moveOn = async (connection: Connection, jobs: ReadonlyMap<string, ParentOutcomes>): Promise<void> => {
  const failed = await progress(connection, jobs)
  await release(connection, new Map(failed.map((id) => [id, "failed"])))
}

/** Ids of deferred jobs that wait for a job. */
export const waitingFor = async function* ({ store, jobs }: Connection, parent: string): AsyncGenerator<string> {
  for (let after: string | undefined; ; ) {
    const page = await store.list({
      prefix: edgePrefixOf(parent),
      limit: PAGE,
      ...(after === undefined ? {} : { after }),
    })
    const children = page.flatMap(({ key }) => parseEdge(key)?.child ?? [])
    const waits = await findAll(
      jobs,
      children,
      ({ record: { state, after: of } }) => state === "deferred" && of?.waiting?.includes(parent) === true,
    )
    for (const [id, isWaiting] of waits) if (isWaiting) yield id
    after = page.at(-1)?.key
    if (page.length < PAGE) return
  }
}
