import { describe, expect, test } from "vitest"
import { jobError } from "../../../../../runtime/jobs/outcome/job-error.ts"

describe("the errors in an AggregateError", () => {
  test("are listed by name and message", () => {
    const all = new AggregateError([
      new TypeError("one"),
      Object.assign(new Error("two"), { name: "Two" }),
      "three",
      null,
    ])
    expect(jobError(all)).toMatchObject({
      name: "AggregateError",
      errors: [
        { name: "TypeError", message: "one" },
        { name: "Two", message: "two" },
        { name: "Error", message: "three" },
        { name: "Error", message: "null" },
      ],
    })
  })

  test("are bounded in number and length", () => {
    const many = jobError(new AggregateError(Array.from({ length: 500 }, (_, at) => new Error(`${at} `.repeat(5_000)))))
    expect(many.errors).toHaveLength(10)
    expect(many.errors?.[9]).toEqual({ name: "AggregateError", message: "and 491 more" })
    expect(JSON.stringify(many.errors).length).toBeLessThan(16_384)
  })

  test("of the cause are told where the error itself has none", () => {
    expect(jobError(new Error("all failed", { cause: new AggregateError([new Error("one")]) }))).toMatchObject({
      message: "all failed",
      errors: [{ name: "Error", message: "one" }],
    })
  })

  test("other errors have none, whatever their fields are called", () => {
    expect(jobError(Object.assign(new Error("x"), { errors: ["y"] }))).not.toHaveProperty("errors")
    expect(jobError(new AggregateError([]))).not.toHaveProperty("errors")
    const broken = new AggregateError([new Error("one")])
    Object.defineProperty(broken, "errors", { get: () => Promise.reject })
    expect(jobError(broken)).not.toHaveProperty("errors")
  })

  test("are left out where they cannot be read, and hide nothing else", () => {
    const { proxy: unreadable, revoke } = Proxy.revocable({}, {})
    revoke()
    const list = new Proxy([new Error("one")], {
      get: () => {
        throw new Error("no")
      },
    })
    const errors = [
      new Error("it failed", { cause: unreadable }),
      Object.assign(new AggregateError([], "it failed"), { errors: unreadable }),
      Object.assign(new AggregateError([], "it failed"), { errors: list }),
    ]
    for (const error of errors) {
      expect(jobError(error)).toMatchObject({ message: "it failed" })
      expect(jobError(error)).not.toHaveProperty("errors")
    }
  })
})
