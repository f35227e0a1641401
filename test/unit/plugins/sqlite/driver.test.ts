/** What the driver over an SQLite file does beyond the promises that all drivers share. */
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterAll, afterEach, describe, expect, test } from "vitest"
import { plugin } from "../../../../plugins/sqlite/mod.ts"
import type { Driver, News, Posting } from "../../../../runtime/transport/driver.ts"
import type { Index } from "../../../../runtime/transport/known.ts"
import { eventually, temporaryFolder } from "../../../support/servers/process.ts"

const folder = temporaryFolder()
afterAll(() => folder.remove())

const opened: Array<Driver> = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

let files = 0
const freshFile = (): string => join(folder.path, `${++files}.db`)

const connect = async (file: string, lease = 30_000): Promise<Driver> => {
  const options = { namespace: "test", lease, name: "test", timeout: 5_000 }
  const driver = await plugin.connect(new URL(`sqlite:${file}`), options)
  opened.push(driver)
  return driver
}

const never = new AbortController().signal
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

const index = (changes: Partial<Index> = {}): Index => ({
  state: "queued",
  queue: "q",
  task: "t",
  at: 1_000,
  ...changes,
})

const posting = (id: string, key: string, changes: Partial<Posting> = {}): Posting => ({
  id,
  key: `${id}/${key}`,
  queue: "q",
  level: 4,
  index: index(),
  frame: utf8(key),
  message: { headers: {}, properties: { content_type: "", content_encoding: "" }, body: new Uint8Array(0) },
  ...changes,
})

const recordOf = (expect: string, text: string, changes: Partial<Index> = {}, keep?: number) => ({
  expect,
  bytes: utf8(text),
  index: index({ state: "succeeded", ...changes }),
  ...(keep === undefined ? {} : { keep }),
})

const take = async (driver: Driver, max = 10, wait = 0) =>
  (await driver.take({ queues: ["q"], max, wait, rotate: false }, never)).deliveries

const one = async (driver: Driver) => {
  const [delivery] = await take(driver, 1)
  if (delivery === undefined) throw new Error("no task came")
  return delivery
}

const known = async (driver: Driver, id: string) => (await driver.read([id], "all"))[0]

const shown = (content: unknown): string => (content instanceof Uint8Array ? new TextDecoder().decode(content) : "?")

describe("several tasks of one job", () => {
  test("are each handed over, the newest is the one to be seen, and all are withdrawn", async () => {
    const driver = await connect(freshFile())
    const keys = ["1/0", "1/1", "2/0"]
    expect(await driver.publish(keys.map((key) => posting("a", key)))).toEqual(keys.map(() => ({ status: "stored" })))
    expect(await driver.publish(keys.map((key) => posting("a", key)))).toEqual(
      keys.map(() => ({ status: "duplicate" })),
    )
    expect(shown((await known(driver, "a"))?.task?.content)).toBe("2/0")
    expect(await driver.waiting?.({ queue: "q" }, 10)).toEqual(["a"])
    const deliveries = await take(driver)
    expect(deliveries.map(({ content }) => shown(content))).toEqual(keys)
    expect(deliveries.map(({ first }) => first)).toEqual([true, true, true])
    const [oldest] = deliveries
    expect(await driver.commit([{ id: "a", task: { kind: "ack", token: oldest?.token ?? "" } }])).toEqual([
      { status: "committed", revision: "" },
    ])
    expect(await driver.extend(deliveries.map(({ token }) => token))).toEqual([false, true, true])
    expect(await driver.commit([{ id: "a", task: { kind: "withdraw" } }])).toMatchObject([{ status: "committed" }])
    expect(await known(driver, "a")).toBeUndefined()
    expect(await driver.queues?.()).toEqual([{ queue: "q", ready: 0, scheduled: 0, held: 0 }])
  })

  test("keep their job's record until the last of them is gone", async () => {
    const driver = await connect(freshFile())
    await driver.publish([posting("a", "1/0"), posting("a", "1/1")])
    const [first, second] = await take(driver)
    await driver.commit([
      { id: "a", record: recordOf("", "over", {}, 0), task: { kind: "ack", token: first?.token ?? "" } },
    ])
    expect(shown((await known(driver, "a"))?.record)).toBe("over")
    await driver.commit([{ id: "a", task: { kind: "ack", token: second?.token ?? "" } }])
    expect(await known(driver, "a")).toBeUndefined()
    expect(await driver.publish([posting("a", "1/0")])).toEqual([{ status: "stored" }])
  })
})

describe("a commit", () => {
  test("ends a delivery and posts the job's next task in its place", async () => {
    const driver = await connect(freshFile())
    await driver.publish([posting("a", "1/0")])
    const { token } = await one(driver)
    const commit = { id: "a", record: recordOf("", "went on"), post: [posting("a", "1/1"), posting("b", "1/0")] }
    const [committed] = await driver.commit([{ ...commit, task: { kind: "ack", token } }])
    expect(committed?.status).toBe("committed")
    expect((await take(driver)).map(({ content }) => shown(content))).toEqual(["1/1", "1/0"])
    expect(await driver.publish([posting("a", "1/0"), posting("a", "1/1")])).toEqual([
      { status: "duplicate" },
      { status: "duplicate" },
    ])
  })

  test("withdraws what was there and not what it posts", async () => {
    const driver = await connect(freshFile())
    await driver.publish([posting("a", "1/0", { due: Date.now() + 60_000 })])
    const record = recordOf("", "again", { state: "queued" })
    await driver.commit([{ id: "a", record, post: [posting("a", "2/0")], task: { kind: "withdraw" } }])
    expect((await take(driver)).map(({ content }) => shown(content))).toEqual(["2/0"])
  })

  test("that meets another revision does nothing", async () => {
    const driver = await connect(freshFile())
    await driver.publish([posting("a", "1/0")])
    const { token } = await one(driver)
    const task = { kind: "ack", token } as const
    for (const expected of ["1", "no revision"]) {
      const commit = { id: "a", record: recordOf(expected, "late"), post: [posting("b", "1/0")], task }
      expect(await driver.commit([commit])).toEqual([{ status: "conflict" }])
    }
    expect(await driver.read(["a", "b"], "all")).toEqual([
      { revision: "", task: expect.objectContaining({ held: true }) },
      undefined,
    ])
    expect(await driver.extend([token])).toEqual([true])
    const [stored] = await driver.commit([{ id: "a", record: recordOf("", "one", { hidden: true }), task }])
    expect(await driver.commit([{ id: "a", record: recordOf("", "two") }])).toEqual([{ status: "conflict" }])
    const revision = stored?.status === "committed" ? stored.revision : ""
    expect(await driver.commit([{ id: "a", record: recordOf(revision, "two"), task }])).toMatchObject([
      { status: "committed", gone: true },
    ])
  })

  test("says by what jobs of a tenant, and failures that are alike, will be found", async () => {
    const file = freshFile()
    const driver = await connect(file)
    await driver.publish([posting("a", "1/0", { index: index({ tenant: "some" }) })])
    const { token } = await one(driver)
    const record = recordOf("", "failed", { state: "failed", error: "alike" })
    await driver.commit([{ id: "a", record, task: { kind: "ack", token } }])
    using handle = new DatabaseSync(file, { readOnly: true })
    const row = handle.prepare("SELECT tenant, error, at FROM callboard_job").get()
    expect(row).toMatchObject({ tenant: "some", error: "alike", at: null })
  })

  test("of a task that expires, or is put into another queue, stores all the same", async () => {
    const driver = await connect(freshFile())
    await driver.publish([posting("a", "1/0", { expires: Date.now() + 60_000 }), posting("b", "1/0")])
    const [a, b] = await take(driver)
    const answers = await driver.commit([
      { id: "a", record: recordOf("", "a"), task: { kind: "ack", token: a?.token ?? "" } },
      { id: "b", record: recordOf("", "b", { queue: "new" }), task: { kind: "ack", token: b?.token ?? "" } },
    ])
    expect(answers.map(({ status }) => status)).toEqual(["committed", "committed"])
    expect(await driver.waiting?.({ expiredBy: Date.now() + 120_000 }, 10)).toEqual([])
    expect((await driver.query?.({ limit: 10, queue: "new" }))?.jobs.map(({ id }) => id)).toEqual(["b"])
  })
})

test("a lease that has ended begins anew as long as no other delivery has the task", async () => {
  const driver = await connect(freshFile(), 1_000)
  await driver.publish([posting("a", "1/0")])
  const first = await one(driver)
  await eventually(async () => (await driver.queues?.())?.[0]?.ready === 1, { message: "the lease ended" })
  expect(await driver.extend([first.token])).toEqual([true])
  expect(await take(driver)).toEqual([])
  const [second] = await take(driver, 1, 5_000)
  expect(second).toMatchObject({ first: false, deliveries: 2, sequence: first.sequence })
  expect(await driver.extend([first.token, second?.token ?? ""])).toEqual([false, true])
})

test("lists tell jobs apart by when they were submitted, and stop when their time is up", async () => {
  const driver = await connect(freshFile())
  const ids = Array.from({ length: 300 }, (_, at) => `job-${at}`)
  await driver.publish(
    ids.map((id, at) => posting(id, "1/0", { index: index({ at, method: at % 2 ? "odd" : "even" }) })),
  )
  const found = await driver.query?.({ since: 10, until: 14, limit: 10 })
  expect(found?.jobs.map(({ id }) => id)).toEqual(["job-13", "job-12", "job-11", "job-10"])
  expect((await driver.query?.({ task: "t.odd", limit: 2 }))?.jobs.map(({ id }) => id)).toEqual(["job-299", "job-297"])
  const listed: Array<string> = []
  let after: string | undefined
  let partial = 0
  do {
    const page = await driver.query?.({ limit: 1_000, budget: -1, ...(after === undefined ? {} : { after }) })
    listed.push(...(page?.jobs.map(({ id }) => id) ?? []))
    if (page?.partial) partial++
    after = page?.next
  } while (after !== undefined)
  expect(partial).toBeGreaterThan(1)
  expect(listed).toEqual(ids.toReversed())
})

test("other connections hear of tasks that are published, fall due or come back", async () => {
  const file = freshFile()
  const [here, there] = [await connect(file, 1_000), await connect(file, 1_000)]
  const heard: Array<News> = []
  await there.listen({ kind: "queues", queues: ["q"] }, (news) => heard.push(news), never)
  const hears = (message: string) =>
    eventually(() => heard.splice(0).some((news) => news.kind === "queue" && news.queue === "q"), { message })
  await here.publish([posting("other", "1/0", { queue: "other" }), posting("a", "1/0")])
  await hears("published")
  await one(here)
  heard.splice(0)
  await hears("the lease ended")
  const { token } = await one(here)
  await here.commit([{ id: "a", task: { kind: "hand-back", token, delay: 200 } }])
  heard.splice(0)
  await hears("put off")
  await here.commit([{ id: "a", task: { kind: "withdraw" } }])
  await here.publish([posting("b", "1/0", { due: Date.now() + 300 })])
  heard.splice(0)
  await hears("due")
})

test("a store answers the revision of each operation, and checks alone", async () => {
  const { store } = await connect(freshFile())
  const answer = await store.write([
    { key: "a", value: utf8("1"), expect: "" },
    { key: "b", value: utf8("2") },
    { key: "c", value: null },
    { key: "d", expect: "" },
  ])
  if (answer === "conflict") throw new Error("a conflict")
  const [a = "", b = ""] = answer
  expect(answer).toEqual([a, b, "", ""])
  expect(Number(b)).toBeGreaterThan(Number(a))
  expect(await store.get(["b", "none", "a"])).toMatchObject([
    { key: "b", revision: b },
    undefined,
    { key: "a", revision: a },
  ])
  expect(
    await store.write([
      { key: "a", expect: a },
      { key: "b", value: null, expect: a },
    ]),
  ).toBe("conflict")
  expect(
    await store.write([
      { key: "a", expect: a },
      { key: "b", value: null, expect: b },
    ]),
  ).toEqual(["", ""])
  expect(await store.get(["b"])).toEqual([undefined])
})
