/** Handlers that block their thread over AMQP: what the records' transport delivers has a lease, which must not lapse meanwhile. */
import { describe, expect, test } from "vitest"
import { sharedBoards } from "../e2e/boards.ts"
import { clientOf, DEADLINE, linesOf, startService } from "../e2e/processes.ts"
import { eventually } from "../support/servers/process.ts"

describe.each(sharedBoards.filter(({ name }) => name === "amqp"))("on $name", (kind) => {
  test("a task that was delayed is not delivered again while its handler blocks for three leases", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 3)
    const ledger = `${board.folder}/ledger`
    const [first, second] = await Promise.all([startService(board, 3), startService(board, 3)])
    const job = await client.submit("e2e.block", { input: { ms: 9_500, ledger }, delay: 1 })
    const pid = await job.result({ timeout: 60 })
    expect([first.pid, second.pid]).toContain(pid)
    expect(linesOf(ledger)).toEqual([`${pid}`])
    expect(await job.find()).toMatchObject({ attempts: 1 })
  }, 90_000)

  test("a task that was delayed fails when its handler blocks past its hard limit, with one worker lost", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 1)
    const ledger = `${board.folder}/ledger`
    const services = await Promise.all([startService(board, 1), startService(board, 1)])
    const job = await client.submit("e2e.block", { input: { ms: 60_000, ledger }, timeLimit: 1, delay: 1 })
    expect(await job.outcome({ timeout: 60 })).toMatchObject({ state: "failed", error: { name: "TimeLimitExceeded" } })
    const [line] = linesOf(ledger)
    await services.find(({ pid }) => `${pid}` === line)?.exited
    expect(linesOf(ledger)).toHaveLength(1)
  }, 90_000)

  test("a worker whose handler blocks its thread keeps its slot of a limit", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 3)
    const ledger = `${board.folder}/ledger`
    await startService(board, 3)
    const blocks = await client.submit("e2e.singleBlock", { input: { ms: 9_000, ledger } })
    await eventually(() => linesOf(ledger).length === 1, { deadline: DEADLINE, message: "it blocks" })
    await startService(board, 3)
    const other = await client.submit("e2e.singleBlock", { input: { ms: 0, ledger } })
    await other.outcome({ timeout: 40 })
    await blocks.outcome({ timeout: 10 })
    expect(linesOf(ledger)).toEqual(["begin", "end", "begin", "end"])
  }, 90_000)
})
