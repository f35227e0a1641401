/** Slots as several workers share them, over a store that can be slow, contended or away. */
import { describe, expect, test } from "vitest"
import { makeLog } from "../../../../runtime/log.ts"
import type { Rate } from "../../../../runtime/rate.ts"
import { type Store, type StoreOperation, TransportError } from "../../../../runtime/transport.ts"
import { Presence } from "../../../../runtime/worker/limits/presence.ts"
import { SlotLimit } from "../../../../runtime/worker/limits/slot-limit.ts"
import { eventually } from "../../../servers/process.ts"
import { newStore, storeWith } from "./stores.ts"

const KEY = "limit/a.run/"
const log = makeLog({ level: "none" })

const worker = (store: Store, limit: { readonly concurrency: number; readonly rate?: Rate }, ttlMs = 60_000) => {
  const presence = new Presence(store, ttlMs, () => undefined)
  const enter = (operation: StoreOperation) => store.write([operation])
  return {
    presence,
    limit: new SlotLimit({ ...limit, key: KEY, store, presence, log, enter, isOver: async () => false }),
  }
}

let places = 0
const newcomer = () => ({ place: String(++places).padStart(8, "0"), returning: false })

const stateOf = async (store: Store): Promise<{ readonly tat?: number; readonly held?: Record<string, number> }> => {
  const entry = await store.get(KEY)
  return entry === undefined ? {} : JSON.parse(new TextDecoder().decode(entry.value))
}

const ask = async (limit: SlotLimit, count: number): Promise<number> =>
  (await Promise.all(Array.from({ length: count }, () => limit.ask(newcomer())))).filter(({ granted }) => granted)
    .length

describe("slots", () => {
  test("are never more than there are, however many workers take and give at once", async () => {
    const store = await newStore()
    const workers = Array.from({ length: 6 }, () => worker(store, { concurrency: 7 }).limit)
    let running = 0
    let most = 0
    let done = 0
    const work = async (limit: SlotLimit) => {
      for (let tries = 0; tries < 60; tries++) {
        if (!(await limit.ask(newcomer())).granted) continue
        most = Math.max(most, ++running)
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 3))
        running--
        done++
        limit.release()
      }
    }
    await Promise.all(workers.flatMap((limit) => Array.from({ length: 4 }, () => work(limit))))
    expect(most).toBeLessThanOrEqual(7)
    expect(done).toBeGreaterThan(100)
    await Promise.all(workers.map((limit) => limit.settled()))
    expect((await stateOf(store)).held).toBeUndefined()
  })

  test("of a worker that is dead are free, those of one that lives are not", async () => {
    const store = await newStore()
    const [dead, alive, heir] = [1_000, 60_000, 60_000].map((ttl) => worker(store, { concurrency: 3 }, ttl))
    expect(await ask(dead?.limit ?? expect.unreachable(), 2)).toBe(2)
    expect(await ask(alive?.limit ?? expect.unreachable(), 2)).toBe(1)
    expect(await ask(heir?.limit ?? expect.unreachable(), 2)).toBe(0)
    await eventually(async () => (await ask(heir?.limit ?? expect.unreachable(), 3)) === 2, {
      message: "the slots of the dead one come back",
    })
    expect((await stateOf(store)).held).toEqual({ [alive?.presence.id ?? ""]: 1, [heir?.presence.id ?? ""]: 2 })
  })

  test("of a worker that was taken for dead and still runs are told again, and nobody gets more meanwhile", async () => {
    const store = await newStore()
    const frozen = worker(store, { concurrency: 2 }, 1_000)
    const other = worker(store, { concurrency: 2 })
    expect(await ask(frozen.limit, 2)).toBe(2)
    await eventually(async () => (await ask(other.limit, 1)) === 1)
    expect(await frozen.presence.beat()).toBe(true)
    frozen.limit.upkeep(true)
    await frozen.limit.settled()
    expect((await stateOf(store)).held).toEqual({ [frozen.presence.id]: 2, [other.presence.id]: 1 })
    expect(await ask(other.limit, 1)).toBe(0)
    for (let count = 0; count < 2; count++) frozen.limit.release()
    await frozen.limit.settled()
    expect(await ask(other.limit, 2)).toBe(1)
  })

  test("that could not be given back are given back later", async () => {
    const store = await newStore()
    let away = false
    const down = () => Promise.reject(new TransportError("unavailable", "away"))
    const shaky = storeWith(store, {
      get: (key) => (away ? down() : store.get(key)),
      write: (operations) => (away ? down() : store.write(operations)),
    })
    const { limit } = worker(shaky, { concurrency: 1 })
    expect(await ask(limit, 1)).toBe(1)
    away = true
    expect(await ask(limit, 5)).toBe(0)
    limit.release()
    await limit.settled()
    expect((await stateOf(store)).held).toBeDefined()
    expect(limit.isIdle).toBe(false)
    away = false
    limit.upkeep(false)
    await limit.settled()
    expect((await stateOf(store)).held).toBeUndefined()
    expect(limit.isIdle).toBe(true)
  })

  test("that are taken again at once cost no write", async () => {
    const store = await newStore()
    let writes = 0
    const counted = storeWith(store, {
      write: (operations) => {
        writes++
        return store.write(operations)
      },
    })
    const { limit } = worker(counted, { concurrency: 1 })
    expect(await ask(limit, 1)).toBe(1)
    const before = writes
    for (let count = 0; count < 20; count++) {
      limit.release()
      expect(await ask(limit, 1)).toBe(1)
    }
    expect(writes).toBe(before)
  })

  test("take nothing of their rate for what finds none", async () => {
    const store = await newStore()
    const limit = { rate: { intervalMs: 60_000 }, concurrency: 1 }
    const [first, second] = [worker(store, limit).limit, worker(store, limit).limit]
    expect(await ask(first, 1)).toBe(1)
    const { tat } = await stateOf(store)
    expect(await ask(second, 5)).toBe(0)
    expect((await stateOf(store)).tat).toBe(tat)
  })
})
