/** The numbers of queues, from those of the broker and those of the workers. */
import fc from "fast-check"
import { expect, test } from "vitest"
import { statesOf } from "../../../../runtime/cluster/queue-states.ts"

const worker = (running: number, more: { readonly acked?: number; readonly postponed?: number } = {}) => ({
  byQueue: { q: { running, acked: 0, postponed: 0, ...more } },
})
const depth = { queue: "q", ready: 2, scheduled: 5, held: 6 }
const numbersOf = (workers: Parameters<typeof statesOf>[1], depths = [depth]) =>
  statesOf(depths, workers).map(({ queued, scheduled, started }) => ({ queued, scheduled, started }))

test("what workers have and do not run waits, and so does what they have given back for later", () => {
  expect(numbersOf([])).toEqual([{ queued: 8, scheduled: 5, started: 0 }])
  expect(numbersOf([worker(1), worker(2, { postponed: 4 }), {}])).toEqual([{ queued: 9, scheduled: 1, started: 3 }])
})

test("a job whose task was acked early runs, and its task is in no queue", () => {
  expect(numbersOf([worker(3, { acked: 2 })])).toEqual([{ queued: 7, scheduled: 5, started: 3 }])
  expect(statesOf([], [worker(1, { acked: 1 })])).toMatchObject([{ queue: "q", queued: 0, started: 1 }])
})

test("heartbeats that are out of date do not change the sum", () => {
  const count = fc.nat(20)
  const depths = fc.record({ queue: fc.constant("q"), ready: count, scheduled: count, held: count })
  fc.assert(
    fc.property(depths, count, count, (of, running, postponed) => {
      const [states] = statesOf([of], [worker(running, { postponed })])
      const { queued = 0, scheduled = 0, started = 0 } = states ?? {}
      expect(queued + scheduled + started).toBe(of.ready + of.scheduled + of.held)
      expect(Math.min(queued, scheduled, started)).toBeGreaterThanOrEqual(0)
    }),
  )
})
