import { describe, expect, test, vi } from "vitest"
import { deleteJob } from "../../../../../runtime/jobs/commands/delete.ts"
import type { JobEvent } from "../../../../../runtime/jobs/lists.ts"
import { followBoard, followJob } from "../../../../../runtime/jobs/tracking/following.ts"
import type { JobRecord } from "../../../../../runtime/protocol/record.ts"
import { sleep, start, succeed, watched, withOwnJobs } from "./board.ts"

const collect = async (events: AsyncIterable<JobEvent>) => {
  const seen: Array<string> = []
  for await (const event of events) seen.push(event.type === "transition" ? event.state : `${event.fraction}`)
  return seen
}

describe("following a job", () => {
  test("tells each step once and ends, also where no news comes", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
    const following = collect(followJob(withOwnJobs(client.connection, { watch: async () => undefined }), id))
    await sleep(10)
    await succeed(client)
    await vi.advanceTimersByTimeAsync(5_000)
    expect(await following).toEqual(["queued", "succeeded"])
  })

  test("ends the watch when its reader leaves", async () => {
    const client = await start()
    const { connection, watches } = watched(client.connection)
    const { id } = await client.submit("echo")
    for await (const event of followJob(connection, id)) {
      expect(event).toMatchObject({ state: "queued" })
      break
    }
    expect(watches.size).toBe(0)
  })

  test("an answer that was under way for long does not hide newer news", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
    const old = await client.connection.jobs.find(id)
    let answer: (() => void) | undefined
    let looks = 0
    let tell: ((record: JobRecord) => void) | undefined
    const connection = withOwnJobs(client.connection, {
      watch: async (_filter, listener) => {
        tell = listener
      },
      find: async (asked) => {
        if (++looks === 2) await new Promise<void>((resolve) => (answer = resolve))
        return looks === 2 ? old : client.connection.jobs.find(asked)
      },
    })
    const events = followJob(connection, id)
    expect((await events.next()).value).toMatchObject({ state: "queued" })
    await vi.advanceTimersByTimeAsync(5_000)
    await succeed(client)
    const ended = await client.connection.jobs.find(id)
    // The reader is busy: the news comes, and after it the answer of before.
    if (ended !== undefined) tell?.(ended.record)
    answer?.()
    await sleep(10)
    expect(await events.next()).toMatchObject({ value: { state: "succeeded" } })
    await events.return()
  })

  test("fails when the job is forgotten for good, instead of waiting for ever", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
    let forgotten = false
    const connection = withOwnJobs(client.connection, {
      watch: async () => undefined,
      find: async (asked) => (forgotten ? undefined : client.connection.jobs.find(asked)),
    })
    const following = collect(followJob(connection, id))
    const refused = expect(following).rejects.toMatchObject({ code: "not-found" })
    await sleep(10)
    forgotten = true
    await vi.advanceTimersByTimeAsync(5_000)
    await refused
  })

  test("a deleted job ends the stream", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const following = collect(followJob(client.connection, id))
    await sleep(10)
    await deleteJob(client.connection, id)
    expect(await following).toEqual(["queued", "cancelled"])
  })
})

describe("following the board", () => {
  test("ends its watch when its reader leaves, though the signal never fires", async () => {
    const client = await start()
    const { connection, watches } = watched(client.connection)
    const { signal } = new AbortController()
    const removed = vi.spyOn(signal, "removeEventListener")
    setTimeout(() => void client.submit("echo"), 10)
    for await (const { job } of followBoard(connection, signal)) {
      expect(job.state).toBe("queued")
      break
    }
    expect(watches.size).toBe(0)
    expect(removed).toHaveBeenCalled()
  })

  test("ends with the signal, also with one that has fired already", async () => {
    const { connection } = await start()
    expect(await followBoard(connection, AbortSignal.abort()).next()).toMatchObject({ done: true })
    expect(await followBoard(connection, AbortSignal.timeout(10)).next()).toMatchObject({ done: true })
  })
})
