/** What the lease thread tells in the place of a blocked main thread, and when it ends the process; in virtual moments. */
import { hostname } from "node:os"
import { connect } from "callboard"
import { afterEach, describe, expect, test } from "vitest"
import { WORKERS, type WorkerDescription } from "../../../../../runtime/cluster/directory.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { collectLog } from "../../../../../runtime/testing/log.ts"
import { BlockWatch } from "../../../../../runtime/worker/leases/blocked.ts"
import { GRACE_MS, type ListedRun, type RunDetails } from "../../../../../runtime/worker/leases/lease-protocol.ts"

const closing: Array<() => Promise<void>> = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const described = (change: Partial<WorkerDescription> = {}): WorkerDescription => ({
  name: "w",
  pid: process.pid,
  host: hostname(),
  version: "0",
  queues: ["default"],
  actors: ["spin"],
  concurrency: 2,
  state: "busy",
  running: [],
  inFlight: 2,
  processed: 0,
  failed: 0,
  startedAt: "2031-06-07T08:09:10Z",
  heartbeatAt: "2031-06-07T08:09:10Z",
  ...change,
})

/** A worker with two jobs in hand, and a watch over it. `knows`: whether it is known which of the two blocks. */
const start = async (options: { readonly knows?: boolean; readonly entry?: WorkerDescription } = {}) => {
  const { knows = true, entry = described() } = options
  const client = await connect(`memory://${generateId()}`)
  closing.push(() => client.close())
  const { connection } = client
  const jobs = await client.submitMany(["a", "b"].map((id) => ({ task: "spin.spin", id, headers: { tenant: id } })))
  const runs: Array<ListedRun> = []
  const signal = AbortSignal.timeout(10_000)
  for (const { token, fence } of await connection.jobs.take({ queues: ["default"], max: 2, wait: 0 }, signal)) {
    const id = token.split(" ")[1] ?? ""
    const limits = { startedAt: Date.now(), hardSeconds: 1_800, rejects: false, keepMs: 60_000, once: false }
    runs.push({ token, fence, id, ...limits, inline: true })
  }
  await connection.store.write([WORKERS.put("w", entry)])
  const reported: Array<string> = []
  const ended: Array<RunDetails> = []
  const log = collectLog()
  const run = runs.find(({ id }) => id === "a")
  const watch = new BlockWatch({
    transport: connection.transport,
    worker: "w",
    described: entry,
    lease: 30_000,
    log: log.log,
    runs,
    runAt: () => (knows ? run : undefined),
    onReported: (tokens) => reported.push(...tokens),
    onEnd: (blocking) => ended.push(blocking),
  })
  /** Looks once a second until that moment. */
  let at = 0
  const until = async (seconds: number) => {
    for (; at <= seconds; at++) await watch.look(at * 1_000, at * 1_000)
  }
  const entryNow = async () => (await WORKERS.get(connection.store, "w"))?.value
  return { client, jobs, watch, until, entryNow, reported, ended, log }
}

describe("a blocked worker", () => {
  test("is not told of for a moment, and then with what runs, which is told as started", async () => {
    const { client, until, entryNow, reported, log } = await start()
    await until(1)
    expect(await entryNow()).toEqual(described())
    expect(log.lines).toEqual([])
    await until(2)
    const entry = await entryNow()
    expect(entry).toMatchObject({
      state: "blocked",
      blocked: { job: "a", since: expect.stringMatching(/Z$/) },
      running: ["a", "b"],
      jobs: [
        { id: "a", name: "spin.spin", queue: "default", attempt: 1 },
        { id: "b", name: "spin.spin", queue: "default", attempt: 1 },
      ],
    })
    expect(entry?.heartbeatAt).not.toBe(described().heartbeatAt)
    expect(reported).toHaveLength(2)
    expect(await client.job("a").find()).toMatchObject({ state: "started", worker: "w", attempts: 1 })
    expect(log.lines.map(({ level, fields }) => [level, fields["job"]])).toEqual([["warn", "a"]])
  })

  test("is kept in the list although its entry has expired, and not over the entry of another worker", async () => {
    const { client, until, entryNow } = await start()
    const { store } = client.connection
    await store.write([WORKERS.remove("w")])
    await until(2)
    expect(await entryNow()).toMatchObject({ state: "blocked" })
    await store.write([WORKERS.remove("w")])
    await until(4)
    expect(await entryNow()).toMatchObject({ state: "blocked" })
    const other = described({ pid: process.pid + 1 })
    await store.write([WORKERS.put("w", other)])
    await until(6)
    expect(await entryNow()).toEqual(other)
  })

  test("says nothing more once its handler has given way", async () => {
    const { client, watch, until, entryNow } = await start()
    await until(2)
    await client.connection.store.write([WORKERS.put("w", described({ state: "idle" }))])
    expect(watch.end()).toMatchObject({ job: "a" })
    await until(8)
    expect(await entryNow()).toEqual(described({ state: "idle" }))
  })

  test("that was told to stop is still stopping", async () => {
    const { until, entryNow } = await start({ entry: described({ state: "stopping" }) })
    await until(2)
    expect(await entryNow()).toMatchObject({ state: "stopping", blocked: { job: "a" } })
  })
})

describe("its process", () => {
  const GRACE = GRACE_MS / 1_000

  test("ends after the grace once the job that blocks it was terminated, also after it was cancelled", async () => {
    const { client, until, ended } = await start()
    await until(2)
    await client.job("a").cancel()
    await until(4 + 2 * GRACE)
    expect(ended).toEqual([])
    await client.job("a").cancel({ terminate: true })
    const seen = 6 + 2 * GRACE
    await until(seen + GRACE - 1)
    expect(ended).toEqual([])
    await until(seen + GRACE + 1)
    expect(ended).toMatchObject([{ id: "a" }])
  })

  test("goes on when another of its jobs is terminated, unless that may be the one that blocks", async () => {
    for (const knows of [true, false]) {
      const { client, until, entryNow, ended } = await start({ knows })
      await until(2)
      expect((await entryNow())?.blocked?.job).toBe(knows ? "a" : undefined)
      await client.job("b").cancel({ terminate: true })
      await until(6 + GRACE)
      expect(ended.map(({ id }) => id)).toEqual(knows ? [] : ["b"])
    }
  })

  test("ends when the job is revoked by a header, with terminate", async () => {
    const { client, until, ended } = await start()
    await client.revoke({ header: "tenant", values: ["a"], terminate: true })
    await until(6 + GRACE)
    expect(ended).toMatchObject([{ id: "a" }])
    expect(await client.job("a").find()).toMatchObject({ state: "cancelled" })
    expect(await client.job("b").find()).toMatchObject({ state: "started" })
  })
})
