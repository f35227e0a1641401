import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { bodyOfInput, type GivenInput, selectInput } from "../../../../runtime/protocol/input.ts"

const input = (
  args: ReadonlyArray<unknown>,
  kwargs: Readonly<Record<string, unknown>>,
  params?: ReadonlyArray<string>,
): unknown => Result.getOrThrow(selectInput({ args, kwargs }, params))

const wrong = (given: GivenInput): unknown => Result.getOrThrow(Result.flip(bodyOfInput(given))).field

describe("selectInput", () => {
  test("without positional arguments it is kwargs", () => {
    expect(input([], {})).toEqual({})
    expect(input([], { x: 1 })).toEqual({ x: 1 })
    expect(input([], { x: 1 }, ["x", "y"])).toEqual({ x: 1 })
  })

  test("params give names to positional arguments", () => {
    expect(input([2, 3], {}, ["x", "y"])).toEqual({ x: 2, y: 3 })
    expect(input([2], { y: 3 }, ["x", "y"])).toEqual({ x: 2, y: 3 })
    expect(input([2], { z: 3 }, ["x", "y"])).toEqual({ x: 2, z: 3 })
  })

  test("one name twice, or more arguments than names, is invalid and names the field", () => {
    expect(Result.flip(selectInput({ args: [2], kwargs: { x: 3 } }, ["x"]))).toMatchObject({
      success: { _tag: "InvalidInput", field: "x" },
    })
    expect(Result.flip(selectInput({ args: [2, 3], kwargs: {} }, ["x"]))).toMatchObject({ success: { field: "args" } })
    expect(Result.flip(selectInput({ args: [2], kwargs: {} }, []))).toMatchObject({ success: { field: "args" } })
  })

  test("without params one argument is the input itself, several are args", () => {
    expect(input([null], {})).toBeNull()
    expect(input([[1, 2]], {})).toEqual([1, 2])
    expect(input([1, 2], {})).toEqual({ args: [1, 2], kwargs: {} })
    expect(input([1], { x: 1 })).toEqual({ args: [1], kwargs: { x: 1 } })
  })

  test("does not change the arguments it was given", () => {
    const kwargs = Object.freeze({ y: 1 })
    expect(input(Object.freeze([2]), kwargs, ["x"])).toEqual({ x: 2, y: 1 })
    expect(kwargs).toEqual({ y: 1 })
  })
})

describe("bodyOfInput", () => {
  test("any input comes back from the arguments that stand for it", () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.constant(new Date(0)), fc.uint8Array()), (value) => {
        const body = Result.getOrThrow(bodyOfInput({ input: value }))
        expect(Result.getOrThrow(selectInput(body))).toEqual(value)
      }),
    )
  })

  test("Celery's positional call and an object over HTTP meet", () => {
    const http = Result.getOrThrow(bodyOfInput({ input: { x: 2, y: 3 } }))
    const celery = Result.getOrThrow(bodyOfInput({ args: [2, 3] }))
    const params = ["x", "y"]
    expect(Result.getOrThrow(selectInput(celery, params))).toEqual(Result.getOrThrow(selectInput(http, params)))
  })

  test("nothing given is an empty object", () => {
    expect(Result.getOrThrow(selectInput(Result.getOrThrow(bodyOfInput({}))))).toEqual({})
  })

  test("both forms at once, or wrong types, are invalid and name the field", () => {
    expect(wrong({ input: {}, kwargs: {} })).toBe("input")
    expect(wrong({ input: null, args: [] })).toBe("input")
    expect(wrong({ args: {} })).toBe("args")
    expect(wrong({ args: null })).toBe("args")
    expect(wrong({ kwargs: [] })).toBe("kwargs")
    expect(wrong({ kwargs: "x" })).toBe("kwargs")
  })
})
