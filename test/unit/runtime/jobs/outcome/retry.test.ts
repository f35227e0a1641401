import { describe, expect, test } from "vitest"
import { askedRetryAfter, backoff, resolveRetry, retryAfter } from "../../../../../runtime/jobs/outcome/retry.ts"

const error = { name: "NetworkError", message: "no route", reason: "handler" }

describe("retry", () => {
  test("without a policy a failure is final", () => {
    expect(retryAfter(resolveRetry(undefined, undefined), error, 0, 0.5)).toBeUndefined()
  })

  test("max counts retries after the first attempt", () => {
    const policy = resolveRetry(undefined, { max: 2 })
    expect(retryAfter(policy, error, 0, 1)).toBeDefined()
    expect(retryAfter(policy, error, 1, 1)).toBeDefined()
    expect(retryAfter(policy, error, 2, 1)).toBeUndefined()
  })

  test("waits grow from base by factor up to the cap", () => {
    const policy = resolveRetry(undefined, { max: 9, baseMs: 1_000, factor: 2, maxMs: 5_000, jitter: false })
    expect([0, 1, 2, 3, 4].map((retries) => backoff(policy, retries, 0))).toEqual([1_000, 2_000, 4_000, 5_000, 5_000])
  })

  test("a wait is a number after however many retries", () => {
    const hot = resolveRetry(undefined, { max: 10_000, baseMs: 0, maxMs: 60_000 })
    expect(backoff(hot, 9_999, 0.5)).toBe(0)
    const steep = resolveRetry({ max: 10_000, factor: 100, jitter: false }, { maxMs: 60_000 })
    expect(backoff(steep, 9_999, 0)).toBe(60_000)
  })

  test("intervals take the place of the back-off, the last one from there on; a task's own back-off wins over them", () => {
    const listed = resolveRetry(undefined, { max: 9, intervalsMs: [10_000, 30_000] })
    expect([0, 1, 2, 3].map((retries) => backoff(listed, retries, 0.5))).toEqual([10_000, 30_000, 30_000, 30_000])
    const own = resolveRetry({ baseMs: 1_000, jitter: false }, { intervalsMs: [10_000] })
    expect(backoff(own, 1, 0.5)).toBe(2_000)
  })

  test("jitter waits between nothing and the computed wait", () => {
    const policy = resolveRetry(undefined, { max: 1 })
    expect(backoff(policy, 3, 0)).toBe(0)
    expect(backoff(policy, 3, 0.5)).toBe(4_000)
    expect(backoff(policy, 3, 1)).toBe(8_000)
  })

  test("on and except choose by error name, and except wins", () => {
    expect(retryAfter(resolveRetry(undefined, { max: 1, on: ["NetworkError"] }), error, 0, 0)).toBe(0)
    expect(retryAfter(resolveRetry(undefined, { max: 1, on: ["Other"] }), error, 0, 0)).toBeUndefined()
    const both = resolveRetry(undefined, { max: 1, on: ["NetworkError"], except: ["NetworkError"] })
    expect(retryAfter(both, error, 0, 0)).toBeUndefined()
  })

  test("what the task says wins over what its method says, field by field", () => {
    const policy = resolveRetry({ max: 7, jitter: false }, { max: 1, baseMs: 3_000, maxMs: 20_000 })
    expect(policy).toMatchObject({ max: 7, baseMs: 3_000, capMs: 20_000, jitter: false })
  })

  test("a handler that asks for a retry gets Celery's three where nobody set max, and its own delay", () => {
    const silent = resolveRetry(undefined, undefined)
    expect(askedRetryAfter(silent, 5_000, 2, 0)).toBe(5_000)
    expect(askedRetryAfter(silent, 5_000, 3, 0)).toBeUndefined()
    expect(askedRetryAfter(resolveRetry(undefined, { max: 1 }), 0, 1, 0)).toBeUndefined()
    expect(askedRetryAfter(resolveRetry(undefined, { max: 0 }), 0, 0, 0)).toBeUndefined()
  })
})
