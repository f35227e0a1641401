import { describe, expect, test, vi } from "vitest"
import { outcomeOf } from "../../../../../runtime/jobs/tracking/outcome.ts"
import { waitForEnd } from "../../../../../runtime/jobs/tracking/waiting.ts"
import { down, sleep, start, succeed, watched, withOwnJobs } from "./board.ts"

describe("waiting for the end", () => {
  test("resolves with the end, whether it comes before, while or after the watch begins", async () => {
    const client = await start()
    const before = await client.submit("echo")
    await succeed(client, 1)
    expect(outcomeOf(await waitForEnd(client.connection, before.id, 1_000))).toEqual({ state: "succeeded", result: 1 })

    const during = await client.submit("echo")
    const late = withOwnJobs(client.connection, {
      watch: async (...args) => {
        await client.connection.jobs.watch(...args)
        await succeed(client, 2)
      },
    })
    expect(outcomeOf(await waitForEnd(late, during.id, 1_000))).toEqual({ state: "succeeded", result: 2 })

    const after = await client.submit("echo")
    const waiting = waitForEnd(client.connection, after.id, 1_000)
    await sleep(10)
    await succeed(client, 3)
    expect(outcomeOf(await waiting)).toEqual({ state: "succeeded", result: 3 })
  })

  test("leaves no watch, timer or listener behind, however it ends", async () => {
    const client = await start()
    const { connection, watches } = watched(client.connection)
    const { id } = await client.submit("echo")
    const signal = new AbortController().signal
    const added = vi.spyOn(signal, "addEventListener")
    const removed = vi.spyOn(signal, "removeEventListener")
    await expect(waitForEnd(connection, id, 10, signal)).rejects.toMatchObject({ _tag: "WaitTimeout" })
    await expect(waitForEnd(connection, "nobody", 1_000, signal)).rejects.toMatchObject({ code: "not-found" })
    await succeed(client)
    await waitForEnd(connection, id, 1_000, signal)
    expect(watches.size).toBe(0)
    expect(added).toHaveBeenCalledTimes(3)
    expect(removed).toHaveBeenCalledTimes(3)
  })

  test("goes on while the transport is down for a while, and looks for itself where no news comes", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
    let isDown = false
    const connection = withOwnJobs(client.connection, {
      // Deaf: it listens and never hears.
      watch: async () => undefined,
      find: (asked) => (isDown ? down() : client.connection.jobs.find(asked)),
    })
    const waiting = waitForEnd(connection, id, 10_000)
    await sleep(10)
    isDown = true
    await vi.advanceTimersByTimeAsync(5_000)
    isDown = false
    await succeed(client, "late")
    await vi.advanceTimersByTimeAsync(5_000)
    expect(outcomeOf(await waiting)).toEqual({ state: "succeeded", result: "late" })
  })

  test("fails when the job is forgotten for good in between", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
    let forgotten = false
    const connection = withOwnJobs(client.connection, {
      watch: async () => undefined,
      find: async (asked) => (forgotten ? undefined : client.connection.jobs.find(asked)),
    })
    const waiting = waitForEnd(connection, id, 10_000)
    const refused = expect(waiting).rejects.toMatchObject({ code: "not-found" })
    await sleep(10)
    forgotten = true
    await vi.advanceTimersByTimeAsync(5_000)
    await refused
  })
})
