/**
 * Looks again at jobs that wait for others, a slice at a time: whoever ended one of those may have died before it could
 * move them on, or could not connectivity the transport.
 */
import type { Connection } from "../../connection/connection.ts"
import { parentOutcomeOf } from "../../protocol/dependencies.ts"
import type { Found } from "../../transport/lift/transport.ts"
import { expire, isOverdue } from "../tracking/finding.ts"
import { type EdgeCursor, parseEdge, readEdges, removeEdges, writtenAt } from "./edges.ts"
import { findAll } from "./find-all.ts"
import { byChild, findParentOutcomes } from "./parent-outcomes.ts"
import { moveOn, release } from "./release.ts"

/** Edges that one look goes through. */
const SLICE = 200

/** Nobody takes longer from an edge to the record of its job who is still alive. */
const ABANDONED_MS = 3_600_000

const FIRST_EDGE: EdgeCursor = { shard: 0 }

export class Sweep {
  readonly #connection: Connection
  /** Where the next look goes on. */
  #cursor = FIRST_EDGE

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /**
   * Looks at one slice; `now` is in milliseconds since the epoch. Resolves to whether it was the last one, after which it
   * begins anew. Fails as the transport does.
   */
  async look(now: number): Promise<boolean> {
    const { store, jobs } = this.#connection
    const { entries, next } = await readEdges(store, this.#cursor, SLICE)
    // Also where this slice fails: what cannot be moved on must not keep the others waiting.
    this.#cursor = next ?? FIRST_EDGE
    const written = entries.flatMap(({ key, value }) => {
      const edge = parseEdge(key)
      return edge === undefined ? [] : [{ edge, at: writtenAt(value) }]
    })
    // Those that wait first: their records are stored after those of the jobs that they wait for. The other way round, one
    // that is being submitted this moment would be found, and what it waits for be taken for gone.
    const children = await findAll(
      jobs,
      written.map(({ edge }) => edge.child),
      (found) => ({ overdue: found.record.state === "deferred" && isOverdue(found.record, now) ? found : undefined }),
    )
    const edges = written.flatMap(({ edge }) => (children.has(edge.child) ? [edge] : []))
    const endings = await findParentOutcomes(
      jobs,
      edges.map(({ parent }) => parent),
    )
    await this.#expire([...children.values()].flatMap(({ overdue }) => overdue ?? []))
    await moveOn(this.#connection, byChild(edges, endings))
    const abandoned = written.filter(({ edge, at }) => !children.has(edge.child) && now - at > ABANDONED_MS)
    await removeEdges(
      store,
      abandoned.map(({ edge }) => edge),
    )
    return next === undefined
  }

  async #expire(overdue: ReadonlyArray<Found>): Promise<void> {
    const endings = new Map<string, ReturnType<typeof parentOutcomeOf>>()
    for (const found of overdue) {
      const { record } = await expire(this.#connection, found)
      endings.set(record.id, parentOutcomeOf(record))
    }
    await release(this.#connection, endings)
  }
}
