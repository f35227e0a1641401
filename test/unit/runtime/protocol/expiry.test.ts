import { expect, test } from "vitest"
import { isExpired } from "../../../../runtime/protocol/expiry.ts"

test.each<
  readonly [what: string, expires: number | null | undefined, now: number, tolerance: number, expired: boolean]
>([
  ["before its time", 100, 99, 0, false],
  ["a fraction before it", 100, 99.9, 0, false],
  ["at its time", 100, 100, 0, true],
  ["after it", 100, 101, 0, true],
  ["long after it", 100, Number.MAX_SAFE_INTEGER, 0, true],
  ["within the tolerance", 100, 599, 500, false],
  ["at the end of the tolerance", 100, 600, 500, true],
  ["at the epoch", 0, 0, 0, true],
  ["without one, in a header", null, Number.MAX_SAFE_INTEGER, 0, false],
  ["without one, in a record", undefined, Number.MAX_SAFE_INTEGER, 500, false],
])("a task %s", (_what, expires, now, tolerance, expired) => {
  expect(isExpired(expires, now, tolerance)).toBe(expired)
})
