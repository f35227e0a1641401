import { describe, expect, test } from "vitest"
import { start, WAIT } from "./start.ts"

describe("a typed handle", () => {
  test("passes every kind of input as it is", async () => {
    const { echo } = await start()
    for (const input of [{ a: { b: [1, "2", null] } }, {}, [1, 2], [], "text", "", 0, -1.5, true, false, null]) {
      expect(await (await echo.run.submit(input)).result(WAIT)).toEqual(input)
    }
    expect(await (await echo.run.submit()).result(WAIT)).toEqual({})
  })

  test("can be awaited and printed without being taken for a promise or a job", async () => {
    const { echo } = await start(false)
    expect(await echo).toBe(echo)
  })
})
