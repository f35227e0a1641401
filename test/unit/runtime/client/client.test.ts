import { connect, TransportError } from "callboard"
import { describe, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"

describe("connect", () => {
  test.each([
    ["nonsense", "invalid"],
    ["gopher://host", "unsupported"],
  ])("%s fails as %s, and says what to do", async (target, reason) => {
    await expect(connect(target)).rejects.toMatchObject({ _tag: "TransportError", reason })
  })

  test("an object that is no client of a known broker is refused", async () => {
    await expect(connect({})).rejects.toBeInstanceOf(TransportError)
  })

  test("`await using` closes what connect opened", async () => {
    let kept: Awaited<ReturnType<typeof connect>>
    {
      await using client = await connect(`memory://${generateId()}`)
      await client.submit("echo")
      kept = client
    }
    await expect(kept.submit("echo")).rejects.toMatchObject({
      code: "transport-unavailable",
      details: { outcome: "none" },
    })
  })
})
