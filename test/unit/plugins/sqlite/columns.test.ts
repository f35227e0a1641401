/** Values that are packed into columns are read back unchanged, and sort in the right order. */
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { faultOf, isBusy, isDatabaseWide } from "../../../../plugins/sqlite/database/fault.ts"
import { codeOf } from "../../../../plugins/sqlite/jobs/columns.ts"
import {
  fenceText,
  idFromColumn,
  idToColumn,
  levelAt,
  orderAt,
  queueOrderOf,
  readToken,
  tokenText,
} from "../../../../plugins/sqlite/jobs/id.ts"
import { afterKey, afterPrefix, compareKeys, keyFromBytes, keyToBytes } from "../../../../plugins/sqlite/store.ts"
import { STATES } from "../../../../runtime/protocol/state.ts"

const wellFormed = fc.string({ unit: "binary", minLength: 1, maxLength: 60 }).filter((text) => text.isWellFormed())
describe("ids", () => {
  test("come back as they were", () => {
    fc.assert(fc.property(fc.oneof(wellFormed, fc.uuid()), (id) => idFromColumn(idToColumn(id)) === id))
  })

  test("a UUID takes 16 bytes, in the order of its text", () => {
    fc.assert(
      fc.property(fc.uuid(), fc.uuid(), (a, b) => {
        const [x, y] = [idToColumn(a), idToColumn(b)]
        if (typeof x === "string" || typeof y === "string") return false
        return x.length === 16 && Math.sign(compareKeys(x, y)) === (a < b ? -1 : a > b ? 1 : 0)
      }),
    )
  })
})

test("places sort by level, high first, then by order", () => {
  const place = fc.record({ level: fc.nat({ max: 10 }), order: fc.integer({ min: 1, max: 2 ** 48 - 1 }) })
  fc.assert(
    fc.property(place, place, (a, b) => {
      const [x, y] = [queueOrderOf(a.level, a.order), queueOrderOf(b.level, b.order)]
      expect([levelAt(x), orderAt(x)]).toEqual([a.level, a.order])
      return Math.sign(x - y) === Math.sign(b.level - a.level || a.order - b.order)
    }),
  )
})

test("tokens come back as they were, and fences rise as text", () => {
  const number = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER })
  fc.assert(
    fc.property(number, number, (seq, fence) => {
      expect(readToken(tokenText(seq, fenceText(fence)))).toEqual({ seq, fence })
      return fenceText(seq) < fenceText(fence) === seq < fence
    }),
  )
  for (const token of ["", "1", "1.2", "x.00000000001", "1.0000000000A", "-1.00000000001", "1x00000000001"]) {
    expect(readToken(token)).toBeUndefined()
  }
})

test("the keys under a prefix are exactly those between it and what comes after it", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 8 }), wellFormed, (prefix, rest) => {
      if (!prefix.isWellFormed()) return true
      const start = keyToBytes(prefix)
      const end = afterPrefix(start)
      const inside = (text: string): boolean => {
        const bytes = keyToBytes(text)
        return compareKeys(bytes, start) >= 0 && compareKeys(bytes, end) < 0
      }
      expect(keyFromBytes(keyToBytes(prefix + rest))).toBe(prefix + rest)
      expect(compareKeys(afterKey(start), start)).toBeGreaterThan(0)
      return inside(prefix + rest) && inside(rest) === rest.startsWith(prefix)
    }),
  )
})

test("codes of states never change: they are in files", () => {
  expect(STATES.map(codeOf)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  expect(codeOf("succeeded")).toBe(4)
})

describe("errors of SQLite", () => {
  const raised = (errcode: number | undefined, message: string) =>
    Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR", ...(errcode === undefined ? {} : { errcode }) })

  test("are known by number, and by message where the runtime gives none", () => {
    for (const code of [5, undefined]) {
      const busy = raised(code, "database is locked")
      expect(isBusy(busy)).toBe(true)
      expect(faultOf(busy, "x.db")).toMatchObject({ reason: "unavailable", retryable: true })
    }
    for (const code of [13, undefined]) {
      const full = raised(code, "database or disk is full")
      expect(isBusy(full)).toBe(false)
      expect(isDatabaseWide(full)).toBe(true)
      expect(faultOf(full, "x.db", "unknown")).toMatchObject({ reason: "unavailable", outcome: "unknown" })
    }
    expect(faultOf(raised(8, "attempt to write a readonly database"), "x.db").message).toMatch(/permissions/)
    expect(isDatabaseWide(raised(undefined, "attempt to write a readonly database"))).toBe(true)
    expect(isDatabaseWide(raised(19, "UNIQUE constraint failed"))).toBe(false)
  })

  test("name the file and what to do", () => {
    expect(faultOf(raised(26, "file is not a database"), "/x/board.db")).toMatchObject({
      reason: "invalid",
      message: expect.stringMatching(/^\/x\/board\.db: .*another file/),
    })
  })
})
