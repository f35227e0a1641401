import { describe, expect, test } from "vitest"
import { generateId } from "../../../runtime/id.ts"

const timeOf = (id: string): number => Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16)

describe("a generated id", () => {
  test("is a UUID of version 7 that tells its time", () => {
    const now = Date.now() + 86_400_000
    const id = generateId(now)
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(timeOf(id)).toBe(now)
  })

  test("is never the same, and rises, also within a millisecond and when the clock goes back", () => {
    const now = Date.now() + 2 * 86_400_000
    const ids = Array.from({ length: 20_000 }, (_, n) => generateId(n % 3 === 0 ? now : now - n))
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids).toEqual([...ids].sort())
  })

  test("runs ahead of the clock only when a millisecond is used up", () => {
    const now = Date.now() + 3 * 86_400_000
    const ids = Array.from({ length: 2_048 }, () => generateId(now))
    expect(new Set(ids.map(timeOf))).toEqual(new Set([now]))
    for (let n = 0; n < 3_000; n++) generateId(now)
    expect(timeOf(generateId(now))).toBeGreaterThan(now)
  })

  test("carries randomness of its own: two processes do not meet", () => {
    const now = Date.now() + 4 * 86_400_000
    const tails = new Set(Array.from({ length: 1_000 }, () => generateId(now).slice(19)))
    expect(tails.size).toBe(1_000)
  })
})
