import { CallboardError } from "callboard"
import { describe, expect, test } from "vitest"
import { refusal, start, WAIT } from "../client/start.ts"

describe("a job", () => {
  test("that fails throws from result() and tells from outcome()", async () => {
    const { echo } = await start()
    const job = await echo.fail.submit()
    await expect(job.result(WAIT)).rejects.toMatchObject({
      _tag: "JobFailed",
      id: job.id,
      error: { name: "RangeError", message: "out of it" },
    })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "RangeError" } })
  })

  test("that is cancelled, expires, is gone or takes too long throws what it is", async () => {
    const { client } = await start()
    const cancelled = await client.submit("echo", { delay: 60 })
    await cancelled.cancel()
    await expect(cancelled.result(WAIT)).rejects.toMatchObject({ _tag: "JobCancelled", id: cancelled.id })
    await expect(cancelled.cancel()).rejects.toMatchObject(refusal("already-terminal"))

    const expired = await client.submit("echo", { queue: "nobody", expires: 0.05 })
    await expect.poll(async () => (await expired.find()).state).toBe("expired")
    await expect(expired.result(WAIT)).rejects.toMatchObject({ _tag: "JobExpired", id: expired.id })

    const gone = await client.submit("echo", { resultTtl: 0 })
    await gone.outcome(WAIT)
    await expect(gone.result(WAIT)).rejects.toMatchObject({ _tag: "ResultGone", id: gone.id })

    const waiting = await client.submit("echo", { delay: 60 })
    await expect(waiting.result({ timeout: 0.05 })).rejects.toMatchObject({ _tag: "WaitTimeout", id: waiting.id })
    await expect(waiting.result({ timeout: "soon" })).rejects.toMatchObject(refusal("invalid-input", "timeout"))
  })

  test("that nobody knows is not found, by any way of asking", async () => {
    const { client } = await start(false)
    const job = client.job("nobody")
    const asking = [
      job.find(),
      job.result(),
      job.outcome(),
      job.cancel(),
      job.retry(),
      job.delete(),
      job.events()[Symbol.asyncIterator]().next(),
    ]
    for (const asked of await Promise.allSettled(asking)) {
      expect(asked).toMatchObject({ status: "rejected", reason: refusal("not-found") })
    }
  })

  test("is no longer waited for when the signal fires", async () => {
    const { client } = await start(false)
    const job = await client.submit("echo")
    const stop = new AbortController()
    const waits = [job.result({ signal: stop.signal }), job.outcome({ signal: AbortSignal.abort(new Error("enough")) })]
    stop.abort(new Error("enough"))
    for (const wait of waits) await expect(wait).rejects.toThrow("enough")
    for await (const event of job.events({ signal: AbortSignal.timeout(50) }))
      expect(event).toMatchObject({ state: "queued" })
  })

  test("tells its story as events, once each, and goes on after an id", async () => {
    const { echo } = await start()
    const job = await echo.run.submit({})
    const states: Array<string> = []
    let after = ""
    for await (const event of job.events()) {
      if (event.type !== "transition") continue
      states.push(event.state)
      if (event.state === "queued") after = event.id
    }
    expect(states).toEqual(["queued", "started", "succeeded"])
    const rest: Array<string> = []
    for await (const event of job.events({ lastEventId: after }))
      if (event.type === "transition") rest.push(event.state)
    expect(rest).toEqual(["started", "succeeded"])
  })

  test("that ended can run again, and be forgotten; one that runs cannot", async () => {
    const { echo } = await start()
    const job = await echo.fail.submit()
    await job.outcome(WAIT)
    expect((await job.retry()).run).toBe(2)
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed" })
    await job.delete()
    await expect(job.result(WAIT)).rejects.toMatchObject({ _tag: "ResultGone" })

    const running = await echo.hang.submit()
    for await (const event of running.events()) if (event.type === "transition" && event.state === "started") break
    await expect(running.delete()).rejects.toBeInstanceOf(CallboardError)
    await expect(running.retry()).rejects.toMatchObject(refusal("job-exists"))
    await running.cancel()
  })
})
