/** Rates and caps across the cluster, with two services on one board, on every transport. */
import { actor, type Client, connect } from "callboard"
import { afterEach, describe, expect, test } from "vitest"
import { LIMIT_PREFIX } from "../../runtime/worker/limits/permits.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

interface Work {
  readonly tenant?: string
  readonly ms?: number
}

/** An actor whose runs are watched: when each began, and how many run at a time, by tenant. */
const watched = () => {
  const begun: Array<{ readonly tenant: string; readonly at: number; readonly by: string }> = []
  const running = new Map<string, number>()
  const max = new Map<string, number>()
  const run =
    (by: string) =>
    async ({ tenant = "", ms = 0 }: Work) => {
      begun.push({ tenant, at: performance.now(), by })
      const now = (running.get(tenant) ?? 0) + 1
      running.set(tenant, now)
      max.set(tenant, Math.max(max.get(tenant) ?? 0, now))
      if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms))
      running.set(tenant, (running.get(tenant) ?? 0) - 1)
    }
  const of = (by: string) =>
    actor("work", {
      methods: {
        rated: { limit: { rate: "20/s" }, run: run(by) },
        fast: { limit: { rate: "400/s" }, run: run(by) },
        capped: { limit: { concurrency: 3 }, run: run(by) },
        single: { limit: { concurrency: 1, key: ({ tenant }: Work) => tenant ?? "none" }, run: run(by) },
        both: { limit: { concurrency: 2, rate: "50/s", key: ({ tenant }: Work) => tenant ?? "none" }, run: run(by) },
      },
    })
  return { begun, max, of, count: (tenant = "") => begun.filter((each) => each.tenant === tenant).length }
}

const open: Array<Client> = []
afterEach(() => Promise.all(open.splice(0).map((client) => client.close())))

const submit = (client: Client, task: string, count: number, input: Work = {}) =>
  client.submitMany(Array.from({ length: count }, () => ({ task, input })))

/** What the store says about slots in use. */
const heldIn = async (client: Client): Promise<number> => {
  const entries = await client.connection.store.list({ prefix: LIMIT_PREFIX, limit: 1_000 })
  const states: ReadonlyArray<{ readonly held?: Record<string, number> }> = entries.map(({ value }) =>
    JSON.parse(new TextDecoder().decode(value)),
  )
  return states.flatMap(({ held = {} }) => Object.values(held)).reduce((sum, count) => sum + count, 0)
}

/** No window of time holds more starts than the rate and `burst` allow. */
const expectRate = (times: ReadonlyArray<number>, perSecond: number, burst: number) => {
  for (const [from, begin] of times.entries())
    for (let to = from; to < times.length; to++)
      expect(to - from + 1).toBeLessThanOrEqual(burst + (((times[to] ?? 0) - begin) / 1_000) * perSecond)
}

onEveryBoard((newBoard, transport) => {
  const two = async () => {
    const watch = watched()
    const board = newBoard()
    const a = await start([watch.of("a")], { transport: board, concurrency: 4 })
    const b = await start([watch.of("b")], { transport: board, concurrency: 4 })
    const client = await connect(board)
    open.push(client)
    return { ...watch, client, services: [a, b] as const }
  }

  describe("across two workers", () => {
    test.each([
      // What is reserved by each worker may be used a little later than it was reserved.
      { task: "work.rated", jobs: 30, perSecond: 20, burst: 2 },
      { task: "work.fast", jobs: transport === "memory" ? 600 : 300, perSecond: 400, burst: 40 },
    ])("the rate of $perSecond/s holds, and is used", async ({ task, jobs, perSecond, burst }) => {
      const { begun, client } = await two()
      await submit(client, task, jobs)
      await eventually(() => begun.length === jobs, { deadline: 20_000, message: "all have run" })
      const times = begun.map(({ at }) => at)
      // A portion per worker, and a twentieth of a second for a busy machine.
      expectRate(times, perSecond, 3 * burst + perSecond / 20)
      expect(new Set(begun.map(({ by }) => by)).size).toBe(2)
      const took = ((times.at(-1) ?? 0) - (times[0] ?? 0)) / 1_000
      expect(took).toBeGreaterThan((jobs - 3 * burst) / perSecond - 0.1)
    })

    test("no more run at a time than the limit says, all run, and no slot is left over", async () => {
      const { begun, max, client, services } = await two()
      await submit(client, "work.capped", 60, { ms: 40 })
      await eventually(() => begun.length === 60, { deadline: 20_000, message: "all have run" })
      expect(max.get("")).toBe(3)
      await eventually(async () => (await heldIn(client)) === 0, { message: "the slots are given back" })
      expect(services.map(({ worker }) => worker?.describe().failed)).toEqual([0, 0])
    })

    test("rate and concurrency hold together, for each tenant by itself", async () => {
      const { begun, max, client, count } = await two()
      for (const tenant of ["a", "b"]) await submit(client, "work.both", 20, { tenant, ms: 20 })
      await eventually(() => begun.length === 40, { deadline: 20_000, message: "all have run" })
      for (const tenant of ["a", "b"]) {
        expect(count(tenant)).toBe(20)
        expect(max.get(tenant)).toBeLessThanOrEqual(2)
        expectRate(
          begun.filter((each) => each.tenant === tenant).map(({ at }) => at),
          50,
          15 + 2.5,
        )
      }
    })

    test("a tenant with a thousand tasks does not keep another from its own", async () => {
      const { begun, max, client, count } = await two()
      await submit(client, "work.single", 1_000, { tenant: "a", ms: 100 })
      await submit(client, "work.single", 5, { tenant: "b", ms: 20 })
      await eventually(() => count("b") === 5, { deadline: 85_000, message: "the other's tasks have run" })
      // The first tenant alone would take a hundred seconds.
      expect(count("a")).toBeLessThan(900)
      expect(max.get("a")).toBe(1)
      expect(max.get("b")).toBe(1)
      const before = begun.length
      await eventually(() => begun.length > before + 40, { deadline: 60_000, message: "the first goes on" })
    })
  })
})
