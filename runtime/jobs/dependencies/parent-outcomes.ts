/** The outcomes of jobs that other jobs wait for. */
import { type ParentOutcome, parentOutcomeOf } from "../../protocol/dependencies.ts"
import type { Jobs } from "../../transport/lift/transport.ts"
import type { Edge } from "./edges.ts"
import { findAll } from "./find-all.ts"

/** Known outcomes of the jobs that a job waits for, by their ids. */
export type ParentOutcomes = ReadonlyMap<string, ParentOutcome>

/** The outcome of each of these jobs; a job without a record is gone. Fails as the transport does. */
export const findParentOutcomes = async (jobs: Pick<Jobs, "find">, ids: Iterable<string>): Promise<ParentOutcomes> => {
  const all = [...ids]
  const found = await findAll(jobs, all, ({ record }) => parentOutcomeOf(record))
  return new Map(all.map((id) => [id, found.get(id) ?? parentOutcomeOf(undefined)]))
}

/** For each waiting job, by its id, the known outcomes of the jobs that it waits for. */
export const byChild = (edges: ReadonlyArray<Edge>, endings: ParentOutcomes): ReadonlyMap<string, ParentOutcomes> => {
  const children = new Map<string, Map<string, ParentOutcome>>()
  for (const { parent, child } of edges) {
    const known = children.get(child) ?? new Map<string, ParentOutcome>()
    children.set(child, known.set(parent, endings.get(parent) ?? "open"))
  }
  return children
}
