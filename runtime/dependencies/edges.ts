/**
 * Edges: for each job that waits, one entry of the store under each job that it waits for, so that whoever ends a job finds
 * those that wait for it. They are written before the record of the job that waits, and removed when it need not wait for
 * that one any more.
 */
import { Buffer } from "node:buffer"
import type { Store, StoreOperation } from "../transport.ts"

export const EDGE_PREFIX = "after/"

/** Operations that are written together: a transport need not take more at once. */
const AT_A_TIME = 500

export interface Edge {
  /** The job that is waited for. */
  readonly parent: string
  readonly child: string
}

const OWN_ID = /^[A-Za-z0-9_-]{1,128}$/

/** Ids of a foreign wire may hold anything, a slash for instance. */
const token = (id: string): string => (OWN_ID.test(id) ? id : `~${Buffer.from(id).toString("base64url")}`)
const idOf = (text: string): string =>
  text.startsWith("~") ? Buffer.from(text.slice(1), "base64url").toString() : text

/** Keys of those that wait for a job begin so. */
export const edgesOf = (parent: string): string => `${EDGE_PREFIX}${token(parent)}/`

const keyOf = ({ parent, child }: Edge): string => edgesOf(parent) + token(child)

export const edgeIn = (key: string): Edge | undefined => {
  const [prefix, parent, child, ...more] = key.split("/")
  if (`${prefix}/` !== EDGE_PREFIX || !parent || !child || more.length > 0) return undefined
  return { parent: idOf(parent), child: idOf(child) }
}

/** When an edge was written, in milliseconds since the epoch. */
export const writtenAt = (value: Uint8Array): number => Number(new TextDecoder().decode(value)) || 0

export const writeEdges = (store: Store, edges: ReadonlyArray<Edge>, now: number): Promise<void> => {
  const value = new TextEncoder().encode(String(now))
  return inParts(
    store,
    edges.map((edge) => ({ key: keyOf(edge), value })),
  )
}

/** What is not there stays so. */
export const removeEdges = (store: Store, edges: ReadonlyArray<Edge>): Promise<void> =>
  inParts(
    store,
    edges.map((edge) => ({ key: keyOf(edge) })),
  )

const inParts = async (store: Store, operations: ReadonlyArray<StoreOperation>): Promise<void> => {
  for (let from = 0; from < operations.length; from += AT_A_TIME) {
    await store.write(operations.slice(from, from + AT_A_TIME))
  }
}
