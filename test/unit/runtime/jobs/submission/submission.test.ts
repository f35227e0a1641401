import { Result } from "effect"
import { describe, expect, test } from "vitest"
import { parseSubmission } from "../../../../../runtime/jobs/submission/submission.ts"

const problem = (value: unknown) => {
  const answer = parseSubmission(value)
  return Result.isFailure(answer) ? { code: answer.failure.code, field: answer.failure.details.field } : undefined
}

describe("the shape", () => {
  test.each([null, undefined, 1, "echo", [], [{ task: "echo" }]])("%j is no task", (value) => {
    expect(problem(value)).toMatchObject({ code: "invalid-input" })
  })

  test("a field that nobody knows is named; one whose feature is missing is unsupported, whatever else is wrong", () => {
    expect(problem({ task: "echo", nonsense: 1 })).toEqual({ code: "unknown-field", field: "nonsense" })
    expect(problem({ task: "echo", key: "x", nonsense: 1 })).toEqual({ code: "unsupported", field: "key" })
    expect(problem({ task: "echo", peek: "x" })).toEqual({ code: "unsupported", field: "peek" })
  })

  test("a nested problem is named by its path", () => {
    expect(problem({ task: "echo", chain: [{ task: "a" }, { task: "" }] })?.field).toBe("chain[1].task")
    expect(problem({ task: "echo", retry: { backoff: { factor: 0 } } })?.field).toBe("retry.backoff.factor")
  })
})
