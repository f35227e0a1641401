import { fileURLToPath } from "node:url"
import { connect } from "callboard"
import { afterEach, describe, expect, test, vi } from "vitest"
import { ACTOR_REFRESH_MS, HEARTBEAT_MS, listActors, listWorkers } from "../../../../../runtime/cluster/directory.ts"
import { newWorkerProcess } from "../../../../../runtime/cluster/worker-process.ts"
import type { CallboardError } from "../../../../../runtime/errors.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { makeLog } from "../../../../../runtime/log/log.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import type { Store } from "../../../../../runtime/transport/store.ts"
import { Registry } from "../../../../../runtime/worker/control/registry.ts"
import { spawnScript, temporaryFolder } from "../../../../support/servers/process.ts"

const worker = {
  name: "w1",
  pid: 1,
  instance: "ours",
  host: "here",
  version: "0",
  queues: ["default"],
  actors: ["a", "b"],
  concurrency: 1,
  state: "idle" as const,
  running: [],
  inFlight: 0,
  processed: 0,
  failed: 0,
  startedAt: "2031-06-07T08:09:10Z",
  heartbeatAt: "2031-06-07T08:09:10Z",
}
const actors = ["a", "b"].map((name) => ({ name, queue: "default", methods: [] }))

const open: Array<() => unknown> = []
afterEach(async () => {
  vi.useRealTimers()
  for (const close of open.splice(0).reverse()) await close()
})

const start = async (change: (store: Store) => Partial<Store> = () => ({})) => {
  const client = await connect(`memory://${generateId()}`)
  const { store } = client.connection
  const log = makeLog({ level: "none" })
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] })
  const taken: Array<CallboardError> = []
  const registry = new Registry({
    store: { ...store, ...change(store) },
    log,
    actors,
    describe: () => worker,
    reconnectMs: 10_000,
    sharedLease: false,
    onTaken: (error) => taken.push(error),
  })
  open.push(
    () => client.close(),
    () => registry.end(),
  )
  return { store, registry, taken }
}

const names = async (store: Store) => (await listActors(store)).map(({ name }) => name)

test("a worker and its actors are known from the first beat; the worker goes when it ends", async () => {
  const { store, registry } = await start()
  await registry.beat()
  expect(await listWorkers(store)).toEqual([worker])
  expect(await names(store)).toEqual(["a", "b"])
  await registry.end()
  expect(await listWorkers(store)).toEqual([])
  await registry.beat()
  expect(await listWorkers(store)).toEqual([])
})

test("actors that could not all be told are told again with the next beat", async () => {
  let fails = true
  const { store, registry } = await start((store) => ({
    write: (operations) =>
      operations[0]?.key === "actor/b" && fails
        ? Promise.reject(new TransportError("unavailable", "down"))
        : store.write(operations),
  }))
  await registry.begin()
  expect(await names(store)).toEqual(["a"])
  fails = false
  await vi.advanceTimersByTimeAsync(HEARTBEAT_MS)
  expect(await names(store)).toEqual(["a", "b"])
})

test("actors are told again in time, and not with each beat, whatever happens to the clock", async () => {
  let writes = 0
  const { registry } = await start((store) => ({
    write: (operations) => {
      if (operations[0]?.key.startsWith("actor/")) writes++
      return store.write(operations)
    },
  }))
  await registry.begin()
  await vi.advanceTimersByTimeAsync(HEARTBEAT_MS)
  expect(writes).toBe(2)
  const clock = vi.spyOn(Date, "now").mockReturnValue(0)
  await vi.advanceTimersByTimeAsync(HEARTBEAT_MS)
  expect(writes).toBe(2)
  await vi.advanceTimersByTimeAsync(ACTOR_REFRESH_MS)
  expect(writes).toBe(4)
  clock.mockRestore()
})

test("a worker does not read its own entry again, and writes it anew when it is gone", async () => {
  let reads = 0
  const { store, registry } = await start((store) => ({
    get: (keys) => {
      reads++
      return store.get(keys)
    },
  }))
  await registry.begin()
  reads = 0
  for (let beats = 0; beats < 3; beats++) await registry.beat()
  expect(reads).toBe(0)
  await store.write([{ key: "worker/w1", value: null }])
  await registry.beat()
  expect(await listWorkers(store)).toEqual([worker])
})

describe("a worker that ends while it takes its name", () => {
  test("is not listed afterwards", async () => {
    const [asked, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { store, registry } = await start((store) => ({
      write: async (operations) => {
        asked.resolve()
        await goOn.promise
        return store.write(operations)
      },
    }))
    const begun = registry.begin()
    await asked.promise
    const ended = registry.end()
    goOn.resolve()
    await Promise.all([begun, ended])
    expect(await listWorkers(store)).toEqual([])
    await vi.advanceTimersByTimeAsync(HEARTBEAT_MS)
    expect(await listWorkers(store)).toEqual([])
  })

  test("does not wait until the name is free", async () => {
    const { store, registry } = await start()
    const other = { ...worker, host: "elsewhere", instance: "theirs" }
    await store.write([{ key: "worker/w1", value: new TextEncoder().encode(JSON.stringify(other)) }])
    const begun = registry.begin()
    await registry.end()
    await begun
    expect(await listWorkers(store)).toEqual([other])
  })
})

test("a store that does not answer keeps no worker from ending", async () => {
  const asked = Promise.withResolvers<void>()
  const { registry } = await start(() => ({
    write: () => {
      asked.resolve()
      return new Promise(() => undefined)
    },
  }))
  void registry.beat()
  await asked.promise
  await registry.end()
})

describe("a name", () => {
  const entry = (changes: object) => ({
    key: "worker/w1",
    value: new TextEncoder().encode(JSON.stringify({ ...worker, instance: "theirs", ...changes })),
  })

  test("that a live worker of another machine has is refused", async () => {
    const { store, registry } = await start()
    vi.useRealTimers()
    await store.write([entry({ host: "elsewhere" })])
    const beats = setInterval(() => void store.write([entry({ host: "elsewhere", heartbeatAt: `${Date.now()}` })]), 200)
    open.push(() => clearInterval(beats))
    await expect(registry.begin()).rejects.toMatchObject({
      code: "invalid-input",
      details: { field: "name" },
      message: expect.stringContaining("process 1 on elsewhere"),
    })
  })

  test("that another worker of this process has is refused at once", async () => {
    const { store, registry } = await start()
    await store.write([entry(newWorkerProcess())])
    await expect(registry.begin()).rejects.toMatchObject({ code: "invalid-input" })
  })

  test("that is refused leaves nothing behind that keeps the process alive", async () => {
    using folder = temporaryFolder()
    const script = fileURLToPath(new URL("name-taken.ts", import.meta.url))
    await using both = spawnScript(script, [`sqlite:${folder.path}/board.db`])
    expect(await both.exited).toMatchObject({ code: 0 })
    expect(both.output).toContain("a running worker is already named same")
  })

  test("that a live worker has is not overwritten when the store fails while it is claimed", async () => {
    // Once, while the name is being taken; later writes succeed.
    let fails = true
    const once = async <A>(ask: () => Promise<A>): Promise<A> => {
      if (!fails) return ask()
      fails = false
      throw new TransportError("unavailable", "down")
    }
    const { store, registry, taken } = await start((store) => ({
      get: (key) => once(() => store.get(key)),
      write: (operations) => once(() => store.write(operations)),
    }))
    const beat = (at: number) => store.write([entry({ host: "elsewhere", heartbeatAt: `${at}` })])
    await beat(1)
    await registry.begin()
    expect(await listWorkers(store)).toMatchObject([{ host: "elsewhere" }])
    for (let at = 2; at <= 3; at++) {
      await beat(at)
      await vi.advanceTimersByTimeAsync(HEARTBEAT_MS)
      expect(await listWorkers(store)).toMatchObject([{ host: "elsewhere", heartbeatAt: `${at}` }])
    }
    expect(taken).toMatchObject([{ code: "invalid-input", details: { field: "name" } }])
    await registry.end()
    expect(await listWorkers(store)).toMatchObject([{ host: "elsewhere" }])
  })

  test("whose claim was written, and its answer lost, is held", async () => {
    let lost = true
    const { store, registry, taken } = await start((store) => ({
      write: async (operations) => {
        const answer = await store.write(operations)
        if (!lost) return answer
        lost = false
        throw new TransportError("unavailable", "no answer", { outcome: "unknown" })
      },
    }))
    await registry.begin()
    await vi.advanceTimersByTimeAsync(HEARTBEAT_MS)
    expect(await listWorkers(store)).toEqual([worker])
    expect(taken).toEqual([])
    await registry.end()
    expect(await listWorkers(store)).toEqual([])
  })

  test("that has lapsed, and is another worker's by now, stays the other's", async () => {
    const { store, registry, taken } = await start()
    await registry.begin()
    await store.write([{ key: "worker/w1", value: null }, entry({ host: "elsewhere", heartbeatAt: "1" })])
    await vi.advanceTimersByTimeAsync(HEARTBEAT_MS)
    await store.write([entry({ host: "elsewhere", heartbeatAt: "2" })])
    await vi.advanceTimersByTimeAsync(HEARTBEAT_MS)
    expect(taken).toMatchObject([{ message: expect.stringContaining("process 1 on elsewhere") }])
    await registry.end()
    expect(await listWorkers(store)).toMatchObject([{ host: "elsewhere", heartbeatAt: "2" }])
  })

  test("of a worker that died on this machine is taken over at once", async () => {
    const { store, registry } = await start()
    // No process can have this number.
    await store.write([entry({ ...newWorkerProcess(), pid: 2 ** 30 })])
    await registry.begin()
    expect(await listWorkers(store)).toEqual([worker])
  })

  test("of a worker that died before this process got its number is taken over at once", async () => {
    const { store, registry } = await start()
    await store.write([entry({ ...newWorkerProcess(), instance: "theirs" })])
    await registry.begin()
    expect(await listWorkers(store)).toEqual([worker])
  })

  test("of a worker that died elsewhere is free when its entry has lapsed", async () => {
    const { store, registry } = await start()
    vi.useRealTimers()
    await store.write([{ ...entry({ host: "elsewhere" }), ttl: 1_000 }])
    await registry.begin()
    expect(await listWorkers(store)).toEqual([worker])
  })
})
