/** How a worker writes its counts, and how often. */
import { actor, serve } from "callboard"
import { expect, onTestFinished, test, vi } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { KNOWN, KNOWN_NAME, SLOTS } from "../../../../runtime/statistics/entries.ts"
import { FailureTally } from "../../../../runtime/statistics/failures.ts"
import { goneWorkers } from "../../../../runtime/statistics/overview.ts"
import { SlotReader } from "../../../../runtime/statistics/reading.ts"
import { binsOf, gridOf, wholeOf } from "../../../../runtime/statistics/series.ts"
import { MINUTE_MS, SLOT_MS, Tally } from "../../../../runtime/statistics/tally.ts"
import { StatisticsWriter, type WorkerDetails } from "../../../../runtime/statistics/writer.ts"
import type { LiftedPlugin } from "../../../../runtime/transport/job-store/plugin.ts"
import type { Transport } from "../../../../runtime/transport/job-store/transport.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"
import { memory } from "../../../support/memory.ts"

const BEGIN = 2_900_000 * SLOT_MS

/** A board in memory whose clock is set by hand, and a worker that counts for it. */
const board = async () => {
  const transport = await memory.connect(new URL(`memory://${generateId()}`), {
    namespace: "callboard",
    lease: 30_000,
    name: "test",
    timeout: 1_000,
  })
  onTestFinished(() => transport.close())
  let now = BEGIN + 5 * MINUTE_MS
  let isAway = false
  const store: Transport["store"] = {
    ...transport.store,
    get: (keys) => transport.store.get(keys),
    list: (range) => transport.store.list(range),
    now: async () => now,
    write: async (operations) => {
      if (isAway) throw new TransportError("unavailable", "the line is cut")
      return transport.store.write(operations)
    },
  }
  const connection = { store, jobs: transport.jobs }
  const worker = (name: string, version: string) => {
    const [tally, failures] = [new Tally(), new FailureTally()]
    const described: WorkerDetails = {
      worker: name,
      host: "here",
      pid: 1,
      startedAt: "2026-01-31T12:00:00Z",
      version,
      queues: ["default"],
      concurrency: 4,
    }
    const writer = new StatisticsWriter({
      connection,
      tally,
      failures,
      describe: () => described,
      now: () => now,
      log: { debug: () => undefined },
    })
    onTestFinished(() => writer.end())
    const count = (times = 1) => {
      for (let n = 0; n < times; n++) tally.count(now, { task: "a.run", queue: "default", end: "succeeded" })
    }
    const fail = (fingerprint: string) =>
      failures.count(now, {
        id: "1",
        fingerprint,
        error: { name: "Error", message: "it failed", reason: "handler" },
        message: "it failed",
        task: "a.run",
        queue: "default",
        attempt: 1,
        then: "failed",
      })
    return { writer, count, fail }
  }
  return {
    store,
    worker,
    /** All that ended in the last hour. */
    ended: async () => {
      const grid = gridOf({}, now)
      const { slots } = await new SlotReader(store).read(grid.from, now, now)
      return wholeOf([...binsOf(slots, grid, {}, () => "all").values()].flat()).ended
    },
    gone: async () => {
      const { slots } = await new SlotReader(store).read(now - 15 * MINUTE_MS, now, now)
      return goneWorkers(slots, [], now).map(({ worker: name, goodbye = false }) => [name, goodbye])
    },
    since: async () => {
      const { slots } = await new SlotReader(store).read(now, now, now)
      return slots[0]?.workers[0]?.since ?? 0
    },
    pass: (ms: number) => {
      now += ms
    },
    cut: (away: boolean) => {
      isAway = away
    },
  }
}

test("what is written again replaces what was written, also over the end of a slot and an outage", async () => {
  const { worker, ended, pass, cut } = await board()
  const [a, b] = [worker("a", "1"), worker("b", "1")]
  for (let n = 0; n < 200; n++) {
    a.count()
    b.count()
    pass(10_000)
    cut(n > 50 && n < 100)
    await Promise.all([a.writer.write(), b.writer.write()])
  }
  expect(await ended()).toBe(400)
})

test("a worker that dies loses what it has not written, and its successor of the same name overwrites nothing", async () => {
  const { worker, ended, pass } = await board()
  const first = worker("a", "1")
  first.count(3)
  await first.writer.write()
  first.count(2)
  const second = worker("a", "1")
  pass(10_000)
  second.count(4)
  await second.writer.write()
  expect(await ended()).toBe(7)
})

test("a worker that says goodbye is not missed; one that falls silent is", async () => {
  const { worker, gone, pass } = await board()
  const [ordered, lost] = [worker("ordered", "1"), worker("lost", "1")]
  await Promise.all([ordered.writer.write(), lost.writer.write()])
  await ordered.writer.end()
  expect(await gone()).toEqual([["ordered", true]])
  pass(30_000)
  expect(await gone()).toEqual(
    expect.arrayContaining([
      ["ordered", true],
      ["lost", false],
    ]),
  )
})

test("a worker whose clock is an hour off is known since it started", async () => {
  const { worker, since, pass } = await board()
  pass(60 * MINUTE_MS)
  const { writer } = worker("a", "1")
  // The worker learns the time of the board.
  pass(-60 * MINUTE_MS)
  await writer.write()
  expect(Math.abs((await since()) - BEGIN - 5 * MINUTE_MS)).toBeLessThan(MINUTE_MS)
})

test("a worker is known as soon as it has started, so that it is missed if it freezes right after", async () => {
  await using service = await serve({
    transport: `memory://${generateId()}`,
    actors: [actor("idle", { methods: { run: () => 1 } })],
    signals: false,
    logLevel: "none",
  })
  await service.ready()
  const { store } = service.client.connection
  await expect.poll(async () => (await SLOTS.list(store, 10)).length, { timeout: 3_000 }).toBe(1)
  const now = await store.now()
  const { slots } = await new SlotReader(store).read(now, now, now)
  const missed = goneWorkers(slots, [], now + 30_000)
  expect(missed.map(({ worker, goodbye = false }) => [worker, goodbye])).toEqual([[service.worker?.name, false]])
})

test("a cause that goes on stays known, however many others come", async () => {
  const { worker, store, pass } = await board()
  const { writer, fail } = worker("a", "1")
  fail("ongoing")
  await writer.write()
  pass(5 * MINUTE_MS)
  for (let round = 0; round < 60; round++) {
    fail("ongoing")
    for (let n = 0; n < 20; n++) fail(`made up ${round} ${n}`)
    pass(9_900)
    await writer.write()
  }
  const causes = (await KNOWN.get(store, KNOWN_NAME))?.value?.causes ?? []
  expect(causes.length).toBe(500)
  expect(causes.find(({ fingerprint }) => fingerprint === "ongoing")?.first).toBe(BEGIN + 5 * MINUTE_MS)
})

test("a reader that looked before a worker wrote what it had counted in an outage tells of it soon", async () => {
  vi.useFakeTimers({ toFake: ["performance"] })
  onTestFinished(() => void vi.useRealTimers())
  const { worker, store, pass, cut } = await board()
  const { writer, count } = worker("a", "1")
  const reader = new SlotReader(store)
  cut(true)
  count(3)
  pass(15 * MINUTE_MS)
  await writer.write()
  const ended = async () => {
    const now = await store.now()
    const { slots } = await reader.read(BEGIN, now, now)
    const grid = { from: BEGIN, step: SLOT_MS, points: 3 }
    return wholeOf([...binsOf(slots, grid, {}, () => "all").values()].flat()).ended
  }
  expect(await ended()).toBe(0)
  cut(false)
  await writer.write()
  pass(MINUTE_MS)
  vi.advanceTimersByTime(MINUTE_MS)
  expect(await ended()).toBe(3)
})

test("the queues are sampled once a minute, by one of the workers", async () => {
  const { worker, store, pass } = await board()
  const workers = [worker("a", "1"), worker("b", "1"), worker("c", "1")]
  for (let n = 0; n < 18; n++) {
    for (const { writer } of workers) await writer.write()
    pass(10_000)
  }
  const now = await store.now()
  expect((await new SlotReader(store).depths(BEGIN, now, now)).map(({ minute }) => minute)).toEqual([5, 6, 7])
})

test("a job costs no operation of the transport for it", async () => {
  const operations = new Map<string, number>()
  const counted = (transport: Transport): Transport => ({
    ...transport,
    store: {
      ...transport.store,
      get: (keys) => transport.store.get(keys),
      list: (range) => transport.store.list(range),
      now: () => transport.store.now(),
      write: (all) => {
        for (const { key } of all) operations.set(key, (operations.get(key) ?? 0) + 1)
        return transport.store.write(all)
      },
    },
  })
  const plugin: LiftedPlugin = {
    schemes: ["counted"],
    connect: async (_, options) => counted(await memory.connect(new URL(`memory://${generateId()}`), options)),
  }
  let settled = 0
  await using service = await serve({
    transport: "counted:board",
    transports: { counted: plugin },
    actors: [
      actor("fails", {
        methods: {
          run: ({ n }: { n: number }) => {
            if (n % 2 === 0) throw new Error(`order ${n} is not there`)
          },
        },
      }),
    ],
    signals: false,
    logLevel: "none",
    onSettled: () => void settled++,
  })
  await service.ready()
  const JOBS = 300
  await service.client.submitMany(Array.from({ length: JOBS }, (_, n) => ({ task: "fails.run", input: { n } })))
  await expect.poll(() => settled).toBe(JOBS)
  await service.stop()
  const written = [...operations].filter(([key]) => !key.startsWith("worker/") && !key.startsWith("actor/"))
  expect(written.filter(([key]) => key.startsWith(SLOTS.prefix)).length).toBeGreaterThan(0)
  // A few for each ten seconds that the test took, however loaded the machine is.
  expect(written.reduce((sum, [, count]) => sum + count, 0)).toBeLessThan(30)
})
