/** Which of the tasks that have come go first. */
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { byPriority, type Candidate, roundRobin } from "../../../../plugins/nats/queue/pull-session.ts"

const task = (lane: number, sequence: number): Candidate => ({ lane, delivery: { sequence } })

test("by priority: by lane, then by age", () => {
  const here = [task(2, 5), task(0, 9), task(2, 3), task(3, 1), task(0, 8)]
  expect(byPriority(here)).toEqual([task(0, 8), task(0, 9), task(2, 3), task(2, 5), task(3, 1)])
})

describe("round robin", () => {
  /** Two lanes per queue. */
  const queueOf = (lane: number): number => Math.floor(lane / 2)

  test("one of each queue, beginning where it is told to; a queue that has no more is passed over", () => {
    const here = [task(4, 1), task(0, 2), task(0, 3), task(3, 4), task(2, 5), task(0, 6)]
    expect(roundRobin(here, queueOf, 3, 1)).toEqual([
      ...[task(2, 5), task(4, 1), task(0, 2)],
      ...[task(3, 4), task(0, 3)],
      task(0, 6),
    ])
  })

  test("no queue is ever more than one ahead of another that has more, and each keeps its order", () => {
    const tasks = fc.array(fc.tuple(fc.nat(5), fc.nat(1_000)), { maxLength: 30 })
    fc.assert(
      fc.property(tasks, fc.nat(2), (made, first) => {
        const here = made.map(([lane, sequence]) => task(lane, sequence))
        const found = roundRobin(here, queueOf, 3, first)
        const of = (queue: number, some: ReadonlyArray<Candidate>) => some.filter(({ lane }) => queueOf(lane) === queue)
        for (const queue of [0, 1, 2]) expect(of(queue, found)).toEqual(byPriority(of(queue, here)))
        for (let end = 0; end <= found.length; end++) {
          const [before, after] = [found.slice(0, end), found.slice(end)]
          const max = Math.max(...[0, 1, 2].map((queue) => of(queue, before).length))
          const waiting = [0, 1, 2].filter((queue) => of(queue, after).length > 0)
          expect(waiting.every((queue) => max - of(queue, before).length <= 1)).toBe(true)
        }
      }),
    )
  })
})
