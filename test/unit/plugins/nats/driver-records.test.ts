/** The nats driver by itself: records, what lists find of them, and what a crash leaves behind. */
import { describe, expect, test, vi } from "vitest"
import { NatsLink } from "../../../../plugins/nats/connection/link.ts"
import { generateId } from "../../../../runtime/id.ts"
import type { Driver } from "../../../../runtime/transport/driver.ts"
import { startNatsCluster } from "../../../support/servers/nats-cluster.ts"
import { eventually } from "../../../support/servers/process.ts"
import { bytesOf, commit, driversOnNats, indexOf, postingOf, publish, read, store, take, textOf } from "./drivers.ts"
import { startProxy } from "./proxy.ts"

const nats = driversOnNats()
const { direct, open, wire, wired } = nats

describe("a record", () => {
  test("is stored only on the revision that is expected, and each revision is another one", async () => {
    const driver = await direct()
    const id = generateId()
    const first = await store(driver, id, "deferred")
    expect(await commit(driver, { id, record: { expect: "", bytes: bytesOf("x"), index: indexOf("queued") } })).toEqual(
      {
        status: "conflict",
      },
    )
    const second = await store(driver, id, "started", first)
    expect(second).not.toBe(first)
    for (const expect_ of [first, "", "never", "0"]) {
      const record = { expect: expect_, bytes: bytesOf("late"), index: indexOf("failed") }
      expect(await commit(driver, { id, record, post: [postingOf({ queue: "post" })] })).toEqual({ status: "conflict" })
    }
    expect(textOf((await read(driver, id))?.record)).toBe("started")
    expect((await read(driver, id))?.revision).toBe(second)
    expect((await driver.waiting?.({ queue: "post" }, 10)) ?? []).toEqual([])
    await store(driver, id, "succeeded", second)
  })

  test("that is hidden holds its id, and its time is that of the last one", async () => {
    const driver = await direct()
    const id = generateId()
    const first = await store(driver, id, "succeeded", "", { keep: 1_000 })
    const record = {
      expect: first,
      bytes: bytesOf("hidden"),
      index: indexOf("succeeded", { hidden: true }),
      keep: 2_000,
    }
    expect(await commit(driver, { id, record })).toMatchObject({ status: "committed" })
    expect(await commit(driver, { id, record: { ...record, expect: "" } })).toEqual({ status: "conflict" })
    await eventually(async () => (await read(driver, id, "record")) === undefined)
    await store(driver, id, "queued")
  })

  test("is found by what it says in lists, newest first, and hidden ones are not", async () => {
    const driver = await direct()
    const ids = Array.from({ length: 6 }, () => generateId())
    const states = ["succeeded", "failed", "cancelled", "queued", "started", "failed"] as const
    for (const [at, state] of states.entries()) await store(driver, ids[at] ?? "", state)
    const dead = { expect: "", bytes: bytesOf("dead"), index: indexOf("failed", { dead: true, queue: "other" }) }
    await commit(driver, { id: "dead", record: dead })
    const hidden = { expect: "", bytes: bytesOf("hidden"), index: indexOf("failed", { hidden: true }) }
    await commit(driver, { id: "hidden", record: hidden })
    // Streams are merged by the time of their messages, in milliseconds.
    const submitted = Date.now()
    await eventually(async () => Date.now() > submitted, { every: 1, message: "the next millisecond" })
    const waiting = postingOf()
    await publish(driver, waiting)
    const list = async (query: Partial<Parameters<NonNullable<Driver["query"]>>[0]>) =>
      (await driver.query?.({ limit: 100, ...query }))?.jobs.map(({ id }) => id)
    const [succeeded, failed, cancelled, queued, started, failed2] = ids
    expect(await list({})).toEqual([waiting.id, "dead", failed2, started, queued, cancelled, failed, succeeded])
    expect(await list({ states: ["failed"] })).toEqual(["dead", failed2, failed])
    expect(await list({ states: ["failed"], queue: "other" })).toEqual(["dead"])
    expect(await list({ dead: true })).toEqual(["dead"])
    expect(await list({ states: ["started"] })).toEqual([started])
    expect(await list({ states: ["queued"] })).toEqual([waiting.id, queued])
    expect(await list({ states: ["succeeded", "cancelled"] })).toEqual([cancelled, succeeded])
    expect(await list({ task: "other" })).toEqual([])
    expect(await list({ until: 1_700_000_000_000 })).toEqual([])
    const page = await driver.query?.({ limit: 2, states: ["failed"] })
    expect(page?.jobs.map(({ id }) => id)).toEqual(["dead", failed2])
    expect(await list({ states: ["failed"], after: page?.next ?? "" })).toEqual([failed])
  })
})

test("on three servers a record is read from the leader, with one question per job", { timeout: 60_000 }, async () => {
  const cluster = nats.resources.use(await startNatsCluster(3))
  const [first, ...others] = [...cluster.servers.values()].map(({ port }) => `127.0.0.1:${port}`)
  let asked = ""
  const tapped = await startProxy(
    () => Number(first?.split(":")[1]),
    (text) => {
      asked += text
      return undefined
    },
  )
  nats.resources.defer(() => tapped.stop())
  const connect = (url: string) =>
    eventually(() => open(`nats://${url}?replicas=3`).catch(() => undefined), { deadline: 40_000, every: 250 })
  const driver = await connect(`127.0.0.1:${tapped.port}`)
  const other = await connect(others[0] ?? "")
  const ids = ["a", "b", "c"]
  for (const id of ids) {
    const revision = await store(other, id, "queued")
    asked = ""
    expect(await driver.read([id, "nothing"], "record")).toEqual([{ revision, record: bytesOf("queued") }, undefined])
    expect([...asked.matchAll(/\$JS\.API\.\S+/g)].map(String)).toEqual([
      `$JS.API.STREAM.MSG.GET.${nats.namespace}_state`,
      `$JS.API.STREAM.MSG.GET.${nats.namespace}_state`,
    ])
  }
})

test("on three servers a record that was replaced is never found again, and mended into no other run", {
  timeout: 60_000,
}, async () => {
  const cluster = nats.resources.use(await startNatsCluster(3))
  const [first, ...others] = [...cluster.servers.values()]
  let cut = false
  const wire = await startProxy(
    () => first?.port ?? 0,
    // The process dies before it removes the task, and the entry of the record that it has replaced.
    (text) => (cut && /STREAM\.(PURGE|MSG\.DELETE)/.test(text) ? Promise.resolve("PING\r\n") : undefined),
  )
  nats.resources.defer(() => wire.stop())
  const connect = (port: number | undefined) =>
    eventually(() => open(`nats://127.0.0.1:${port}?replicas=3`).catch(() => undefined), {
      deadline: 40_000,
      every: 250,
    })
  const dying = await connect(wire.port)
  const readers = await Promise.all(others.map(({ port }) => connect(port)))
  const posting = postingOf()
  const waiting = await store(dying, posting.id, "queued", "", { post: [posting] })
  cut = true
  const done = store(dying, posting.id, "cancelled", waiting, { task: { kind: "withdraw" } }).catch(() => undefined)
  const [reader] = readers
  if (reader === undefined) throw new Error("there are three")
  await eventually(async () => textOf((await read(reader, posting.id))?.record) === "cancelled")
  for (const driver of readers) {
    expect(textOf((await read(driver, posting.id, "record"))?.record)).toBe("cancelled")
    expect(await driver.orphans?.(Date.now() + 1_000, 10)).toEqual([])
    // The entry of the waiting job is still there, and lists skip it.
    expect((await driver.query?.({ limit: 10, states: ["queued", "started"] }))?.jobs).toEqual([])
  }
  // The readers also see it when the server that has stored it dies.
  await first?.kill()
  await eventually(async () => textOf((await read(reader, posting.id, "record"))?.record) === "cancelled")
  // Each stream elects a leader of its own: that of the records may have one before that of their entries.
  const orphans = await eventually(() => reader.orphans?.(Date.now() + 1_000, 10).catch(() => undefined), {
    message: "the stream of entries has a leader",
  })
  expect(orphans).toEqual([])
  await done
})

describe("a worker that dies between two steps", () => {
  test("of a cancellation leaves nothing that is mended into another run once the record is over", async () => {
    const driver = await direct()
    const posting = postingOf()
    const waiting = await store(driver, posting.id, "queued", "", { post: [posting] })
    const dying = await wired()
    // The worker sends nothing after the record itself.
    wire.tap = (text) => (/STREAM\.PURGE/.test(text) ? "PING\r\n" : text)
    const done = store(dying, posting.id, "cancelled", waiting, { keep: 1_500, task: { kind: "withdraw" } }).catch(
      () => undefined,
    )
    await eventually(async () => textOf((await read(driver, posting.id))?.record) === "cancelled")
    await take(driver)
    const task = (await read(driver, posting.id))?.task
    expect(task).toBeDefined()
    await driver.commit([{ id: posting.id, task: { kind: "withdraw" } }])
    await eventually(async () => (await read(driver, posting.id)) === undefined)
    expect((await driver.query?.({ limit: 10, states: ["queued", "cancelled"] }))?.jobs).toEqual([])
    // A driver that connects now reads all entries.
    const fresh = await direct()
    expect(await fresh.orphans?.(Date.now() + 1_000, 10)).toEqual([])
    await done
  })

  test("between its record and its posting is found, once it is old enough, and only until the task is there", async () => {
    const driver = await direct()
    const [lost, healthy] = [postingOf(), postingOf()]
    const revision = await store(driver, lost.id, "queued")
    await store(driver, healthy.id, "queued", "", { post: [healthy] })
    expect(await driver.orphans?.(Date.now() - 15_000, 10)).toEqual([])
    expect(await driver.orphans?.(Date.now() + 1_000, 10)).toEqual([lost.id])
    expect(await driver.orphans?.(Date.now() + 1_000, 10)).toEqual([lost.id])
    await store(driver, lost.id, "queued", revision, { post: [lost] })
    expect(await driver.orphans?.(Date.now() + 1_000, 10)).toEqual([])
    // The search for orphans reads the entry again once the job waits again.
    const known = await read(driver, lost.id)
    await store(driver, lost.id, "started", known?.revision ?? "")
    const started = await read(driver, lost.id)
    await store(driver, lost.id, "queued", started?.revision ?? "", { task: { kind: "withdraw" } })
    expect(await driver.orphans?.(Date.now() + 1_000, 10)).toEqual([lost.id])
  })
})

test("a failed job, which has an entry beside its record, is counted once among all", async () => {
  const driver = await direct()
  for (const state of ["failed", "succeeded"] as const)
    await commit(driver, { id: state, record: { expect: "", bytes: bytesOf("{}"), index: indexOf(state) } })
  expect((await driver.query?.({ limit: 10, bare: true }))?.jobs.map(({ id }) => id)).toEqual(["succeeded", "failed"])
})

test("a job that ends while a list looks for it is in the list, once", async () => {
  const driver = await direct()
  await publish(driver, postingOf({ id: "moving" }))
  const { token } = await take(driver)
  let ended: Promise<void> | undefined
  const end = async (): Promise<void> => {
    const record = { expect: "", bytes: bytesOf("{}"), index: indexOf("succeeded") }
    expect((await commit(driver, { id: "moving", record, task: { kind: "ack", token } })).status).toBe("committed")
    await eventually(async () => (await driver.read(["moving"], "all"))[0]?.task === undefined)
  }
  const api = NatsLink.prototype.api
  const spy = vi.spyOn(NatsLink.prototype, "api").mockImplementation(async function (this: NatsLink, name, body) {
    const streams = /^STREAM\.INFO\..*_(state|queue)$/.exec(name)?.[1]
    // A list that read the records before the tasks would read the tasks only after the job has ended, and miss the job.
    if (streams === "queue") await ended
    const answer = api.call(this, name, body)
    if (streams !== "state" || ended !== undefined) return answer
    ended = answer.then(end)
    await ended
    return answer
  })
  const page = await driver.query?.({ limit: 10 })
  spy.mockRestore()
  expect(ended).toBeDefined()
  expect(page?.jobs.map(({ id }) => id)).toEqual(["moving"])
  expect((await driver.query?.({ limit: 10 }))?.jobs.map(({ id }) => id)).toEqual(["moving"])
})
