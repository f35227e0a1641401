/** What schedulers and operators do with one entry at a time, at every moment at which one of them may stand still. */
import { type Client, connect, TransportError } from "callboard"
import { beforeEach, expect, onTestFinished, test, vi } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { publishFailed } from "../../../../runtime/jobs/receipt.ts"
import { jobIdOf, REPAIR_MS, SCHEDULES, withWake } from "../../../../runtime/schedules/entry.ts"
import type { ScheduleFields } from "../../../../runtime/schedules/fields.ts"
import { type PlanTask, postDue } from "../../../../runtime/schedules/posting.ts"
import { eventually } from "../../../support/servers/process.ts"

// What is due, and for how long a scheduler stood still, must not depend on when the clock of this machine is set.
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }))

const board = async (): Promise<Client> => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  return client
}

/** Plans a task as the scheduler of a worker does. */
const planOf =
  (client: Client): PlanTask =>
  async (submission, id) => {
    const [posting] = (await client.prepare([{ ...submission }], { ids: [id] })).postings
    if (posting === undefined) throw new Error("there is no posting")
    return posting
  }

test("a scheduler that stood still before it publishes does not publish what another one has published meanwhile", async () => {
  const client = await board()
  const { connection } = client
  const plan = planOf(client)
  await client.schedules.create("hourly", { every: "1 hour", task: "scene" })
  const published: Array<string> = []
  const now = await connection.store.now()
  const frozen = {
    ...connection,
    store: {
      ...connection.store,
      now: () => connection.store.now(),
      get: (keys: ReadonlyArray<string>) => connection.store.get(keys),
      write: async (...given: Parameters<typeof connection.store.write>) => {
        const written = await connection.store.write(...given)
        if (published.length > 0) return written
        await postDue({ connection, plan }, "hourly", now + REPAIR_MS)
        vi.setSystemTime(Date.now() + 600_000)
        return written
      },
    },
    jobs: {
      ...connection.jobs,
      find: (id: string) => connection.jobs.find(id),
      publish: (postings: Parameters<typeof connection.jobs.publish>[0]) => {
        published.push(...postings.map(({ id }) => id))
        return connection.jobs.publish(postings)
      },
    },
  }
  await postDue({ connection: frozen, plan }, "hourly", now)
  expect(published, `${Date.now() - now} ms after it was due`).toEqual([])
  const view = await client.schedules.find("hourly")
  expect(view.runs).toMatchObject([{ state: "queued" }])
})

test("a task whose message is too large for the entry is refused, and those after it are not held up", async () => {
  const client = await board()
  const chain = Array.from({ length: 6_000 }, () => ({ task: "scene" }))
  await client.schedules.create("chained", { every: "1 hour", task: "scene", chain })
  await postDue({ connection: client.connection, plan: planOf(client) }, "chained", await client.connection.store.now())
  const view = await client.schedules.find("chained")
  expect(view).toMatchObject({ runs: [], missed: { count: 1, latest: [{ why: "refused" }] } })
  expect(view.missed.latest[0]?.detail).toContain("bytes")
  expect(Date.parse(view.next ?? "")).toBeGreaterThan(Date.now())
  await expect(client.schedules.run("chained")).rejects.toMatchObject({ code: "too-large" })
})

/** Submits another task under the id that a schedule's next job has. Resolves with that id. */
const takeNext = async (client: Client, name: string): Promise<string> => {
  const { next } = await client.schedules.find(name)
  const id = jobIdOf(name, Date.parse(next ?? ""))
  await client.submit("squatter", { id })
  return id
}

test("a job that has taken the id of a schedule's next one is not counted as its run", async () => {
  const client = await board()
  await client.schedules.create("hourly", { every: "1 hour", task: "scene" })
  const id = await takeNext(client, "hourly")
  const now = (await client.connection.store.now()) + 10
  await postDue({ connection: client.connection, plan: planOf(client) }, "hourly", now)
  const { runs, missed } = await client.schedules.find("hourly")
  expect(runs).toMatchObject([{ id: expect.stringMatching(`^${id}-.{36}$`), state: "queued" }])
  expect(missed.count).toBe(0)
  expect(await client.job(runs[0]?.id ?? "").find()).toMatchObject({ task: "scene", state: "queued" })
  expect(await client.job(id).find()).toMatchObject({ task: "squatter", state: "queued" })
})

test.each([
  ["published", 10],
  ["published by another scheduler", REPAIR_MS + 10],
])("a posting whose id another job takes before it is %s is missed", async (_, later) => {
  const client = await board()
  const { connection } = client
  const plan = planOf(client)
  await client.schedules.create("hourly", { every: "1 hour", task: "scene" })
  const isRepaired = later > REPAIR_MS
  let taken = ""
  const slow = {
    ...connection,
    store: {
      ...connection.store,
      write: async (...given: Parameters<typeof connection.store.write>) => {
        if (taken === "") taken = await takeNext(client, "hourly")
        const written = await connection.store.write(...given)
        if (isRepaired) throw new TransportError("closed", "this scheduler has died")
        return written
      },
    },
  }
  const now = (await connection.store.now()) + 10
  const posting = postDue({ connection: slow, plan }, "hourly", now)
  if (isRepaired) {
    await expect(posting).rejects.toThrow("has died")
    await postDue({ connection, plan }, "hourly", now + later)
  } else await posting
  expect(await client.schedules.find("hourly")).toMatchObject({
    runs: [],
    missed: { count: 1, latest: [{ why: "refused", detail: `another job has its id, ${taken}` }] },
  })
})

test("each call of run makes a job of its own, however many come in one millisecond", async () => {
  const client = await board()
  await client.schedules.create("yearly", { cron: "0 0 1 1 *", task: "scene" })
  const ids: Array<string> = []
  for (let at = 0; at < 4; at++) ids.push((await client.schedules.run("yearly")).id)
  expect(new Set(ids).size).toBe(4)
})

test("what was due, and no worker has posted yet, is missed when the schedule is paused", async () => {
  const client = await board()
  const { store } = client.connection
  await client.schedules.create("yearly", { cron: "0 0 1 1 *", task: "scene" })
  const due = (await store.now()) - 60_000
  await SCHEDULES.change(store, "yearly", (found) =>
    found?.value === undefined ? "keep" : { value: withWake("yearly", { ...found.value, due }) },
  )
  const paused = await client.schedules.pause("yearly")
  expect(paused.missed).toMatchObject({ count: 1, latest: [{ why: "paused", from: new Date(due).toISOString() }] })
  expect((await client.schedules.resume("yearly")).missed.count).toBe(1)
})

/** Makes a schedule that has been due since `due`, which no worker has posted yet. */
const overdue = async (client: Client, name: string, due: number, rules: Partial<ScheduleFields> = {}) => {
  const { store } = client.connection
  await client.schedules.create(name, { cron: "0 0 1 1 *", task: "scene", ...rules })
  await SCHEDULES.change(store, name, (found) =>
    found?.value === undefined ? "keep" : { value: withWake(name, { ...found.value, due }) },
  )
}

test.each([{ cron: "0 0 2 1 *" }, { cron: null, at: "2999-01-01T00:00:00Z" }])(
  "what was due, and no worker has posted yet, is posted when the times change to %o",
  async (change) => {
    const client = await board()
    const { connection } = client
    const due = (await connection.store.now()) - 5_000
    await overdue(client, "yearly", due)
    const changed = await client.schedules.change("yearly", { ...change, input: { n: 2 } })
    expect(changed).toMatchObject({ waiting: 1, missed: { count: 0 } })
    await postDue({ connection, plan: planOf(client) }, "yearly", await connection.store.now())
    const { runs, waiting, next } = await client.schedules.find("yearly")
    expect(runs).toMatchObject([{ due: new Date(due).toISOString(), state: "queued" }])
    expect({ waiting, next }).toEqual({ waiting: 0, next: changed.next })
    expect(Date.parse(next ?? "")).toBeGreaterThan(Date.now())
  },
)

test("what was due longer ago than its rule allows is missed when the times change", async () => {
  const client = await board()
  const due = (await client.connection.store.now()) - 120_000
  await overdue(client, "yearly", due, { catchUp: "skip" })
  expect(await client.schedules.change("yearly", { cron: "0 0 2 1 *" })).toMatchObject({
    waiting: 0,
    missed: { count: 1, latest: [{ why: "late", from: new Date(due).toISOString() }] },
  })
})

test("what still waits for its part of the jitter is posted when the times change", async () => {
  const client = await board()
  const due = (await client.connection.store.now()) - 1
  await overdue(client, "yearly", due, { jitter: "1 day" })
  expect(await client.schedules.change("yearly", { cron: "0 0 2 1 *" })).toMatchObject({ waiting: 1 })
})

test("a schedule that still waits for its part of the jitter is not said to be overdue", async () => {
  const client = await board()
  const due = (await client.connection.store.now()) - 120_000
  await overdue(client, "yearly", due, { jitter: "1 day" })
  expect((await client.statistics.stats(60_000)).findings).toEqual([])
  const other = await board()
  await overdue(other, "yearly", due, {})
  expect((await other.statistics.stats(60_000)).findings).toMatchObject([{ code: "overdue" }])
})

test("a job overlaps any run before it that has not ended, and not only the newest", async () => {
  const client = await board()
  const { connection } = client
  const post = async () => postDue({ connection, plan: planOf(client) }, "yearly", await connection.store.now())
  const due = (await connection.store.now()) - 5_000
  await overdue(client, "yearly", due, { overlap: "queue" })
  const older = await client.schedules.run("yearly")
  const newer = await client.schedules.run("yearly")
  await client.job(newer.id).cancel()
  await post()
  expect(await client.schedules.find("yearly")).toMatchObject({ waiting: 1, runs: [{}, {}] })
  await client.job(older.id).cancel()
  await post()
  expect(await client.schedules.find("yearly")).toMatchObject({ waiting: 0, runs: [{ state: "queued" }, {}, {}] })
})

test("the event task-sent tells of what a schedule has posted, where such events are on", async () => {
  const client = await connect(`memory://${generateId()}`, { taskSentEvents: true })
  onTestFinished(() => client.close())
  const heard: Array<unknown> = []
  const listening = new AbortController()
  onTestFinished(() => listening.abort())
  await client.listen((event) => void heard.push([event["type"], event["uuid"]]), listening.signal)
  await client.schedules.create("yearly", { cron: "0 0 1 1 *", task: "scene" })
  const { id } = await client.schedules.run("yearly")
  await eventually(async () => heard.length > 0, { deadline: 10_000, message: "the event is heard" })
  expect(heard).toEqual([["task-sent", id]])
})

test("a task that cannot be planned while the transport is away is tried again soon, as if the entry could not be written", async () => {
  const client = await board()
  await client.schedules.create("hourly", { every: "1 hour", task: "scene" })
  const away = new TransportError("unavailable", "it is away")
  const plan: PlanTask = (_, id) => Promise.reject(publishFailed(id, away, "none"))
  const { connection } = client
  await expect(postDue({ connection, plan }, "hourly", await connection.store.now())).rejects.toBe(away)
  expect(await client.schedules.find("hourly")).toMatchObject({ runs: [], missed: { count: 0 } })
})

test("the group of a schedule's task is listed", async () => {
  const client = await board()
  await client.schedules.create("yearly", { cron: "0 0 1 1 *", task: "scene", group: "reports" })
  await client.schedules.run("yearly")
  expect((await client.groups()).groups).toEqual(["reports"])
})

test("a schedule that is made again with its fields in another order is the same", async () => {
  const { schedules } = await board()
  const made = await schedules.create("daily", { cron: "@daily", task: "scene", input: { a: 1, b: [{ c: 2, d: 3 }] } })
  const again = { input: { b: [{ d: 3, c: 2 }], a: 1 }, task: "scene", cron: "@daily" }
  expect(await schedules.create("daily", again)).toEqual(made)
  const other = { ...again, input: { ...again.input, a: 2 } }
  await expect(schedules.create("daily", other)).rejects.toMatchObject({ code: "schedule-exists" })
})
