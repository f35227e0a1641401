/** The short form of the ledger of future jobs; `npm run chaos -- ledger` is the long one, with 100,000. */
import { expect, test } from "vitest"
import { sharedBoards } from "../e2e/boards.ts"
import { describeLedger, runLedger } from "./ledger.ts"

test.concurrent.each(sharedBoards)(
  "future jobs and due times run once, through killed schedulers and a restart of the broker, on $name",
  async (kind) => {
    await using board = await kind.open()
    const report = await runLedger(board, {
      jobs: 1_500,
      schedules: 3,
      seconds: 8,
      workers: 2,
      // Longer than the broker and its workers need to be back on a busy machine: jobs that were in hand would run again.
      lease: 8,
      oneOf: 5,
      kills: 1,
      restarts: board.restartBroker === undefined ? 0 : 1,
      outageMs: 0,
      restMs: 60_000,
    })
    expect(report, describeLedger(report)).toMatchObject({ accepted: 1_500, missing: [], early: [], doubled: [] })
    expect(report.deaths).toBeGreaterThan(0)
    expect(report.due).toBeGreaterThan(10)
  },
  180_000,
)
