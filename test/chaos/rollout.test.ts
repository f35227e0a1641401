/** The short form of the rolling deploys; `npm run chaos -- rollout` is the long one. */
import { expect, test } from "vitest"
import { sharedBoards } from "../e2e/boards.ts"
import { runRollout } from "./rollout.ts"

test.concurrent.each(sharedBoards)(
  "on $name two versions side by side run each task once, in a worker that serves it",
  {
    timeout: 240_000,
  },
  async (kind) => {
    await using board = await kind.open()
    const report = await runRollout({
      url: board.url(5),
      seconds: 8,
      leastTasks: 40,
      leastReplaced: 3,
      tasksPerSecond: 12,
      replaceEveryMs: 800,
      restMs: 60_000,
    })
    expect(report.problems).toEqual([])
  },
)
