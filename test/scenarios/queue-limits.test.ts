/** The limit of a queue: how many of its jobs run at a time, over all workers, on every transport. */
import { actor, type Client, connect } from "callboard"
import { afterEach, describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"
import { mortal } from "./mortal.ts"

interface Work {
  readonly name?: number
  readonly ms?: number
  readonly fails?: boolean
  readonly tenant?: string
}

/** An actor that tells what it has begun, and how many run at a time, by the queue of the job. */
const watched = () => {
  const begun: Array<{ readonly queue: string; readonly name: number; readonly at: number }> = []
  let release = (): void => undefined
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const running = new Map<string, number>()
  const max = new Map<string, number>()
  const run = async ({ name = 0, ms = 5, fails = false }: Work, { queue }: { readonly queue: string }) => {
    begun.push({ queue, name, at: performance.now() })
    const now = (running.get(queue) ?? 0) + 1
    running.set(queue, now)
    max.set(queue, Math.max(max.get(queue) ?? 0, now))
    await new Promise((resolve) => setTimeout(resolve, ms))
    running.set(queue, (running.get(queue) ?? 0) - 1)
    if (fails) throw new Error("try again")
  }
  const work = actor("work", {
    methods: {
      run: { retry: { max: 1, interval: ["20s"] }, run },
      single: { limit: { concurrency: 1, key: ({ tenant }: Work) => tenant ?? "none" }, run },
      rare: { rate: "1/h", run },
      heldTenant: {
        limit: { concurrency: 1, key: ({ tenant }: Work) => tenant ?? "none" },
        run: async (_: Work, { queue }: { readonly queue: string }) => {
          begun.push({ queue, name: 0, at: performance.now() })
          await held
        },
      },
      hold: async (_: Work, { queue }: { readonly queue: string }) => {
        begun.push({ queue, name: 0, at: performance.now() })
        await held
      },
    },
  })
  return {
    work,
    /** Ends the tasks that are held. */
    release: () => release(),
    begun,
    running: (queue: string) => running.get(queue) ?? 0,
    max: (queue: string) => max.get(queue) ?? 0,
    /** The largest number from now on. */
    again: (queue: string) => max.set(queue, running.get(queue) ?? 0),
    count: (queue: string) => begun.filter((each) => each.queue === queue).length,
  }
}

const open: Array<Client> = []
afterEach(() => Promise.all(open.splice(0).map((client) => client.close())))

const clientOf = async (board: string): Promise<Client> => {
  const client = await connect(board)
  open.push(client)
  return client
}

const submit = (client: Client, queue: string, count: number, input: Work = {}, task = "work.run") =>
  client.submitMany(Array.from({ length: count }, (_, name) => ({ task, queue, input: { name, ...input } })))

onEveryBoard((newBoard, transport) => {
  describe("the limit of a queue", () => {
    test("holds over three workers, for which another queue goes on at once", async () => {
      const { work, begun, max, count } = watched()
      const board = newBoard()
      const client = await clientOf(board)
      await client.limitQueue("full", { maxInFlight: 5 })
      await submit(client, "full", 500, { ms: 10 })
      await submit(client, "behind", 5)
      for (let at = 0; at < 3; at++)
        await start([work], { transport: board, concurrency: 10, queues: ["full", "behind"] })
      await eventually(() => count("behind") === 5, { message: "the queue behind it has started" })
      // Half a second of the full queue's work, however slow the machine is: at 5 of 10 ms at a time 250 begin in it.
      expect(begun.findLastIndex(({ queue }) => queue === "behind")).toBeLessThan(250)
      await eventually(() => count("full") === 500, { deadline: 20_000, message: "all have run" })
      expect(max("full")).toBe(5)
    })

    test("changes while jobs run, and ends", async () => {
      const { work, max, again, running, count } = watched()
      const board = newBoard()
      const { client, worker } = await start([work], { transport: board, concurrency: 15, queues: ["q"] })
      await start([work], { transport: board, concurrency: 15, queues: ["q"] })
      await submit(client, "q", 500, { ms: 100 })
      await eventually(() => running("q") === 30, { message: "both workers are busy" })
      await client.limitQueue("q", { maxInFlight: 10 })
      await eventually(() => running("q") <= 10, { message: "what ran before the limit counts" })
      again("q")
      await eventually(() => running("q") === 10, { message: "the limit is used" })
      await client.limitQueue("q", { maxInFlight: 4 })
      await eventually(() => running("q") <= 4, { message: "the lower limit holds" })
      again("q")
      const before = count("q")
      await eventually(() => count("q") > before + 12, { message: "others have run" })
      expect(max("q")).toBe(4)
      expect(worker?.describe().failed).toBe(0)
      await client.limitQueue("q", { maxInFlight: null })
      await eventually(() => running("q") > 20, { message: "there is no limit" })
      // Once more, while those run that have started without one.
      await client.limitQueue("q", { maxInFlight: 3 })
      await eventually(() => running("q") <= 3, { message: "they count" })
      again("q")
      await client.limitQueue("q", { maxInFlight: 20 })
      await eventually(() => count("q") === 500, { deadline: 20_000, message: "all have run" })
      expect(max("q")).toBeLessThanOrEqual(20)
    })

    test("counts what runs: not a job that waits for its next attempt", async () => {
      const { work, count } = watched()
      const board = newBoard()
      const { client } = await start([work], { transport: board, queues: ["q"] })
      await client.limitQueue("q", { maxInFlight: 2 })
      await submit(client, "q", 2, { fails: true })
      await eventually(async () => (await client.jobs({ states: ["scheduled"] })).jobs.length === 2, {
        message: "both have failed once",
      })
      await submit(client, "q", 20)
      await eventually(() => count("q") === 22, { message: "the others have run" })
    })

    test("starts its jobs in order, and says why one waits", async () => {
      const { work, begun } = watched()
      const board = newBoard()
      const client = await clientOf(board)
      await client.limitQueue("q", { maxInFlight: 1 })
      const receipts = await submit(client, "q", 200, { ms: 2 })
      const [, second = "", ...others] = receipts.map((receipt) => ("id" in receipt ? receipt.id : ""))
      await submit(client, "q", 1, { ms: 1_000, name: -1 })
      await client.submit("work.run", { queue: "q", input: { name: -2, ms: 1_000 }, priority: 9 })
      expect(others).toHaveLength(198)
      await start([work], { transport: board, queues: ["q"], concurrency: 4 })
      await eventually(() => begun.length > 0, { message: "the urgent one runs" })
      const whyOf = async (id: string) => (await client.why(id)).causes.map(({ code }) => code)
      await eventually(async () => (await whyOf(second))[0] === "queue-limit", {
        message: "one that a worker has says so",
      })
      expect(await whyOf(others.at(-1) ?? "")).toEqual(["behind", "queue-limit"])
      await eventually(() => begun.length === 202, { deadline: 20_000, message: "all have run" })
      expect(begun.map(({ name }) => name)).toEqual([-2, ...Array.from({ length: 200 }, (_, at) => at), -1])
    })

    test("holds together with that of a method", async () => {
      const { work, max, count, begun } = watched()
      const board = newBoard()
      const client = await clientOf(board)
      await client.limitQueue("q", { maxInFlight: 3 })
      for (const tenant of ["a", "b", "c", "d", "e"]) await submit(client, "q", 12, { tenant }, "work.single")
      await submit(client, "free", 12, { tenant: "a" }, "work.single")
      for (let at = 0; at < 2; at++)
        await start([work], { transport: board, concurrency: 8, queues: ["q", "free"], order: "strict" })
      await eventually(() => count("q") + count("free") === 72, { deadline: 20_000, message: "all have run" })
      expect(begun).toHaveLength(72)
      expect(max("q")).toBe(3)
      expect(max("free")).toBe(1)
    })

    test("is listed, and refused if it is none", async () => {
      const client = await clientOf(newBoard())
      const limitOf = async () => (await client.queues()).map(({ name, maxInFlight }) => [name, maxInFlight])
      await submit(client, "q", 1)
      await client.limitQueue("q", { maxInFlight: 100_000 })
      expect(await limitOf()).toEqual([["q", 100_000]])
      for (const maxInFlight of [0, 1.5, 100_001, -1, "5" as unknown as number, Number.NaN])
        await expect(client.limitQueue("q", { maxInFlight })).rejects.toMatchObject({
          code: "invalid-input",
          message: "maxInFlight: must be a whole number from 1 to 100000, or null",
          details: { field: "maxInFlight" },
        })
      await expect(client.limitQueue("a\nb", { maxInFlight: 1 })).rejects.toMatchObject({ details: { field: "queue" } })
      expect(await limitOf()).toEqual([["q", 100_000]])
      await client.limitQueue("q", { maxInFlight: null })
      expect(await limitOf()).toEqual([["q", undefined]])
    })
  })

  if (transport !== "memory") return

  test("a queue behind several full ones goes on at once", async () => {
    const board = newBoard()
    const { work, count, begun } = watched()
    const client = await clientOf(board)
    const full = ["a", "b", "c", "d"]
    for (const queue of full) {
      await client.limitQueue(queue, { maxInFlight: 1 })
      await submit(client, queue, 1_000, { ms: 300 })
    }
    await submit(client, "behind", 1)
    await start([work], { transport: board, concurrency: 10, queues: [...full, "behind"], order: "strict" })
    await eventually(() => count("behind") === 1, { message: "the queue behind them has started" })
    // In 300 ms each full queue starts one.
    expect(begun.length).toBeLessThan(20)
  })

  test("is no reason to wait while only handlers are missing", async () => {
    const board = newBoard()
    const { work, count, release } = watched()
    const { client } = await start([work], { transport: board, concurrency: 2, queues: ["q"] })
    await client.limitQueue("q", { maxInFlight: 50 })
    const receipts = await submit(client, "q", 12, {}, "work.hold")
    await eventually(() => count("q") === 2, { message: "both handlers are busy" })
    const codes = async () => {
      const all = await Promise.all(receipts.map((receipt) => ("id" in receipt ? client.why(receipt.id) : undefined)))
      return new Set(all.flatMap((why) => why?.causes.map(({ code }) => code) ?? []))
    }
    // Those for which the worker has no place are left to other workers.
    await eventually(async () => (await codes()).has("behind"), { message: "the others say so" })
    expect(await codes()).not.toContain("queue-limit")
    release()
  })

  test("tenants have a limit each, whatever their names", async () => {
    const board = newBoard()
    const { work, begun, release } = watched()
    const { client } = await start([work], { transport: board, concurrency: 8, queues: ["q", "other"] })
    await client.limitQueue("q", { maxInFlight: 5 })
    await submit(client, "q", 1, { tenant: "x" }, "work.heldTenant")
    await eventually(() => begun.length === 1, { message: "the first runs" })
    await submit(client, "other", 1, { tenant: "x limit//q" }, "work.heldTenant")
    await eventually(() => begun.length === 2, { message: "the other tenant runs beside it" })
    release()
  })

  test("a queue is pulled again once its tasks that wait here wait for their method", async () => {
    const board = newBoard()
    const { work, count, release } = watched()
    const { client } = await start([work], { transport: board, concurrency: 4, queues: ["q", "p"] })
    await client.limitQueue("q", { maxInFlight: 1 })
    await submit(client, "q", 1, {}, "work.hold")
    await eventually(() => count("q") === 1, { message: "it takes the one place of its queue" })
    await submit(client, "q", 60, {}, "work.rare")
    await submit(client, "q", 40)
    const inWorker = async () => (await client.queues()).find(({ name }) => name === "q")?.inFlight ?? 0
    await eventually(async () => (await inWorker()) > 48, { message: "tasks wait in the worker for their queue" })
    // The only start of the method for the next hour.
    await submit(client, "p", 1, {}, "work.rare")
    await eventually(() => count("p") === 1, { message: "it starts" })
    release()
    await eventually(() => count("q") === 41, { message: "those behind the others have run" })
  })

  test("a limit that is set again is shared with a worker that comes later", async () => {
    const board = newBoard()
    const [first, second] = [watched(), watched()]
    const { client } = await start([first.work], { transport: board, concurrency: 2, queues: ["q"] })
    await client.limitQueue("q", { maxInFlight: 5 })
    await client.limitQueue("q", { maxInFlight: null })
    await submit(client, "q", 400, { ms: 10 })
    await eventually(() => first.running("q") === 2, { message: "it runs without a limit" })
    await client.limitQueue("q", { maxInFlight: 2 })
    await start([second.work], { transport: board, concurrency: 2, queues: ["q"] })
    await eventually(() => first.count("q") + second.count("q") === 400, { deadline: 20_000, message: "all have run" })
    // Not only once the first worker has run all that it had.
    expect(second.begun[0]?.at).toBeLessThan(first.begun[300]?.at ?? Number.POSITIVE_INFINITY)
  })

  test("the limit of a queue holds while a worker dies, and its places come back", async () => {
    const { work, begun, max, count } = watched()
    const name = generateId()
    const dying = mortal()
    await start([work], { transport: `mortal://${name}?lease=3`, transports: dying.transports, queues: ["q"] })
    const client = await clientOf(`memory://${name}?lease=3`)
    for (let at = 0; at < 2; at++) await start([work], { transport: `memory://${name}?lease=3`, queues: ["q"] })
    await client.limitQueue("q", { maxInFlight: 5 })
    await submit(client, "q", 500)
    await eventually(() => begun.length > 50, { message: "some have run" })
    dying.die()
    const left = async () => (await client.queues()).map(({ depth, inFlight }) => depth + inFlight)
    await eventually(async () => (await left())[0] === 0, { deadline: 20_000, message: "all have run" })
    expect(new Set(begun.map((each) => each.name)).size).toBe(500)
    expect(max("q")).toBe(5)
    // Those of the dead worker have run twice.
    expect(count("q")).toBeLessThanOrEqual(600)
  })
})
