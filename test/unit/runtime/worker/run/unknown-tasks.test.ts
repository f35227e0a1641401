/** What workers do with tasks of other senders whose header asks for something: it is done, or the task does not run. */
import { actor, type Client, type ServeOptions } from "callboard"
import { describe, expect, test } from "vitest"
import { listWorkers, WORKERS } from "../../../../../runtime/cluster/directory.ts"
import { generateId } from "../../../../../runtime/id.ts"
import type { FIELDS } from "../../../../../runtime/protocol/own-headers.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start } from "../../../../support/services.ts"

const WAIT = { timeout: 60 } as const
const encoder = new TextEncoder()

interface Sent {
  readonly callboard: Readonly<Record<string, unknown>>
  readonly task?: string
  readonly lang?: string
  readonly embed?: Readonly<Record<string, unknown>>
}

/** Stores a task as a program without Callboard does. */
const send = async ({ connection }: Client, { callboard, task = "acc", lang, embed = {} }: Sent): Promise<string> => {
  const id = generateId()
  const headers = { task, id, callboard, ...(lang === undefined ? {} : { lang }) }
  const properties = { content_type: "application/json", content_encoding: "utf-8" }
  const body = encoder.encode(JSON.stringify([[], {}, embed]))
  const posting = { id, run: 1, retries: 0, queue: "default", level: 4, message: { headers, properties, body } }
  expect(await connection.jobs.publish([posting])).toMatchObject([{ status: "stored" }])
  return id
}

const setUp = async (options: ServeOptions = {}) => {
  const ran: Array<string> = []
  const acc = actor("acc", {
    methods: {
      run: (_input: unknown, job) => void ran.push(job.id),
      failing: (_input: unknown, job) => {
        ran.push(job.id)
        throw new Error("not today")
      },
    },
  })
  const service = await start([acc], { unknownGrace: 0.3, ...options })
  return { ran, client: service.client, worker: service.worker }
}

describe.each([
  ["key", { key: "A1" }],
  ["peek", { peek: "A1" }],
  ["later", { must: ["later"], later: { of: "a later version" } }],
])("a task with the field %s, which must be understood and is not", (field, callboard) => {
  test("is handed back, told so by why, and then a dead letter; it never runs, and keeps its header", async () => {
    const { ran, client, worker } = await setUp({ unknownGrace: 1 })
    const id = await send(client, { callboard })
    const [note] = await eventually(() => {
      const notes = worker?.postpone(id) ?? []
      return notes.length > 0 && notes
    })
    expect(note).toMatchObject({
      reason: "unsupported",
      detail: expect.stringContaining("it becomes a dead letter after 1 s"),
    })
    expect(await client.why(id)).toMatchObject({
      causes: [{ code: "unsupported", message: expect.stringContaining(`callboard.${field}`) }],
    })
    const { dead, attempts, error } = await eventually(async () => {
      const job = await client.job(id).find()
      return job.state === "failed" ? job : undefined
    })
    expect({ dead, attempts }).toEqual({ dead: "unsupported", attempts: 0 })
    expect(error).toMatchObject({ name: "Unsupported", reason: "unsupported" })
    expect((await client.jobs({ dead: true, reason: "unsupported" })).jobs).toMatchObject([{ id }])
    // A worker of a later version may have it once it is run again.
    await client.job(id).retry()
    const again = await client.connection.jobs.find(id)
    expect(again?.record.message?.headers["callboard"]).toMatchObject(callboard)
    expect(ran).toEqual([])
  })

  test("is not moved to workers of another language, which would pass over the field", async () => {
    const { client } = await setUp({ languages: { rb: "ruby" } })
    const id = await send(client, { callboard, lang: "rb" })
    expect(await client.job(id).outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "unsupported" } })
  })

  test("is not lost with what follows a job", async () => {
    const { ran, client } = await setUp()
    const followed = async (options: Readonly<Record<string, unknown>>) => {
      const next = generateId()
      const signature = { task: "acc", args: [], kwargs: {}, options: { ...options, task_id: next } }
      await send(client, { callboard: { submittedAt: Date.now() }, embed: { callbacks: [signature] } })
      return client.job(next)
    }
    for (const options of [{ callboard }, { headers: { callboard } }]) {
      const next = await followed(options)
      await eventually(() => next.find().catch(() => undefined))
      expect(await next.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "unsupported" } })
      expect(ran).not.toContain(next.id)
    }
  })
})

test("a task is not given up while another worker of its queue understands the field", async () => {
  const { client } = await setUp({ unknownGrace: 0.5, name: "old" })
  const { store } = client.connection
  const [old] = await listWorkers(store)
  if (old === undefined) throw new Error("the worker has no entry")
  await store.write([WORKERS.put("new", { ...old, name: "new", understands: ["later"] })])
  const id = await send(client, { callboard: { must: ["later"] } })
  const other = await send(client, { callboard: { must: ["else"] } })
  expect(await client.job(other).outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "unsupported" } })
  expect(await client.job(id).find()).toMatchObject({ state: "queued" })
  await store.write([{ key: WORKERS.key("new"), value: null }])
  expect(await client.job(id).outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "unsupported" } })
})

test.each([{ key: 5 }, { must: "key" }, { retry: 3 }])(
  "%j is malformed, and a dead letter at once",
  async (callboard) => {
    const { ran, client } = await setUp({ unknownGrace: 600 })
    const id = await send(client, { callboard })
    // Before the worker has taken it a task that cannot be read is no job.
    await eventually(() => client.job(id).find())
    expect(await client.job(id).outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "invalid-task" } })
    expect(ran).toEqual([])
  },
)

/** A value of every field that a worker may get from other senders. */
const VALUES: Readonly<Record<Exclude<keyof typeof FIELDS, "key" | "peek" | "after" | "chord">, unknown>> = {
  must: ["run", "retry", "must"],
  run: 1,
  from: [],
  fromStep: { run: 1, step: "a" },
  hops: 0,
  forwards: 0,
  submittedAt: 1,
  front: true,
  ttlMs: 60_000,
  resultTtlMs: 60_000,
  failureTtlMs: 60_000,
  retry: { max: 1 },
  repeat: { times: 1, done: 1, intervalsMs: [0] },
  member: { of: "body", at: 0 },
  link: true,
  tenant: "a",
  redact: ["card"],
  meta: { a: 1 },
  details: { a: 1 },
  description: "a",
  book: { name: "a", uuid: "b" },
  sender: "a",
  attempted: "00-1-2-01",
}

test("a task with any other field runs, with one that is not known and need not be as well", async () => {
  const { ran, client } = await setUp()
  const all = Object.entries({ ...VALUES, later: { a: 1 } })
  const ids = await Promise.all(all.map(([name, value]) => send(client, { callboard: { [name]: value } })))
  for (const id of ids) expect(await client.job(id).outcome(WAIT)).toMatchObject({ state: "succeeded" })
  expect(ran.toSorted()).toEqual(ids.toSorted())
})

test("a field that is not known is kept where the header is written anew", async () => {
  const { client } = await setUp({ languages: { rb: "ruby" } })
  const failed = await send(client, { task: "acc.failing", callboard: { later: 1 } })
  expect(await client.job(failed).outcome(WAIT)).toMatchObject({ state: "failed", error: { message: "not today" } })
  await client.pause("default")
  await client.job(failed).retry()
  await client.resume("default")
  const moved = await send(client, { task: "Mailer", lang: "rb", callboard: { later: 1 } })
  await eventually(async () => (await client.job(moved).find()).queue === "ruby")
  for (const id of [failed, moved])
    expect((await client.connection.jobs.find(id))?.record.message?.headers["callboard"]).toMatchObject({ later: 1 })
})

test.each([{ after: { ids: ["other"] } }, { chord: { size: 2 } }])(
  "a task over the wire with %j has not waited, and does not run",
  async (callboard) => {
    const { ran, client } = await setUp({ unknownGrace: 600 })
    const id = await send(client, { callboard })
    expect(await client.job(id).outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "unsupported" } })
    expect(await client.job(id).find()).toMatchObject({ dead: "unsupported" })
    // Nor when it is run again.
    await client.job(id).retry()
    await eventually(async () => {
      const { run, state } = await client.job(id).find()
      return run === 2 && state === "failed"
    })
    expect(ran).toEqual([])
  },
)
