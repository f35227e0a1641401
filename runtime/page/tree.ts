/** The jobs of a workflow as the lines of a tree. Pure. */
import type { TreeNode } from "../jobs/lists.ts"

export interface Line {
  readonly node: TreeNode
  readonly depth: number
}

/** Each job below its parent, the oldest first. A job whose parent is not in the list is at the top level. */
export const linesOf = (nodes: ReadonlyArray<TreeNode>): ReadonlyArray<Line> => {
  const ids = new Set(nodes.map(({ id }) => id))
  const below = new Map<string | undefined, Array<TreeNode>>()
  for (const node of nodes) {
    const [first] = node.after ?? []
    const above = [node.parentId, first].find((id) => id !== undefined && id !== node.id && ids.has(id))
    below.set(above, [...(below.get(above) ?? []), node])
  }
  const lines: Array<Line> = []
  const seen = new Set<string>()
  const walk = (above: string | undefined, depth: number): void => {
    const own = (below.get(above) ?? []).toSorted((a, b) => (a.times.submitted < b.times.submitted ? -1 : 1))
    for (const node of own) {
      if (seen.has(node.id)) continue
      seen.add(node.id)
      lines.push({ node, depth })
      walk(node.id, depth + 1)
    }
  }
  walk(undefined, 0)
  // Jobs that depend on each other in a circle have no top-level job above them, so they are added here.
  for (const node of nodes) if (!seen.has(node.id)) lines.push({ node, depth: 0 })
  return lines
}
