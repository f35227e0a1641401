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

  test("an option that does not exist is refused by name, and one that says nothing is none", async () => {
    const mistyped = { timeoutMS: 1, leaseMs: 9_000 }
    await expect(connect(`memory://${generateId()}`, mistyped)).rejects.toMatchObject({
      code: "invalid-input",
      message: "timeoutMS is not an option of connect() (did you mean timeoutMs?)",
      details: { field: "timeoutMS" },
    })
    const empty = { timeoutMS: undefined, leaseMs: 9_000 }
    await using client = await connect(`memory://${generateId()}`, empty)
    expect(client.connection.transport.name).toBe("memory")
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

describe("queues", () => {
  test("are told with the names that HTTP and the command line have, paused ones as such", async () => {
    await using client = await connect(`memory://${generateId()}`)
    await client.submitMany([{ task: "a" }, { task: "a", delay: 3_600 }, { task: "a", queue: "other" }])
    await client.pause("other")
    const queues = [...(await client.queues())].sort((a, b) => a.name.localeCompare(b.name))
    const waits = { inFlight: 0, oldest: expect.stringMatching(/^\d{4}-.*Z$/), oldestAge: expect.any(Number) }
    expect(queues).toEqual([
      { name: "default", paused: false, depth: 1, scheduled: 1, ...waits },
      { name: "other", paused: true, depth: 1, scheduled: 0, ...waits },
    ])
    expect(queues[0]?.oldestAge).toBeLessThan(60)
  })
})
