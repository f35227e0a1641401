import { connect } from "callboard"
import { describe, expect, test } from "vitest"
import { gate, withJobs } from "../../../../support/faulty-board.ts"
import { refusal, start, WAIT } from "../start.ts"

describe("submit", () => {
  test("answers with a receipt that names the durability", async () => {
    const { client } = await start(false)
    const { id, receipt } = await client.submit("echo", { input: { x: 1 } })
    expect(receipt).toEqual({ id, state: "queued", durability: "none" })
    expect((await client.submit("echo", { delay: 60 })).receipt.state).toBe("scheduled")
  })

  test.each([
    [{ nonsense: 1 }, "unknown-field", "nonsense"],
    [{ priority: 10 }, "invalid-input", "priority"],
    [{ delay: "soon" }, "invalid-input", "delay"],
    [{ delay: 1, eta: "2026-01-01" }, "invalid-input", "delay"],
    [{ expires: "2001-01-01" }, "invalid-input", "expires"],
    [{ expires: 5, delay: 10 }, "invalid-input", "expires"],
    [{ expires: 10, delay: 10 }, "invalid-input", "expires"],
    [{ expires: "2100-01-01T00:00:00Z", eta: "2100-01-01T00:00:01Z" }, "invalid-input", "expires"],
    [{ callbacks: [{ task: "echo", expires: 5, delay: 10 }] }, "invalid-input", "callbacks[0].expires"],
    [{ id: "with space" }, "invalid-input", "id"],
    [{ queue: "with space" }, "invalid-input", "queue"],
    [{ input: 1, kwargs: {} }, "invalid-input", "input"],
    [{ timeLimit: { soft: 2, hard: 1 } }, "invalid-input", "timeLimit.soft"],
    [{ retry: { max: -1 } }, "invalid-input", "retry.max"],
    [{ input: { f: () => 1 } }, "invalid-input", "input.f"],
  ])("%o is refused before anything is kept", async (fields, code, field) => {
    const { client } = await start(false)
    await expect(client.prepare([{ task: "echo", ...fields }])).rejects.toMatchObject(refusal(code, field))
    expect((await client.jobs()).jobs).toEqual([])
  })

  test("submitting again with the same id is safe, and with another task is refused", async () => {
    const { client } = await start()
    const first = await client.submit("echo", { id: "one", input: { x: 1 } })
    expect(await first.result(WAIT)).toEqual({ x: 1 })
    const again = await client.submit("echo", { id: "one", input: { x: 1 } })
    expect(again.receipt).toMatchObject({ id: "one", duplicate: true })
    await expect(client.submit("other", { id: "one", input: { x: 1 } })).rejects.toMatchObject(
      refusal("job-exists", "id"),
    )
    expect((await client.jobs()).jobs).toHaveLength(1)
  })

  test("many at a time, each with its own answer; one that is wrong refuses all, by its index", async () => {
    const { client } = await start(false)
    const receipts = await client.submitMany([{ task: "echo" }, { task: "echo.fail" }, { task: "echo", delay: 5 }])
    expect(receipts.map((receipt) => "state" in receipt && receipt.state)).toEqual(["queued", "queued", "scheduled"])
    const wrong = client.submitMany([{ task: "echo" }, { task: "echo", priority: 10 }])
    await expect(wrong).rejects.toMatchObject({ code: "invalid-input", details: { index: 1, field: "priority" } })
    expect((await client.jobs()).jobs).toHaveLength(3)
  })
})

test("tasks that are submitted one by one while a call is under way share the next one", async () => {
  const calls: Array<number> = []
  const { open, opened } = gate()
  const transports = withJobs((jobs) => ({
    publish: async (postings) => {
      calls.push(postings.length)
      if (calls.length === 1) await opened
      return jobs.publish(postings)
    },
  }))
  await using client = await connect("faulty://gathered", { transports })
  const first = client.submit("echo", { input: "first" })
  await expect.poll(() => calls).toEqual([1])
  const others = Array.from({ length: 20 }, (_, at) => client.submit("echo", { id: `other-${at}`, input: at }))
  const receipts = await Promise.all(others)
  open()
  expect((await first).receipt.state).toBe("queued")
  expect(receipts.map(({ receipt }) => receipt.id)).toEqual(others.map((_, at) => `other-${at}`))
  expect(calls).toEqual([1, 20])
  expect((await client.submit("echo")).receipt.state).toBe("queued")
  expect(calls).toEqual([1, 20, 1])
})
