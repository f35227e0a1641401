/** The key of a step, by which the services that it calls know it again. */
import fc from "fast-check"
import { expect, test } from "vitest"
import { stepKey } from "../../../../runtime/steps/calls.ts"

test("the key of a step is id, run and name", () => {
  expect(stepKey("01a218de-c4bb-736d-b773-46299da30e58", 2, "room/7")).toBe(
    "01a218de-c4bb-736d-b773-46299da30e58/2/room/7",
  )
})

test("two steps have one key only where they are the same, also of tasks of other senders, whose ids are any text", () => {
  expect(stepKey("a/1", 2, "x")).not.toBe(stepKey("a", 1, "2/x"))
  const text = fc.string({ unit: fc.constantFrom("a", "1", "2", "/", "%", "F"), minLength: 1, maxLength: 6 })
  const step = fc.tuple(text, fc.integer({ min: 1, max: 2 }), text)
  fc.assert(
    fc.property(step, step, (a, b) => (stepKey(...a) === stepKey(...b)) === (a.join("\n") === b.join("\n"))),
    { numRuns: 2_000 },
  )
})
