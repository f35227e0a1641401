import fc from "fast-check"
import { expect, test } from "vitest"
import { beginning, cut } from "../../../../runtime/protocol/text.ts"

const wellFormed = fc.string({ unit: fc.constantFrom("a", "é", "💥", "👩‍👧") })

test("a text is cut between its characters, one unit early at most", () => {
  fc.assert(
    fc.property(wellFormed, fc.nat(40), (text, max) => {
      const kept = beginning(text, max)
      expect(kept.isWellFormed()).toBe(true)
      expect(text.startsWith(kept)).toBe(true)
      expect(kept.length).toBeGreaterThanOrEqual(Math.min(text.length, max) - 1)
      expect(kept.length).toBeLessThanOrEqual(max)
    }),
  )
})

test("a text that was cut ends in an ellipsis, and is as long as it may be", () => {
  fc.assert(
    fc.property(wellFormed, fc.integer({ min: 1, max: 40 }), (text, max) => {
      const kept = cut(text, max)
      expect(kept.isWellFormed()).toBe(true)
      expect(kept.length).toBeLessThanOrEqual(max)
      expect(kept === text).toBe(text.length <= max)
      if (kept !== text) expect(kept.endsWith("…")).toBe(true)
    }),
  )
})
