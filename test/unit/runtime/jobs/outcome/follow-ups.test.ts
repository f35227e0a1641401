/** Callbacks, errbacks and chains, on the memory transport. */
import { actor } from "callboard"
import { describe, expect, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start } from "../../../../support/services.ts"

const WAIT = { timeout: 60 } as const

const math = actor("math", {
  methods: {
    add: { params: ["x", "y"], run: ({ x, y }: { x: number; y: number }) => x + y },
    increment: { params: ["n"], run: ({ n }: { n: number }) => n + 1 },
    fail: () => {
      throw new TypeError("no")
    },
    retry: {
      retry: { max: 1, backoff: { base: 0.01, jitter: false } },
      run: () => {
        throw new Error("again")
      },
    },
    note: (input: unknown) => input,
    huge: () => "x".repeat(64 * 1024 * 1024),
  },
})

describe("follow-ups", () => {
  test("a callback gets the result before its own arguments, the ended job as its parent, and the root handed down", async () => {
    const { client } = await start([math])
    const id = generateId()
    const job = await client.submit("math.add", {
      args: [2, 3],
      rootId: "root",
      callbacks: [{ task: "math.add", args: [10], id }],
    })
    expect(await job.result(WAIT)).toBe(5)
    expect(await client.job(id).result(WAIT)).toBe(15)
    expect(await client.job(id).find()).toMatchObject({ parentId: job.id, rootId: "root" })
  })

  test("an immutable callback gets its own arguments only", async () => {
    const { client } = await start([math])
    const id = generateId()
    await client.submit("math.add", {
      args: [2, 3],
      callbacks: [{ task: "math.add", args: [1, 1], id, immutable: true }],
    })
    await eventually(() => client.job(id).find(), { message: "the callback is submitted" })
    expect(await client.job(id).result(WAIT)).toBe(2)
  })

  test("an errback gets request, error and traceback, once, after the last attempt", async () => {
    const { client } = await start([math])
    const id = generateId()
    const job = await client.submit("math.retry", { errbacks: [{ task: "math.note", id }] })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed" })
    const noted = await client.job(id).result(WAIT)
    expect(noted).toMatchObject({
      args: [{ id: job.id, task: "math.retry" }, { name: "Error", message: "again" }, expect.stringContaining("again")],
    })
    expect((await client.jobs({ parentId: job.id })).jobs).toHaveLength(1)
  })

  test("a job without follow-ups for its outcome has none", async () => {
    const { client } = await start([math])
    const job = await client.submit("math.add", { args: [1, 1], errbacks: [{ task: "math.note" }] })
    await job.result(WAIT)
    const failed = await client.submit("math.fail", { callbacks: [{ task: "math.note" }] })
    await failed.outcome(WAIT)
    for (const parentId of [job.id, failed.id]) expect((await client.jobs({ parentId })).jobs).toEqual([])
  })

  test("a chain runs in order, each link with the result of the one before", async () => {
    const { client } = await start([math])
    const last = generateId()
    await client.submit("math.add", {
      args: [1, 1],
      chain: [{ task: "math.add", args: [10] }, { task: "math.increment" }, { task: "math.increment", id: last }],
    })
    await eventually(() => client.job(last).find(), { message: "the last link is submitted" })
    expect(await client.job(last).result(WAIT)).toBe(14)
  })

  test("a link of a chain that fails ends it, and calls the chain's errbacks", async () => {
    const { client } = await start([math])
    const after = generateId()
    const note = generateId()
    await client.submit("math.add", {
      args: [1, 1],
      chain: [{ task: "math.fail" }, { task: "math.note", id: after }],
      errbacks: [{ task: "math.note", id: note }],
    })
    await eventually(() => client.job(note).find(), { message: "the errback is submitted" })
    expect(await client.job(note).result(WAIT)).toMatchObject({
      args: [{ task: "math.fail" }, { name: "TypeError" }, expect.any(String)],
    })
    await expect(client.job(after).find()).rejects.toMatchObject({ code: "not-found" })
  })

  test("a chain of a thousand links reaches its end", async () => {
    const { client } = await start([math], { resultTtl: 0 })
    const last = generateId()
    const links = Array.from({ length: 999 }, () => ({ task: "math.increment" }))
    await client.submit("math.increment", {
      args: [0],
      chain: [...links, { task: "math.note", id: last, queue: "end" }],
    })
    await eventually(() => client.job(last).find(), { message: "the last link is submitted" })
    const found = await client.connection.jobs.find(last)
    const body = new TextDecoder().decode(found?.record.message?.body)
    expect(JSON.parse(body)[0]).toEqual([1_000])
  })

  test("a result that cannot be kept fails the job with its errbacks", async () => {
    const { client } = await start([math])
    const id = generateId()
    const job = await client.submit("math.huge", {
      callbacks: [{ task: "math.increment" }],
      errbacks: [{ task: "math.note", id }],
    })
    expect(await job.outcome(WAIT)).toMatchObject({ error: { reason: "result-too-large" } })
    expect(await client.job(id).result(WAIT)).toMatchObject({
      args: [{ id: job.id }, { reason: "result-too-large" }, null],
    })
    expect((await client.jobs({ parentId: job.id })).jobs).toHaveLength(1)
  })

  test.each([
    [{ callbacks: [{ input: 1 }] }, "callbacks[0].task"],
    [{ chain: [{ task: "a", args: [1], input: 2 }] }, "chain[0].input"],
    [{ errbacks: [{ task: "a", queue: "no spaces" }] }, "errbacks[0].queue"],
    [{ chain: [{ task: "a", delay: -1 }] }, "chain[0].delay"],
    [{ chord: {} }, "chord.tasks"],
  ])("%j is refused, naming the field", async (fields, field) => {
    const { client } = await start([math])
    const tried = client.prepare([{ task: "math.add", ...fields }])
    await expect(tried).rejects.toMatchObject({ _tag: "CallboardError", details: { field } })
  })
})
