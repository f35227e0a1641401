/** What holds while handlers block their thread: on each transport, for tasks that may start at once and for those that were delayed. */

import { expect } from "vitest"
import type { SubmissionFields } from "../../runtime/jobs/submission/submission.ts"
import { eventually } from "../support/servers/process.ts"
import type { SharedBoard } from "./boards.ts"
import { clientOf, DEADLINE, linesOf, startService } from "./processes.ts"

/** A task whose handler blocks for three leases runs once. */
export const expectOneRun = async (board: SharedBoard, fields: SubmissionFields = {}): Promise<void> => {
  const client = await clientOf(board, 3)
  const ledger = `${board.folder}/ledger`
  const [first, second] = await Promise.all([startService(board, 3), startService(board, 3)])
  const job = await client.submit("e2e.block", { ...fields, input: { ms: 9_500, ledger } })
  const pid = await job.result({ timeout: 60 })
  expect([first.pid, second.pid]).toContain(pid)
  expect(linesOf(ledger)).toEqual([`${pid}`])
  expect(await job.find()).toMatchObject({ attempts: 1 })
}

/** A worker whose handler blocks keeps its slot of a limit of one. */
export const expectSlotKept = async (board: SharedBoard): Promise<void> => {
  const client = await clientOf(board, 3)
  const ledger = `${board.folder}/ledger`
  await startService(board, 3)
  const blocks = await client.submit("e2e.singleBlock", { input: { ms: 9_000, ledger } })
  await eventually(() => linesOf(ledger).length === 1, { deadline: DEADLINE, message: "it blocks" })
  await startService(board, 3)
  const other = await client.submit("e2e.singleBlock", { input: { ms: 0, ledger } })
  await other.outcome({ timeout: 60 })
  await blocks.outcome({ timeout: 60 })
  expect(linesOf(ledger)).toEqual(["begin", "end", "begin", "end"])
}
