/** The roster: who is missing, and who is struck off. */
import { describe, expect, test } from "vitest"
import { MemoryStore } from "../../../../plugins/memory/store.ts"
import { WORKERS, type WorkerDescription } from "../../../../runtime/cluster/directory.ts"
import { joinRoster, leaveRoster, mayRun, membersOf, strikeOff } from "../../../../runtime/cluster/roster.ts"
import { newWorkerProcess } from "../../../../runtime/cluster/worker-process.ts"
import type { Store } from "../../../../runtime/transport/store.ts"

const storeOf = (): Store => {
  const memory = new MemoryStore()
  return {
    get: async (keys) => memory.get(keys),
    list: async (range) => memory.list(range),
    write: async (operations) => memory.write(operations),
    now: async () => Date.now(),
  }
}

const worker = (name: string, more: Partial<WorkerDescription> = {}): WorkerDescription => ({
  name,
  pid: 1,
  instance: `${name}.1`,
  host: "elsewhere",
  version: "1",
  queues: [],
  actors: [],
  concurrency: 1,
  state: "idle",
  running: [],
  inFlight: 0,
  processed: 0,
  failed: 0,
  startedAt: new Date().toISOString(),
  heartbeatAt: new Date().toISOString(),
  ...more,
})

/** A worker of this machine whose process has ended. */
const dead = () => worker("dead", { ...newWorkerProcess(), pid: 2 ** 22 + 1, instance: "dead.1" })

const register = (store: Store, one: WorkerDescription) => store.write([WORKERS.put(one.name, one)])
const notes = async (store: Store) => (await store.list({ prefix: "roster/", limit: 10 })).map(({ key }) => key)

describe("the roster", () => {
  test("has a worker as missing that is not registered, unless its process is known to have ended", async () => {
    const store = storeOf()
    const [here, away] = [worker("here", { running: ["a"] }), worker("away")]
    await register(store, here)
    for (const each of [here, away, dead()]) await joinRoster(store, each)
    const { present, missing } = await membersOf(store)
    expect([present.map(({ name }) => name), missing]).toEqual([["here"], ["away.1"]])
    expect(await mayRun(store, "b")).toBe(true)
  })

  test("has nobody as missing once all are back; then only what they list may run", async () => {
    const store = storeOf()
    const here = worker("here", { running: ["a"] })
    await register(store, here)
    for (const each of [here, dead()]) await joinRoster(store, each)
    expect([await mayRun(store, "a"), await mayRun(store, "b")]).toEqual([true, false])
  })

  test("a worker that lists as many jobs as it may list may run any", async () => {
    const store = storeOf()
    await register(store, worker("full", { running: Array.from({ length: 100 }, (_, at) => `j${at}`) }))
    expect(await mayRun(store, "b")).toBe(true)
  })

  test("does not have a worker as missing that leaves between the two reads", async () => {
    const store = storeOf()
    const leaving = worker("leaving")
    await register(store, leaving)
    await joinRoster(store, leaving)
    let left = false
    const between: Store = {
      ...store,
      list: async (range) => {
        const found = await store.list(range)
        if (!left) {
          left = true
          await leaveRoster(store, leaving)
          await store.write([WORKERS.remove(leaving.name)])
        }
        return found
      },
    }
    expect(await membersOf(between)).toEqual({ present: [], missing: [] })
  })

  test("loses the dead at once, the missing when they had their time, and who leaves", async () => {
    const store = storeOf()
    const [here, away, left] = [worker("here"), worker("away"), worker("left")]
    await register(store, here)
    for (const each of [here, away, left, dead()]) await joinRoster(store, each)
    await leaveRoster(store, left)
    await strikeOff(store, false)
    expect(await notes(store)).toEqual(["roster/away.1", "roster/here.1"])
    await strikeOff(store, true)
    expect(await notes(store)).toEqual(["roster/here.1"])
  })

  test("keeps a worker that comes back while it is struck off", async () => {
    const store = storeOf()
    const away = worker("away")
    await joinRoster(store, away)
    const slow: Store = {
      ...store,
      list: async (range) => {
        const found = await store.list(range)
        if (range.prefix === WORKERS.prefix) await joinRoster(store, away)
        return found
      },
    }
    await strikeOff(slow, true)
    expect(await notes(store)).toEqual(["roster/away.1"])
  })
})
