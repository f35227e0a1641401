import { describe, expect, test } from "vitest"
import { findRecord } from "../../../../../runtime/jobs/tracking/finding.ts"
import { followJob } from "../../../../../runtime/jobs/tracking/following.ts"
import { waitForEnd } from "../../../../../runtime/jobs/tracking/waiting.ts"
import { down, sleep, start, succeed, withOwnJobs } from "./board.ts"

describe("finding", () => {
  test.each(["", "x".repeat(256), "é".repeat(128), "\ud800"])(
    "%j is no id: not found, and nobody is asked",
    async (id) => {
      const client = await start()
      const connection = withOwnJobs(client.connection, { find: down, watch: down })
      const notFound = { code: "not-found" }
      await expect(findRecord(connection, id)).rejects.toMatchObject(notFound)
      await expect(waitForEnd(connection, id, 1_000)).rejects.toMatchObject(notFound)
      await expect(followJob(connection, id).next()).rejects.toMatchObject(notFound)
    },
  )

  test("a job that waits past its time is recorded as expired, once, and its task is gone", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { expires: 0.02 })
    await expect
      .poll(async () => (await findRecord(client.connection, id)).record.state, { timeout: 60_000 })
      .toBe("expired")
    const { record } = await findRecord(client.connection, id)
    expect(record.timeline.map(({ state }) => state)).toEqual(["queued", "expired"])
    expect(await client.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([])
  })

  test("a job that was taken just before it expires is not called expired while its worker has not said so yet", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { expires: 0.05 })
    const [taken] = await client.connection.jobs.take(
      { queues: ["default"], max: 1, wait: 0 },
      AbortSignal.timeout(1_000),
    )
    expect(taken).toBeDefined()
    // Its handler runs; a worker reports that only when it lasts longer than a moment.
    await sleep(80)
    expect((await findRecord(client.connection, id)).record.state).toBe("queued")
  })

  test("an expired job is kept as long as it asked for its failure to be kept", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { expires: 0.02, failureTtl: -1 })
    await expect
      .poll(async () => (await findRecord(client.connection, id)).record.state, { timeout: 60_000 })
      .toBe("expired")
    expect((await findRecord(client.connection, id)).record.keepMs).toBe(-1)
  })

  test("when somebody else decides first, what they decided is found", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { expires: 0.02 })
    await sleep(30)
    let raced = false
    const connection = withOwnJobs(client.connection, {
      decide: async (changes) => {
        if (!raced) {
          raced = true
          await succeed(client)
        }
        return client.connection.jobs.decide(changes)
      },
    })
    await expect
      .poll(async () => (await findRecord(connection, id)).record.state, { timeout: 60_000 })
      .toBe("succeeded")
  })
})
