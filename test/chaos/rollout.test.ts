/** The short form of the rolling deploys; `npm run chaos -- rollout` is the long one. */
import { expect, describe as group, test } from "vitest"
import { sharedBoards } from "../e2e/boards.ts"
import { keep } from "../support/servers/keep.ts"
import { runRollout } from "./rollout.ts"

group.each(sharedBoards)("on $name", (kind) => {
  test("two versions side by side run each task once, in a worker that serves it", async () => {
    const board = keep(await kind.open())
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
  }, 240_000)
})
