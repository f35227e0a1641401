/** Limits of a whole cluster when workers die, and the memory that delayed tasks take in a worker: with real processes. */
import { writeFileSync } from "node:fs"
import type { Client } from "callboard"
import { describe, expect, test } from "vitest"
import { LIMIT_PREFIX } from "../../runtime/worker/limits/permits.ts"
import { eventually } from "../support/servers/process.ts"
import { expectSlotKept } from "./blocked-handlers.ts"
import { sharedBoards } from "./boards.ts"
import { clientOf, DEADLINE, linesOf, startService } from "./processes.ts"

const hasSlots = async (client: Client): Promise<boolean> => {
  const entries = await client.connection.store.list({ prefix: LIMIT_PREFIX, limit: 10 })
  return entries.some(({ value }) => new TextDecoder().decode(value).includes('"held"'))
}

/** Length of a lease in seconds: so long that a living worker on a busy machine keeps it, and its slots. */
const LEASE = 3

/** Number of delayed tasks. A worker that held them would need some kB for each, tens of MB in all. */
const LATER = 25_000

describe.concurrent.each(sharedBoards)("on $name", (kind) => {
  test.sequential("the slot of a killed worker is freed, and its job does not run twice at once", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, LEASE)
    const input = { started: `${board.folder}/started`, gate: `${board.folder}/gate`, ledger: `${board.folder}/ledger` }
    const first = await startService(board, LEASE)
    const jobs = [await client.submit("e2e.single", { input }), await client.submit("e2e.single", { input })]
    await eventually(() => linesOf(input.started).length === 1, { deadline: DEADLINE, message: "one starts" })
    const second = await startService(board, LEASE)
    // Tasks without a limit run in the meantime: the second worker works, and does not take the slot of the limit.
    for (let count = 0; count < 5; count++) await (await client.submit("e2e.step")).result({ timeout: 60 })
    expect(linesOf(input.started)).toEqual([`${first.pid}`])
    expect(await hasSlots(client)).toBe(true)
    first.kill("SIGKILL")
    await first.exited
    await eventually(() => linesOf(input.started).length === 2, { deadline: DEADLINE, message: "the slot comes back" })
    expect(linesOf(input.ledger)).toEqual([])
    writeFileSync(input.gate, "")
    for (const job of jobs) expect(await job.result({ timeout: 60 })).toMatchObject({ pid: second.pid })
    expect(linesOf(input.ledger)).toHaveLength(2)
    await eventually(async () => !(await hasSlots(client)), { message: "no slot is left over" })
  }, 120_000)

  test.sequential("a worker whose handler blocks its thread keeps its slot", async () => {
    await using board = await kind.open()
    await expectSlotKept(board)
  }, 120_000)

  test.sequential("tens of thousands of delayed tasks take no memory in a worker", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 30)
    await startService(board, 30)
    const memory = async (): Promise<{ readonly rss: number; readonly heapUsed: number }> => {
      // The same number of jobs runs before and after the delayed tasks: caches are warm, and the worker has had time to pull.
      await client.submitMany(Array.from({ length: 500 }, () => ({ task: "e2e.step" })))
      const found: unknown = await (await client.submit("e2e.memory", { delay: 2 })).result({ timeout: 30 })
      return found as { readonly rss: number; readonly heapUsed: number }
    }
    await memory()
    const before = await memory()
    for (let sent = 0; sent < LATER; sent += 1_000) {
      await client.submitMany(Array.from({ length: 1_000 }, () => ({ task: "e2e.step", delay: 3_600 })))
    }
    const after = await memory()
    await eventually(
      async () => {
        const [queue] = await client.queues()
        return queue?.scheduled === LATER && queue.inFlight === 0
      },
      { message: "all wait at the transport, and the worker holds nothing" },
    )
    expect(after.heapUsed - before.heapUsed).toBeLessThan(5_000_000)
    expect(after.rss - before.rss).toBeLessThan(60_000_000)
  }, 120_000)
})

test.each(sharedBoards.filter(({ name }) => name === "nats"))(
  "on $name, jobs that wait for a slot go on as soon as the broker is back",
  async (kind) => {
    await using board = await kind.open()
    const client = await clientOf(board, 30)
    const input = { started: `${board.folder}/started`, gate: `${board.folder}/gate` }
    await Promise.all([startService(board, 30), startService(board, 30)])
    const jobs = [await client.submit("e2e.single", { input })]
    await eventually(() => linesOf(input.started).length === 1, { deadline: DEADLINE, message: "one starts" })
    for (let count = 0; count < 20; count++) jobs.push(await client.submit("e2e.single", { input }))
    await board.restartBroker?.()
    writeFileSync(input.gate, "")
    // The time is shorter than a lease, after which the tasks would come again in any case.
    const results = await Promise.all(jobs.map((job) => job.result({ timeout: 20 })))
    expect(results).toHaveLength(21)
  },
  60_000,
)
