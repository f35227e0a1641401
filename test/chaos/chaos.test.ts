/** The short form of the chaos runs; `npm run chaos` is the long one, and `npm run chaos -- faults` checks the checker. */
import { expect, describe as group, test } from "vitest"
import { sharedBoards } from "../e2e/boards.ts"
import { check, describe } from "./checker.ts"
import { runChaos } from "./run.ts"

const LEASE = 1
const JOBS = 250

// Each board waits for much of its time, and the cases of one after the other.
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

  test.sequential("jobs that kill their workers end alone: whatever runs beside them succeeds", async () => {
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

  test.sequential("handlers that never end cost their own jobs only, whatever waits behind them or runs beside them", async () => {
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
