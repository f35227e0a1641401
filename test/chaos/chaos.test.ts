/** The short form of the chaos runs. `npm run chaos` is the long one; `npm run chaos -- faults` tests the checker with broken builds. */
import { expect, describe as group, test } from "vitest"
import { sharedBoards } from "../e2e/boards.ts"
import { check, describe } from "./checker.ts"
import { runChaos } from "./run.ts"

const LEASE = 1
const JOBS = 250

// The boards run side by side, since each run spends much of its time waiting; the cases of one board run one after the other.
group.concurrent.each(sharedBoards)("on $name", (kind) => {
  test.sequential("kills, freezes and cuts lose nothing, leave no slot taken, change no outcome, and neither miss nor double a follow-up", async () => {
    await using board = await kind.open()
    const history = await runChaos({
      url: board.url(LEASE),
      folder: board.folder,
      leaseMs: LEASE * 1_000,
      jobs: JOBS,
      kills: 5,
      ...(board.restartBroker === undefined ? {} : { restartBroker: board.restartBroker, brokerRestarts: 1, cuts: 2 }),
    })
    const report = check(history)
    expect(report.ok, describe(report)).toBe(true)
    expect(report.accepted).toBe(JOBS)
  }, 180_000)

  test.sequential("jobs that kill their workers end alone: all jobs beside them succeed", async () => {
    await using board = await kind.open()
    const history = await runChaos({
      url: board.url(LEASE),
      folder: board.folder,
      leaseMs: LEASE * 1_000,
      jobs: 40,
      kills: 1,
      poison: 2,
      workers: 2,
    })
    const report = check(history)
    expect(report.ok, describe(report)).toBe(true)
  }, 180_000)

  test.sequential("handlers that never end fail their own jobs only; jobs behind them and beside them succeed", async () => {
    await using board = await kind.open()
    const history = await runChaos({
      url: board.url(LEASE),
      folder: board.folder,
      leaseMs: LEASE * 1_000,
      jobs: 40,
      kills: 1,
      stuck: 2,
      workers: 2,
    })
    const report = check(history)
    expect(report.ok, describe(report)).toBe(true)
    const traps = history.plans.filter(({ kind }) => kind === "block" || kind === "deaf")
    expect(traps.map(({ id }) => history.final.get(id)?.error?.reason)).toEqual(["timeout", "timeout"])
  }, 180_000)
})
