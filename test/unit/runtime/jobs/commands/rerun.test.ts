import { describe, expect, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { cancelJob } from "../../../../../runtime/jobs/commands/cancel.ts"
import { rerunJob, runJobNow } from "../../../../../runtime/jobs/commands/rerun.ts"
import { FRONT_LEVEL } from "../../../../../runtime/protocol/message.ts"
import { type JobRecord, step } from "../../../../../runtime/protocol/record.ts"
import { taskOf } from "../../../../kit/task.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start, stored, take, work } from "./board.ts"

describe("run again", () => {
  test("begins the next run: due now, without expiry, retries or what came of the last", async () => {
    const client = await start()
    const fields = { input: { n: 1 }, expires: 60, priority: 8, meta: { a: 1 }, headers: { x: "y" }, parentId: "p" }
    const { id } = await client.submit("echo", { ...fields, delay: 30 })
    await cancelJob(client.connection, id)
    const record = await rerunJob(client.connection, id)
    expect(record).toMatchObject({ run: 2, state: "queued", retries: 0, priority: 8, meta: { a: 1 }, parentId: "p" })
    for (const gone of ["endedAt", "keepMs", "expiresAt", "dueAt", "error"]) expect(record).not.toHaveProperty(gone)
    const { message } = await take(client)
    if ("undecodable" in message) throw new Error(message.undecodable)
    expect(message.headers).toMatchObject({ id, x: "y", callboard: { run: 2, meta: { a: 1 } } })
    expect([message.headers["eta"], message.headers["expires"]].every((time) => time == null)).toBe(true)
    expect(message.properties.priority).toBe(8)
  })

  test("is refused while it goes on, and where its input is not kept", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    await expect(rerunJob(client.connection, id)).rejects.toMatchObject({ code: "job-exists" })
    await work(client.transport, (input) => input)
    await client.job(id).outcome({ timeout: 60 })
    await expect(rerunJob(client.connection, id)).rejects.toMatchObject({ code: "unsupported" })
    await expect(rerunJob(client.connection, "nobody")).rejects.toMatchObject({ code: "not-found" })
  })

  test("leaves what follows the run before to the delivery that finds it, and takes nothing of it along", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const first = await take(client)
    const errback = taskOf({ id: generateId(), queue: "default", task: "echo" })
    const waiting = await stored(client, id)
    const ended = step(waiting, { at: Date.now(), state: "failed" })
    const outcome = { ...ended, fence: first.fence, endedAt: Date.now(), followUps: [errback] }
    // The worker has stored the record and died before it published the follow-ups.
    await client.connection.jobs.settle([
      { token: first.token, record: outcome, then: { kind: "hand-back", delay: 0 } },
    ])
    await rerunJob(client.connection, id)
    await work(client.transport, () => "done")
    await eventually(async () => (await client.connection.jobs.find(errback.id))?.record.state === "succeeded")
    await eventually(async () => (await stored(client, id)).state === "succeeded")
    expect(await stored(client, id)).not.toHaveProperty("followUps")
    expect(await client.queues()).toEqual([
      { name: "default", depth: 0, scheduled: 0, running: 0, inFlight: 0, paused: false },
    ])
  })

  test("by two at once is one run", async () => {
    const client = await start()
    let ran = 0
    const { id } = await client.submit("echo", { delay: 60 })
    await cancelJob(client.connection, id)
    const both = await Promise.allSettled([rerunJob(client.connection, id), rerunJob(client.connection, id)])
    expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"])
    await work(client.transport, () => ++ran)
    expect(await client.job(id).result({ timeout: 60 })).toBe(1)
    expect((await stored(client, id)).run).toBe(2)
  })

  test("while a delivery of the run before is still under way: the old one says nothing any more", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const stale = await take(client)
    const before = await stored(client, id)
    await cancelJob(client.connection, id)
    await rerunJob(client.connection, id)
    const late: JobRecord = { ...before, fence: stale.fence, state: "failed", endedAt: Date.now(), keepMs: 1_000 }
    const [settled] = await client.connection.jobs.settle([{ token: stale.token, record: late, then: { kind: "ack" } }])
    expect(settled?.status).toBe("superseded")
    await work(client.transport, () => "second run")
    expect(await client.job(id).result({ timeout: 60 })).toBe("second run")
  })
})

const OPTIONS = { priority: 8, meta: { a: 1 }, headers: { x: "y" }, expires: "2 hours" } as const

test("a job that is scheduled is in its queue at once, with all that it has", async () => {
  const client = await start()
  const { id } = await client.submit("echo", { ...OPTIONS, input: { n: 1 }, delay: "1 hour" })
  const before = await stored(client, id)
  const record = await runJobNow(client.connection, id)
  expect(record).toMatchObject({ run: 1, state: "queued", retries: 0, priority: 8, expiresAt: before.expiresAt })
  expect(record).not.toHaveProperty("dueAt")
  expect(record.timeline.at(-1)).toMatchObject({ state: "queued", reason: "run-now" })
  const { message } = await take(client)
  if ("undecodable" in message) throw new Error(message.undecodable)
  expect(message.headers).toMatchObject({ id, x: "y", callboard: { meta: { a: 1 } } })
  // The scheduled task was removed: it would run the job a second time.
  expect(await client.count({ states: ["scheduled"] })).toEqual({ count: 0 })
})

test("a job that waits for its next attempt has it at once, and keeps its count of retries", async () => {
  const client = await start()
  let tries = 0
  await work(client.transport, () => {
    tries++
    if (tries === 1) throw new Error("not yet")
    return "done"
  })
  const { id } = await client.submit("echo", { retry: { max: 3, interval: "1 hour" } })
  await eventually(async () => (await stored(client, id)).state === "scheduled")
  await runJobNow(client.connection, id)
  await eventually(async () => (await stored(client, id)).state === "succeeded")
  expect(await stored(client, id)).toMatchObject({ attempt: 2, retries: 1, result: "done" })
  expect(tries).toBe(2)
})

test("a retry that goes before every priority does so when it runs at once", async () => {
  const client = await start()
  const worker = await work(client.transport, () => {
    throw new Error("not yet")
  })
  const { id } = await client.submit("echo", { retry: { max: 3, interval: "1 hour", front: true } })
  await eventually(async () => (await stored(client, id)).state === "scheduled")
  await worker.stop()
  await runJobNow(client.connection, id)
  expect(await take(client)).toMatchObject({ level: FRONT_LEVEL })
})

test("a job that is in its queue stays as it is, and one that has ended, runs or waits for others is refused", async () => {
  const client = await start()
  const { id } = await client.submit("echo")
  const before = await stored(client, id)
  expect(await runJobNow(client.connection, id)).toEqual(before)
  const waiting = await client.submit("echo", { after: [id] })
  await expect(runJobNow(client.connection, waiting.id)).rejects.toMatchObject({ code: "job-exists" })
  await cancelJob(client.connection, id)
  await expect(runJobNow(client.connection, id)).rejects.toMatchObject({ code: "already-terminal" })
  await expect(runJobNow(client.connection, "nobody")).rejects.toMatchObject({ code: "not-found" })
})
