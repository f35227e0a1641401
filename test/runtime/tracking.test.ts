/** Reading a job: finding it, waiting for its end, following its events, also when the transport is no help. */
import { connect } from "callboard"
import { afterEach, describe, expect, test, vi } from "vitest"
import type { Board } from "../../runtime/board.ts"
import type { Client } from "../../runtime/client/client.ts"
import { generateId } from "../../runtime/id.ts"
import { type JobRecord, step } from "../../runtime/protocol/record.ts"
import { deleteJob } from "../../runtime/steering.ts"
import { findRecord, followBoard, followJob, type JobEvent, outcomeOf, waitForEnd } from "../../runtime/tracking.ts"
import { type Records, TransportError } from "../../runtime/transport.ts"

const open: Array<AsyncDisposable> = []
afterEach(async () => {
  vi.useRealTimers()
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

const start = async (): Promise<Client> => {
  const client = await connect(`memory://${generateId()}`)
  open.push(client)
  return client
}

/** The same board with other records: what a transport that is late, deaf or down would say. */
const withRecords = (board: Board, change: Partial<Records>): Board => ({
  ...board,
  records: { ...board.records, ...change },
})

/** A board whose watches are counted until they end. */
const watched = (board: Board) => {
  const watches = new Set<AbortSignal>()
  const listening: Records["watch"] = async (filter, listener, signal) => {
    watches.add(signal)
    signal.addEventListener("abort", () => watches.delete(signal))
    return board.records.watch(filter, listener, signal)
  }
  return { watches, board: withRecords(board, { watch: listening }) }
}

/** Takes one task and settles it as a worker would. */
const settleNext = async ({ board }: Client, change: (record: JobRecord) => JobRecord) => {
  const [delivery] = await board.queue.pull({ queues: ["default"], max: 1, wait: 0 }, new AbortController().signal)
  if (delivery === undefined || "undecodable" in delivery.message) throw new Error("there is nothing to take")
  const found = await board.records.find(String(delivery.message.headers["id"]))
  if (found === undefined) throw new Error("the job has no record")
  const { message: _message, ...record } = found.record
  const [settled] = await board.queue.settle([
    { token: delivery.token, record: { ...change(record), fence: delivery.fence }, then: { kind: "ack" } },
  ])
  expect(settled).toEqual({ status: "settled" })
}
const succeed = (client: Client, result: unknown = null) =>
  settleNext(client, (record) => ({
    ...step(record, { at: Date.now(), state: "succeeded" }),
    endedAt: Date.now(),
    keepMs: 60_000,
    result,
  }))

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const down = () => Promise.reject(new TransportError("unavailable", "down"))

describe("finding", () => {
  test.each(["", "x".repeat(256), "é".repeat(128), "\ud800"])(
    "%j is no id: not found, and nobody is asked",
    async (id) => {
      const client = await start()
      const board = withRecords(client.board, { find: down, watch: down })
      const notFound = { code: "not-found" }
      await expect(findRecord(board, id)).rejects.toMatchObject(notFound)
      await expect(waitForEnd(board, id, 1_000)).rejects.toMatchObject(notFound)
      await expect(followJob(board, id).next()).rejects.toMatchObject(notFound)
    },
  )

  test("a job that waits past its time is recorded as expired, once, and its task is gone", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { expires: 0.02 })
    await expect.poll(async () => (await findRecord(client.board, id)).record.state, { timeout: 3_000 }).toBe("expired")
    const { record } = await findRecord(client.board, id)
    expect(record.timeline.map(({ state }) => state)).toEqual(["queued", "expired"])
    expect(await client.board.queue.waiting?.("default", 10)).toEqual([])
  })

  test("a job that was taken just before it expires is not called expired while its worker has not said so yet", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { expires: 0.05 })
    const [taken] = await client.board.queue.pull({ queues: ["default"], max: 1, wait: 0 }, AbortSignal.timeout(1_000))
    expect(taken).toBeDefined()
    // Its handler runs; a worker reports that only when it lasts longer than a moment.
    await sleep(80)
    expect((await findRecord(client.board, id)).record.state).toBe("queued")
  })

  test("an expired job is kept as long as it asked for its failure to be kept", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { expires: 0.02, failureTtl: -1 })
    await expect.poll(async () => (await findRecord(client.board, id)).record.state, { timeout: 3_000 }).toBe("expired")
    expect((await findRecord(client.board, id)).record.keepMs).toBe(-1)
  })

  test("when somebody else decides first, what they decided is found", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { expires: 0.02 })
    await sleep(30)
    let raced = false
    const board = withRecords(client.board, {
      change: async (changes) => {
        if (!raced) {
          raced = true
          await succeed(client)
        }
        return client.board.records.change(changes)
      },
    })
    await expect.poll(async () => (await findRecord(board, id)).record.state, { timeout: 3_000 }).toBe("succeeded")
  })
})

describe("waiting for the end", () => {
  test("resolves with the end, whether it comes before, while or after the watch begins", async () => {
    const client = await start()
    const before = await client.submit("echo")
    await succeed(client, 1)
    expect(outcomeOf(await waitForEnd(client.board, before.id, 1_000))).toEqual({ state: "succeeded", result: 1 })

    const during = await client.submit("echo")
    const late = withRecords(client.board, {
      watch: async (...args) => {
        await client.board.records.watch(...args)
        await succeed(client, 2)
      },
    })
    expect(outcomeOf(await waitForEnd(late, during.id, 1_000))).toEqual({ state: "succeeded", result: 2 })

    const after = await client.submit("echo")
    const waiting = waitForEnd(client.board, after.id, 1_000)
    await sleep(10)
    await succeed(client, 3)
    expect(outcomeOf(await waiting)).toEqual({ state: "succeeded", result: 3 })
  })

  test("leaves no watch, timer or listener behind, however it ends", async () => {
    const client = await start()
    const { board, watches } = watched(client.board)
    const { id } = await client.submit("echo")
    const signal = new AbortController().signal
    const added = vi.spyOn(signal, "addEventListener")
    const removed = vi.spyOn(signal, "removeEventListener")
    await expect(waitForEnd(board, id, 10, signal)).rejects.toMatchObject({ _tag: "WaitTimeout" })
    await expect(waitForEnd(board, "nobody", 1_000, signal)).rejects.toMatchObject({ code: "not-found" })
    await succeed(client)
    await waitForEnd(board, id, 1_000, signal)
    expect(watches.size).toBe(0)
    expect(added).toHaveBeenCalledTimes(3)
    expect(removed).toHaveBeenCalledTimes(3)
  })

  test("goes on while the transport is down for a while, and looks for itself where no news comes", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
    let isDown = false
    const board = withRecords(client.board, {
      // Deaf: it listens and never hears.
      watch: async () => undefined,
      find: (asked) => (isDown ? down() : client.board.records.find(asked)),
    })
    const waiting = waitForEnd(board, id, 10_000)
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
    const board = withRecords(client.board, {
      watch: async () => undefined,
      find: async (asked) => (forgotten ? undefined : client.board.records.find(asked)),
    })
    const waiting = waitForEnd(board, id, 10_000)
    const refused = expect(waiting).rejects.toMatchObject({ code: "not-found" })
    await sleep(10)
    forgotten = true
    await vi.advanceTimersByTimeAsync(5_000)
    await refused
  })
})

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
    const following = collect(followJob(withRecords(client.board, { watch: async () => undefined }), id))
    await sleep(10)
    await succeed(client)
    await vi.advanceTimersByTimeAsync(5_000)
    expect(await following).toEqual(["queued", "succeeded"])
  })

  test("ends the watch when its reader leaves", async () => {
    const client = await start()
    const { board, watches } = watched(client.board)
    const { id } = await client.submit("echo")
    for await (const event of followJob(board, id)) {
      expect(event).toMatchObject({ state: "queued" })
      break
    }
    expect(watches.size).toBe(0)
  })

  test("an answer that was under way for long does not hide newer news", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
    const old = await client.board.records.find(id)
    let answer: (() => void) | undefined
    let looks = 0
    let tell: ((record: JobRecord) => void) | undefined
    const board = withRecords(client.board, {
      watch: async (_filter, listener) => {
        tell = listener
      },
      find: async (asked) => {
        if (++looks === 2) await new Promise<void>((resolve) => (answer = resolve))
        return looks === 2 ? old : client.board.records.find(asked)
      },
    })
    const events = followJob(board, id)
    expect((await events.next()).value).toMatchObject({ state: "queued" })
    await vi.advanceTimersByTimeAsync(5_000)
    await succeed(client)
    const ended = await client.board.records.find(id)
    // The reader is busy: the news comes, and after it the answer of before.
    if (ended !== undefined) tell?.(ended.record)
    answer?.()
    await sleep(10)
    expect(await Promise.race([events.next(), sleep(200)])).toMatchObject({ value: { state: "succeeded" } })
    await events.return()
  })

  test("fails when the job is forgotten for good, instead of waiting for ever", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
    let forgotten = false
    const board = withRecords(client.board, {
      watch: async () => undefined,
      find: async (asked) => (forgotten ? undefined : client.board.records.find(asked)),
    })
    const following = collect(followJob(board, id))
    const refused = expect(Promise.race([following, sleep(500)])).rejects.toMatchObject({ code: "not-found" })
    await sleep(10)
    forgotten = true
    await vi.advanceTimersByTimeAsync(5_000)
    await refused
  })

  test("a deleted job ends the stream", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const following = collect(followJob(client.board, id))
    await sleep(10)
    await deleteJob(client.board, id)
    expect(await following).toEqual(["queued", "cancelled"])
  })
})

describe("following the board", () => {
  test("ends its watch when its reader leaves, though the signal never fires", async () => {
    const client = await start()
    const { board, watches } = watched(client.board)
    const { signal } = new AbortController()
    const removed = vi.spyOn(signal, "removeEventListener")
    setTimeout(() => void client.submit("echo"), 10)
    for await (const { job } of followBoard(board, signal)) {
      expect(job.state).toBe("queued")
      break
    }
    expect(watches.size).toBe(0)
    expect(removed).toHaveBeenCalled()
  })

  test("ends with the signal, also with one that has fired already", async () => {
    const { board } = await start()
    expect(await followBoard(board, AbortSignal.abort()).next()).toMatchObject({ done: true })
    expect(await followBoard(board, AbortSignal.timeout(10)).next()).toMatchObject({ done: true })
  })
})
