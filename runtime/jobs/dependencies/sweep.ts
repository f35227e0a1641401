/**
 * Looks again at deferred jobs, a slice at a time: the process that ended one of their parents may have died before it
 * released them, or could not reach the transport.
 */
import type { Connection } from "../../connection/connection.ts"
import { parentOutcomeOf } from "../../protocol/dependencies.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { Found } from "../../transport/job-store/transport.ts"
import { expire, findAll, isOverdue } from "../tracking/finding.ts"
import { type EdgeCursor, parseEdge, readEdges, removeEdges, writtenAt } from "./edges.ts"
import { afterEnds, memberOutcomesOf } from "./ended.ts"
import { byChild, findParentOutcomes, moveOn } from "./release.ts"

/** Edges per look. */
const SLICE = 200

/**
 * An edge without a record of its child is removed after this long: a living submitter stores the record within
 * seconds.
 */
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
    // The cursor moves on also where this slice fails, so that one job that cannot be released does not block the rest.
    this.#cursor = next ?? FIRST_EDGE
    const written = entries.flatMap(({ key, value }) => {
      const edge = parseEdge(key)
      return edge === undefined ? [] : [{ edge, at: writtenAt(value) }]
    })
    // Children are read before parents, because a child's record is stored after those of its parents. The other way
    // round, a
    // child that is being submitted this moment would be found, and its parents taken for gone.
    const children = await findAll(
      jobs,
      written.map(({ edge }) => edge.child),
      (found) => ({ overdue: found.record.state === "deferred" && isOverdue(found.record, now) ? found : undefined }),
    )
    const edges = written.flatMap(({ edge }) => (children.has(edge.child) ? [edge] : []))
    const endings = await findParentOutcomes(
      this.#connection,
      edges.map(({ parent }) => parent),
    )
    await this.#expire([...children.values()].flatMap(({ overdue }) => overdue ?? []))
    const failed = await moveOn(this.#connection, byChild(edges, endings))
    await afterEnds(this.#connection, new Map(), memberOutcomesOf(failed))
    const abandoned = written.filter(({ edge, at }) => !children.has(edge.child) && now - at > ABANDONED_MS)
    await removeEdges(
      store,
      abandoned.map(({ edge }) => edge),
    )
    return next === undefined
  }

  async #expire(overdue: ReadonlyArray<Found>): Promise<void> {
    const endings = new Map<string, ReturnType<typeof parentOutcomeOf>>()
    const ended: Array<JobRecord> = []
    for (const found of overdue) {
      const { record } = await expire(this.#connection, found)
      endings.set(record.id, parentOutcomeOf(record))
      ended.push(record)
    }
    await afterEnds(this.#connection, endings, memberOutcomesOf(ended))
  }
}
