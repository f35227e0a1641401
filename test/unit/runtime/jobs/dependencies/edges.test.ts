/** Keys of edges: whatever the ids are, they fit, are told apart and can be read back. */
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import {
  EDGE_PREFIX,
  type Edge,
  edgePrefixOf,
  parseEdge,
  readEdges,
  removeEdges,
  writeEdges,
  writtenAt,
} from "../../../../../runtime/jobs/dependencies/edges.ts"
import { isId } from "../../../../../runtime/protocol/name.ts"
import type { Store } from "../../../../../runtime/transport/store.ts"
import { onEveryBoard } from "../../../../scenarios/boards.ts"
import { openBench } from "./bench.ts"

const ownId = fc.stringMatching(/^[A-Za-z0-9_-]{1,128}$/)
const externalId = fc.string({ unit: "grapheme", minLength: 1, maxLength: 80 }).filter(isId)
/** Of foreign ids the longest, and those that mean something somewhere on the way. */
const ODD = [
  "/",
  "a/b",
  "after/0/a/b",
  "~",
  "~YQ",
  "a b",
  "*",
  ">",
  "a.b:c",
  "%2f",
  "ä".repeat(127),
  "x".repeat(255),
  "😀".repeat(63),
]

const edge = fc.record({
  parent: fc.oneof(ownId, externalId, fc.constantFrom(...ODD)),
  // What is submitted here has an id as we give them.
  child: ownId,
})

describe("a key", () => {
  const nothing = () => {
    throw new Error("is not asked for")
  }
  /** The key that a store is asked to write. */
  const keyOf = async (given: Edge): Promise<string> => {
    let written = ""
    const write: Store["write"] = async (operations) => {
      written = operations[0]?.key ?? ""
      return operations.map(() => "")
    }
    await writeEdges({ write, get: nothing, list: nothing, watch: nothing, now: nothing }, [given], 1)
    return written
  }

  test("of any two ids has 512 bytes at most, lies under that of its parent, and names both", async () => {
    await fc.assert(
      fc.asyncProperty(edge, async (given) => {
        const key = await keyOf(given)
        expect(Buffer.byteLength(key)).toBeLessThanOrEqual(512)
        expect(key.startsWith(edgePrefixOf(given.parent))).toBe(true)
        expect(key.startsWith(EDGE_PREFIX)).toBe(true)
        expect(parseEdge(key)).toEqual(given)
      }),
    )
  })

  test("of the longest ids fits", async () => {
    for (const parent of ODD) {
      const key = await keyOf({ parent, child: "c".repeat(128) })
      expect(Buffer.byteLength(key)).toBeLessThanOrEqual(512)
      expect(parseEdge(key)).toEqual({ parent, child: "c".repeat(128) })
    }
  })

  test("of no parent begins as those of another", () => {
    const parents = [...ODD, "a", "ab", "a-", "YQ"]
    for (const one of parents) {
      for (const other of parents) {
        if (one !== other) expect(edgePrefixOf(one).startsWith(edgePrefixOf(other))).toBe(false)
      }
    }
  })

  test("that is none names nobody", () => {
    for (const key of [
      "",
      "after",
      "after/",
      "after/0/a",
      "after/0/a/",
      "after/0//b",
      "after/0/a/b/c",
      "other/0/a/b",
    ]) {
      expect(parseEdge(key)).toBeUndefined()
    }
  })

  test("has a value that tells when it was written; one that cannot be read is old", () => {
    expect(writtenAt(new TextEncoder().encode("1700000000000"))).toBe(1_700_000_000_000)
    expect(writtenAt(new TextEncoder().encode("yesterday"))).toBe(0)
    expect(writtenAt(new Uint8Array())).toBe(0)
  })
})

onEveryBoard((newBoard) => {
  test("edges are read page by page, all of them, each once, whatever the page", async () => {
    await using bench = await openBench(newBoard())
    const { store } = bench.connection
    const many = [...ODD, ...Array.from({ length: 600 }, () => generateId())].map((parent) => ({
      parent,
      child: generateId(),
    }))
    await writeEdges(store, many, Date.now())
    const sorted = (edges: ReadonlyArray<Edge>) => edges.map(({ parent, child }) => `${parent} ${child}`).sort()
    for (const limit of [7, 100, 1_000]) {
      const seen: Array<Edge> = []
      for (let from: Parameters<typeof readEdges>[1] | undefined = { shard: 0 }; from !== undefined; ) {
        const { entries, next } = await readEdges(store, from, limit)
        expect(entries.length).toBeLessThanOrEqual(limit)
        if (next !== undefined) expect(entries.length).toBe(limit)
        seen.push(...entries.flatMap(({ key }) => parseEdge(key) ?? []))
        from = next
      }
      expect(sorted(seen)).toEqual(sorted(many))
    }
    // What is not there stays so.
    await removeEdges(store, [...many, { parent: "nobody", child: "nobody" }])
    expect(await store.list({ prefix: EDGE_PREFIX, limit: 1 })).toEqual([])
  })
})
