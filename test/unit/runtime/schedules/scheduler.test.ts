/** The scheduler of a worker while the store fails: due times are posted afterwards, and one schedule does not hold up others. */
import { type Client, connect, TransportError } from "callboard"
import { describe, expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { makeLog } from "../../../../runtime/log/log.ts"
import { posting, SCHEDULES } from "../../../../runtime/schedules/entry.ts"
import type { ScheduleDeclaration } from "../../../../runtime/schedules/fields.ts"
import type { PlanTask } from "../../../../runtime/schedules/posting.ts"
import { declareAll, Scheduler } from "../../../../runtime/schedules/scheduler.ts"
import { eventually } from "../../../support/servers/process.ts"

const NAMES = ["broken", "other"]

const board = async (): Promise<Client> => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  for (const name of NAMES) await client.schedules.create(name, { every: "1 hour", task: "scene" })
  return client
}

/** A scheduler over a store whose reads of the schedule `broken` fail as long as `failing` says how. */
const scheduling = (client: Client, failing: () => TransportError | undefined): Scheduler => {
  const { connection } = client
  const plan: PlanTask = async (submission, id) => {
    const [posting] = (await client.prepare([{ ...submission }], { ids: [id] })).postings
    if (posting === undefined) throw new Error("there is no posting")
    return posting
  }
  const get: typeof connection.store.get = (keys) => {
    const error = keys.includes(SCHEDULES.key("broken")) ? failing() : undefined
    return error === undefined ? connection.store.get(keys) : Promise.reject(error)
  }
  const store = Object.assign(Object.create(connection.store), { get })
  const over = new AbortController()
  onTestFinished(() => over.abort())
  return new Scheduler({
    connection: { ...connection, store },
    plan,
    declared: new Map(),
    askTime: () => connection.store.now(),
    transportNow: () => Date.now(),
    log: makeLog({ level: "none" }),
    signal: over.signal,
  })
}

const runsOf = async (client: Client, name: string): Promise<number> => (await client.schedules.find(name)).runs.length

test.each(["unavailable", "internal"] as const)(
  "a store that is %s for one schedule: the other one is posted",
  async (reason) => {
    const client = await board()
    scheduling(client, () => new TransportError(reason, "it cannot be read"))
    await eventually(async () => (await runsOf(client, "other")) === 1, { message: "the other one is posted" })
    expect(await runsOf(client, "broken")).toBe(0)
  },
)

test("a store that was away: what is due is posted, once", async () => {
  const client = await board()
  let left = 3
  scheduling(client, () => (left-- > 0 ? new TransportError("unavailable", "it is away") : undefined))
  await eventually(async () => (await runsOf(client, "broken")) === 1, { message: "it is posted" })
  expect([left < 0, await runsOf(client, "other")]).toEqual([true, 1])
})

// Schedules that methods declare, when their declaration changes.

const NOW = Date.parse("2026-01-01T06:59:00Z")
const MINUTE = 60_000

const declaring = async () => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  const { store } = client.connection
  return async (declaration: ScheduleDeclaration, now: number) => {
    const declared = new Map([["clock", new Map([["tick", declaration]])]])
    await declareAll(store, declared, new Set(), now, makeLog({ level: "none" }))
    return (await SCHEDULES.get(store, "clock.tick"))?.value
  }
}

test("a change that leaves the times alone loses no due time that no worker has posted yet", async () => {
  const declare = await declaring()
  const made = await declare({ cron: "0 7 * * *" }, NOW)
  expect(made?.due).toBe(NOW + MINUTE)
  const changed = await declare({ cron: "0 7 * * *", input: { n: 1 }, overlap: "skip" }, NOW + 2 * MINUTE)
  expect(changed).toMatchObject({ due: NOW + MINUTE, wake: NOW + MINUTE, rules: { overlap: "skip" } })
  expect(changed?.fields.input).toEqual({ n: 1 })
})

test("nor does it begin an interval again; another interval begins now", async () => {
  const declare = await declaring()
  await declare({ every: "1 day" }, NOW)
  const changed = await declare({ every: "1 day", input: { n: 1 } }, NOW + MINUTE)
  expect(changed?.rules.timing).toEqual({ kind: "every", everyMs: 86_400_000, anchor: NOW })
  expect((await declare({ every: "2 days" }, NOW + MINUTE))?.due).toBe(NOW + MINUTE)
})

test("nor does one that changes the times", async () => {
  const declare = await declaring()
  await declare({ cron: "0 7 * * *" }, NOW)
  const changed = await declare({ cron: "0 9 * * *" }, NOW + 2 * MINUTE)
  expect(changed).toMatchObject({ line: [NOW + MINUTE], due: NOW + 121 * MINUTE, wake: NOW + MINUTE })
})

describe("a worker with the actor", () => {
  const setUp = async () => {
    const client = await connect(`memory://${generateId()}`)
    onTestFinished(() => client.close())
    const { store } = client.connection
    const { schedules } = client
    const worker = async (actor: string, methods: ReadonlyArray<string>) => {
      const declared = new Map([[actor, new Map(methods.map((method) => [method, { cron: "0 7 * * *" }]))]])
      const known = new Set((await schedules.list()).schedules.map(({ name }) => name))
      await declareAll(store, declared, known, NOW, makeLog({ level: "none" }))
      return (await schedules.list()).schedules.map(({ name }) => name)
    }
    return { schedules, store, worker }
  }

  test("takes away what its methods do not declare any more, and nothing of others", async () => {
    const { schedules, worker } = await setUp()
    await schedules.create("clock.mine", { cron: "@daily", task: "scene" })
    await worker("clock.wall", ["tick"])
    await worker("clocks", ["tick"])
    const others = ["clock.mine", "clock.wall.tick", "clocks.tick"]
    expect(await worker("clock", ["tick", "tock"])).toEqual([...others, "clock.tick", "clock.tock"].toSorted())
    expect(await worker("clock", ["tock"])).toEqual([...others, "clock.tock"].toSorted())
    expect(await worker("clock", [])).toEqual(others)
  })

  test("leaves a schedule of that name that was made by hand", async () => {
    const { schedules, worker } = await setUp()
    const made = await schedules.create("clock.tick", { cron: "@daily", task: "scene" })
    await worker("clock", ["tick"])
    expect(await schedules.find("clock.tick")).toMatchObject(made)
  })

  test("leaves one with a posting in its entry, so that the job comes", async () => {
    const { store, worker } = await setUp()
    await worker("clock", ["tick"])
    const pending = { id: "clock.tick-20260101T070000Z", at: NOW, queue: "default", frame: "" }
    const hold = () =>
      SCHEDULES.change(store, "clock.tick", (found) =>
        found?.value === undefined ? "keep" : { value: posting(found.value, pending, NOW) },
      )
    expect(await hold()).not.toBe("keep")
    expect(await worker("clock", [])).toEqual(["clock.tick"])
  })
})
