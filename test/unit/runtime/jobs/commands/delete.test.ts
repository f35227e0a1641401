import { describe, expect, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { cancelJob } from "../../../../../runtime/jobs/commands/cancel.ts"
import { deleteJob } from "../../../../../runtime/jobs/commands/delete.ts"
import { patchMeta } from "../../../../../runtime/jobs/commands/meta.ts"
import { rerunJob } from "../../../../../runtime/jobs/commands/rerun.ts"
import { step } from "../../../../../runtime/protocol/record.ts"
import { taskOf } from "../../../../kit/task.ts"
import { gate } from "../../../../support/faulty-board.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start, stored, take, work } from "./board.ts"

describe("forget", () => {
  test("leaves a tombstone with nothing of the job's own, and the task does not run", async () => {
    const client = await start()
    const fields = { meta: { secret: 1 }, description: "secret", input: { secret: 1 } }
    const { id } = await client.submit("echo", fields)
    await deleteJob(client.connection, id)
    expect(await client.queues()).toEqual([])
    expect(JSON.stringify(await stored(client, id))).not.toContain("secret")
    for (const decide of [cancelJob, rerunJob, deleteJob]) {
      await expect(decide(client.connection, id)).rejects.toMatchObject({ code: "gone" })
    }
    await expect(patchMeta(client.connection, id, {})).rejects.toMatchObject({ code: "gone" })
  })

  test("leaves what follows an outcome to the delivery that finds it, where a worker died before publishing that", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { input: { secret: 1 } })
    const first = await take(client)
    const callback = taskOf({ id: generateId(), queue: "default", task: "echo" })
    const { message, ...record } = await stored(client, id)
    const ended = step(record, { at: Date.now(), state: "succeeded" })
    const outcome = { ...ended, result: "secret", fence: first.fence, endedAt: Date.now(), followUps: [callback] }
    // As if it had died between the record and the rest.
    await client.connection.jobs.end([{ token: first.token, record: outcome, then: { kind: "release", delay: 0 } }])
    await deleteJob(client.connection, id)
    expect(JSON.stringify(await stored(client, id))).not.toContain("secret")
    await work(client.transport, () => "followed")
    await eventually(async () => (await client.connection.jobs.find(callback.id))?.record.state === "succeeded")
    // The task is acked after its record is stored.
    await expect.poll(() => client.queues(), { timeout: 20_000 }).toEqual([])
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
