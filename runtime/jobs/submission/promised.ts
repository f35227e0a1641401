/** Which ids of follow-ups a submission promises: they can be waited for before their jobs exist. */
import type { Promised } from "../tracking/promises.ts"
import type { FollowUp } from "./follow-ups.ts"

interface FollowedUp {
  readonly callbacks?: ReadonlyArray<FollowUp>
  readonly chain?: ReadonlyArray<FollowUp>
}

/**
 * The task, and the ids that it promises: those of its callbacks and of links of its chain that the caller has named. A link
 * before such a one gets an id as well, so that it can be told why the later one does not come.
 */
export const withPromises = <S extends FollowedUp>(
  submission: S,
  id: string,
): { readonly submission: S; readonly promised: ReadonlyArray<Promised> } => {
  const { callbacks = [], chain = [] } = submission
  const promised: Array<Promised> = callbacks.flatMap((callback) =>
    callback.id === undefined ? [] : [[id, callback.id]],
  )
  if (!chain.some((link) => link.id !== undefined)) return { submission, promised }
  const links = chain.map((link, n) => ({ ...link, id: link.id ?? `${id}-c${n + 1}` }))
  let before = [id]
  for (const [n, link] of links.entries()) {
    before.push(link.id)
    if (chain[n]?.id === undefined) continue
    promised.push(before)
    before = [link.id]
  }
  return { submission: { ...submission, chain: links }, promised }
}
