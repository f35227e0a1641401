import { expect, test } from "vitest"
import { suggest } from "../../../../runtime/protocol/suggest.ts"

test("a misspelled word is recognised, a strange one is not", () => {
  const known = ["jobs", "job", "concurrency", "CALLBOARD_TRANSPORT"]
  expect(suggest("jbos", known)).toBe("jobs")
  expect(suggest("concurency", known)).toBe("concurrency")
  expect(suggest("callboard_transprot", known)).toBe("CALLBOARD_TRANSPORT")
  expect(suggest("zebra", known)).toBeUndefined()
  expect(suggest("Concur", known)).toBe("concurrency")
  expect(suggest("co", known)).toBeUndefined()
})
