/** The scheduler of a worker where the store fails: what is due is posted afterwards, and one schedule does not hold up others. */
import { type Client, connect, TransportError } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { makeLog } from "../../../../runtime/log/log.ts"
import { SCHEDULES } from "../../../../runtime/schedules/entry.ts"
import type { PlanTask } from "../../../../runtime/schedules/posting.ts"
import { Scheduler } from "../../../../runtime/schedules/scheduler.ts"
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
    board: () => Date.now(),
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
