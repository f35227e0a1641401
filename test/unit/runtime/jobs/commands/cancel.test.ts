import { describe, expect, test } from "vitest"
import type { Connection } from "../../../../../runtime/connection/connection.ts"
import { cancelJob } from "../../../../../runtime/jobs/commands/cancel.ts"
import { deleteJob } from "../../../../../runtime/jobs/commands/delete.ts"
import type { JobRecord } from "../../../../../runtime/protocol/record.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { start, stored, take, withOwnJobs } from "./board.ts"

describe("cancel", () => {
  test("takes a waiting task off the queue, keeps its message, and is final", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { input: { a: 1 }, failureTtl: "1 minute" })
    const record = await cancelJob(client.connection, id)
    expect(record).toMatchObject({ state: "cancelled", fence: "", keepMs: 60_000 })
    expect(record.timeline.at(-1)).not.toHaveProperty("reason")
    expect(await client.queues()).toEqual([
      { name: "default", depth: 0, scheduled: 0, running: 0, inFlight: 0, paused: false },
    ])
    expect((await stored(client, id)).message).toBeDefined()
    await expect(cancelJob(client.connection, id)).rejects.toMatchObject({ code: "already-terminal" })
  })

  test("of a job that was delivered refuses whatever its worker says later", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const { token, fence } = await take(client)
    const record = await stored(client, id)
    await cancelJob(client.connection, id)
    const late: JobRecord = { ...record, fence, state: "succeeded", endedAt: Date.now(), keepMs: 1_000 }
    const [settled] = await client.connection.jobs.settle([{ token, record: late, then: { kind: "ack" } }])
    expect(settled?.status).toBe("superseded")
    expect((await stored(client, id)).state).toBe("cancelled")
  })

  test("can end the handler of a job later that was cancelled while it ran, once", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const { token, fence } = await take(client)
    const record = await stored(client, id)
    await client.connection.jobs.report([{ token, record: { ...record, state: "started", fence } }])
    expect(await cancelJob(client.connection, id)).not.toHaveProperty("terminated")
    await expect(cancelJob(client.connection, id)).rejects.toMatchObject({ code: "already-terminal" })
    const before = (await stored(client, id)).timeline
    const after = await cancelJob(client.connection, id, { terminate: true })
    expect(after).toMatchObject({ state: "cancelled", terminated: true, timeline: before })
    await expect(cancelJob(client.connection, id, { terminate: true })).rejects.toMatchObject({
      code: "already-terminal",
    })
    const waiting = await client.submit("echo")
    await waiting.cancel()
    await expect(waiting.cancel({ terminate: true })).rejects.toMatchObject({ code: "already-terminal" })
  })

  test("decides anew when outrun, and says who was first", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { delay: 60 })
    let raced = false
    const connection = withOwnJobs(client.connection, {
      decide: async (changes) => {
        if (!raced) {
          raced = true
          await deleteJob(client.connection, id)
        }
        return client.connection.jobs.decide(changes)
      },
    })
    await expect(cancelJob(connection, id)).rejects.toMatchObject({ code: "gone" })
  })

  test("gives up on a job that changes at each try, instead of trying for ever", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { delay: 60 })
    const connection = withOwnJobs(client.connection, { decide: async () => [{ status: "conflict" }] })
    await expect(cancelJob(connection, id)).rejects.toMatchObject({ code: "internal", details: { id } })
  })

  test("fails as the transport does, whether it answers so or rejects", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { delay: 60 })
    const error = new TransportError("unavailable", "down")
    const answers = withOwnJobs(client.connection, { decide: async () => [{ status: "failed", error }] })
    await expect(cancelJob(answers, id)).rejects.toBe(error)
    const rejects = withOwnJobs(client.connection, { decide: () => Promise.reject(error) })
    await expect(cancelJob(rejects, id)).rejects.toBe(error)
  })

  test("holds although nobody can be told", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { delay: 60 })
    const mute: Connection = {
      ...client.connection,
      broadcast: { ...client.connection.broadcast, send: () => Promise.reject(new Error("mute")) },
    }
    expect((await cancelJob(mute, id)).state).toBe("cancelled")
  })
})
