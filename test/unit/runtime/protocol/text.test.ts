import fc from "fast-check"
import { expect, test } from "vitest"
import { beginning, cut } from "../../../../runtime/protocol/text.ts"

const wellFormed = fc.string({ unit: fc.constantFrom("a", "é", "💥", "👩‍👧") })

test("a text is cut between its characters, one unit early at most", () => {
  fc.assert(
    fc.property(wellFormed, fc.nat(40), (text, most) => {
      const kept = beginning(text, most)
      expect(kept.isWellFormed()).toBe(true)
      expect(text.startsWith(kept)).toBe(true)
      expect(kept.length).toBeGreaterThanOrEqual(Math.min(text.length, most) - 1)
      expect(kept.length).toBeLessThanOrEqual(most)
    }),
  )
})

test("a text that was cut ends in an ellipsis, and is as long as it may be", () => {
  fc.assert(
    fc.property(wellFormed, fc.integer({ min: 1, max: 40 }), (text, most) => {
      const kept = cut(text, most)
      expect(kept.isWellFormed()).toBe(true)
      expect(kept.length).toBeLessThanOrEqual(most)
      expect(kept === text).toBe(text.length <= most)
      if (kept !== text) expect(kept.endsWith("…")).toBe(true)
    }),
  )
})
