/**
 * Looks again at jobs that wait for others, a slice at a time: whoever ended one of those may have died before it could
 * move them on, or could not reach the transport.
 */
import type { Board } from "../board.ts"
import { type Ending, endingOf } from "../protocol/dependencies.ts"
import { expire, isOverdue } from "../tracking.ts"
import { EDGE_PREFIX, type Edge, edgeIn, removeEdges, writtenAt } from "./edges.ts"
import { findAll } from "./find-all.ts"
import { progress } from "./progress.ts"
import { endingsOf } from "./release.ts"

/** Edges that one look goes through. */
const SLICE = 200

/** Nobody takes longer from an edge to the record of its job who is still alive. */
const ABANDONED_MS = 3_600_000

export class Sweep {
  readonly #board: Board
  /** Where the next look goes on. */
  #after: string | undefined

  constructor(board: Board) {
    this.#board = board
  }

  /** One look. Costs one list while nobody waits. Fails as the transport does. */
  async look(now: number): Promise<void> {
    const { store, records } = this.#board
    const after = this.#after
    const page = await store.list({ prefix: EDGE_PREFIX, limit: SLICE, ...(after === undefined ? {} : { after }) })
    const edges = page.flatMap(({ key, value }) => {
      const edge = edgeIn(key)
      return edge === undefined ? [] : [{ edge, at: writtenAt(value) }]
    })
    const found = await findAll(
      records,
      edges.flatMap(({ edge }) => [edge.parent, edge.child]),
    )
    const children = new Map<string, Map<string, Ending>>()
    const abandoned: Array<Edge> = []
    for (const { edge, at } of edges) {
      const child = found.get(edge.child)
      if (child === undefined && now - at > ABANDONED_MS) abandoned.push(edge)
      endingsOf(children, edge.child).set(edge.parent, endingOf(found.get(edge.parent)?.record))
    }
    for (const child of children.keys()) {
      const waiting = found.get(child)
      if (waiting?.record.state === "deferred" && isOverdue(waiting.record, now)) await expire(this.#board, waiting)
    }
    await progress(this.#board, children)
    await removeEdges(store, abandoned)
    this.#after = page.length < SLICE ? undefined : page.at(-1)?.key
  }
}
