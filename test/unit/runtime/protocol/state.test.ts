import { expect, test } from "vitest"
import { celeryState, isState, isTerminal, STATES } from "../../../../runtime/protocol/state.ts"

test("succeeded, failed, cancelled and expired are terminal", () => {
  expect(STATES.filter(isTerminal)).toEqual(["succeeded", "failed", "cancelled", "expired"])
})

test("only the names of states are states", () => {
  expect(STATES.every(isState)).toBe(true)
  for (const other of ["", "running", "QUEUED", "toString", 1, null, undefined]) expect(isState(other)).toBe(false)
})

test("Celery's words", () => {
  expect(STATES.map((state) => celeryState(state))).toEqual(
    "PENDING PENDING PENDING STARTED SUCCESS FAILURE REVOKED REVOKED".split(" "),
  )
  expect(celeryState("scheduled", 1)).toBe("RETRY")
})
