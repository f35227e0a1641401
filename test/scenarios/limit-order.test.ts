/** Tasks that wait for a permit of a limit, and in which order they get it: with one service or two, on every transport. */
import { actor, type Client, connect } from "callboard"
import { afterEach, describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { watchStore } from "../../runtime/transport/job-store/watch-store.ts"
import type { Store } from "../../runtime/transport/store.ts"
import { decodeState, LIMIT_PREFIX } from "../../runtime/worker/limits/permits.ts"
import { faulty, sleep, withJobs } from "../support/faulty-board.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"
import { mortal } from "./mortal.ts"

interface Call {
  readonly name: string
  /** It runs until it is let go. */
  readonly held?: boolean
}

/** An actor with one slot, and one with ten, and what they have begun, in order. */
const stage = () => {
  const begun: Array<{ readonly name: string; readonly at: number }> = []
  const gates = new Map<string, () => void>()
  let running = 0
  let max = 0
  const single = actor("single", {
    methods: {
      run: {
        limit: { concurrency: 1, key: () => "tenant" },
        run: async ({ name, held = false }: Call) => {
          begun.push({ name, at: performance.now() })
          max = Math.max(max, ++running)
          if (held) await new Promise<void>((resolve) => gates.set(name, resolve))
          running--
        },
      },
    },
  })
  const several = actor("several", {
    methods: {
      run: {
        limit: { concurrency: 10 },
        run: async () => {
          begun.push({ name: "", at: performance.now() })
          max = Math.max(max, ++running)
          await new Promise((resolve) => setTimeout(resolve, 5))
          running--
        },
      },
    },
  })
  const has = (name: string): boolean => begun.some((each) => each.name === name)
  return {
    single,
    several,
    begun,
    names: () => begun.map(({ name }) => name),
    has,
    letGo: (name: string) => gates.get(name)?.(),
    max: () => max,
    at: (name: string) => begun.find((each) => each.name === name)?.at ?? Number.NaN,
  }
}

const open: Array<Client> = []
afterEach(() => Promise.all(open.splice(0).map((client) => client.close())))

const clientOf = async (board: string, options: Parameters<typeof connect>[1] = {}): Promise<Client> => {
  const client = await connect(board, options)
  open.push(client)
  return client
}

const submit = (client: Client, name: string, more: { readonly priority?: number; readonly held?: boolean } = {}) => {
  const { held = false, ...options } = more
  return client.submit("single.run", { input: { name, held }, ...options })
}

type Served = Awaited<ReturnType<typeof start>>

/** How many wait for a limit, in a worker or put off by one. */
const waiting = (services: ReadonlyArray<Served>): number =>
  services.reduce((sum, { worker }) => sum + (worker?.postpone().length ?? 0), 0)

const allWait = (services: ReadonlyArray<Served>, count: number): Promise<unknown> =>
  eventually(() => waiting(services) === count, { message: `${count} wait` })

/** How soon the next job must start on a busy machine. A start by the periodic check would be later. */
const SOON_MS = 1_000

onEveryBoard((newBoard, transport) => {
  describe("who waits for a slot", () => {
    test("gets it as soon as it is free, by priority and then in order of submission", async () => {
      const { single, names, letGo, at, has, max } = stage()
      const board = newBoard()
      const service = await start([single], { transport: board, concurrency: 4 })
      const client = await clientOf(board)
      await submit(client, "first", { held: true })
      await eventually(() => has("first"), { message: "the slot is taken" })
      const submitted = Array.from({ length: 20 }, (_, index) => ({ name: `job-${index}`, priority: (index * 7) % 10 }))
      for (const { name, priority } of submitted) await submit(client, name, { priority })
      await allWait([service], 20)
      const expected = submitted
        .map((job, index) => ({ ...job, index }))
        .sort((a, b) => b.priority - a.priority || a.index - b.index)
      const free = performance.now()
      letGo("first")
      await eventually(() => names().length === 21, { deadline: 15_000, message: "all have run" })
      expect(names().slice(1)).toEqual(expected.map(({ name }) => name))
      expect(at(expected[0]?.name ?? "") - free).toBeLessThan(SOON_MS)
      expect(max()).toBe(1)
      expect(waiting([service])).toBe(0)
    })

    test("gets it in order, also if it comes later with a higher priority", async () => {
      const { single, names, letGo, has, max } = stage()
      const board = newBoard()
      const service = await start([single], { transport: board, concurrency: 4 })
      const client = await clientOf(board)
      await submit(client, "first", { held: true })
      await eventually(() => has("first"), { message: "the slot is taken" })
      for (let index = 0; index < 8; index++) await submit(client, `low-${index}`, { priority: 1 })
      await allWait([service], 8)
      await submit(client, "high", { priority: 9, held: true })
      await allWait([service], 9)
      letGo("first")
      await eventually(() => has("high"), { message: "the one with the priority runs" })
      // A newcomer does not overtake its equals, although the worker has hands free.
      await submit(client, "late", { priority: 1 })
      await allWait([service], 9)
      letGo("high")
      await eventually(() => names().length === 11, { deadline: 15_000, message: "all have run" })
      expect(names()).toEqual(["first", "high", ...Array.from({ length: 8 }, (_, index) => `low-${index}`), "late"])
      expect(max()).toBe(1)
    })

    test("comes to its turn on either of two workers, although one of them always has more to do", async () => {
      const { single, names, letGo, has, max } = stage()
      const board = newBoard()
      const busy = await start([single], { transport: board, concurrency: 2 })
      const client = await clientOf(board)
      await submit(client, "first", { held: true })
      await eventually(() => has("first"), { message: "the slot is taken" })
      for (let index = 0; index < 30; index++) await submit(client, `many-${index}`, { held: true })
      await allWait([busy], 30)
      const other = await start([single], { transport: board, concurrency: 2 })
      await submit(client, "one")
      await eventually(() => waiting([busy, other]) === 31, { message: "it waits" })
      // One after the other is let go: long before the last of them it is the other's turn.
      const ended = new Set<string>()
      await eventually(
        () => {
          for (const name of names()) if (!ended.has(name) && name !== "one") letGo(name)
          return has("one")
        },
        { deadline: 15_000, every: 50, message: "the other one has run" },
      )
      expect(max()).toBe(1)
    })

    test("is not forgotten, however many come and go at two workers", async () => {
      const { several, names, max } = stage()
      const board = newBoard()
      const services = [
        await start([several], { transport: board, concurrency: 16 }),
        await start([several], { transport: board, concurrency: 16 }),
      ]
      const client = await clientOf(board)
      await client.submitMany(Array.from({ length: 600 }, () => ({ task: "several.run" })))
      // Long before the first one would come by itself.
      await eventually(() => names().length === 600, { deadline: 60_000, message: "all have run" })
      expect(max()).toBe(10)
      await eventually(() => services.every(({ worker }) => worker?.load.inFlight === 0), { message: "none is left" })
    })

    test("does not wait for others that were cancelled", async () => {
      const { single, letGo, at, has, names } = stage()
      const board = newBoard()
      const service = await start([single], { transport: board, concurrency: 2 })
      const client = await clientOf(board)
      await submit(client, "first", { held: true })
      await eventually(() => has("first"), { message: "the slot is taken" })
      const cancelled = await Promise.all(Array.from({ length: 150 }, () => submit(client, "cancelled")))
      await allWait([service], 150)
      await submit(client, "next")
      await allWait([service], 151)
      const began = performance.now()
      for (const job of cancelled) await job.cancel()
      const free = performance.now()
      letGo("first")
      await eventually(() => has("next"), { message: "the next one runs" })
      // Where the machine is so busy that one call takes a while, so does the way of the next one.
      expect(at("next") - free).toBeLessThan(Math.max(3_000, free - began))
      expect(names()).toEqual(["first", "next"])
      await eventually(() => service.worker?.load.inFlight === 0, { message: "none is left" })
    }, 240_000)
  })

  describe("the slot of a handler that ignores its signal", () => {
    test("stays taken while its worker stops, until the handler has ended", async () => {
      const { single, letGo, has, names, max } = stage()
      // A worker with a short lease is dead for the others six seconds after its entry is gone.
      const board = newBoard({ lease: 2 })
      const stopping = await start([single], { transport: board, grace: "50ms" })
      const client = await clientOf(board)
      const job = await submit(client, "first", { held: true })
      await eventually(() => has("first"), { message: "the slot is taken" })
      const other = await start([single], { transport: board })
      const stopped = stopping.stop()
      await eventually(async () => (await job.find()).state === "queued", { message: "its job is handed back" })
      await submit(client, "second")
      await allWait([other], 2)
      // Longer than the rest of its stop takes, and than the other worker takes to ask again.
      await sleep(1_200)
      expect(names()).toEqual(["first"])
      letGo("first")
      await stopped
      const bothRan = () => {
        letGo("first")
        return names().length === 3
      }
      await eventually(bothRan, { message: "both have run on the other worker" })
      expect(max()).toBe(1)
    })
  })

  if (transport !== "memory") return

  describe("on a board with faults", () => {
    test("what workers tell each other and is lost costs a moment", async () => {
      const { single, names, letGo, has, max } = stage()
      let lost = 0
      const transports = faulty((whole) => ({
        ...whole,
        ...(whole.broadcast === undefined
          ? {}
          : { broadcast: { listen: whole.broadcast.listen, send: async () => void lost++ } }),
      }))
      const board = `faulty://${generateId()}`
      const { client } = await start([single], { transport: board, transports, concurrency: 1, prefetch: 1 })
      await submit(client, "first", { held: true })
      await eventually(() => has("first"), { message: "the slot is taken" })
      const service = await start([single], { transport: board, transports, concurrency: 4 })
      for (const name of ["second", "third"]) await submit(client, name)
      await allWait([service], 2)
      const free = performance.now()
      letGo("first")
      await eventually(() => names().length === 3, { message: "all have run" })
      expect(performance.now() - free).toBeLessThan(3_000)
      expect(lost).toBeGreaterThan(1)
      expect(max()).toBe(1)
    })

    test("the slot of a worker that dies goes to who waits on another, after twice the life of its entry", async () => {
      const { single, begun, names, letGo, has } = stage()
      const name = generateId()
      const dying = mortal()
      await start([single], {
        transport: `mortal://${name}?lease=1`,
        transports: dying.transports,
        concurrency: 1,
        prefetch: 1,
      })
      const client = await clientOf(`memory://${name}?lease=30`)
      await submit(client, "first", { held: true })
      await eventually(() => has("first"), { message: "the slot is taken" })
      const service = await start([single], { transport: `memory://${name}?lease=30`, concurrency: 2 })
      await submit(client, "second")
      await allWait([service], 1)
      const died = performance.now()
      dying.die()
      const slot = async (): Promise<string | undefined> => {
        const [entry] = await client.connection.store.list({ prefix: LIMIT_PREFIX, limit: 1 })
        return [...decodeState(entry?.value).held.keys()][0]
      }
      const dead = await slot()
      await eventually(async () => (await slot()) !== dead, { deadline: 20_000, message: "the slot comes back" })
      // Its entry in the directory lives for six seconds.
      expect(performance.now() - died).toBeLessThan(13_500)
      // The job that it had comes again after its lease, and waits like all others, until it is known not to run any more.
      await eventually(() => begun.length === 2, { deadline: 30_000, message: "the job begins again" })
      letGo("first")
      await eventually(() => has("second"), { message: "the other one has its turn" })
      expect(names()).toEqual(["first", "first", "second"])
    })

    test("those who are put off leave a slow broker time for what is behind them", async () => {
      const { single, several, letGo, has, names } = stage()
      /** Each call takes this long, so that tasks which are put off come back faster than all of them can be pulled. */
      const CALL_MS = 40
      const transports = withJobs(({ take, settle }) => ({
        take: async (request, signal) => {
          await sleep(CALL_MS)
          return take(request, signal)
        },
        settle: async (ends) => {
          await sleep(CALL_MS)
          return settle(ends)
        },
      }))
      const board = `faulty://${generateId()}`
      const { client } = await start([single, several], { transport: board, transports, concurrency: 2 })
      await submit(client, "first", { held: true })
      await eventually(() => has("first"), { message: "the slot is taken" })
      await client.submitMany(Array.from({ length: 110 }, () => ({ task: "single.run", input: { name: "many" } })))
      await client.submit("several.run")
      await eventually(() => has(""), { message: "the one behind them has run" })
      expect(names()).toEqual(["first", ""])
      letGo("first")
    })

    test("ten thousand who wait cost a few operations for each that runs", async () => {
      const { single, names, letGo, has } = stage()
      const count = { store: 0, end: 0 }
      const counted = (store: Store): Store => ({
        get: (key) => {
          count.store++
          return store.get(key)
        },
        write: (operations) => {
          count.store++
          return store.write(operations)
        },
        list: (options) => {
          count.store++
          return store.list(options)
        },
        watch: (prefix, listener, signal) => watchStore(store, prefix, listener, signal),
        now: () => store.now(),
      })
      const transports = faulty((whole) => ({
        ...whole,
        jobs: {
          ...whole.jobs,
          settle: (ends) => {
            count.end += ends.length
            return whole.jobs.settle(ends)
          },
        },
        store: counted(whole.store),
      }))
      const board = `faulty://${generateId()}`
      const { client, worker } = await start([single], { transport: board, transports, concurrency: 4 })
      await submit(client, "first", { held: true })
      await eventually(() => has("first"), { message: "the slot is taken" })
      for (let sent = 0; sent < 10_000; sent += 1_000)
        await client.submitMany(Array.from({ length: 1_000 }, () => ({ task: "single.run", input: { name: "many" } })))
      const areTaken = async () => ((await client.connection.jobs.queues?.()) ?? []).every(({ ready }) => ready === 0)
      await eventually(areTaken, { deadline: 180_000, message: "all wait" })
      // A worker holds few of them.
      expect(worker?.load.inFlight).toBeLessThan(100)
      const before = { ...count }
      const ran = names().length
      letGo("first")
      await eventually(() => names().length >= ran + 200, { deadline: 180_000, message: "two hundred have run" })
      const runs = names().length - ran
      expect((count.store - before.store) / runs).toBeLessThan(0.2)
      expect((count.end - before.end) / runs).toBeLessThan(3)
    }, 400_000)
  })
})
