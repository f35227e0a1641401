/** The short form of the trials; `npm run chaos -- trials` is the long one. */
import { beforeAll, describe, expect, test } from "vitest"
import { allBoards } from "../e2e/boards.ts"
import { describe as told } from "./checker.ts"
import { natsCluster } from "./cluster.ts"
import { workerProgram } from "./run.ts"
import { runTrial, SHORT, trials } from "./trials.ts"

/** The others need the right to make namespaces. */
const short = trials.filter(({ name }) => name !== "namespaces")

/** Of a cluster, what a single server does not show: after an outage its servers first elect their leaders. */
const onCluster = short.filter(({ name }) => name === "newcomer")

// Before any trial has connected: its connection would not be served meanwhile.
beforeAll(() => void workerProgram())

// The boards run side by side, since each trial spends most of its time waiting.
describe.concurrent.each([...allBoards, natsCluster])("on $name", (kind) => {
  for (const trial of (kind === natsCluster ? onCluster : short).filter(({ boards }) => boards.includes(kind.name))) {
    test.sequential(trial.promise, { timeout: 300_000 }, async () => {
      await using board = await kind.open()
      const report = await runTrial(trial, board, SHORT)
      expect(report.ok, told(report)).toBe(true)
    })
  }
})
