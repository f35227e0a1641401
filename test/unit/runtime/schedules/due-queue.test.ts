/** The order in which names are due. */
import fc from "fast-check"
import { expect, test } from "vitest"
import { DueQueue } from "../../../../runtime/schedules/due-queue.ts"

test("the earliest is first; names change their time, and leave", () => {
  const due = new DueQueue()
  due.set("a", 30)
  due.set("b", 10)
  due.set("c", 20)
  due.set("b", 40)
  expect(due.first).toBe(20)
  due.set("c", null)
  expect(due.first).toBe(30)
  due.setLatest("a", 50)
  expect(due.first).toBe(30)
  due.setLatest("a", 5)
  expect(due.take(30, 10)).toEqual(["a"])
  due.keepOnly(new Set())
  expect(due.first).toBeUndefined()
})

test("takes what a sorted list would", () => {
  const change = fc.tuple(fc.integer({ min: 0, max: 20 }), fc.option(fc.integer({ min: 0, max: 1_000 })))
  fc.assert(
    fc.property(fc.array(change, { maxLength: 400 }), fc.integer({ min: 0, max: 1_000 }), (changes, now) => {
      const due = new DueQueue()
      const times = new Map<string, number>()
      for (const [name, at] of changes) {
        due.set(`${name}`, at)
        if (at === null) times.delete(`${name}`)
        else times.set(`${name}`, at)
      }
      const expected = [...times].filter(([, at]) => at <= now).map(([, at]) => at)
      const taken = due.take(now, 1_000).map((name) => times.get(name))
      expect(taken).toEqual(expected.sort((a, b) => a - b))
      expect(due.take(now, 1)).toEqual([])
    }),
  )
})
