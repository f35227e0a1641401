/** The pure parts of the page: filters, the order of rows, attempts, trees, values, tracebacks. */
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import type { TreeNode } from "../../../../runtime/jobs/lists.ts"
import type { Attempt, FullJob, Job } from "../../../../runtime/jobs/responses.ts"
import { attemptsOf, drawn, lengthsOf } from "../../../../runtime/page/attempts.ts"
import { filtersOf, listKey, statesOf } from "../../../../runtime/page/filters.ts"
import { isDeep, upTo, linesOf as valueLines } from "../../../../runtime/page/json.ts"
import { keepOrder } from "../../../../runtime/page/order.ts"
import { traceOf } from "../../../../runtime/page/trace.ts"
import { linesOf } from "../../../../runtime/page/tree.ts"

describe("filters", () => {
  const of = (text: string) => new URLSearchParams(text)

  test("are what the address says, whether the page knows them or not; a cursor or a limit is none", () => {
    const query = of("state=failed,expired&task=a.b&cursor=x&limit=5&budget=1s&count=true&nonsense=1&queue=")
    expect(filtersOf(query)).toEqual({ state: "failed,expired", task: "a.b", nonsense: "1" })
    expect(statesOf(filtersOf(query))).toEqual(["failed", "expired"])
  })

  test("name the same list in any order, and another one with another cursor", () => {
    expect(listKey(of("state=failed&task=a"))).toBe(listKey(of("task=a&state=failed&cursor=")))
    expect(listKey(of("state=failed&cursor=2"))).not.toBe(listKey(of("state=failed")))
    expect(listKey(of("task=cursor"))).not.toBe(listKey(of("task=&cursor=task")))
  })
})

test("rows under a hand keep their order and change in place; none comes, none goes", () => {
  const shown = [
    { id: "a", n: 1 },
    { id: "b", n: 1 },
  ]
  const next = [
    { id: "c", n: 2 },
    { id: "b", n: 2 },
  ]
  expect(keepOrder(shown, next, ({ id }) => id)).toEqual([
    { id: "a", n: 1 },
    { id: "b", n: 2 },
  ])
})

const at = (seconds: number): string => new Date(1_000_000 + seconds * 1000).toISOString()
const ERROR = { name: "Greylisted", message: "later" }

describe("attempts", () => {
  const attempt = (attempt: number, started: number, more: Partial<Attempt> = {}): Attempt => ({
    run: 1,
    attempt,
    started: at(started),
    ...more,
  })
  const job = (
    state: Job["state"],
    attempts: ReadonlyArray<Attempt>,
    times: Partial<FullJob["times"]> = {},
    run = 1,
  ) => ({
    state,
    attempts,
    run,
    times: { submitted: at(0), ...times },
  })

  test("are those of the job, and the one that it waits for", () => {
    const told = [
      attempt(1, 1, { worker: "a", queued: at(0), ended: at(2), outcome: "failed", error: ERROR }),
      attempt(2, 33, { worker: "b", queued: at(32), ended: at(63), outcome: "lost" }),
      attempt(2, 64, { worker: "c", ended: at(65), outcome: "failed", error: ERROR }),
    ]
    const attempts = attemptsOf(job("scheduled", told, { due: at(665) }))
    expect(attempts.map(({ attempt, worker, outcome }) => [attempt, worker, outcome])).toEqual([
      [1, "a", "retrying"],
      [2, "b", "lost"],
      [2, "c", "retrying"],
      [3, undefined, "waiting"],
    ])
    const now = Date.parse(at(165))
    expect(attempts.map((each) => lengthsOf(each, now))).toEqual([
      { off: undefined, wait: 1_000, run: 1_000 },
      { off: 30_000, wait: 1_000, run: 30_000 },
      { off: 1_000, wait: undefined, run: 1_000 },
      { off: 600_000, wait: 0, run: undefined },
    ])
    expect(attemptsOf(job("failed", told)).map(({ outcome }) => outcome)).toEqual(["retrying", "lost", "failed"])
  })

  test("of a job that waits continue in the same attempt", () => {
    const told = [attempt(1, 1, { ended: at(2), outcome: "suspended" })]
    const waits = attemptsOf(job("scheduled", told, { due: at(900) }))
    expect(waits).toMatchObject([{ outcome: "suspended" }, { attempt: 1, outcome: "waiting" }])
  })

  test("of a run that was begun by hand do not follow the last ones", () => {
    const told = [attempt(1, 1, { ended: at(2), outcome: "failed", error: ERROR })]
    const waits = attemptsOf(job("queued", told, { enqueued: at(900) }, 2))
    expect(waits).toMatchObject([{ outcome: "failed" }, { attempt: 1, outcome: "waiting", freed: undefined }])
    const runs = attemptsOf(job("started", [...told, attempt(1, 901, { run: 2, queued: at(900) })], {}, 2))
    expect(runs).toMatchObject([{ outcome: "failed" }, { outcome: "running", freed: undefined }])
  })

  test("are none of a job that ended before it began", () => {
    expect(attemptsOf(job("cancelled", []))).toEqual([])
  })

  test("are drawn one after the other, from the left to the right edge", () => {
    const times = fc.array(fc.record({ off: fc.nat(), wait: fc.nat(), run: fc.nat() }), { maxLength: 20 })
    fc.assert(
      fc.property(
        times,
        fc.constantFrom<Job["state"][]>("queued", "scheduled", "started", "failed"),
        (given, state) => {
          let seconds = 0
          const told = given.map(({ off, wait, run }, n) => {
            const queued = seconds + (off % 100_000)
            const started = queued + (wait % 100_000)
            seconds = started + (run % 100_000)
            return attempt(n + 1, started, { queued: at(queued), ended: at(seconds), outcome: "failed" })
          })
          let before = 0
          const attempts = attemptsOf(job(state, told, { due: at(seconds + 5), enqueued: at(seconds) }))
          for (const { off, wait, run } of drawn(attempts, Date.parse(at(seconds)))) {
            for (const edge of [...off, ...wait, ...run]) {
              expect(edge).toBeGreaterThanOrEqual(before - 1e-9)
              before = edge
            }
          }
          expect(before).toBeLessThanOrEqual(1 + 1e-9)
        },
      ),
    )
  })
})

describe("a tree", () => {
  const node = (id: string, more: Partial<TreeNode> = {}): TreeNode => ({
    id,
    name: id,
    state: "queued",
    times: { submitted: at(id.charCodeAt(0)) },
    kind: "child",
    ...more,
  })

  test("has each job below its parent, or what it waits for, the oldest first", () => {
    const lines = linesOf([
      node("c", { parentId: "a" }),
      node("d", { after: ["b"] }),
      node("a"),
      node("b", { parentId: "a" }),
    ])
    expect(lines.map(({ node: { id }, depth }) => [id, depth])).toEqual([
      ["a", 0],
      ["b", 1],
      ["d", 2],
      ["c", 1],
    ])
  })

  test("shows each job once, whatever hangs on what", () => {
    const ids = ["a", "b", "c", "d", "e", "f"]
    const some = fc.option(fc.constantFrom(...ids), { nil: undefined })
    fc.assert(
      fc.property(fc.array(fc.tuple(some, some), { minLength: 6, maxLength: 6 }), (links) => {
        const nodes = ids.map((id, index) => {
          const [parentId, after] = links[index] ?? []
          return node(id, {
            ...(parentId === undefined ? {} : { parentId }),
            ...(after === undefined ? {} : { after: [after] }),
          })
        })
        expect(
          linesOf(nodes)
            .map(({ node: { id } }) => id)
            .toSorted(),
        ).toEqual(ids)
      }),
    )
  })
})

describe("a value", () => {
  const text = (value: unknown, unfolded = true) =>
    valueLines(value, unfolded)
      .map((line) => line.map((piece) => piece.text).join(""))
      .join("\n")

  test("is written as JSON writes it", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const shown = text(value)
        if (!JSON.stringify(value).includes('"***"')) expect(shown).toBe(JSON.stringify(value, null, 2))
      }),
    )
  })

  test("is shown up to a number of characters, also where one text has more than these", () => {
    const cut = (value: unknown, max: number) => {
      const { lines, isCut } = upTo(valueLines(value, true), max)
      return [lines.map((line) => line.map((piece) => piece.text).join("")).join("\n"), isCut]
    }
    expect(cut({ text: "x".repeat(1000) }, 20)).toEqual([`{\n  "text": "xxxxxxx`, true])
    expect(cut({ a: 1, b: 2 }, 10)).toEqual([`{\n  "a": 1`, true])
    expect(cut("x".repeat(1000), 5)).toEqual([`"xxxx`, true])
    expect(cut({ a: 1 }, 100)).toEqual([`{\n  "a": 1\n}`, false])
  })

  test("says what is hidden, and is folded where it is deep", () => {
    const value = { a: { b: { c: { d: 1 }, list: [1, 2] }, secret: "***" } }
    expect(text(value, false)).toContain("{ 1 fields }")
    expect(text(value, false)).toContain("[ 2 items ]")
    expect(text(value)).toContain('"secret": redacted')
    expect([isDeep(value), isDeep({ a: { b: 1 } }), isDeep("x")]).toEqual([true, false, false])
  })
})

test("a traceback tells what is of the application", () => {
  const lines = traceOf(
    [
      "Error: no",
      "    at deliver (/app/actors/mailer.ts:41:13)",
      "    at <anonymous> (/app/actors/mailer.ts:22:10)",
      "    at run (/app/node_modules/callboard/dist/runtime/worker/a.js:1:1)",
      "    at processTicksAndRejections (native:7:39)",
      "  [cause]: Error: deeper",
    ].join("\n"),
  )
  expect(lines.map(({ kind }) => kind)).toEqual(["", "own", "own", "other", "other", "cause"])
})
