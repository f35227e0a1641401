import { describe, expect, test, vi } from "vitest"
import { findRecord, POLL_MS, waitForEnd } from "../../../../../runtime/jobs/tracking/finding.ts"
import { followJob } from "../../../../../runtime/jobs/tracking/following.ts"
import { outcomesOf } from "../../../../../runtime/jobs/tracking/history.ts"
import { outcomeOf } from "../../../../../runtime/jobs/tracking/outcome.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { down, sleep, start, succeed, watched, withOwnJobs } from "./board.ts"

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
    await expect.poll(async () => (await findRecord(client.connection, id)).record.state).toBe("expired")
    const { record } = await findRecord(client.connection, id)
    expect(record.timeline.map(({ state }) => state)).toEqual(["queued", "expired"])
    expect(await client.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([])
  })

  test("a job that has expired since it was submitted is told at once to what waits for it then", async () => {
    const client = await start()
    const job = await client.submit("echo", { expires: 0.02 })
    await sleep(600)
    expect(await job.outcome({ timeout: 3 })).toMatchObject({ state: "expired" })
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

  test("a job is over when the transport's clock says so, whatever the clock of this machine shows", async () => {
    const client = await start()
    const { connection } = client
    const { id } = await client.submit("echo", { expires: 0.02 })
    const slow = { ...connection, store: { ...connection.store, now: async () => Date.now() - 3_600_000 } }
    await expect
      .poll(() => connection.jobs.waiting?.({ expiredBy: Date.now() - 1_500 }, 10), { timeout: 60_000 })
      .toEqual([id])
    expect((await findRecord(slow, id)).record.state).toBe("queued")
    expect((await findRecord(connection, id)).record.state).toBe("expired")
  })

  test("an expired job is kept as long as it asked for its failure to be kept", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { expires: 0.02, failureTtl: -1 })
    await expect.poll(async () => (await findRecord(client.connection, id)).record.state).toBe("expired")
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
    await expect.poll(async () => (await findRecord(connection, id)).record.state).toBe("succeeded")
  })
})

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

  test("waits also where it begins while the transport is away, and leaves nothing behind", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    let isDown = true
    let refused = 0
    let isBack: (status: "connected") => void = () => undefined
    const { watches, connection } = watched(client.connection)
    const refuse = async () => {
      if (!isDown) return
      refused++
      await down()
    }
    const away = {
      ...withOwnJobs(connection, {
        watch: async (...asked) => {
          // A driver may have noted the listener before its call to the broker fails.
          await connection.jobs.watch(...asked)
          await refuse()
        },
        ended: async (asked) => refuse().then(() => connection.jobs.ended(asked)),
        find: async (asked) => refuse().then(() => connection.jobs.find(asked)),
      }),
      transport: {
        ...client.connection.transport,
        onStatus: (listener: typeof isBack) => {
          const before = isBack
          isBack = (status) => {
            before(status)
            listener(status)
          }
          return () => undefined
        },
      },
    }
    const ended = waitForEnd(away, id, 30_000)
    const events = Array.fromAsync(followJob(away, id))
    const results = outcomesOf(away, id, 30_000)
    await expect.poll(() => refused).toBeGreaterThanOrEqual(6)
    isDown = false
    const began = performance.now()
    isBack("connected")
    await succeed(client, "done")
    expect(await ended).toMatchObject({ state: "succeeded", result: "done" })
    expect((await events).at(-1)).toMatchObject({ state: "succeeded" })
    expect(await results).toMatchObject([{ type: "SUCCESSFUL", result: "done" }])
    expect(performance.now() - began).toBeLessThan(POLL_MS)
    expect(watches.size).toBe(0)
  })

  test("a wait that begins while the transport is away ends with its timeout, and with what can never be read", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const away = withOwnJobs(client.connection, { find: down, watch: down, ended: down })
    await expect(waitForEnd(away, id, 50)).rejects.toMatchObject({ name: "WaitTimeout" })
    const closed = async () => Promise.reject(new TransportError("closed", "closed"))
    await expect(waitForEnd(withOwnJobs(client.connection, { watch: closed }), id, 50)).rejects.toThrow("closed")
    const stop = new AbortController()
    const events = Array.fromAsync(followJob(away, id, { signal: stop.signal }))
    stop.abort()
    expect(await events).toEqual([])
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
