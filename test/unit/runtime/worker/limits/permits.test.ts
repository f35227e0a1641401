/**
 * Permits as several workers share them, over a store that can be slow, contended or away, and how they are divided among the
 * workers that want some.
 */
import fc from "fast-check"
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest"
import { WORKER_TTL_MS, WORKERS } from "../../../../../runtime/cluster/directory.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { makeLog } from "../../../../../runtime/log/log.ts"
import type { Rate } from "../../../../../runtime/options/limit.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import type { Store } from "../../../../../runtime/transport/store.ts"
import {
  decidePermits,
  Holders,
  holderOf,
  type LimitState,
  Permits,
  shareOf,
} from "../../../../../runtime/worker/limits/permits.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { newStore, storeWith } from "./stores.ts"

const KEY = "limit/a.run/"
const LEASE_MS = 12_000

const DESCRIPTION = {
  pid: 1,
  host: "here",
  version: "0",
  queues: ["default"],
  actors: ["a"],
  concurrency: 1,
  state: "idle" as const,
  running: [],
  inFlight: 0,
  processed: 0,
  failed: 0,
  startedAt: "2031-06-07T08:09:10Z",
  heartbeatAt: "2031-06-07T08:09:10Z",
}
const log = makeLog({ level: "none" })

/** A worker with this many waiting tasks, which starts what it may. */
const worker = (store: Store, limit: { concurrency: number; rate?: Rate }, handlers = 20) => {
  const own = { name: generateId(), instance: "1" }
  const entry = { ageMs: 0, onWritten: undefined, beat: async () => undefined }
  const holders = new Holders(store, holderOf(own), entry, LEASE_MS)
  const { id } = holders
  /** Writes its entry in the directory, which expires after this time. */
  const register = async (ttlMs = 60_000) => {
    await store.write([WORKERS.put(own.name, { ...DESCRIPTION, ...own }, ttlMs)])
  }
  let waiting = 0
  const permits: Permits = new Permits({
    ...limit,
    key: KEY,
    store,
    holders,
    log,
    handlers: () => handlers,
    waiting: () => waiting,
    onChange: () => pump(),
    notifyOthers: () => undefined,
  })
  let onStart: () => void = () => undefined
  const pump = () => {
    const now = performance.now()
    while (waiting > 0 && permits.running < handlers && permits.startsAt(now) <= now) {
      waiting--
      permits.start()
      onStart()
    }
    permits.requestMissing(now)
  }
  const add = (count: number) => {
    waiting += count
    pump()
  }
  const starts = (then: () => void) => {
    onStart = then
  }
  return { id, entry, register, permits, add, pump, starts, left: () => waiting }
}

/** A turn of the event loop. */
const turn = () => new Promise((resolve) => setImmediate(resolve))

const stateOf = async (
  store: Store,
): Promise<{
  readonly tat?: number
  readonly held?: Record<string, number>
  readonly asking?: Record<string, unknown>
}> => {
  const [entry] = await store.get([KEY])
  return entry === undefined ? {} : JSON.parse(new TextDecoder().decode(entry.value))
}

/** Ticks every limit, as the worker's timer does. */
const ticking = (...workers: ReadonlyArray<ReturnType<typeof worker>>) => {
  const timer = setInterval(() => {
    for (const { permits } of workers) permits.tick()
  }, 50)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

describe("a worker that holds permits", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }))
  afterEach(() => void vi.useRealTimers())

  const own = { ageMs: Number.POSITIVE_INFINITY, onWritten: undefined, beat: async () => undefined }
  const other = { name: "the other/one", instance: "7" }
  const id = holderOf(other)
  const holdersOf = async (leaseMs: number) => {
    const store = await newStore()
    const write = () => store.write([WORKERS.put(other.name, { ...DESCRIPTION, ...other }, 60_000)])
    const expire = () => store.write([WORKERS.remove(other.name)])
    return { store, write, expire, holders: new Holders(store, "1/own", own, leaseMs) }
  }

  test("lives while its entry does, and for the rest of a lease after that", async () => {
    const { holders, write, expire } = await holdersOf(30_000)
    await write()
    expect(await holders.isAlive(id)).toBe(true)
    await expire()
    for (let passed = 600; passed < 24_600; passed += 600) {
      vi.advanceTimersByTime(600)
      expect(await holders.isAlive(id)).toBe(true)
    }
    vi.advanceTimersByTime(600)
    expect(await holders.isAlive(id)).toBe(false)
    await write()
    expect(await holders.isAlive(id)).toBe(true)
  })

  test("lives for as long as its own lease, which its entry shows", async () => {
    const { holders, store, expire } = await holdersOf(3_000)
    await store.write([WORKERS.put(other.name, { ...DESCRIPTION, ...other, lease: 17 }, 60_000)])
    expect(await holders.isAlive(id)).toBe(true)
    await expire()
    for (const passed of [600, 3_500, 4_000, 3_400]) {
      vi.advanceTimersByTime(passed)
      expect(await holders.isAlive(id)).toBe(true)
    }
    vi.advanceTimersByTime(100)
    expect(await holders.isAlive(id)).toBe(false)
  })

  test("has its time again if its entry may have been written between two looks", async () => {
    const { holders } = await holdersOf(30_000)
    expect(await holders.isAlive(id)).toBe(true)
    vi.advanceTimersByTime(WORKER_TTL_MS)
    vi.advanceTimersByTime(18_000)
    expect(await holders.isAlive(id)).toBe(true)
  })

  test("has the life of an entry to write it again, also with a short lease", async () => {
    const { holders } = await holdersOf(3_000)
    expect(holders.lifeMs).toBe(2 * WORKER_TTL_MS)
    expect(await holders.isAlive(id)).toBe(true)
    vi.advanceTimersByTime(WORKER_TTL_MS - 1)
    expect(await holders.isAlive(id)).toBe(true)
    vi.advanceTimersByTime(1)
    expect(await holders.isAlive(id)).toBe(false)
  })

  test("is no other one that has its name", async () => {
    const { holders, store } = await holdersOf(3_000)
    await store.write([WORKERS.put(other.name, { ...DESCRIPTION, ...other, instance: "8" }, 60_000)])
    await holders.isAlive(id)
    vi.advanceTimersByTime(WORKER_TTL_MS - 1)
    await holders.isAlive(id)
    vi.advanceTimersByTime(1)
    expect(await holders.isAlive(id)).toBe(false)
  })

  test("lives if a later version has written its entry in another form", async () => {
    const { holders, store } = await holdersOf(3_000)
    await store.write([{ key: WORKERS.key(other.name), value: new TextEncoder().encode("{}"), ttl: 60_000 }])
    expect(await holders.isAlive(id)).toBe(true)
  })
})

describe("permits", () => {
  test("are never more than there are, however many workers take and give at once, and all get some", async () => {
    const store = await newStore()
    const workers = Array.from({ length: 5 }, () => worker(store, { concurrency: 7 }))
    await Promise.all(workers.map(({ register }) => register()))
    let running = 0
    let max = 0
    const done = workers.map(() => 0)
    for (const [at, each] of workers.entries())
      each.starts(() => {
        max = Math.max(max, ++running)
        setTimeout(() => {
          running--
          done[at] = (done[at] ?? 0) + 1
          each.permits.end()
          each.pump()
        }, Math.random() * 10)
      })
    using _ = ticking(...workers)
    for (const each of workers) each.add(100)
    await eventually(() => workers.every(({ left }) => left() === 0), { deadline: 15_000, message: "all have run" })
    expect(max).toBeLessThanOrEqual(7)
    await eventually(async () => (await stateOf(store)).held === undefined, { message: "all is given back" })
    expect(done).toEqual([100, 100, 100, 100, 100])
  })

  test("of a worker that is dead are free, those of one that lives are not", async () => {
    const store = await newStore()
    const [dead, alive, heir] = [3, 3, 3].map((concurrency) => worker(store, { concurrency }))
    if (dead === undefined || alive === undefined || heir === undefined) throw new Error("there are three")
    await dead.register(1_000)
    await alive.register()
    dead.add(2)
    await eventually(() => dead.permits.running === 2)
    alive.add(1)
    await eventually(() => alive.permits.running === 1)
    using _ = ticking(heir)
    heir.add(3)
    await eventually(() => heir.permits.running === 2, { message: "the permits of the dead one come back" })
    expect((await stateOf(store)).held).toEqual({ [alive.id]: 1, [heir.id]: 2 })
  })

  test("of a worker that was taken for dead are not used again, but for what still runs", async () => {
    const store = await newStore()
    const frozen = worker(store, { concurrency: 2 })
    const other = worker(store, { concurrency: 2 })
    await other.register()
    frozen.add(2)
    await eventually(() => frozen.permits.running === 2)
    using _ = ticking(other)
    other.add(3)
    await eventually(() => other.permits.running === 2)
    await frozen.register()
    frozen.permits.recheck()
    await eventually(async () => (await stateOf(store)).held?.[frozen.id] === 2)
    frozen.add(2)
    frozen.permits.end()
    frozen.pump()
    await eventually(async () => (await stateOf(store)).held?.[frozen.id] === 1)
    expect(frozen.permits.running).toBe(1)
  })

  test("are not used by a worker that cannot know whether it is still taken to be alive", async () => {
    const { permits, add, entry } = worker(await newStore(), { concurrency: 2 })
    add(1)
    await eventually(() => permits.running === 1)
    permits.end()
    expect(permits.startsAt(0)).toBe(0)
    entry.ageMs = 0.8 * LEASE_MS - 1
    expect(permits.startsAt(0)).toBe(0)
    entry.ageMs = 0.8 * LEASE_MS
    expect(permits.startsAt(0)).toBe(Number.POSITIVE_INFINITY)
  })

  test("that could not be given back are given back later", async () => {
    const store = await newStore()
    let away = false
    const down = () => Promise.reject(new TransportError("unavailable", "away"))
    const shaky = storeWith(store, {
      get: (key) => (away ? down() : store.get(key)),
      write: (operations) => (away ? down() : store.write(operations)),
    })
    const { permits, add } = worker(shaky, { concurrency: 1 })
    add(1)
    await eventually(() => permits.running === 1)
    away = true
    permits.end()
    await permits.close()
    expect((await stateOf(store)).held).toBeDefined()
    expect(permits.isIdle).toBe(false)
    away = false
    permits.tick()
    await eventually(async () => (await stateOf(store)).held === undefined)
    await eventually(() => permits.isIdle)
  })

  test("are not asked for at every turn while the store is away", async () => {
    const store = await newStore()
    let asked = 0
    let isAway = true
    const shaky = storeWith(store, {
      get: (key) => {
        asked++
        return isAway ? Promise.reject(new TransportError("unavailable", "away")) : store.get(key)
      },
    })
    const one = worker(shaky, { concurrency: 1 })
    one.add(1)
    for (let turns = 0; turns < 50; turns++) await turn()
    expect(asked).toBe(1)
    isAway = false
    using _ = ticking(one)
    await eventually(() => one.permits.running === 1)
  })

  test("that are used again at once cost no write", async () => {
    const store = await newStore()
    let writes = 0
    const counted = storeWith(store, {
      write: (operations) => {
        writes++
        return store.write(operations)
      },
    })
    const { permits, add, pump } = worker(counted, { concurrency: 1 })
    add(21)
    await eventually(() => permits.running === 1)
    const before = writes
    for (let count = 0; count < 20; count++) {
      permits.end()
      pump()
      expect(permits.running).toBe(1)
    }
    expect(writes).toBe(before)
  })

  test("that another worker asks for are given back one by one, as the tasks end that use them", async () => {
    const store = await newStore()
    const [holder, asker] = [worker(store, { concurrency: 4 }), worker(store, { concurrency: 4 })]
    await Promise.all([holder.register(), asker.register()])
    holder.add(20)
    await eventually(() => holder.permits.running === 4, { message: "it holds all of them" })
    asker.add(20)
    await eventually(async () => (await stateOf(store)).asking?.[asker.id] !== undefined, { message: "the other asks" })
    // As it does when it is notified.
    holder.permits.sync()
    for (let turns = 0; turns < 20; turns++) await turn()
    for (const left of [3, 2]) {
      holder.permits.end()
      await eventually(async () => (await stateOf(store)).held?.[holder.id] === left, { message: `it holds ${left}` })
    }
  })

  test("that are in use for hours are written again before the store forgets them", async () => {
    const store = await newStore()
    let writes = 0
    const counted = storeWith(store, {
      write: (operations) => {
        writes++
        return store.write(operations)
      },
    })
    const { permits, add } = worker(counted, { concurrency: 1 })
    add(1)
    await eventually(() => permits.running === 1)
    const before = writes
    const began = performance.now()
    const later = vi.spyOn(performance, "now").mockReturnValue(began + 31 * 60_000)
    try {
      permits.tick()
      for (let turns = 0; turns < 20; turns++) await turn()
      expect(writes).toBe(before + 1)
      permits.tick()
      for (let turns = 0; turns < 20; turns++) await turn()
      expect(writes).toBe(before + 1)
    } finally {
      later.mockRestore()
    }
  })

  test("of a worker that has one for each of its handlers are not asked about while its tasks wait", async () => {
    let reads = 0
    const store = await newStore()
    const counted = storeWith(store, {
      get: (key) => {
        reads++
        return store.get(key)
      },
    })
    const one = worker(counted, { concurrency: 10 }, 4)
    one.add(100)
    await eventually(() => one.permits.running === 4)
    await turn()
    const before = reads
    for (let ended = 0; ended < 50; ended++) {
      one.permits.end()
      one.pump()
      await turn()
    }
    expect(one.left()).toBe(46)
    expect(reads).toBe(before)
  })

  test("of a limit that is lowered come back as tasks end, and of one that is removed are not needed", async () => {
    const store = await newStore()
    const workers = [1, 2].map(() => worker(store, { concurrency: 20 }, 40))
    await Promise.all(workers.map(({ register }) => register()))
    const running = () => workers.reduce((sum, { permits }) => sum + permits.running, 0)
    using _ = ticking(...workers)
    for (const each of workers) each.add(100)
    await eventually(() => running() === 20, { message: "all are used" })
    for (const { permits } of workers) permits.setConcurrency(4)
    while (running() > 4) {
      const before = running()
      for (const { permits, pump } of workers) {
        if (permits.running === 0) continue
        permits.end()
        pump()
        await turn()
      }
      expect(running()).toBeLessThan(before)
    }
    for (let ended = 0; ended < 10; ended++) {
      for (const { permits, pump } of workers) {
        if (permits.running > 0) permits.end()
        pump()
      }
      await turn()
      expect(running()).toBeLessThanOrEqual(4)
    }
    await eventually(() => running() === 4, { message: "what is left is used" })
    for (const { permits } of workers) permits.setConcurrency(Number.POSITIVE_INFINITY)
    await eventually(() => workers.every(({ left }) => left() <= 60), { message: "any number may run" })
    await eventually(async () => (await stateOf(store)).held === undefined, { message: "no permit is held" })
    // What has started without a permit counts.
    for (const { permits } of workers) permits.setConcurrency(4)
    await eventually(async () => Object.values((await stateOf(store)).held ?? {}).length === 2)
    for (const { permits } of workers) expect(permits.startsAt(performance.now())).toBe(Number.POSITIVE_INFINITY)
  })

  test("that are not there take nothing of their rate", async () => {
    const store = await newStore()
    const limit = { rate: { intervalMs: 60_000 }, concurrency: 1 }
    const first = worker(store, limit)
    await first.register()
    first.add(1)
    await eventually(() => first.permits.running === 1)
    const { tat } = await stateOf(store)
    const second = worker(store, limit)
    second.add(5)
    using _ = ticking(second)
    await eventually(async () => new TextDecoder().decode((await store.get([KEY]))[0]?.value).includes(second.id))
    expect((await stateOf(store)).tat).toBe(tat)
  })
})

const NOW = 10_000

/** A state: `{ a: 2 }` holds two permits, `{ b: [9_000, 3] }` has requested three since then. */
const limitState = (
  held: Readonly<Record<string, number>>,
  asking: Readonly<Record<string, readonly [number, number]>> = {},
): LimitState => ({
  tat: undefined,
  held: new Map(Object.entries(held)),
  asking: new Map(Object.entries(asking).map(([id, [since, wanted]]) => [id, { since, wanted }])),
})

const own = (fields: { held?: number; running?: number; wanted?: number; isIdle?: boolean }) => ({
  id: "me",
  held: 0,
  running: 0,
  wanted: 0,
  isIdle: false,
  ...fields,
})

describe("what a worker holds", () => {
  test.each<[string, LimitState, Parameters<typeof own>[0], number]>([
    ["as many as it wants, where nobody else is", limitState({}), { wanted: 4 }, 4],
    ["no more than there are", limitState({}), { wanted: 40 }, 10],
    ["what others have left", limitState({ a: 7 }), { wanted: 5 }, 3],
    ["nothing while others hold all", limitState({ a: 10 }), { wanted: 5 }, 0],
    ["what it has, for a moment, although it does not use it", limitState({ me: 3 }), { held: 3 }, 3],
    ["what it uses, after that moment", limitState({ me: 3 }), { held: 3, running: 1, wanted: 1, isIdle: true }, 1],
    ["what it uses, where others ask", limitState({ me: 3 }, { a: [9_000, 9] }), { held: 3, running: 1, wanted: 1 }, 1],
    [
      "half, where another wants as much",
      limitState({ me: 10 }, { a: [9_000, 9] }),
      { held: 10, running: 4, wanted: 9 },
      5,
    ],
    ["what runs, whoever asks", limitState({ me: 10 }, { a: [9_000, 9] }), { held: 10, running: 8, wanted: 9 }, 8],
    [
      "all that another does not want",
      limitState({ me: 10 }, { a: [9_000, 2] }),
      { held: 10, running: 0, wanted: 9 },
      8,
    ],
    ["its part of those that are free, while others ask", limitState({}, { a: [9_000, 9] }), { wanted: 9 }, 5],
    [
      "nothing that others took while it was taken for dead",
      limitState({ a: 10 }),
      { held: 6, running: 0, wanted: 6 },
      0,
    ],
    ["what still runs, if it was taken for dead", limitState({ a: 10 }), { held: 6, running: 2, wanted: 6 }, 2],
  ])("is %s", (_, state, holder, held) => {
    expect(decidePermits(state, own(holder), 10, NOW).held).toBe(held)
  })

  test("is taken by turns, where there are fewer permits than workers", () => {
    const fresh = limitState({ me: 1 }, { me: [NOW - 100, 5], a: [NOW - 400, 5] })
    expect(decidePermits(fresh, own({ held: 1, wanted: 5 }), 1, NOW).held).toBe(1)
    const old = limitState({ me: 1 }, { me: [NOW - 900, 5], a: [NOW - 400, 5] })
    const given = decidePermits(old, own({ held: 1, wanted: 5 }), 1, NOW)
    expect(given).toMatchObject({ held: 0, mustNotify: true })
    // It requests again, behind the worker that has waited longer.
    expect(decidePermits(given.state, own({ wanted: 5 }), 1, NOW).held).toBe(0)
    expect(decidePermits(given.state, { ...own({ wanted: 5 }), id: "a" }, 1, NOW).held).toBe(1)
  })

  test("is given up in its turn by a worker whose request seems to come later, since the clock was set back", () => {
    const ahead = limitState({ me: 1 }, { me: [NOW + 3_600_000, 5], a: [NOW - 400, 5] })
    expect(decidePermits(ahead, own({ held: 1, wanted: 5 }), 1, NOW).held).toBe(0)
  })

  test("is not kept free for a worker that wants no more, although all that it has is in use", () => {
    const asked = limitState({ me: 1, a: 5 }, { me: [9_000, 10], a: [9_000, 10] })
    const { state } = decidePermits(asked, own({ held: 1, running: 1, wanted: 1 }), 10, NOW)
    expect(state.asking.has("me")).toBe(false)
    expect(decidePermits(state, { ...own({ held: 5, running: 5, wanted: 10 }), id: "a" }, 10, NOW).held).toBe(9)
  })

  test("is told to others only where that helps them", () => {
    expect(decidePermits(limitState({}), own({ wanted: 40 }), 10, NOW).mustNotify).toBe(false)
    expect(decidePermits(limitState({ a: 10 }), own({ wanted: 4 }), 10, NOW).mustNotify).toBe(true)
    expect(decidePermits(limitState({ a: 10 }, { me: [9_000, 4] }), own({ wanted: 4 }), 10, NOW).mustNotify).toBe(false)
    expect(decidePermits(limitState({ me: 3 }), own({ held: 3, isIdle: true }), 10, NOW).mustNotify).toBe(false)
    expect(decidePermits(limitState({ me: 3 }, { a: [9_000, 9] }), own({ held: 3 }), 10, NOW).mustNotify).toBe(true)
  })
})

const parties = fc.uniqueArray(
  fc.record({ id: fc.string({ minLength: 1, maxLength: 3 }), wanted: fc.integer({ min: 1, max: 20 }) }),
  { selector: ({ id }) => id, minLength: 1, maxLength: 8 },
)

test("the parts of all workers come to what there is, and none gets less than its even part", () => {
  fc.assert(
    fc.property(parties, fc.integer({ min: 1, max: 30 }), (all, limit) => {
      const asking = Object.fromEntries(all.map(({ id, wanted }, at) => [id, [at, wanted] as const]))
      const shares = all.map(({ id, wanted }) => shareOf(limitState({}, asking), { id, held: 0, wanted }, limit, NOW))
      const demand = all.reduce((sum, { wanted }) => sum + wanted, 0)
      expect(shares.reduce((sum, share) => sum + share, 0)).toBe(Math.min(limit, demand))
      for (const [at, share] of shares.entries())
        expect(share).toBeGreaterThanOrEqual(Math.min(all[at]?.wanted ?? 0, Math.floor(limit / all.length)))
    }),
  )
})

test("workers that take turns at random never hold more than there is, and come to rest at even parts", () => {
  const ids = ["a", "b", "c", "d"]
  fc.assert(
    fc.property(
      fc.array(fc.nat({ max: 3 }), { minLength: 40, maxLength: 80 }),
      fc.integer({ min: 4, max: 20 }),
      (order, limit) => {
        let state = limitState({})
        const held = new Map<string, number>()
        const turn = (id: string) => {
          const decision = decidePermits(
            state,
            { id, held: held.get(id) ?? 0, running: 0, wanted: 30, isIdle: false },
            limit,
            NOW,
          )
          held.set(id, decision.held)
          ;({ state } = decision)
          expect([...held.values()].reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(limit)
        }
        for (const at of order) turn(ids[at] ?? "a")
        for (let round = 0; round < 4; round++) for (const id of ids) turn(id)
        for (const id of ids) expect(held.get(id)).toBeGreaterThanOrEqual(Math.floor(limit / 4))
      },
    ),
  )
})

test("of a limit that changes, workers never take more than there is, nor more while it is exceeded", () => {
  const ids = ["a", "b", "c"]
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          at: fc.nat({ max: 2 }),
          running: fc.nat({ max: 20 }),
          wanted: fc.integer({ min: 1, max: 30 }),
          limit: fc.option(fc.integer({ min: 3, max: 20 })),
        }),
        { minLength: 20, maxLength: 60 },
      ),
      (steps) => {
        let [state, limit] = [limitState({}), 20]
        const held = new Map<string, number>()
        const total = () => [...held.values()].reduce((sum, count) => sum + count, 0)
        const turn = (id: string, running: number, wanted: number) => {
          const before = total()
          const own = { id, held: held.get(id) ?? 0, wanted, isIdle: false }
          const decision = decidePermits(state, { ...own, running: Math.min(running, own.held) }, limit, NOW)
          held.set(id, decision.held)
          ;({ state } = decision)
          expect(total()).toBeLessThanOrEqual(Math.max(limit, before))
        }
        for (const step of steps) {
          limit = step.limit ?? limit
          turn(ids[step.at] ?? "a", step.running, step.wanted)
        }
        for (let round = 0; round < 4; round++) for (const id of ids) turn(id, 0, 3)
        expect(total()).toBeLessThanOrEqual(limit)
        for (const id of ids) expect(held.get(id)).toBeGreaterThanOrEqual(Math.min(3, Math.floor(limit / 3)))
      },
    ),
  )
})
