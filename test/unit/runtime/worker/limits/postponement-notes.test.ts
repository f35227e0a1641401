/** What a worker knows of tasks that it or other workers have deferred. */
import { expect, test } from "vitest"
import { LATE_MS } from "../../../../../runtime/cluster/postponements.ts"
import { makeLog } from "../../../../../runtime/log/log.ts"
import { FirstPostponements, PostponementNotes } from "../../../../../runtime/worker/limits/postponement-notes.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { newStore } from "./stores.ts"

const log = makeLog({ level: "none" })

test("the latest note of other workers about the same queues counts, and a worker's own does not", async () => {
  const store = await newStore()
  const [own, first, second] = [
    new PostponementNotes(store, log),
    new PostponementNotes(store, log),
    new PostponementNotes(store, log),
  ]
  const now = Date.now()
  own.note("a", now + 90_000)
  first.note("a", now + 20_000)
  second.note("a", now + 40_000)
  second.note("b", now + 60_000)
  await eventually(async () => (await store.list({ prefix: "put-off/", limit: 10 })).length === 4)
  expect(await own.until(["a"])).toBe(now + 40_000 + LATE_MS)
  expect(await own.until(["a", "b"])).toBe(now + 60_000 + LATE_MS)
  expect(await own.until(["c"])).toBe(0)
})

test("a note that cannot be read is passed over", async () => {
  const store = await newStore()
  const notes = new PostponementNotes(store, log)
  await store.write([{ key: "put-off/a/other", value: new TextEncoder().encode("soon"), ttl: 60_000 }])
  expect(await notes.until(["a"])).toBe(0)
})

const delivery = (deliveries: number, fresh: boolean, sequence = 7) => ({
  queue: "default",
  sequence,
  deliveries,
  fresh,
})

test("a task that this worker deferred at its first delivery is fresh when it comes back next", () => {
  const tasks = new FirstPostponements()
  tasks.note(delivery(1, true))
  expect(tasks.markFresh(delivery(2, false)).fresh).toBe(true)
  // Only once: after that it is another delivery.
  expect(tasks.markFresh(delivery(3, false)).fresh).toBe(false)
})

test.each([
  ["was delivered to another worker meanwhile", delivery(1, true), delivery(3, false)],
  ["was not new when it was put off", delivery(2, false), delivery(3, false)],
  ["is another of the same job", delivery(1, true), delivery(2, false, 8)],
])("one that %s is not", (_, before, after) => {
  const tasks = new FirstPostponements()
  tasks.note(before)
  expect(tasks.markFresh(after).fresh).toBe(false)
})

test("after a cancellation nothing is known", () => {
  const tasks = new FirstPostponements()
  tasks.note(delivery(1, true))
  tasks.forget()
  expect(tasks.markFresh(delivery(2, false)).fresh).toBe(false)
})
