/** What schedulers and operators do with one entry at a time, at every moment at which one of them may stand still. */
import { type Client, connect, TransportError } from "callboard"
import { expect, onTestFinished, test, vi } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { publishFailed } from "../../../../runtime/jobs/receipt.ts"
import { REPAIR_MS, SCHEDULES, withWake } from "../../../../runtime/schedules/entry.ts"
import { type PlanTask, postDue } from "../../../../runtime/schedules/posting.ts"

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
  onTestFinished(() => void vi.restoreAllMocks())
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
        const clock = Date.now() + 600_000
        vi.spyOn(Date, "now").mockImplementation(() => clock)
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
  expect(published).toEqual([])
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

test("each call of run makes a job of its own, however many come in one millisecond", async () => {
  const client = await board()
  await client.schedules.create("yearly", { cron: "0 0 1 1 *", task: "scene" })
  const now = Date.now()
  onTestFinished(() => void vi.restoreAllMocks())
  vi.spyOn(Date, "now").mockImplementation(() => now)
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
