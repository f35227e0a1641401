import { expect, test } from "vitest"
import { cancelJob } from "../../../../../runtime/jobs/commands/cancel.ts"
import { runJobNow } from "../../../../../runtime/jobs/commands/run-now.ts"
import { FRONT_LEVEL } from "../../../../../runtime/protocol/message.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start, stored, take, work } from "./board.ts"

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
  // The task that waited is gone: it would run the job once more.
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
