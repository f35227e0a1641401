/** What the end of a job means to those that wait for it: found by their edges, a page at a time. */
import type { Board } from "../board.ts"
import type { Ending } from "../protocol/dependencies.ts"
import { edgeIn, edgesOf } from "./edges.ts"
import { findAll } from "./find-all.ts"
import { type Endings, progress } from "./progress.ts"

const PAGE = 500
/** Parents whose children are looked for together. */
const AT_A_TIME = 32

/**
 * Moves on whoever waits for these jobs (by id). Those that do not satisfy, such as a cancelled one, change nothing.
 * Fails as the transport does: what was not done then is found again by a sweep.
 */
export const release = async (board: Board, endings: ReadonlyMap<string, Ending>): Promise<void> => {
  const open = [...endings]
    .filter(([, ending]) => ending !== "open" && ending !== "cancelled")
    .map(([parent, ending]) => ({ parent, ending, after: undefined as string | undefined }))
  while (open.length > 0) {
    const some = open.splice(0, AT_A_TIME)
    const pages = await Promise.all(
      some.map(({ parent, after }) =>
        board.store.list({ prefix: edgesOf(parent), limit: PAGE, ...(after === undefined ? {} : { after }) }),
      ),
    )
    const children = new Map<string, Map<string, Ending>>()
    for (const [at, { parent, ending }] of some.entries()) {
      const page = pages[at] ?? []
      for (const { key } of page) {
        const child = edgeIn(key)?.child
        if (child !== undefined) endingsOf(children, child).set(parent, ending)
      }
      const last = page.at(-1)
      if (page.length === PAGE && last !== undefined) open.push({ parent, ending, after: last.key })
    }
    await progress(board, children)
  }
}

/** Ids of jobs that are deferred and wait for this one. */
export const waitingFor = async function* ({ store, records }: Board, parent: string): AsyncGenerator<string> {
  for (let after: string | undefined; ; ) {
    const page = await store.list({ prefix: edgesOf(parent), limit: PAGE, ...(after === undefined ? {} : { after }) })
    const children = page.flatMap(({ key }) => edgeIn(key)?.child ?? [])
    for (const [id, { record }] of await findAll(records, children)) {
      if (record.state === "deferred" && record.after?.waiting?.includes(parent)) yield id
    }
    after = page.at(-1)?.key
    if (page.length < PAGE) return
  }
}

/** The endings known for a child, made if need be. */
export const endingsOf = (children: Map<string, Map<string, Ending>>, child: string): Map<string, Ending> => {
  const known = children.get(child)
  if (known !== undefined) return known
  const fresh = new Map<string, Ending>()
  children.set(child, fresh)
  return fresh satisfies Endings
}
