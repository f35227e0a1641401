/** Which tasks of several lanes go first, and of which lanes that is not certain. */
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { type Candidate, choose, lanesAbove } from "../../plugins/nats/choice.ts"

const task = (lane: number, sequence: number, number = 1): Candidate => ({ lane, number, delivery: { sequence } })
const all = { from: 0, to: 4 }

describe("chosen", () => {
  const here = [task(2, 5), task(0, 9), task(2, 3), task(3, 1), task(0, 8)]

  test("is what comes first by lane, then by sequence, up to the maximum", () => {
    expect(choose(here, { lanes: all, max: 4 })).toEqual([task(0, 8), task(0, 9), task(2, 3), task(2, 5)])
  })

  test("is nothing of other lanes", () => {
    expect(choose(here, { lanes: { from: 1, to: 3 }, max: 9 })).toEqual([task(2, 3), task(2, 5)])
  })
})

describe("above what was chosen", () => {
  test("are the lanes of which more would go first, each with how many and since when", () => {
    const chosen = [task(0, 8, 7), task(2, 3, 1), task(2, 5, 4)]
    expect(lanesAbove({ lanes: all, max: 5 }, chosen)).toEqual([
      { lane: 1, wanted: 4, since: 4 },
      { lane: 0, wanted: 4, since: 4 },
    ])
  })

  test("is nothing where all is of the highest lane, and nothing where nothing is here", () => {
    expect(lanesAbove({ lanes: all, max: 5 }, [task(0, 1), task(0, 2)])).toEqual([])
    expect(lanesAbove({ lanes: { from: 2, to: 4 }, max: 5 }, [task(2, 1)])).toEqual([])
    expect(lanesAbove({ lanes: all, max: 5 }, [])).toEqual([])
  })

  test("is each lane for which something below was chosen, and no other", () => {
    const tasks = fc.array(fc.tuple(fc.nat(5), fc.nat(1_000)), { maxLength: 30 })
    fc.assert(
      fc.property(tasks, fc.integer({ min: 1, max: 20 }), (made, max) => {
        const share = { lanes: { from: 0, to: 6 }, max }
        const chosen = choose(
          made.map(([lane, sequence], at) => task(lane, sequence, at + 1)),
          share,
        )
        const expected = [5, 4, 3, 2, 1, 0].flatMap((lane) => {
          const below = chosen.filter((each) => each.lane > lane)
          if (below.length === 0) return []
          const wanted = max - chosen.filter((each) => each.lane <= lane).length
          return [{ lane, wanted, since: Math.max(...below.map(({ number }) => number)) }]
        })
        expect(lanesAbove(share, chosen)).toEqual(expected)
        // There is always room for what goes before something that was chosen.
        expect(expected.every(({ wanted }) => wanted > 0)).toBe(true)
      }),
    )
  })
})
