/** Handlers that block their thread over AMQP: what the records' transport delivers has a lease, which must not lapse meanwhile. */
import { describe, expect, test } from "vitest"
import { expectOneRun, expectSlotKept } from "../e2e/blocked-handlers.ts"
import { sharedBoards } from "../e2e/boards.ts"
import { clientOf, linesOf, startService } from "../e2e/processes.ts"

describe.each(sharedBoards.filter(({ name }) => name === "amqp"))("on $name", (kind) => {
  test("a task that was delayed is not delivered again while its handler blocks for three leases", async () => {
    await using board = await kind.open()
    await expectOneRun(board, { delay: 1 })
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
    await expectSlotKept(board)
  }, 90_000)
})
