import { describe, expect, test } from "vitest"
import { isDue, isExpired, isRevoked } from "../../../runtime/protocol/expiry.ts"
import { newTask } from "../../../runtime/protocol/headers.ts"

test("a task expires after its time, not at it, and never without one", () => {
  expect([99, 100, 101].map((now) => isExpired({ expires: 100 }, now))).toEqual([false, false, true])
  expect(isExpired({ expires: null }, Number.MAX_VALUE)).toBe(false)
})

test("a task is due from its time on, and at once without one", () => {
  expect([99, 100, 101].map((now) => isDue({ eta: 100 }, now))).toEqual([false, true, true])
  expect(isDue({ eta: null }, 0)).toBe(true)
})

describe("isRevoked", () => {
  const task = newTask({
    task: "t",
    id: "1",
    stampedHeaders: ["tenant", "batch"],
    stamps: { tenant: ["a", "b"], batch: "x" },
  })
  const stamps = (entries: Readonly<Record<string, ReadonlyArray<unknown>>>) => ({
    ids: new Set<string>(),
    stamps: new Map(Object.entries(entries).map(([name, values]) => [name, new Set(values)])),
  })

  test("by id", () => {
    expect(isRevoked(task, { ids: new Set(["1"]) })).toBe(true)
    expect(isRevoked(task, { ids: new Set(["2"]) })).toBe(false)
  })

  test("by any value of a stamp, scalar or list", () => {
    expect(isRevoked(task, stamps({ tenant: ["b"] }))).toBe(true)
    expect(isRevoked(task, stamps({ batch: ["x"] }))).toBe(true)
    expect(isRevoked(task, stamps({ batch: ["y"] }))).toBe(false)
    expect(isRevoked(newTask({ task: "t", id: "1" }), stamps({ batch: ["x"] }))).toBe(false)
  })

  test("the first of its stamped headers for which anything is revoked decides", () => {
    expect(isRevoked(task, stamps({ tenant: ["z"], batch: ["x"] }))).toBe(false)
    expect(isRevoked(task, stamps({ other: ["z"], batch: ["x"] }))).toBe(true)
  })
})
