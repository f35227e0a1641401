/** A decision about many jobs, from the time in which it can be undone to its end. */
import { expect, test } from "vitest"
import { BulkRun, idsStep, type Progress, type Step } from "../../../../runtime/page/bulk-run.ts"
import { ApiError } from "../../../../runtime/page/client.ts"

/** A board of so many jobs, each tenth of which is refused, and a run over it whose waits the test ends. */
const runOver = (jobs: number, { tryFirst = 0, fail = [] as ReadonlyArray<ApiError> } = {}) => {
  const calls: Array<readonly [limit: number, cursor: string | undefined]> = []
  const phases: Array<string> = []
  const faults = [...fail]
  const waits: Array<() => void> = []
  const step = async (limit: number, cursor: string | undefined): Promise<Step> => {
    calls.push([limit, cursor])
    const fault = faults.shift()
    if (fault !== undefined) throw fault
    const from = Number(cursor ?? 0)
    const to = Math.min(from + limit, jobs)
    const ids = Array.from({ length: to - from }, (_, at) => String(from + at))
    const refused = ids.filter((id) => Number(id) % 10 === 9).map((id) => ({ id, code: "job-exists" }))
    const done = ids.filter((id) => Number(id) % 10 !== 9)
    return { changed: done.length, refused, ids: done, ...(to < jobs ? { next: String(to) } : {}) }
  }
  const run = new BulkRun({
    step,
    tryFirst,
    waitMs: 8_000,
    onChange: ({ phase }: Progress) => {
      if (phases.at(-1) !== phase) phases.push(phase)
    },
    now: () => 0,
    sleep: () => new Promise((resolve) => waits.push(resolve)),
  })
  const ended = run.run()
  /** Ends the wait that goes on, and lets everything happen that follows from it. */
  const pass = async (): Promise<void> => {
    waits.shift()?.()
    for (let turn = 0; turn < 50; turn++) await Promise.resolve()
  }
  return { run, ended, calls, phases, pass }
}

test("nothing is called before the wait is over, and nothing at all if it is undone", async () => {
  const { run, ended, calls, phases, pass } = runOver(30)
  run.undo()
  await pass()
  await ended
  expect([calls, phases]).toEqual([[], ["waiting", "undone"]])
})

test("page after page, until none is left", async () => {
  const { run, ended, calls, phases, pass } = runOver(250)
  await pass()
  await ended
  expect(calls).toEqual([
    [100, undefined],
    [100, "100"],
    [100, "200"],
  ])
  expect(phases).toEqual(["waiting", "running", "over"])
  expect(run.progress).toMatchObject({ changed: 225, refused: { "job-exists": 25 } })
})

test("the first few are tried, and the rest follows when the reader says so", async () => {
  const { run, ended, calls, phases, pass } = runOver(30, { tryFirst: 5 })
  await pass()
  expect(run.progress).toMatchObject({ phase: "asking", changed: 5, tried: ["0", "1", "2", "3", "4"] })
  expect(calls).toHaveLength(1)
  run.goOn()
  await ended
  expect(calls).toEqual([
    [5, undefined],
    [100, "5"],
  ])
  expect(phases).toEqual(["waiting", "trying", "asking", "running", "over"])
})

test("what was tried first stays all, if the reader stops there", async () => {
  const { run, ended, calls, pass } = runOver(30, { tryFirst: 5 })
  await pass()
  run.stop()
  await ended
  expect([run.progress.phase, calls.length]).toEqual(["stopped", 1])
})

test("where the first few are all, nothing is asked", async () => {
  const { run, ended, pass } = runOver(3, { tryFirst: 5 })
  await pass()
  await ended
  expect(run.progress).toMatchObject({ phase: "over", changed: 3 })
})

test("a stop lets the call that is under way end, and makes no other one", async () => {
  const { run, ended, calls, pass } = runOver(250)
  const passing = pass()
  await Promise.resolve()
  run.stop()
  await passing
  await ended
  expect([run.progress.phase, calls.length <= 1]).toEqual(["stopped", true])
})

test("what does not answer is asked again from the same place; what is refused ends it, and says why", async () => {
  const away = runOver(150, { fail: [new ApiError(0, "unreachable", "no answer"), new ApiError(503, "x", "no")] })
  await away.pass()
  await away.pass()
  await away.pass()
  await away.ended
  expect(away.calls.map(([, cursor]) => cursor)).toEqual([undefined, undefined, undefined, "100"])
  expect(away.run.progress).toMatchObject({ phase: "over", changed: 135 })
  const refused = runOver(150, { fail: [new ApiError(403, "forbidden", "this token lacks the scope operate")] })
  await refused.pass()
  await refused.ended
  expect(refused.run.progress).toMatchObject({
    phase: "stopped",
    changed: 0,
    error: "this token lacks the scope operate",
  })
})

test("a stop while the first few are tried, or while a call is to be made again, is one", async () => {
  const run: BulkRun = new BulkRun({
    step: async () => {
      run.stop()
      return { changed: 5, refused: [], next: "5" }
    },
    tryFirst: 5,
    waitMs: 0,
    onChange: () => undefined,
    now: () => 0,
    sleep: async () => undefined,
  })
  void run.run()
  for (let turn = 0; turn < 50; turn++) await Promise.resolve()
  expect(run.progress).toMatchObject({ phase: "stopped", changed: 5 })

  const away = runOver(150, { fail: [new ApiError(0, "unreachable", "no answer")] })
  await away.pass()
  away.run.stop()
  await away.pass()
  await away.ended
  expect([away.run.progress.phase, away.calls.length]).toEqual(["stopped", 1])
})

test("jobs that were selected are decided once each, also when the service is away in the middle of them", async () => {
  const faults = new Map([
    ["1", new ApiError(409, "job-exists", "it runs")],
    ["3", new ApiError(0, "unreachable", "no answer")],
  ])
  const asked: Array<string> = []
  const step = idsStep(["0", "1", "2", "3", "4"], async (id) => {
    asked.push(id)
    const fault = faults.get(id)
    faults.delete(id)
    if (fault !== undefined) throw fault
  })
  expect(await step(100, undefined)).toEqual({
    changed: 2,
    refused: [{ id: "1", code: "job-exists" }],
    ids: ["0", "2"],
    next: "3",
  })
  expect(await step(100, "3")).toEqual({ changed: 2, refused: [], ids: ["3", "4"] })
  expect(asked).toEqual(["0", "1", "2", "3", "3", "4"])
  const refused = idsStep(["0"], async () => {
    throw new ApiError(403, "forbidden", "no")
  })
  await expect(refused(100, undefined)).rejects.toThrow("no")
})
