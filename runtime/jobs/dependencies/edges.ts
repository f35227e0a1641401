/**
 * Edges: one entry of the store per waiting job (the child) and job that it waits for (the parent), so that the process that
 * ends a parent finds the children. Edges are written before the record of the child, and removed when the child need not
 * wait for that parent any more.
 *
 * `after/<shard>/<parent>/<child>`, with the time at which it was written.
 */
import { Buffer } from "node:buffer"
import { compact } from "../../protocol/compact.ts"
import { decoder, encoder } from "../../protocol/text.ts"
import type { Entry, Store, StoreOperation } from "../../transport/store.ts"

export const EDGE_PREFIX = "after/"

/**
 * Number of shards that the edges are spread over, by the parent: to list a few keys, a transport may have to read all keys
 * with the same prefix, and there may be a million.
 */
const SHARDS = 16

/** Operations per write: a transport need not take more at once. */
const AT_A_TIME = 500

export interface Edge {
  /** The job that is waited for. */
  readonly parent: string
  readonly child: string
}

const OWN_ID = /^[A-Za-z0-9_-]{1,128}$/

/**
 * An id as part of a key. Ids of tasks from other languages may hold any character, such as a slash: those are encoded.
 */
export const keyPart = (id: string): string => (OWN_ID.test(id) ? id : `~${Buffer.from(id).toString("base64url")}`)
export const idFrom = (text: string): string =>
  text.startsWith("~") ? Buffer.from(text.slice(1), "base64url").toString() : text

const shard = (at: number): string => `${EDGE_PREFIX}${at}/`

/** Prefix of the keys of all edges to a parent. */
export const edgePrefixOf = (parent: string): string => `${shard(hashOf(parent) % SHARDS)}${keyPart(parent)}/`

const keyOf = ({ parent, child }: Edge): string => edgePrefixOf(parent) + keyPart(child)

/** The edge that a key stands for; `undefined` for any other key. */
export const parseEdge = (key: string): Edge | undefined => {
  const [prefix, , parent, child, ...more] = key.split("/")
  if (`${prefix}/` !== EDGE_PREFIX || !parent || !child || more.length > 0) return undefined
  return { parent: idFrom(parent), child: idFrom(child) }
}

/** When an edge was written, in milliseconds since the epoch. */
export const writtenAt = (value: Uint8Array): number => Number(decoder.decode(value)) || 0

/** Where {@link readEdges} goes on. */
export interface EdgeCursor {
  readonly shard: number
  /** Key of the last edge that was read in this shard. */
  readonly after?: string
}

/** Up to `limit` edges from the cursor on, and the cursor of the next ones; `undefined` where there are no more. */
export const readEdges = async (
  store: Store,
  from: EdgeCursor,
  limit: number,
): Promise<{ readonly entries: ReadonlyArray<Entry>; readonly next: EdgeCursor | undefined }> => {
  const entries: Array<Entry> = []
  let { shard: at, after } = from
  while (at < SHARDS) {
    const rest = limit - entries.length
    const page = await store.list({ prefix: shard(at), limit: rest, ...compact({ after }) })
    entries.push(...page)
    const last = page.at(-1)?.key
    if (page.length === rest && last !== undefined) return { entries, next: { shard: at, after: last } }
    at++
    after = undefined
  }
  return { entries, next: undefined }
}

export const writeEdges = (store: Store, edges: ReadonlyArray<Edge>, now: number): Promise<void> => {
  const value = encoder.encode(String(now))
  return writeInChunks(
    store,
    edges.map((edge) => ({ key: keyOf(edge), value })),
  )
}

/** Removes edges; one that does not exist is no error. */
export const removeEdges = (store: Store, edges: ReadonlyArray<Edge>): Promise<void> =>
  writeInChunks(
    store,
    edges.map((edge) => ({ key: keyOf(edge), value: null })),
  )

export const writeInChunks = async (store: Store, operations: ReadonlyArray<StoreOperation>): Promise<void> => {
  for (let from = 0; from < operations.length; from += AT_A_TIME) {
    await store.write(operations.slice(from, from + AT_A_TIME))
  }
}

/** FNV-1a, 32 bits: spreads ids evenly, and the same way in every process. No secret. */
export const hashOf = (text: string): number => {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash >>> 0
}
