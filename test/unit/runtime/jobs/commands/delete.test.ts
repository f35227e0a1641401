import { describe, expect, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { cancelJob } from "../../../../../runtime/jobs/commands/cancel.ts"
import { deleteJob } from "../../../../../runtime/jobs/commands/delete.ts"
import { patchMeta } from "../../../../../runtime/jobs/commands/meta.ts"
import { rerunJob } from "../../../../../runtime/jobs/commands/rerun.ts"
import { addToHistory } from "../../../../../runtime/jobs/tracking/history.ts"
import { step } from "../../../../../runtime/protocol/record.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import type { StoreOperation } from "../../../../../runtime/transport/store.ts"
import { taskOf } from "../../../../kit/task.ts"
import { gate } from "../../../../support/faulty-board.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start, stored, take, withOwnJobs, work } from "./board.ts"

describe("forget", () => {
  test("leaves a tombstone with nothing of the job's own, and the task does not run", async () => {
    const client = await start()
    const fields = { meta: { secret: 1 }, description: "secret", input: { secret: 1 } }
    const { id } = await client.submit("echo", fields)
    await deleteJob(client.connection, id)
    expect(await client.queues()).toEqual([
      { name: "default", depth: 0, scheduled: 0, running: 0, inFlight: 0, paused: false },
    ])
    expect(JSON.stringify(await stored(client, id))).not.toContain("secret")
    for (const decide of [cancelJob, rerunJob, deleteJob]) {
      await expect(decide(client.connection, id)).rejects.toMatchObject({ code: "gone" })
    }
    await expect(patchMeta(client.connection, id, {})).rejects.toMatchObject({ code: "gone" })
  })

  test("publishes what follows an outcome, where a worker died before publishing that, and keeps nothing of it", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { input: { secret: 1 } })
    const first = await take(client)
    const callback = taskOf({ id: generateId(), queue: "default", task: "echo" })
    const { message, ...record } = await stored(client, id)
    const ended = step(record, { at: Date.now(), state: "succeeded" })
    const outcome = { ...ended, result: "secret", fence: first.fence, endedAt: Date.now(), followUps: [callback] }
    // As if it had died between the record and the rest.
    await client.connection.jobs.settle([
      { token: first.token, record: outcome, then: { kind: "hand-back", delay: 0 } },
    ])
    await deleteJob(client.connection, id)
    expect(JSON.stringify(await stored(client, id))).not.toContain("secret")
    expect(await stored(client, id)).not.toHaveProperty("followUps")
    await work(client.transport, () => "followed")
    await eventually(async () => (await client.connection.jobs.find(callback.id))?.record.state === "succeeded")
    // The task is acked after its record is stored.
    await expect
      .poll(() => client.queues(), { timeout: 20_000 })
      .toEqual([{ name: "default", depth: 0, scheduled: 0, running: 0, inFlight: 0, paused: false }])
  })

  test("publishes also what follows an outcome that is stored while the job is deleted", async () => {
    const client = await start()
    const { jobs } = client.connection
    const { id } = await client.submit("echo")
    const callback = taskOf({ id: generateId(), queue: "default", task: "echo" })
    let looked = 0
    const overtaken = withOwnJobs(client.connection, {
      find: async (asked) => {
        if (++looked === 2) {
          const { token, fence } = await take(client)
          const { message: _message, ...record } = await stored(client, id)
          const ended = step(record, { at: Date.now(), state: "succeeded" })
          const outcome = { ...ended, fence, endedAt: Date.now(), followUps: [callback] }
          await jobs.settle([{ token, record: outcome, then: { kind: "hand-back", delay: 0 } }])
        }
        return jobs.find(asked)
      },
    })
    await deleteJob(overtaken, id)
    expect(await stored(client, id)).toMatchObject({ deleted: true })
    expect(await jobs.find(callback.id)).toBeDefined()
  })

  test("keeps the job where its follow-ups cannot be published, so that it can be deleted again", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const { token, fence } = await take(client)
    const callback = taskOf({ id: generateId(), queue: "default", task: "echo" })
    const { message: _message, ...record } = await stored(client, id)
    const ended = step(record, { at: Date.now(), state: "succeeded" })
    const outcome = { ...ended, fence, endedAt: Date.now(), followUps: [callback] }
    await client.connection.jobs.settle([{ token, record: outcome, then: { kind: "hand-back", delay: 0 } }])
    const away = new TransportError("unavailable", "away", { outcome: "unknown" })
    const failing = withOwnJobs(client.connection, { decide: async () => [{ status: "failed", error: away }] })
    await expect(deleteJob(failing, id)).rejects.toBe(away)
    const once = { left: 1 }
    const dying = withOwnJobs(client.connection, {
      decide: async (decisions) =>
        once.left-- > 0 ? client.connection.jobs.decide(decisions) : [{ status: "failed", error: away }],
    })
    await expect(deleteJob(dying, id)).rejects.toBe(away)
    expect(await client.connection.jobs.find(callback.id)).toBeDefined()
    expect(await stored(client, id)).toMatchObject({ state: "succeeded" })
    await deleteJob(client.connection, id)
    expect(await stored(client, id)).toMatchObject({ tombstone: true })
    expect(await client.queues()).toMatchObject([{ depth: 1 }])
  })

  test("leaves no history for ever where the process dies right after it", async () => {
    const client = await start()
    await work(client.transport, () => 1)
    const { id } = await client.submit("echo", { resultTtl: -1, failureTtl: -1, retry: false })
    await client.job(id).outcome({ timeout: 30 })
    const ended = await stored(client, id)
    const { connection } = client
    await addToHistory(
      connection.store,
      { id, run: 2, earlier: [{ run: 1, type: "FAILED", endedAt: 1, attempt: 1 }] },
      -1,
    )
    const found = await connection.jobs.find(id)
    await connection.jobs.decide([{ id, expect: found?.revision ?? "", record: { ...ended, run: 2 } }])
    const written: Array<StoreOperation> = []
    const { store } = connection
    const dying = {
      ...connection,
      store: {
        ...store,
        get: (keys: ReadonlyArray<string>) => store.get(keys),
        list: (range: Parameters<typeof store.list>[0]) => store.list(range),
        write: async (operations: ReadonlyArray<StoreOperation>) => {
          const isGone = (await stored(client, id)).tombstone
          if (isGone) throw new TransportError("unavailable", "the process dies")
          written.push(...operations)
          return store.write(operations)
        },
      },
    }
    await expect(deleteJob(dying, id)).rejects.toThrow("the process dies")
    expect(written).toMatchObject([{ key: `history/${id}`, ttl: 3_600_000 }])
    expect((await store.get([`history/${id}`]))[0]).toBeDefined()
  })

  test("is refused while it runs", async () => {
    const client = await start()
    const finish = gate()
    await work(client.transport, () => finish.opened)
    const { id } = await client.submit("echo")
    await eventually(async () => (await stored(client, id)).state === "started")
    await expect(deleteJob(client.connection, id)).rejects.toMatchObject({ code: "job-exists" })
    finish.open()
  })
})
