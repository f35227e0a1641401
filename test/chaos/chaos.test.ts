/** The short form of the chaos runs, and the proof that the checker catches broken builds. */
import { afterEach, expect, describe as group, test } from "vitest"
import { type SharedBoard, sharedBoards } from "../e2e/boards.ts"
import { check, describe, type Problem } from "./checker.ts"
import type { Fault } from "./faulty.ts"
import { runChaos } from "./run.ts"

const open: Array<SharedBoard> = []
afterEach(async () => {
  for (const board of open.splice(0)) await board[Symbol.asyncDispose]()
})

const LEASE = 1

group.each(sharedBoards)("on $name", (kind) => {
  test("kills, freezes and cuts lose nothing, leave no slot taken, change no outcome, and neither miss nor double a follow-up", async () => {
    const board = await kind.open()
    open.push(board)
    const history = await runChaos({
      url: board.url(LEASE),
      folder: board.folder,
      leaseMs: LEASE * 1_000,
      jobs: 1_000,
      kills: 8,
      ...(board.restartBroker === undefined ? {} : { restartBroker: board.restartBroker, brokerRestarts: 2, cuts: 3 }),
    })
    const report = check(history)
    expect(report.ok, describe(report)).toBe(true)
    expect(report.accepted).toBe(1_000)
  }, 120_000)
})

const CATCHES: ReadonlyArray<readonly [Fault, ReadonlyArray<Problem>]> = [
  ["ack-first", ["lost", "stuck", "missing", "wrong"]],
  // The next attempt of a job is a follow-up too: without it, the job is scheduled for ever.
  ["follow-ups-last", ["missing", "stuck"]],
  ["no-fence", ["changed", "doubled"]],
  ["no-edges", ["stuck"]],
  ["no-answer", ["leaked"]],
]

test.each(CATCHES)(
  "the checker catches a build with the fault %s",
  async (fault, problems) => {
    const [sqlite] = sharedBoards
    if (sqlite === undefined) throw new Error("no board")
    const board = await sqlite.open()
    open.push(board)
    const history = await runChaos({
      url: board.url(LEASE),
      folder: board.folder,
      leaseMs: LEASE * 1_000,
      jobs: 800,
      // Too few for a rolling restart, which would wait for what a leaking worker holds.
      kills: fault === "no-answer" ? 4 : 8,
      restMs: 4_000,
      fault,
    })
    const report = check(history)
    const found = problems.flatMap((problem) => report.problems[problem])
    expect(found.length, describe(report)).toBeGreaterThan(0)
  },
  120_000,
)
