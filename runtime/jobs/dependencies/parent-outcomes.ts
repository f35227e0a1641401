/** How jobs stand, for those that wait for them. */
import { type ParentOutcome, parentOutcomeOf } from "../../protocol/dependencies.ts"
import type { Jobs } from "../../transport/lift/transport.ts"
import type { Edge } from "./edges.ts"
import { findAll } from "./find-all.ts"

/** How some of the jobs stand that a job waits for, by their ids. */
export type ParentOutcomes = ReadonlyMap<string, ParentOutcome>

/** One for each of these jobs: what is not there is gone. Fails as the transport does. */
export const findParentOutcomes = async (jobs: Pick<Jobs, "find">, ids: Iterable<string>): Promise<ParentOutcomes> => {
  const all = [...ids]
  const found = await findAll(jobs, all, ({ record }) => parentOutcomeOf(record))
  return new Map(all.map((id) => [id, found.get(id) ?? parentOutcomeOf(undefined)]))
}

/** What is known of those that each job waits for, by its id. */
export const byChild = (edges: ReadonlyArray<Edge>, endings: ParentOutcomes): ReadonlyMap<string, ParentOutcomes> => {
  const children = new Map<string, Map<string, ParentOutcome>>()
  for (const { parent, child } of edges) {
    const known = children.get(child) ?? new Map<string, ParentOutcome>()
    children.set(child, known.set(parent, endings.get(parent) ?? "open"))
  }
  return children
}
