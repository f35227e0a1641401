/**
 * The parts of a worker, from start to stop: acquired in order, released in reverse, also when a later part does not
 * start.
 */
import { actor, connect } from "callboard"
import { describe, expect, onTestFinished, test, vi } from "vitest"
import type { ActorDefinition } from "../../../../runtime/actor/actor.ts"
import { listWorkers, WORKERS } from "../../../../runtime/cluster/directory.ts"
import { newWorkerProcess } from "../../../../runtime/cluster/worker-process.ts"
import { generateId } from "../../../../runtime/id.ts"
import { makeLog } from "../../../../runtime/log/log.ts"
import { settingsOf } from "../../../../runtime/service/settings.ts"
import type { Store, StoreOperation } from "../../../../runtime/transport/store.ts"
import type { Worker } from "../../../../runtime/worker/control/worker.ts"
import type { WorkerOptions } from "../../../../runtime/worker/options.ts"
import { StopCondition } from "../../../../runtime/worker/stop-condition.ts"
import { startWorker } from "../../../../runtime/worker/worker.ts"
import { faulty, gate, sleep } from "../../../support/faulty-board.ts"
import { eventually } from "../../../support/servers/process.ts"

const NAME = "lives"
const isName = (operations: ReadonlyArray<StoreOperation>, isWritten: boolean): boolean =>
  operations.some(({ key, value }) => key === WORKERS.key(NAME) && (value !== null) === isWritten)

/** A transport that records what a worker acquires and releases on it, each once. */
const board = async (
  write: (store: Store, operations: ReadonlyArray<StoreOperation>) => ReturnType<Store["write"]> = (
    store,
    operations,
  ) => store.write(operations),
) => {
  const notes: Array<string> = []
  /** Signals and listeners of the transport that are in use. */
  const inUse = new Set<unknown>()
  const note = (what: string): void => {
    if (!notes.includes(what)) notes.push(what)
  }
  const use = (what: string, signal: AbortSignal): void => {
    note(what)
    inUse.add(signal)
    signal.addEventListener("abort", () => {
      inUse.delete(signal)
      note(`no ${what}`)
    })
  }
  const transports = faulty((transport) => {
    const { store, broadcast } = transport
    if (store === undefined || broadcast === undefined) throw new Error("these tests need a store and broadcast")
    return {
      ...transport,
      onStatus: (listener) => {
        const off = transport.onStatus(listener)
        inUse.add(listener)
        return () => {
          inUse.delete(listener)
          off()
        }
      },
      jobs: {
        ...transport.jobs,
        take: (request, signal) => {
          use("pull", signal)
          return transport.jobs.take(request, signal).finally(() => inUse.delete(signal))
        },
      },
      store: {
        ...store,
        watch: (prefix, listener, signal) => {
          use("mirror", signal)
          if (store.watch === undefined) throw new Error("the memory transport watches its store")
          return store.watch(prefix, listener, signal)
        },
        write: (operations) => {
          if (isName(operations, true)) note("name")
          if (isName(operations, false)) note("no name")
          return write(store, operations)
        },
      },
      broadcast: {
        ...broadcast,
        listen: (topic, listener, signal) => {
          use("control", signal)
          return broadcast.listen(topic, listener, signal)
        },
      },
    }
  })
  const client = await connect(`faulty://${generateId()}`, { transports })
  onTestFinished(() => client.close())
  const others = inUse.size
  return { client, notes, note, store: client.connection.store, unused: () => inUse.size === others }
}

type Board = Awaited<ReturnType<typeof board>>

const resource = ({ note }: Board, opened: Promise<void> = Promise.resolve()) =>
  actor("resource", {
    start: (scope) => {
      note("actor")
      scope.onStop(() => note("no actor"))
    },
    methods: {
      run: async () => {
        note("handler")
        await opened
        note("no handler")
      },
    },
  })

const optionsOn = ({ client }: Board, actors: ReadonlyArray<ActorDefinition>): WorkerOptions => ({
  ...settingsOf({ actors }),
  connection: client.connection,
  client,
  actors,
  name: NAME,
  leaseMs: 30_000,
  log: makeLog({ level: "none" }),
  observers: [],
})

const startOn = (on: Board, actors: ReadonlyArray<ActorDefinition>, signal?: AbortSignal): Promise<Worker> =>
  startWorker(optionsOn(on, actors), signal)

describe("a worker", () => {
  test("acquires its parts in order, the consumer last, and releases them in reverse", async () => {
    const on = await board()
    const { open, opened } = gate()
    const worker = await startOn(on, [resource(on, opened)])
    await eventually(() => worker.listening, { message: "it consumes" })
    await on.client.submit("resource")
    await eventually(() => on.notes.includes("handler"), { message: "it runs" })
    expect(on.notes).toEqual(["actor", "mirror", "name", "control", "pull", "handler"])
    on.notes.length = 0
    const stopping = worker.stop()
    expect(worker.describe().state).toBe("stopping")
    await eventually(() => on.notes.includes("no pull"), { message: "it pulls no more" })
    open()
    expect(await stopping).toEqual({ finished: 1, handedBack: 0, stuck: 0, lost: 0 })
    const released = on.notes.filter((what) => what.startsWith("no "))
    expect(released.filter((what) => what !== "no mirror" && what !== "no control")).toEqual([
      "no pull",
      "no handler",
      "no name",
      "no actor",
    ])
    for (const subscribed of ["no mirror", "no control"]) {
      expect(released.indexOf(subscribed)).toBeGreaterThan(released.indexOf("no handler"))
      expect(released.indexOf(subscribed)).toBeLessThan(released.indexOf("no name"))
    }
    expect(on.unused()).toBe(true)
  })

  test("that is stopped twice is stopped once", async () => {
    const on = await board()
    const worker = await startOn(on, [resource(on)])
    expect(worker.stop()).toBe(worker.stop({ now: true }))
    await worker.stop()
    expect(on.unused()).toBe(true)
  })
})

describe("a start that fails releases what was acquired until then, in reverse", () => {
  test("when its name is a live worker's", async () => {
    const on = await board()
    const other = { ...(await snapshot()), ...newWorkerProcess() }
    await on.store.write([WORKERS.put(NAME, other)])
    on.notes.length = 0
    await expect(startOn(on, [resource(on)])).rejects.toMatchObject({
      code: "invalid-input",
      details: { field: "name" },
    })
    expect(on.notes.filter((what) => !what.startsWith("no "))).toEqual(["actor", "mirror"])
    expect(on.notes.slice(-2)).toEqual(["no mirror", "no actor"])
    expect(on.unused()).toBe(true)
    expect(await listWorkers(on.store)).toMatchObject([other])
  })

  test("when a later part throws: the name is free again", async () => {
    const on = await board()
    const options = optionsOn(on, [resource(on)])
    // The last part before the consumer.
    vi.spyOn(StopCondition.prototype, "check").mockImplementationOnce(() => {
      throw new Error("this part does not start")
    })
    const failing = startWorker(options)
    await expect(failing).rejects.toThrow("this part does not start")
    expect(on.notes.slice(0, 4)).toEqual(["actor", "mirror", "name", "control"])
    expect(on.notes.slice(4)).toEqual(["no mirror", "no control", "no name", "no actor"])
    expect(await listWorkers(on.store)).toEqual([])
    expect(on.unused()).toBe(true)
  })
})

describe("a start that is ended by its signal", () => {
  test("does not wait for an actor that never starts", async () => {
    const on = await board()
    const end = new AbortController()
    const endless = actor("endless", {
      start: () => {
        on.note("endless")
        return new Promise(() => undefined)
      },
      methods: { run: () => undefined },
    })
    const starting = startOn(on, [resource(on), endless], end.signal)
    await eventually(() => on.notes.includes("endless"), { message: "it starts" })
    end.abort()
    await expect(Promise.race([starting, sleep(10_000)])).rejects.toThrow()
    expect(on.notes).toEqual(["actor", "endless", "no actor"])
    expect(on.unused()).toBe(true)
  })

  test("while the name is being written leaves nothing in the list", async () => {
    const { open, opened } = gate()
    const asked = gate()
    const on = await board(async (store, operations) => {
      if (isName(operations, true)) {
        asked.open()
        await opened
      }
      return store.write(operations)
    })
    const end = new AbortController()
    const starting = startOn(on, [resource(on)], end.signal)
    starting.catch(() => undefined)
    await asked.opened
    end.abort()
    open()
    await expect(starting).rejects.toThrow()
    expect(on.notes.slice(-3)).toEqual(["no mirror", "no name", "no actor"])
    expect(await listWorkers(on.store)).toEqual([])
    expect(on.unused()).toBe(true)
  })

  test("before it begins acquires nothing that stays", async () => {
    const on = await board()
    await expect(startOn(on, [resource(on)], AbortSignal.abort())).rejects.toThrow()
    expect(await listWorkers(on.store)).toEqual([])
    expect(on.unused()).toBe(true)
  })
})

/** What a worker writes about itself. */
const snapshot = async () => {
  const on = await board()
  const worker = await startOn(on, [resource(on)])
  await worker.stop()
  return worker.describe()
}
