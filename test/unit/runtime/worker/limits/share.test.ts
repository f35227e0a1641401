/** How the permits of a limit are divided among the workers that want some. */
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { decidePermits, shareOf } from "../../../../../runtime/worker/limits/share.ts"
import type { LimitState } from "../../../../../runtime/worker/limits/state.ts"

const NOW = 10_000

/** A state: `{ a: 2 }` holds two permits, `{ b: [9_000, 3] }` has requested three since then. */
const stateOf = (
  held: Readonly<Record<string, number>>,
  asking: Readonly<Record<string, readonly [number, number]>> = {},
): LimitState => ({
  tat: undefined,
  held: new Map(Object.entries(held)),
  asking: new Map(Object.entries(asking).map(([id, [since, wanted]]) => [id, { since, wanted }])),
})

const own = (fields: { held?: number; running?: number; wanted?: number; isIdle?: boolean }) => ({
  id: "me",
  held: 0,
  running: 0,
  wanted: 0,
  isIdle: false,
  ...fields,
})

describe("what a worker holds", () => {
  test.each<[string, LimitState, Parameters<typeof own>[0], number]>([
    ["as many as it wants, where nobody else is", stateOf({}), { wanted: 4 }, 4],
    ["no more than there are", stateOf({}), { wanted: 40 }, 10],
    ["what others have left", stateOf({ a: 7 }), { wanted: 5 }, 3],
    ["nothing while others hold all", stateOf({ a: 10 }), { wanted: 5 }, 0],
    ["what it has, for a moment, although it does not use it", stateOf({ me: 3 }), { held: 3 }, 3],
    ["what it uses, after that moment", stateOf({ me: 3 }), { held: 3, running: 1, wanted: 1, isIdle: true }, 1],
    ["what it uses, where others ask", stateOf({ me: 3 }, { a: [9_000, 9] }), { held: 3, running: 1, wanted: 1 }, 1],
    [
      "half, where another wants as much",
      stateOf({ me: 10 }, { a: [9_000, 9] }),
      { held: 10, running: 4, wanted: 9 },
      5,
    ],
    ["what runs, whoever asks", stateOf({ me: 10 }, { a: [9_000, 9] }), { held: 10, running: 8, wanted: 9 }, 8],
    ["all that another does not want", stateOf({ me: 10 }, { a: [9_000, 2] }), { held: 10, running: 0, wanted: 9 }, 8],
    ["its part of those that are free, while others ask", stateOf({}, { a: [9_000, 9] }), { wanted: 9 }, 5],
    ["nothing that others took while it was taken for dead", stateOf({ a: 10 }), { held: 6, running: 0, wanted: 6 }, 0],
    ["what still runs, if it was taken for dead", stateOf({ a: 10 }), { held: 6, running: 2, wanted: 6 }, 2],
  ])("is %s", (_, state, holder, held) => {
    expect(decidePermits(state, own(holder), 10, NOW).held).toBe(held)
  })

  test("is taken by turns, where there are fewer permits than workers", () => {
    const fresh = stateOf({ me: 1 }, { me: [NOW - 100, 5], a: [NOW - 400, 5] })
    expect(decidePermits(fresh, own({ held: 1, wanted: 5 }), 1, NOW).held).toBe(1)
    const old = stateOf({ me: 1 }, { me: [NOW - 900, 5], a: [NOW - 400, 5] })
    const given = decidePermits(old, own({ held: 1, wanted: 5 }), 1, NOW)
    expect(given).toMatchObject({ held: 0, mustNotify: true })
    // It requests again, behind the worker that has waited longer.
    expect(decidePermits(given.state, own({ wanted: 5 }), 1, NOW).held).toBe(0)
    expect(decidePermits(given.state, { ...own({ wanted: 5 }), id: "a" }, 1, NOW).held).toBe(1)
  })

  test("is told to others only where that helps them", () => {
    expect(decidePermits(stateOf({}), own({ wanted: 40 }), 10, NOW).mustNotify).toBe(false)
    expect(decidePermits(stateOf({ a: 10 }), own({ wanted: 4 }), 10, NOW).mustNotify).toBe(true)
    expect(decidePermits(stateOf({ a: 10 }, { me: [9_000, 4] }), own({ wanted: 4 }), 10, NOW).mustNotify).toBe(false)
    expect(decidePermits(stateOf({ me: 3 }), own({ held: 3, isIdle: true }), 10, NOW).mustNotify).toBe(false)
    expect(decidePermits(stateOf({ me: 3 }, { a: [9_000, 9] }), own({ held: 3 }), 10, NOW).mustNotify).toBe(true)
  })
})

const parties = fc.uniqueArray(
  fc.record({ id: fc.string({ minLength: 1, maxLength: 3 }), wanted: fc.integer({ min: 1, max: 20 }) }),
  { selector: ({ id }) => id, minLength: 1, maxLength: 8 },
)

test("the parts of all workers come to what there is, and none gets less than its even part", () => {
  fc.assert(
    fc.property(parties, fc.integer({ min: 1, max: 30 }), (all, limit) => {
      const asking = Object.fromEntries(all.map(({ id, wanted }, at) => [id, [at, wanted] as const]))
      const shares = all.map(({ id, wanted }) => shareOf(stateOf({}, asking), { id, held: 0, wanted }, limit, NOW))
      const demand = all.reduce((sum, { wanted }) => sum + wanted, 0)
      expect(shares.reduce((sum, share) => sum + share, 0)).toBe(Math.min(limit, demand))
      for (const [at, share] of shares.entries())
        expect(share).toBeGreaterThanOrEqual(Math.min(all[at]?.wanted ?? 0, Math.floor(limit / all.length)))
    }),
  )
})

test("workers that take turns at random never hold more than there is, and come to rest at even parts", () => {
  const ids = ["a", "b", "c", "d"]
  fc.assert(
    fc.property(
      fc.array(fc.nat({ max: 3 }), { minLength: 40, maxLength: 80 }),
      fc.integer({ min: 4, max: 20 }),
      (order, limit) => {
        let state = stateOf({})
        const held = new Map<string, number>()
        const turn = (id: string) => {
          const decision = decidePermits(
            state,
            { id, held: held.get(id) ?? 0, running: 0, wanted: 30, isIdle: false },
            limit,
            NOW,
          )
          held.set(id, decision.held)
          ;({ state } = decision)
          expect([...held.values()].reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(limit)
        }
        for (const at of order) turn(ids[at] ?? "a")
        for (let round = 0; round < 4; round++) for (const id of ids) turn(id)
        for (const id of ids) expect(held.get(id)).toBeGreaterThanOrEqual(Math.floor(limit / 4))
      },
    ),
  )
})
