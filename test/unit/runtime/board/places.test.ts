/** The places of new jobs: no bucket grows beyond its size, readers miss no bucket, and the job of a late poster is found. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest"
import { BoardEntries, RETIRE_MS } from "../../../../runtime/board/entries.ts"
import { Places } from "../../../../runtime/board/places.ts"
import { BoardReader } from "../../../../runtime/board/reading.ts"
import { generateId } from "../../../../runtime/id.ts"
import { BUCKET_SIZE, boardJobId, posted } from "../../../../runtime/protocol/board.ts"
import type { Store } from "../../../../runtime/transport/store.ts"
import { memory } from "../../../support/memory.ts"

let store: { -readonly [Name in keyof Store]: Store[Name] }
let entries: BoardEntries
let close: () => Promise<void>
beforeEach(async () => {
  const options = { namespace: "places", lease: 30_000, name: "test", timeout: 1_000 }
  const transport = await memory.connect(new URL(`memory://${generateId()}`), options)
  store = { ...transport.store }
  close = () => transport.close()
  entries = new BoardEntries(store, "b")
})
afterEach(async () => {
  vi.useRealTimers()
  await close()
})

/** Posts a job as a board does. Resolves with the key of its entry. */
const post = async (places: Places, name = "a"): Promise<string> => {
  for (;;) {
    const offer = await places.offer("NORMAL")
    const key = entries.slot(offer)
    const record = posted(boardJobId(generateId(), offer), { name, priority: "NORMAL", details: {} }, 0)
    const written = await store.write([{ key, value: entries.encode(record), expect: "" }])
    if (written === "conflict") {
      places.missed(offer)
      continue
    }
    places.hit(offer, Number(written[0]))
    if (await places.isRead(offer)) return key
    await store.write([{ key, value: null, expect: written[0] ?? "" }])
  }
}

const namesOf = async (reader = new BoardReader(entries, () => undefined)): Promise<ReadonlyArray<string>> => {
  const names: Array<string> = []
  for await (const { record } of reader.jobs()) names.push(record.name)
  return names
}

const buckets = async (): Promise<ReadonlyArray<number>> => {
  const sizes = new Map<string, number>()
  for (const { key } of await store.list({ prefix: "board/b/2/", limit: 100_000 })) {
    const bucket = key.replace(/[^/]*$/, "")
    sizes.set(bucket, (sizes.get(bucket) ?? 0) + 1)
  }
  return [...sizes.values()]
}

test("several posters fill buckets of 256 places, most of them nearly full", async () => {
  const posters = Array.from({ length: 4 }, () => new Places(entries))
  await Promise.all(
    posters.map(async (places) => {
      for (let at = 0; at < 500; at++) await post(places)
    }),
  )
  const sizes = await buckets()
  expect(Math.max(...sizes)).toBeLessThanOrEqual(BUCKET_SIZE)
  expect(sizes.reduce((sum, each) => sum + each, 0)).toBe(2_000)
  expect(sizes.length).toBeLessThan(20)
  expect(await namesOf()).toHaveLength(2_000)
})

test("posts that are under way at the same time try no place that another one of them has", async () => {
  let conflicts = 0
  const { write } = store
  store.write = async (operations) => {
    await new Promise((resolve) => setImmediate(resolve))
    const written = await write(operations)
    if (written === "conflict") conflicts++
    return written
  }
  const places = new Places(entries)
  await Promise.all(
    Array.from({ length: 600 }, async (_, lane) => {
      for (let at = 0; at < 5; at++) await post(places, `${lane} ${at}`)
    }),
  )
  expect(conflicts).toBe(0)
  expect(new Set(await namesOf()).size).toBe(3_000)
  // Each bucket has a lower bound of its sequences: without these bounds a reader would read all buckets for the first job.
  const { opened = [] } = (await entries.index())["NORMAL"] ?? {}
  expect(opened.length).toBeGreaterThan(10)
  expect(opened.filter((sequence) => sequence === 0).length).toBeLessThan(4)
})

test("a board that stays small stays in one bucket", async () => {
  const places = new Places(entries)
  for (let at = 0; at < 1_000; at++) await store.write([{ key: await post(places), value: null }])
  expect(await entries.index()).toEqual({ NORMAL: { head: 0, opened: [0] } })
})

test("a poster reads neither the buckets that it fills, nor those whose places it frees itself", async () => {
  const places = new Places(entries)
  const lists = vi.spyOn(store, "list")
  for (let at = 0; at < 1_000; at++) await post(places)
  // The poster has read only the first bucket, since it has opened the others itself.
  expect(lists).toHaveBeenCalledTimes(1)
  expect(await buckets()).toEqual([256, 256, 256, 232])
  const index = await entries.index()
  for (let at = 0; at < 1_000; at++) {
    const key = await post(places)
    const [found] = await store.get([key])
    await store.write([{ key, value: null }])
    const known = found && entries.decode(found)
    if (known !== undefined) places.freed(known.key)
  }
  expect(lists.mock.calls.length).toBeLessThan(4)
  expect(await entries.index()).toEqual(index)
})

test("a job in an earlier bucket comes after those of a later one that were posted before it", async () => {
  const [early, late] = [new Places(entries), new Places(entries)]
  const first = await post(early, "first")
  for (let at = 0; at < 300; at++) await post(late, `${at}`)
  const done = (await store.list({ prefix: "board/b/2/0/", limit: 300 })).filter(({ key }) => key !== first)
  await store.write(done.map(({ key }) => ({ key, value: null })))
  // The first poster has not noticed yet that there is a later bucket.
  expect(await post(early, "last")).toMatch(/^board\/b\/2\/0\//)
  const names = await namesOf()
  expect(names).toEqual(["first", ...Array.from({ length: 45 }, (_, at) => `${255 + at}`), "last"])
})

describe("with clocks that are set", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "performance"] }))

  /** Fills two buckets, and removes all jobs of the first one. */
  const drained = async (places: Places): Promise<void> => {
    const keys: Array<string> = []
    for (let at = 0; at < 300; at++) keys.push(await post(places, `${at}`))
    await store.write(keys.filter((key) => key.startsWith("board/b/2/0/")).map((key) => ({ key, value: null })))
  }
  const head = async (): Promise<number | undefined> => (await entries.index())["NORMAL"]?.head

  test("an empty bucket is dropped once no poster can still use it, and not before", async () => {
    await drained(new Places(entries))
    const reader = new BoardReader(entries, () => undefined)
    await namesOf(reader)
    vi.advanceTimersByTime(RETIRE_MS - 1)
    await namesOf(reader)
    expect(await head()).toBe(0)
    // Another process does not know for how long there has been a later bucket, so it keeps this one.
    vi.advanceTimersByTime(1)
    await namesOf(new BoardReader(new BoardEntries(store, "b"), () => undefined))
    expect(await head()).toBe(0)
    await namesOf(reader)
    expect(await head()).toBe(1)
    expect(await namesOf()).toHaveLength((await buckets())[0] ?? 0)
  })

  test("a look for the next job reads an empty bucket once a second, and then finds a late posting", async () => {
    const early = new Places(entries)
    await post(early, "first")
    await drained(new Places(entries))
    await store.write(
      [...(await store.list({ prefix: "board/b/2/0/", limit: 300 }))].map(({ key }) => ({ key, value: null })),
    )
    const reader = new BoardReader(entries, () => undefined)
    const look = async (): Promise<ReadonlyArray<string>> => {
      const names: Array<string> = []
      for await (const part of reader.parts(undefined, undefined, true))
        names.push(...part.map(({ record }) => record.name))
      return names
    }
    const lists = vi.spyOn(store, "list")
    await look()
    expect(lists).toHaveBeenCalledTimes(2)
    await post(early, "late")
    await look()
    expect(lists).toHaveBeenCalledTimes(3)
    vi.advanceTimersByTime(1_000)
    expect((await look()).at(-1)).toBe("late")
    // A reader that gets the announcement of the posting reads the bucket at once.
    const [late] = (await store.list({ prefix: "board/b/2/0/", limit: 300 })).flatMap(
      (each) => entries.decode(each) ?? [],
    )
    await store.write([{ key: late?.key ?? "", value: null }])
    await look()
    const again = await store.get([await post(early, "again")])
    expect(await look()).not.toContain("again")
    reader.heard(again.flatMap((each) => (each && entries.decode(each)?.record.id) ?? [])[0] ?? "")
    expect((await look()).at(-1)).toBe("again")
  })

  test("a job that stays for long makes nobody read the empty buckets after it again and again", async () => {
    const places = new Places(entries)
    const keys: Array<string> = []
    for (let at = 0; at < 1_000; at++) keys.push(await post(places, `${at}`))
    const done = keys.slice(1).filter((key) => !key.startsWith("board/b/2/3/"))
    await store.write(done.map((key) => ({ key, value: null })))
    const reader = new BoardReader(entries, () => undefined)
    await namesOf(reader)
    vi.advanceTimersByTime(RETIRE_MS)
    await namesOf(reader)
    expect(await head()).toBe(0)
    const lists = vi.spyOn(store, "list")
    for (let second = 0; second < 5; second++) {
      vi.advanceTimersByTime(1_000)
      expect((await namesOf(reader))[0]).toBe("0")
    }
    // Each time the reader reads two buckets: the one with the job, and the last one.
    expect(lists).toHaveBeenCalledTimes(10)
    // Once the job is gone all earlier buckets are dropped.
    await store.write([{ key: keys[0] ?? "", value: null }])
    await namesOf(reader)
    expect(await head()).toBe(3)
  })

  test("what is posted meanwhile keeps its bucket, also by a reader that has seen the bucket empty", async () => {
    const early = new Places(entries)
    await post(early, "first")
    await drained(new Places(entries))
    const reader = new BoardReader(entries, () => undefined)
    await namesOf(reader)
    await post(early, "late")
    vi.advanceTimersByTime(RETIRE_MS)
    expect(await namesOf(reader)).toContain("late")
    expect(await head()).toBe(0)
  })

  test("a poster that was frozen finds its bucket dropped, and posts again", async () => {
    const early = new Places(entries)
    await post(early, "first")
    const reader = new BoardReader(entries, () => undefined)
    await drained(new Places(entries))
    await store.write(
      [...(await store.list({ prefix: "board/b/2/0/", limit: 300 }))].map(({ key }) => ({ key, value: null })),
    )
    const offer = await early.offer("NORMAL")
    await namesOf(reader)
    vi.advanceTimersByTime(RETIRE_MS)
    await namesOf(reader)
    expect(await head()).toBe(1)
    expect(await early.isRead(offer)).toBe(false)
    expect(await post(early, "late")).toMatch(/^board\/b\/2\/1\//)
    expect(await namesOf()).toContain("late")
  })

  test("a poster that was frozen posts again where a reader may be about to drop its bucket", async () => {
    const early = new Places(entries)
    await post(early, "first")
    await drained(new Places(entries))
    await store.write(
      [...(await store.list({ prefix: "board/b/2/0/", limit: 300 }))].map(({ key }) => ({ key, value: null })),
    )
    const offer = await early.offer("NORMAL")
    const reader = new BoardReader(entries, () => undefined)
    await namesOf(reader)
    vi.advanceTimersByTime(RETIRE_MS)
    // The reader has found the bucket empty. Its caller keeps it from dropping the bucket until the next call.
    const jobs = reader.jobs()
    await jobs.next()
    expect(await head()).toBe(0)
    const key = entries.slot(offer)
    const record = posted(boardJobId(generateId(), offer), { name: "late", priority: "NORMAL", details: {} }, 0)
    await store.write([{ key, value: entries.encode(record), expect: "" }])
    const isRead = await early.isRead(offer)
    for await (const _ of jobs);
    expect(await head()).toBe(1)
    expect(isRead).toBe((await namesOf()).includes("late"))
  })

  test("a machine that slept has a monotonic clock that stood still, and counts by the other one", async () => {
    const places = new Places(entries)
    const offer = await places.offer("NORMAL")
    vi.setSystemTime(Date.now() + RETIRE_MS)
    const reads = vi.spyOn(store, "get")
    await places.isRead(offer)
    expect(reads).toHaveBeenCalledTimes(1)
  })
})

test("an index that a newer version wrote is left alone", async () => {
  await store.write([{ key: "board/b/index", value: new TextEncoder().encode('{"NORMAL":{"from":7}}') }])
  await expect(post(new Places(entries))).rejects.toThrow(/board\/b\/index cannot be read/)
  await expect(namesOf()).rejects.toThrow(/board\/b\/index cannot be read/)
  const [entry] = await store.get(["board/b/index"])
  expect(new TextDecoder().decode(entry?.value)).toBe('{"NORMAL":{"from":7}}')
})
