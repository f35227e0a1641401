/** One limit as several workers share it, over a store that can be slow, contended or away. */
import { connect } from "callboard"
import { afterEach, describe, expect, test } from "vitest"
import { generateId } from "../../../runtime/id.ts"
import { makeLog } from "../../../runtime/log.ts"
import { type Store, type StoreOperation, TransportError } from "../../../runtime/transport.ts"
import { Presence } from "../../../runtime/worker/limits/presence.ts"
import { type Limit, SharedLimit } from "../../../runtime/worker/limits/shared-limit.ts"
import { WaitingList } from "../../../runtime/worker/limits/waiting.ts"
import { eventually } from "../../servers/process.ts"

const KEY = "limit/a.run/"
const log = makeLog({ level: "none" })
const open: Array<AsyncDisposable> = []
afterEach(async () => {
  for (const resource of open.splice(0)) await resource[Symbol.asyncDispose]()
})

const newStore = async (): Promise<Store> => {
  const client = await connect(`memory://${generateId()}`)
  open.push(client)
  return client.board.store
}

const worker = (store: Store, limit: Limit, ttlMs = 60_000) => {
  const presence = new Presence(store, ttlMs, () => undefined)
  const enter = (operation: StoreOperation) => store.write([operation])
  return {
    presence,
    limit: new SharedLimit({ key: KEY, limit, store, presence, log, enter, isOver: async () => false }),
  }
}

let places = 0
const newcomer = () => ({ place: String(++places).padStart(8, "0"), returning: false })

const stateOf = async (store: Store): Promise<{ readonly tat?: number; readonly held?: Record<string, number> }> => {
  const entry = await store.get(KEY)
  return entry === undefined ? {} : JSON.parse(new TextDecoder().decode(entry.value))
}

const ask = async (limit: SharedLimit, count: number): Promise<number> =>
  (await Promise.all(Array.from({ length: count }, () => limit.ask(newcomer())))).filter(({ granted }) => granted)
    .length

describe("slots", () => {
  test("are never more than there are, however many workers take and give at once", async () => {
    const store = await newStore()
    const workers = Array.from({ length: 6 }, () => worker(store, { concurrency: 7 }).limit)
    let running = 0
    let most = 0
    let done = 0
    const work = async (limit: SharedLimit) => {
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
    const shaky: Store = {
      get: (key) => (away ? down() : store.get(key)),
      write: (operations) => (away ? down() : store.write(operations)),
      list: (options) => store.list(options),
      count: (prefix) => store.count(prefix),
      watch: (prefix, listener, signal) => store.watch(prefix, listener, signal),
      now: () => store.now(),
    }
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
    const counted: Store = {
      get: (key) => store.get(key),
      write: (operations) => {
        writes++
        return store.write(operations)
      },
      list: (options) => store.list(options),
      count: (prefix) => store.count(prefix),
      watch: (prefix, listener, signal) => store.watch(prefix, listener, signal),
      now: () => store.now(),
    }
    const { limit } = worker(counted, { concurrency: 1 })
    expect(await ask(limit, 1)).toBe(1)
    const before = writes
    for (let count = 0; count < 20; count++) {
      limit.release()
      expect(await ask(limit, 1)).toBe(1)
    }
    expect(writes).toBe(before)
  })
})

describe("a rate", () => {
  test("is taken in portions, and never more of it than it allows", async () => {
    const store = await newStore()
    let reads = 0
    const counted: Store = {
      get: (key) => {
        reads++
        return store.get(key)
      },
      write: (operations) => store.write(operations),
      list: (options) => store.list(options),
      count: (prefix) => store.count(prefix),
      watch: (prefix, listener, signal) => store.watch(prefix, listener, signal),
      now: () => store.now(),
    }
    const rate = { intervalMs: 1 }
    const { limit: alone } = worker(counted, { rate })
    for (let count = 0; count < 50; count++) expect(await ask(alone, 1)).toBe(1)
    expect(reads).toBeLessThan(5)
    const workers = [worker(counted, { rate }).limit, worker(counted, { rate }).limit]
    const began = performance.now()
    let granted = 0
    while (granted < 600) for (const limit of workers) granted += await ask(limit, 1)
    const took = performance.now() - began
    // A burst of 100, of which some is taken already.
    expect(granted).toBeLessThanOrEqual(took + 100 + 1)
    expect(took).toBeLessThan(3_000)
  })

  test("that takes nothing for what finds no slot", async () => {
    const store = await newStore()
    const limit = { rate: { intervalMs: 60_000 }, concurrency: 1 }
    const [first, second] = [worker(store, limit).limit, worker(store, limit).limit]
    expect(await ask(first, 1)).toBe(1)
    const { tat } = await stateOf(store)
    expect(await ask(second, 5)).toBe(0)
    expect((await stateOf(store)).tat).toBe(tat)
  })
})

describe("a list of those who wait", () => {
  const enter = (store: Store, list: WaitingList, ...places: ReadonlyArray<string>) =>
    store.write(places.map((place) => list.entering({ place, token: place, id: place, queue: "q" }, 60_000)))

  test("shows whoever came among the first ones, also who is before where it was read from", async () => {
    const store = await newStore()
    const [mine, other] = [new WaitingList(store, KEY), new WaitingList(store, KEY)]
    await enter(store, other, "5", "7")
    expect((await mine.from("5", 2)).places).toEqual(["5", "7"])
    await enter(store, other, "6", "2")
    await other.tell("2")
    expect((await mine.from("5", 2)).places).toEqual(["5", "6"])
    expect((await mine.from("2", 2)).places).toEqual(["2", "5"])
  })

  test("is read once for many, and says where the next one is", async () => {
    const store = await newStore()
    const list = new WaitingList(store, KEY)
    await enter(store, list, "1", "2", "3")
    const front = await list.from("1", 3)
    expect(front.headAfter("1")).toBe("2")
    expect(front.headAfter("3")).toBeUndefined()
    // Somebody may have come behind them since.
    expect((await list.from("2", 1)).headAfter("3")).toBe("3+")
  })

  test("tells whoever has moved the head who was overlooked", async () => {
    const store = await newStore()
    const [mine, other] = [new WaitingList(store, KEY), new WaitingList(store, KEY)]
    await enter(store, other, "5")
    await mine.from("5", 1)
    expect(await mine.overlooked("6")).toBeUndefined()
    await enter(store, other, "4", "8")
    await other.tell("4")
    expect(await mine.overlooked("6")).toBe("4")
    expect(await mine.overlooked("3")).toBeUndefined()
    expect(await mine.overlooked(undefined)).toBe("4")
  })
})
