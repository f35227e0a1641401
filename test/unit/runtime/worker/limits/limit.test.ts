/** Whether a task may start under its limit. */
import { describe, expect, test } from "vitest"
import type { Ranked } from "../../../../../runtime/worker/fetch/delivery-buffer.ts"
import { type LimitView, mayStart } from "../../../../../runtime/worker/limits/limit.ts"

const NOW = 1_000

const task = (sequence: number, level = 0, rank = 0): Ranked => ({ rank, level, delivery: { sequence } })

const reason = { reason: "rate-limit", detail: "one each 1 s on each worker" } as const
const postponed = { postponeUntil: 1_500, ...reason }

/** A limit that lets the next task start at this time, with the first task that waits for it. */
const limit = (startsAt: number, first?: Ranked, isFull = false): LimitView<Ranked> => ({
  startsAt: () => startsAt,
  first,
  isFullFor: () => isFull,
  returnsAt: (_task, now) => now + 500,
  reasonAt: () => reason,
})

describe("a task", () => {
  const own = task(5, 3, 1)
  test.each<[string, LimitView<Ranked>, ReturnType<typeof mayStart>]>([
    ["whose limit is free starts", limit(NOW), "now"],
    ["whose limit has been free for a while starts", limit(0), "now"],
    ["whose limit is not free yet waits", limit(NOW + 1), "waits"],
    ["whose permits nobody knows waits", limit(Number.POSITIVE_INFINITY), "waits"],
    ["that would overtake one of its rank waits", limit(NOW, task(4, 3, 1)), "waits"],
    ["starts before a later one", limit(NOW, task(6, 3, 1)), "now"],
    ["starts before one of a lower level", limit(NOW, task(4, 2, 1)), "now"],
    ["waits behind one of a higher level", limit(NOW, task(6, 4, 1)), "waits"],
    ["starts before one of a later queue", limit(NOW, task(4, 9, 2)), "now"],
    ["waits behind one of an earlier queue", limit(NOW, task(6, 0, 0)), "waits"],
    ["is postponed if too many wait", limit(NOW + 1, task(4, 3, 1), true), postponed],
    ["is postponed behind one that may start, if too many wait", limit(NOW, task(4, 3, 1), true), postponed],
    ["starts although too many wait", limit(NOW, undefined, true), "now"],
    ["starts before the waiting ones, too many or not", limit(NOW, task(6, 3, 1), true), "now"],
    ["that waits itself starts once its limit is free", limit(NOW, own), "now"],
    ["that waits itself waits on, too many or not", limit(NOW + 1, own, true), "waits"],
  ])("%s", (_, state, expected) => {
    expect(mayStart(own, state, NOW)).toEqual(expected)
  })
})
