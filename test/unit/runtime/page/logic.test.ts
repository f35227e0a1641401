/** What the views work out by themselves: filters, rows that stay, attempts, trees, values, tracebacks. */
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import type { Transition, TreeNode } from "../../../../runtime/page/api.ts"
import { attemptsOf, drawn } from "../../../../runtime/page/attempts.ts"
import { filtersOf, listKey, statesOf } from "../../../../runtime/page/filters.ts"
import { isDeep, linesOf as valueLines } from "../../../../runtime/page/json.ts"
import { keepOrder } from "../../../../runtime/page/order.ts"
import { traceOf } from "../../../../runtime/page/trace.ts"
import { linesOf } from "../../../../runtime/page/tree.ts"

describe("filters", () => {
  const of = (text: string) => new URLSearchParams(text)

  test("are what the address says, whether the page knows them or not; a cursor is none", () => {
    const query = of("state=failed,expired&task=a.b&cursor=x&nonsense=1&queue=")
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
const step = (seconds: number, state: string, more: Partial<Transition> = {}): Transition => ({
  id: `1.${seconds}`,
  at: at(seconds),
  state,
  ...more,
})
const ERROR = { name: "Greylisted", message: "later" }

describe("attempts", () => {
  test("are what lies between the steps: a retry, a lost worker, and one that waits", () => {
    const attempts = attemptsOf([
      step(0, "queued"),
      step(1, "started", { attempt: 1, worker: "a" }),
      step(2, "scheduled", { reason: "retry", due: at(32), error: ERROR }),
      step(33, "started", { attempt: 2, worker: "b" }),
      step(63, "queued", { reason: "worker-lost" }),
      step(64, "started", { attempt: 2, worker: "c" }),
      step(65, "scheduled", { reason: "retry", due: at(665), error: ERROR }),
    ])
    expect(attempts.map(({ attempt, worker, outcome }) => [attempt, worker, outcome])).toEqual([
      [1, "a", "retrying"],
      [2, "b", "lost"],
      [2, "c", "retrying"],
      [3, undefined, "waiting"],
    ])
    expect(attempts[0]).toMatchObject({
      queued: Date.parse(at(0)),
      started: Date.parse(at(1)),
      ended: Date.parse(at(2)),
      error: ERROR,
    })
    // The wait of the second one begins as the first one ends.
    expect(attempts[1]).toMatchObject({ queued: Date.parse(at(2)), started: Date.parse(at(33)) })
    expect(attempts.at(-1)).toMatchObject({ queued: Date.parse(at(65)), due: Date.parse(at(665)) })
  })

  test("go on while one runs, and are over once the job has ended, also without having run", () => {
    const running = [step(0, "scheduled", { due: at(5) }), step(5, "queued"), step(6, "started", { attempt: 1 })]
    expect(attemptsOf(running)).toMatchObject([
      { outcome: "running", queued: Date.parse(at(0)), ended: undefined, due: undefined },
    ])
    const over = [...running, step(7, "succeeded"), step(9, "queued"), step(10, "cancelled")]
    expect(attemptsOf(over).map(({ outcome }) => outcome)).toEqual(["succeeded"])
    expect(attemptsOf([])).toEqual([])
  })

  test("are drawn one after the other, from the left to the right edge", () => {
    const steps = fc.array(fc.tuple(fc.nat(100_000), fc.constantFrom("queued", "scheduled", "started", "failed")), {
      maxLength: 50,
    })
    fc.assert(
      fc.property(steps, (given) => {
        let seconds = 0
        const transitions = given.map(([more, state]) => {
          seconds += more
          return step(seconds, state)
        })
        let before = 0
        for (const { wait, run } of drawn(attemptsOf(transitions), Date.parse(at(seconds)))) {
          for (const edge of [...wait, ...run]) {
            expect(edge).toBeGreaterThanOrEqual(before - 1e-9)
            before = edge
          }
        }
        expect(before).toBeLessThanOrEqual(1 + 1e-9)
      }),
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
