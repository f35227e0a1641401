import { describe, expect, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { cancelJob } from "../../../../../runtime/jobs/commands/cancel.ts"
import { rerunJob } from "../../../../../runtime/jobs/commands/rerun.ts"
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
    // As if its worker had died between the record and the rest.
    await client.connection.jobs.end([{ token: first.token, record: outcome, then: { kind: "release", delay: 0 } }])
    await rerunJob(client.connection, id)
    await work(client.transport, () => "done")
    await eventually(async () => (await client.connection.jobs.find(errback.id))?.record.state === "succeeded")
    await eventually(async () => (await stored(client, id)).state === "succeeded")
    expect(await stored(client, id)).not.toHaveProperty("followUps")
    expect(await client.queues()).toEqual([{ name: "default", depth: 0, scheduled: 0, inFlight: 0, paused: false }])
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
    const [settled] = await client.connection.jobs.end([{ token: stale.token, record: late, then: { kind: "ack" } }])
    expect(settled?.status).toBe("superseded")
    await work(client.transport, () => "second run")
    expect(await client.job(id).result({ timeout: 60 })).toBe("second run")
  })
})
