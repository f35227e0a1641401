/** How jobs stand, for those that wait for them. */
import { type Ending, endingOf } from "../../protocol/dependencies.ts"
import type { Jobs } from "../../transport/lift/transport.ts"
import type { Edge } from "./edges.ts"
import { findAll } from "./find-all.ts"

/** How some of the jobs stand that a job waits for, by their ids. */
export type Endings = ReadonlyMap<string, Ending>

/** One for each of these jobs: what is not there is gone. Fails as the transport does. */
export const findEndings = async (jobs: Pick<Jobs, "find">, ids: Iterable<string>): Promise<Endings> => {
  const all = [...ids]
  const found = await findAll(jobs, all, ({ record }) => endingOf(record))
  return new Map(all.map((id) => [id, found.get(id) ?? endingOf(undefined)]))
}

/** What is known of those that each job waits for, by its id. */
export const byChild = (edges: ReadonlyArray<Edge>, endings: Endings): ReadonlyMap<string, Endings> => {
  const children = new Map<string, Map<string, Ending>>()
  for (const { parent, child } of edges) {
    const known = children.get(child) ?? new Map<string, Ending>()
    children.set(child, known.set(parent, endings.get(parent) ?? "open"))
  }
  return children
}
