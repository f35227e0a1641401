import { CallboardError } from "callboard"
import { describe, expect, test } from "vitest"
import { start, WAIT } from "../client/start.ts"

describe("a typed handle", () => {
  test("passes every kind of input as it is", async () => {
    const { echo } = await start()
    for (const input of [{ a: { b: [1, "2", null] } }, {}, [1, 2], [], "text", "", 0, -1.5, true, false, null]) {
      expect(await (await echo.run.submit(input)).result(WAIT)).toEqual(input)
    }
    expect(await (await echo.run.submit()).result(WAIT)).toEqual({})
  })

  test("submits many at a time, each with its own answer, in order", async () => {
    const { echo } = await start()
    const answers = await echo.run.submitMany([{ n: 1 }, "two", null], { priority: 9 })
    const results = answers.map((each) => (each instanceof CallboardError ? each : each.result(WAIT)))
    expect(await Promise.all(results)).toEqual([{ n: 1 }, "two", null])
    const [first] = answers
    if (first === undefined || first instanceof CallboardError) throw new Error("the first was not accepted")
    expect(await first.find()).toMatchObject({ priority: 9, task: "echo", meth: "run" })
    expect(first.receipt).toMatchObject({ id: first.id, state: "queued" })
    await expect(echo.run.submitMany([1, 2], { priority: 10 })).rejects.toMatchObject({ details: { index: 0 } })
  })

  test("can be awaited and printed without being taken for a promise or a job", async () => {
    const { echo } = await start(false)
    expect(await echo).toBe(echo)
  })
})
