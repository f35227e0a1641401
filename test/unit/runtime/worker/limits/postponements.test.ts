/** What a worker knows of tasks that it or other workers have postponed. */
import { expect, test } from "vitest"
import { LATE_MS, type Postponement } from "../../../../../runtime/cluster/postponements.ts"
import { makeLog } from "../../../../../runtime/log/log.ts"
import type { Store } from "../../../../../runtime/transport/store.ts"
import { Postponements } from "../../../../../runtime/worker/limits/postponements.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { newStore } from "./stores.ts"

const LIMIT = "limit/mail.send/ann"

const ofWorker = (store: Store) => new Postponements(store, makeLog({ level: "none" }))

const delivery = (deliveries: number, fresh: boolean, sequence = 7) => ({
  queue: "default",
  sequence,
  deliveries,
  fresh,
})

const limited = (queue: string, until: number, id = "job"): Postponement => ({
  id,
  queue,
  until,
  reason: "rate-limit",
  detail: "one every 1 s",
})

const note = (postponements: Postponements, seen = delivery(2, false), until = Date.now() + 60_000) =>
  postponements.noteLimited(limited("default", until), seen, LIMIT)

test("the latest note of other workers about the same queues counts, and a worker's own does not", async () => {
  const store = await newStore()
  const [own, first, second] = [ofWorker(store), ofWorker(store), ofWorker(store)]
  const now = Date.now()
  own.noteLimited(limited("a", now + 90_000), delivery(2, false), LIMIT)
  first.noteLimited(limited("a", now + 20_000), delivery(2, false), LIMIT)
  second.noteLimited(limited("a", now + 40_000), delivery(2, false), LIMIT)
  second.noteLimited(limited("b", now + 60_000), delivery(2, false), LIMIT)
  await eventually(async () => (await store.list({ prefix: "put-off/", limit: 10 })).length === 4)
  expect(await own.othersUntil(["a"])).toBe(now + 40_000 + LATE_MS)
  expect(await own.othersUntil(["a", "b"])).toBe(now + 60_000 + LATE_MS)
  expect(await own.othersUntil(["c"])).toBe(0)
  expect(await own.othersUntil([])).toBe(0)
})

test("a note that cannot be read is passed over", async () => {
  const store = await newStore()
  await store.write([{ key: "put-off/a/other", value: new TextEncoder().encode("soon"), ttl: 60_000 }])
  expect(await ofWorker(store).othersUntil(["a"])).toBe(0)
})

test("the last return to a queue is that of a task that a passing reason holds up", async () => {
  const own = ofWorker(await newStore())
  own.note({ ...limited("a", 20_000, "first"), reason: "suspect" })
  own.note({ ...limited("a", 90_000, "second"), reason: "unknown-actor" })
  own.note(limited("b", 50_000, "third"))
  expect(own.lastReturnAt(["a"])).toBe(20_000 + LATE_MS)
  expect(own.lastReturnAt(["a", "b"])).toBe(50_000 + LATE_MS)
  own.forget("third")
  expect(own.lastReturnAt(["a", "b"])).toBe(20_000 + LATE_MS)
})

test("the postponement of a job is its latest one", async () => {
  const own = ofWorker(await newStore())
  for (const [id, until] of [
    ["first", 1],
    ["second", 2],
    ["first", 3],
  ] as const)
    own.note(limited("a", until, id))
  expect(own.list(undefined, 9).map(({ id, until }) => [id, until])).toEqual([
    ["second", 2],
    ["first", 3],
  ])
  expect(own.list(undefined, 1)).toEqual([limited("a", 3, "first")])
  expect(own.list("second", 9)).toEqual([limited("a", 2, "second")])
  expect(own.list("third", 9)).toEqual([])
})

test("those of more jobs than are remembered count for the last return", async () => {
  const own = ofWorker(await newStore())
  own.note(limited("a", 1_000_000, "oldest"))
  for (let id = 0; id < 10_000; id++) own.note(limited("a", 1, String(id)))
  expect(own.list("oldest", 1)).toEqual([])
  expect(own.lastReturnAt(["a"])).toBe(1_000_000 + LATE_MS)
})

test("a task that a limit held up at its first delivery is fresh when it comes back next", async () => {
  const own = ofWorker(await newStore())
  note(own, delivery(1, true))
  expect(own.markFresh(delivery(2, false)).fresh).toBe(true)
  // Only once: after that it is another delivery.
  expect(own.markFresh(delivery(3, false)).fresh).toBe(false)
})

test.each([
  ["was delivered to another worker meanwhile", delivery(1, true), delivery(3, false)],
  ["was not new when it was postponed", delivery(2, false), delivery(3, false)],
  ["is another of the same job", delivery(1, true), delivery(2, false, 8)],
])("one that %s is not", async (_, before, after) => {
  const own = ofWorker(await newStore())
  note(own, before)
  expect(own.markFresh(after).fresh).toBe(false)
})

test("after a cancellation nothing is known", async () => {
  const own = ofWorker(await newStore())
  note(own, delivery(1, true))
  own.forgetFirsts()
  expect(own.markFresh(delivery(2, false)).fresh).toBe(false)
})

test("tasks that are away are counted by queue and by limit", async () => {
  const own = ofWorker(await newStore())
  own.noteLimited(limited("a", 20_000, "first"), delivery(2, false), LIMIT)
  own.noteLimited(limited("a", 90_000, "second"), delivery(2, false), LIMIT)
  own.note({ ...limited("b", 90_000, "third"), reason: "unknown-actor" })
  expect([own.byQueue(10_000), own.byLimit(10_000)]).toEqual([
    new Map(Object.entries({ a: 2, b: 1 })),
    new Map([[LIMIT, 2]]),
  ])
  expect(own.byQueue(20_000)).toEqual(new Map(Object.entries({ a: 1, b: 1 })))
  own.forget("second")
  expect(own.byLimit(20_000)).toEqual(new Map())
})
