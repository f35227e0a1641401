/** Permits as several workers share them, over a store that can be slow, contended or away. */
import { describe, expect, test } from "vitest"
import { makeLog } from "../../../../../runtime/log/log.ts"
import type { Rate } from "../../../../../runtime/options/limit.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import type { Store } from "../../../../../runtime/transport/store.ts"
import { Permits } from "../../../../../runtime/worker/limits/permits.ts"
import { Presence } from "../../../../../runtime/worker/limits/presence.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { newStore, storeWith } from "./stores.ts"

const KEY = "limit/a.run/"
const log = makeLog({ level: "none" })

/** A worker with this many waiting tasks, which starts what it may. */
const worker = (store: Store, limit: { concurrency: number; rate?: Rate }, ttlMs = 60_000, handlers = 20) => {
  const presence = new Presence(store, ttlMs, () => undefined)
  let waiting = 0
  const permits: Permits = new Permits({
    ...limit,
    key: KEY,
    store,
    presence,
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
  return { presence, permits, add, pump, starts, left: () => waiting }
}

/** A turn of the event loop. */
const turn = () => new Promise((resolve) => setImmediate(resolve))

const stateOf = async (store: Store): Promise<{ readonly tat?: number; readonly held?: Record<string, number> }> => {
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

describe("permits", () => {
  test("are never more than there are, however many workers take and give at once, and all get some", async () => {
    const store = await newStore()
    const workers = Array.from({ length: 5 }, () => worker(store, { concurrency: 7 }))
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
    const dead = worker(store, { concurrency: 3 }, 1_000)
    const alive = worker(store, { concurrency: 3 })
    dead.add(2)
    await eventually(() => dead.permits.running === 2)
    alive.add(1)
    await eventually(() => alive.permits.running === 1)
    const heir = worker(store, { concurrency: 3 })
    using _ = ticking(heir)
    heir.add(3)
    await eventually(() => heir.permits.running === 2, { message: "the permits of the dead one come back" })
    expect((await stateOf(store)).held).toEqual({ [alive.presence.id]: 1, [heir.presence.id]: 2 })
  })

  test("of a worker that was taken for dead are not used again, but for what still runs", async () => {
    const store = await newStore()
    const frozen = worker(store, { concurrency: 2 }, 1_000)
    const other = worker(store, { concurrency: 2 })
    frozen.add(2)
    await eventually(() => frozen.permits.running === 2)
    using _ = ticking(other)
    other.add(3)
    await eventually(() => other.permits.running === 2)
    expect(await frozen.presence.beat()).toBe(true)
    frozen.permits.recheck()
    await eventually(async () => (await stateOf(store)).held?.[frozen.presence.id] === 2)
    frozen.add(2)
    frozen.permits.end()
    frozen.pump()
    await eventually(async () => (await stateOf(store)).held?.[frozen.presence.id] === 1)
    expect(frozen.permits.running).toBe(1)
  })

  test("are not used by a worker that cannot know whether it is still taken to be alive", async () => {
    const store = await newStore()
    const { permits, add, presence } = worker(store, { concurrency: 2 }, 1_000)
    add(1)
    await eventually(() => permits.running === 1)
    permits.end()
    expect(permits.startsAt(0)).toBe(0)
    await eventually(() => !presence.isFresh)
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

  test("of a worker that has one for each of its handlers are not asked about while its tasks wait", async () => {
    let reads = 0
    const store = await newStore()
    const counted = storeWith(store, {
      get: (key) => {
        reads++
        return store.get(key)
      },
    })
    const one = worker(counted, { concurrency: 10 }, 60_000, 4)
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

  test("that are not there take nothing of their rate", async () => {
    const store = await newStore()
    const limit = { rate: { intervalMs: 60_000 }, concurrency: 1 }
    const first = worker(store, limit)
    first.add(1)
    await eventually(() => first.permits.running === 1)
    const { tat } = await stateOf(store)
    const second = worker(store, limit)
    second.add(5)
    using _ = ticking(second)
    await eventually(async () =>
      new TextDecoder().decode((await store.get([KEY]))[0]?.value).includes(second.presence.id),
    )
    expect((await stateOf(store)).tat).toBe(tat)
  })
})
