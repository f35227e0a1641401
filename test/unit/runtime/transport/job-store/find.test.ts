import { expect, test } from "vitest"
import type { Driver } from "../../../../../runtime/transport/driver.ts"
import { withJobs } from "../../../../../runtime/transport/job-store/with-jobs.ts"
import type { Query } from "../../../../../runtime/transport/optional.ts"
import { LeastBoard } from "../../../../kit/driver/least-driver.ts"
import { wholeDriver } from "../../../../kit/driver/whole-driver.ts"
import { posting } from "./samples.ts"

test("a record that cannot be read does not hide the others of a list", async () => {
  const driver: Driver = wholeDriver(new LeastBoard(), { lease: 60_000 })
  const { jobs } = withJobs(driver, { lease: 60_000 })
  const [published] = await jobs.publish([posting()])
  expect(published).toMatchObject({ status: "stored" })
  for (const [id, text] of [
    ["garbled", '{"v":2,"id":'],
    ["newer", '{"v":99,"id":"newer"}'],
  ] as const) {
    const index = { state: "failed", queue: "q", task: "text", at: Date.now() } as const
    const [stored] = await driver.commit([{ id, record: { expect: "", bytes: new TextEncoder().encode(text), index } }])
    expect(stored).toMatchObject({ status: "committed" })
  }
  expect((await jobs.list({ limit: 10 })).records.map(({ id }) => id)).toEqual([posting().id])
  await expect(jobs.find("garbled")).rejects.toMatchObject({ reason: "internal" })
  await expect(jobs.find("newer")).rejects.toMatchObject({ reason: "unsupported" })
})

/** A driver that searches like this, and does all else by itself. */
const searching = (driver: Driver, query: NonNullable<Driver["query"]>): Driver =>
  new Proxy(driver, {
    get: (target, key) => {
      const value: unknown = key === "query" ? query : Reflect.get(target, key, target)
      return typeof value === "function" ? value.bind(target) : value
    },
  })

/** A board whose driver answers each search with one job and a cut. */
const slow = async (ids: ReadonlyArray<string>) => {
  const whole = wholeDriver(new LeastBoard(), { lease: 60_000 })
  const asked: Array<Query> = []
  const driver = searching(whole, async (query) => {
    asked.push(query)
    const at = Number(query.after ?? "0")
    const [known] = await whole.read(ids.slice(at, at + 1), "all")
    const jobs = known === undefined ? [] : [{ ...known, id: ids[at] ?? "" }]
    return at + 1 < ids.length ? { jobs, next: String(at + 1), partial: true, scanned: 7 } : { jobs, scanned: 7 }
  })
  const { jobs } = withJobs(driver, { lease: 60_000 })
  await jobs.publish(ids.map((id) => posting(1, 0, 0, id)))
  return { jobs, asked }
}

test("a page that is cut says so, how much was read, and goes on", async () => {
  const { jobs, asked } = await slow(["a", "b", "c"])
  const first = await jobs.list({ limit: 10, budget: 40 })
  expect(first).toMatchObject({ records: [{ id: "a" }], partial: true, scanned: 7 })
  expect(asked[0]?.budget).toBeLessThanOrEqual(40)
  const second = await jobs.list({ limit: 10, after: first.next ?? "" })
  expect(second).toMatchObject({ records: [{ id: "b" }], partial: true })
  const last = await jobs.list({ limit: 10, after: second.next ?? "" })
  expect(last).toMatchObject({ records: [{ id: "c" }] })
  expect(last).not.toHaveProperty("next")
  expect(last).not.toHaveProperty("partial")
})

test("a cursor of another query, or of another board, is refused", async () => {
  const [{ jobs }, other] = await Promise.all([slow(["a", "b", "c"]), slow(["a", "b", "c"])])
  const { next: after = "" } = await jobs.list({ limit: 1, task: "text" })
  expect(after).not.toBe("")
  // The size of a page, its budget, and a filter that says nothing are no other query.
  await jobs.list({ limit: 5, task: "text", dead: false, budget: 50, after })
  for (const query of [{}, { task: "other" }, { task: "text", queue: "q" }, { task: "text", until: 5 }])
    await expect(jobs.list({ limit: 5, ...query, after })).rejects.toMatchObject({ reason: "invalid" })
  await expect(other.jobs.list({ limit: 5, task: "text", after })).rejects.toMatchObject({ reason: "invalid" })
})

test("a search that its signal ends answers with what it has", async () => {
  const stop = new AbortController()
  stop.abort()
  const whole = wholeDriver(new LeastBoard(), { lease: 60_000 })
  let searches = 0
  const driver = searching(whole, async () => {
    searches++
    return { jobs: [], next: String(searches) }
  })
  const { jobs } = withJobs(driver, { lease: 60_000 })
  expect(await jobs.list({ limit: 10, signal: stop.signal })).toMatchObject({ records: [], partial: true })
  expect(searches).toBe(1)
})
