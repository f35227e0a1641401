/** The numbers of the overview: those of the handlers and of the jobs are the same, also while limits hold jobs up. */
import { expect, test } from "vitest"
import { busyOf, presentStates } from "../../../../runtime/page/numbers.ts"

test("of four jobs under a limit of one, one runs and three wait", () => {
  const counts = { deferred: 1, scheduled: 2, queued: 3, started: 1, retrying: 1 }
  const stats = { handlers: { busy: 1, all: 4 }, perMinute: { in: 0.04, started: 1, ended: 1 } }
  expect(presentStates(counts, ["queued"], stats)).toEqual([
    { state: "deferred", value: "1", words: "waits for other jobs" },
    { state: "scheduled", value: "2", words: "1 retrying" },
    { state: "queued", value: "3+", words: "< 0.1/min arriving" },
    { state: "started", value: "1", words: "1 of 4 handlers busy" },
  ])
})

test("nothing is said that is not known", () => {
  expect(presentStates(undefined, [], undefined).map(({ value }) => value)).toEqual(["–", "–", "–", "–"])
  expect(presentStates({ queued: 0, retrying: 0 }, ["retrying"], undefined).map(({ words }) => words)).toEqual([
    "wait for other jobs",
    "",
    "",
    "",
  ])
})

test("a worker with more handlers than it lists jobs says how many run", () => {
  expect([busyOf({ busy: 300, running: ["a"] }), busyOf({ running: ["a"] })]).toEqual([300, 1])
})
