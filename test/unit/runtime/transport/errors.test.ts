/** What becomes of the errors of client libraries. */
import { expect, test } from "vitest"
import { explainCode, type Reasons } from "../../../../runtime/transport/errors.ts"
import { asError } from "../../../../runtime/transport/plain-driver.ts"

const REASONS: Reasons = [
  [/^14$/, "unavailable", "unknown"],
  [/^8$/, "too-large"],
]
const explained = (error: unknown, code?: string) => {
  const { reason, outcome } = explainCode("etcd", error, code, REASONS)
  return `${reason} ${outcome}`
}

test("a connection that fails in fetch may have carried the request", async () => {
  const failed: unknown = await fetch("http://127.0.0.1:9/").catch((error: unknown) => error)
  expect(failed).toBeInstanceOf(TypeError)
  expect(explained(failed)).toBe("unavailable unknown")
  expect(asError(failed)).toMatchObject({ reason: "unavailable", outcome: "unknown" })
  expect(explained(new Error("socket hang up"))).toBe("unavailable unknown")
  expect(explained("lost")).toBe("unavailable unknown")
})

test("a mistake in the code is told as such, and what it was asked may have been done", () => {
  expect(explained(new TypeError("x is not a function"))).toBe("internal unknown")
  expect(asError(new RangeError("no"))).toMatchObject({ reason: "internal", outcome: "unknown" })
})

test("a code names the reason, and whether the broker may have done what it was asked", () => {
  expect(explained(new Error("no leader"), "14")).toBe("unavailable unknown")
  expect(explained(new Error("too large"), "8")).toBe("too-large none")
  expect(explained(new Error("other"), "3")).toBe("internal none")
})
