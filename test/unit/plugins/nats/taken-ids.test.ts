/** Tasks that another program publishes under the id of a job that is there, in each state of that job. */
import { type Client, connect, type JobHandle } from "callboard"
import { connect as connectNats, headers, type NatsConnection } from "nats"
import { afterAll, beforeAll, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { makeTill } from "../../../support/external-tasks.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"

let server: NatsServer

let client: Client
let nats: NatsConnection
const stops: Array<() => Promise<void>> = []
const evil: Array<string> = []

beforeAll(async () => {
  server = await startNats()
  client = await connect(server.url)
  nats = await connectNats({ servers: server.url })
  await start([makeTill(evil)], { transport: `${server.url}?lease=2`, concurrency: 50 }, (stop) => stops.push(stop))
})

afterAll(async () => {
  for (const stop of stops) await stop()
  await nats?.close()
  await client?.close()
  await server?.stop()
})

const publish = async (id: string, given: Readonly<Record<string, string>>, body = "{}"): Promise<void> => {
  const task = headers()
  for (const [name, value] of Object.entries({ task: "till.evil", "Nats-Msg-Id": generateId(), ...given }))
    task.set(name, value)
  await nats.jetstream().publish(`callboard.j.till.4.${id}`, body, { headers: task })
}

/** The dead letters that name a job, each by its reason and message. */
const letters = async (id: string): Promise<ReadonlyArray<string>> => {
  const { jobs } = await client.jobs({ dead: true, limit: 1_000 })
  return jobs.flatMap(({ dead, error }) =>
    error?.message.includes(id) ? [`${dead}: ${error.message.replace(/callboard\.j\.\S+: its header /, "")}`] : [],
  )
}

const input = { n: 1 }
const states: Readonly<Record<string, () => Promise<JobHandle>>> = {
  succeeded: async () => {
    const job = await client.submit("till.pay", { input })
    await job.result({ timeout: 20 })
    return job
  },
  failed: async () => {
    const job = await client.submit("till.fail")
    await job.outcome({ timeout: 20 })
    return job
  },
  scheduled: () => client.submit("till.pay", { input, delay: 600 }),
  started: async () => {
    const job = await client.submit("till.slow")
    await eventually(async () => (await job.find()).state === "started")
    return job
  },
  deferred: async () => {
    const parent = await client.submit("till.slow")
    return client.submit("till.pay", { input, after: [parent.id] })
  },
  cancelled: async () => {
    const job = await client.submit("till.pay", { input, delay: 600 })
    await job.cancel()
    return job
  },
  queued: () => client.submit("till.pay", { input, queue: "nobody" }),
}

/** Headers that are published under the id of a job, and how the dead letter begins. */
const forms: Readonly<Record<string, readonly [(id: string) => Readonly<Record<string, string>>, string]>> = {
  "another task": [() => ({}), "duplicate-id: id "],
  "a value that it cannot have": [(id) => ({ eta: id }), 'invalid-task: Header "eta" is not a time'],
  "a second run": [() => ({ callboard: '{"run": 2}' }), "undecodable: callboard.run"],
  "a run far ahead": [() => ({ callboard: '{"run": 99}' }), "undecodable: callboard.run"],
  "a move": [() => ({ callboard: '{"hops": 3}' }), "undecodable: callboard.hops"],
  "a task in its place": [() => ({ replaced_task_nesting: "1" }), "undecodable: replaced_task_nesting"],
  "a retry": [() => ({ retries: "7" }), "undecodable: retries"],
  "a place in a chord": [() => ({ callboard: '{"member": {"of": "x", "at": 0}}' }), "undecodable: callboard.member"],
}

test.concurrent.each(Object.entries(states))(
  "a job that is %s stays as it is, and what comes under its id is dead",
  async (state, make) => {
    const job = await make()
    const before = await job.find()
    expect(before.state).toBe(state)
    for (const [given] of Object.values(forms)) await publish(job.id, given(job.id))
    const dead = async () => {
      const all = await letters(job.id)
      return Object.entries(forms).flatMap(([name, [, text]]) =>
        all.some((each) => each.startsWith(text)) ? name : [],
      )
    }
    await eventually(async () => (await dead()).length === Object.keys(forms).length, {
      deadline: 20_000,
      message: "each is a dead letter",
    })
    expect(await job.find()).toEqual(before)
    expect(evil).toEqual([])
    if (state === "queued") await job.cancel()
  },
)

test("the dead letter can be run under its own id, and the same task again makes no other one", async () => {
  const job = await client.submit("till.pay", { input })
  await job.result({ timeout: 20 })
  await publish(job.id, { task: "till.pay" }, '{"n": 2}')
  const find = () => client.jobs({ dead: true, reason: "duplicate-id", limit: 1_000 })
  const letter = await eventually(
    async () => (await find()).jobs.find(({ error }) => error?.message.includes(job.id)),
    { deadline: 20_000 },
  )
  expect(letter).toMatchObject({
    task: "till.pay",
    state: "failed",
    attempts: 0,
    error: {
      name: "DuplicateId",
      message: expect.stringContaining(`id ${job.id} belongs to another job (till.pay, succeeded)`),
    },
  })
  const again = client.job(letter.id)
  expect((await client.why(letter.id)).causes[0]).toMatchObject({ code: "ended", reason: "duplicate-id" })
  await again.retry()
  expect(await again.result({ timeout: 20 })).toEqual({ paid: { n: 2 } })
  const count = async () => {
    const { depth = 0, inFlight = 0 } = (await client.queues()).find(({ name }) => name === "till") ?? {}
    return depth + inFlight
  }
  const before = await count()
  await publish(job.id, { task: "till.pay" }, '{"n": 2}')
  await publish(job.id, { task: "till.pay" }, '{"n": 1}')
  await eventually(async () => (await count()) <= before, { deadline: 20_000, message: "both are off the queue" })
  expect(await again.find()).toMatchObject({ state: "succeeded", run: 2 })
  expect(await job.result({ timeout: 20 })).toEqual({ paid: input })
  expect(await job.find()).toMatchObject({ attempts: 1 })
})
