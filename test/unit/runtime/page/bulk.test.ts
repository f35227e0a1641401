/** A decision about many jobs, from the time in which it can be undone to its end. */
import { expect, test } from "vitest"
import type { BulkPlan } from "../../../../runtime/jobs/lists.ts"
import { mergedPlans, partsOf } from "../../../../runtime/page/bulk-parts.ts"
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
    return {
      changed: done.length,
      refused,
      ids: done,
      ...(to < jobs ? { next: String(to), partial: { done: done.length, left: jobs - to } } : {}),
    }
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
  expect(run.progress).toMatchObject({
    phase: "asking",
    changed: 5,
    tried: ["0", "1", "2", "3", "4"],
    left: { left: 25 },
  })
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

test("jobs that were selected are named by one request for a hundred of them, and each once when one is repeated", async () => {
  const ids = Array.from({ length: 230 }, (_, at) => `job-${at}`)
  const asked: Array<number> = []
  const faults = [undefined, new ApiError(0, "unreachable", "no answer")]
  const step = idsStep(ids, {
    many: async (some) => {
      asked.push(some.length)
      const fault = faults.shift()
      if (fault !== undefined) throw fault
      return { changed: some.length - 1, refused: [{ id: some[0] ?? "", code: "job-exists" }], ids: some.slice(1) }
    },
    one: () => Promise.reject(new Error("each of these can be named in a list")),
  })
  const first = await step(5, undefined)
  expect(first).toEqual({
    changed: 4,
    refused: [{ id: "job-0", code: "job-exists" }],
    ids: ["job-1", "job-2", "job-3", "job-4"],
    next: "5",
  })
  await expect(step(100, first.next)).rejects.toThrow("no answer")
  let next = first.next
  while (next !== undefined) next = (await step(100, next)).next
  expect(asked).toEqual([5, 100, 100, 100, 25])
})

test("ids that are too long for one address are named in several, and one that no list can name by a request of its own", async () => {
  const long = Array.from({ length: 50 }, (_, at) => `${at}${"é".repeat(120)}`)
  const hostile = ["a,b", " a", "é,"]
  const parts = partsOf([...long, ...hostile, "last"])
  expect(parts.flat()).toEqual([...long, ...hostile, "last"])
  for (const part of parts) expect(encodeURIComponent(part.join(",")).length).toBeLessThan(8_000)
  expect(parts.slice(-4)).toEqual([["a,b"], [" a"], ["é,"], ["last"]])
  const one: Array<string> = []
  const step = idsStep(["x", "a,b", "c,d", "y"], {
    many: async (ids) => ({ changed: ids.length, refused: [], ids }),
    one: async (id) => {
      one.push(id)
      if (id === "c,d") throw new ApiError(409, "job-exists", "it runs")
    },
  })
  const steps = [await step(100, undefined), await step(100, "1"), await step(100, "2"), await step(100, "3")]
  expect(steps).toEqual([
    { changed: 1, refused: [], ids: ["x"], next: "1" },
    { changed: 1, refused: [], ids: ["a,b"], next: "2" },
    { changed: 0, refused: [{ id: "c,d", code: "job-exists" }], ids: [], next: "3" },
    { changed: 1, refused: [], ids: ["y"] },
  ])
  expect(one).toEqual(["a,b", "c,d"])
  const refused = idsStep(["a,b"], {
    many: async () => ({ changed: 0, refused: [] }),
    one: () => Promise.reject(new ApiError(403, "forbidden", "no")),
  })
  await expect(refused(100, undefined)).rejects.toThrow("no")
})

test("the plans for parts of a selection are one", () => {
  const plan = (value: number, task: string): BulkPlan => ({
    matches: { value, relation: "eq" },
    will: value,
    refused: { gone: 1 },
    changed: 0,
    by: { task: { [task]: value, both: 1 }, queue: {} },
    warnings: [{ code: "paused", text: "paused" }],
    sample: Array.from({ length: 4 }, (_, at) => `${task}${at}`),
    until: "2026-01-01T00:00:00.000Z",
  })
  expect(mergedPlans([plan(3, "a"), plan(4, "b")])).toEqual({
    ...plan(7, "a"),
    refused: { gone: 2 },
    by: { task: { a: 3, b: 4, both: 2 }, queue: {} },
    sample: ["a0", "a1", "a2", "a3", "b0"],
  })
  expect(mergedPlans([])).toMatchObject({ will: 0, matches: { value: 0, relation: "eq" } })
})
