import { Schema } from "effect"
import { expect, test } from "vitest"
import { allEntries, StoreEntry } from "../../../../runtime/async/store-entry.ts"
import { connectTransport } from "../../../../runtime/connection/connect.ts"
import { connectionOf } from "../../../../runtime/connection/connection.ts"
import { generateId } from "../../../../runtime/id.ts"
import { watchStore } from "../../../../runtime/transport/job-store/watch-store.ts"

const Count = Schema.Struct({ count: Schema.Int })
const COUNTS = new StoreEntry("count/", Count)

const makeStore = async () => connectionOf(await connectTransport(`memory://${generateId()}`, {})).store
type Made = Awaited<ReturnType<typeof makeStore>>

const putRaw = (store: Made, key: string, text: string) => store.write([{ key, value: new TextEncoder().encode(text) }])

test("reads what it wrote, and takes what is of no such value as unreadable", async () => {
  const store = await makeStore()
  await store.write([COUNTS.put("a", { count: 1 })])
  await putRaw(store, "count/b", `{"count":"many"}`)
  await putRaw(store, "count/c", "no JSON")
  await putRaw(store, "other/d", `{"count":4}`)

  expect((await COUNTS.get(store, "a"))?.value).toEqual({ count: 1 })
  expect(await COUNTS.get(store, "b")).toEqual({ value: undefined, revision: expect.anything() })
  expect(await COUNTS.get(store, "z")).toBeUndefined()
  expect(await COUNTS.list(store, 10)).toEqual([{ name: "a", value: { count: 1 } }])
  expect(await COUNTS.names(store, 10)).toEqual(["a", "b", "c"])
  await store.write([COUNTS.remove("a")])
  expect(await COUNTS.get(store, "a")).toBeUndefined()
})

test("changes made at the same time all count", async () => {
  const store = await makeStore()
  const rise = () =>
    COUNTS.change(store, "a", (found) => ({ value: { count: (found?.value?.count ?? 0) + 1 } }), { assumeAbsent: true })
  const changes = await Promise.all(Array.from({ length: 8 }, rise))
  const made = changes.filter((change) => change !== "conflict").length
  expect(made).toBeGreaterThan(0)
  expect((await COUNTS.get(store, "a"))?.value?.count).toBe(made)
})

test("gives up where others change the entry each time", async () => {
  const store = await makeStore()
  let others = 0
  const busy: Made = {
    get: async (key) => {
      const found = await store.get(key)
      await store.write([COUNTS.put("a", { count: ++others })])
      return found
    },
    write: (operations) => store.write(operations),
    list: (options) => store.list(options),
    watch: (prefix, listener, signal) => watchStore(store, prefix, listener, signal),
    now: () => store.now(),
  }
  expect(await COUNTS.change(busy, "a", () => ({ value: { count: -1 } }))).toBe("conflict")
  expect((await COUNTS.get(store, "a"))?.value?.count).toBe(others)
})

test("removes, or leaves alone, as decided by what stands there", async () => {
  const store = await makeStore()
  await store.write([COUNTS.put("a", { count: 1 }), COUNTS.put("b", { count: 2 })])
  for (const name of ["a", "b"]) {
    await COUNTS.change(store, name, (found) => (found?.value?.count === 1 ? "remove" : "keep"))
  }
  expect(await COUNTS.names(store, 10)).toEqual(["b"])
})

test("lists all entries of a prefix, however many pages they are", async () => {
  const store = await makeStore()
  const names = Array.from({ length: 25 }, (_, at) => String(at).padStart(2, "0"))
  for (const name of names) await store.write([COUNTS.put(name, { count: 1 })])
  const seen: Array<string> = []
  for await (const { key } of allEntries(store, "count/", 10)) seen.push(key)
  expect(seen).toEqual(names.map((name) => COUNTS.key(name)))
})
