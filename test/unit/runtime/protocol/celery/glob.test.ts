import { expect, test } from "vitest"
import { matchesGlob } from "../../../../../runtime/protocol/celery/glob.ts"

// Answers of `fnmatch.fnmatchcase` of Python 3.13.
test.each([
  ["w1@lab", "w1@lab", true],
  ["w1@lab", "w1", false],
  ["w1@lab", "*", true],
  ["", "*", true],
  ["", "?", false],
  ["w1@lab", "w?@*", true],
  ["w1@lab", "*lab", true],
  ["w1@lab", "*@*b", true],
  ["w1@lab", "**a*", true],
  ["w1@lab", "*x*", false],
  ["w1@lab", "w1.lab", false],
  ["aab", "*ab", true],
  ["abcabd", "a*abd", true],
  ["w1", "w[0-9]", true],
  ["wx", "w[0-9]", false],
  ["wx", "w[!0-9]", true],
  ["w]", "w[]]", true],
  ["w]", "w[!]]", false],
  ["w-", "w[a-]", true],
  ["w[1", "w[1", true],
  ["w[]", "w[]", true],
  ["w5", "w[9-0]", false],
  ["w\\", "w[\\]", true],
  ["w👩", "w?", true],
])("%j matches %j: %s", (text, glob, wanted) => expect(matchesGlob(text, glob)).toBe(wanted))

test("a glob with many stars takes little time", () => {
  const began = performance.now()
  expect(matchesGlob("a".repeat(255), `${"*a".repeat(127)}*b`)).toBe(false)
  expect(performance.now() - began).toBeLessThan(100)
})
