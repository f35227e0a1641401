import { actor, CallboardError, connect, type Service, serve, TransportError } from "callboard"
import { afterEach, describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"

const echo = actor("echo", {
  methods: {
    run: (input: unknown) => input,
    fail: () => {
      throw new RangeError("out of it")
    },
    hang: (_input, job) => new Promise<void>((resolve) => job.signal.addEventListener("abort", () => resolve())),
  },
})

const open: Array<AsyncDisposable> = []
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

/** A client of a board of its own, with or without a worker. */
const start = async (work = true) => {
  const transport = `memory://${generateId()}`
  const client = await connect(transport)
  open.push(client)
  let service: Service | undefined
  if (work) {
    service = await serve({ transport, actors: [echo], signals: false, logLevel: "none" })
    open.push(service)
    await service.ready()
  }
  return { client, service, transport, echo: client.actor<typeof echo>("echo") }
}

const WAIT = { timeout: 5 }
const refusal = (code: string, field?: string) => ({
  _tag: "CallboardError",
  code,
  ...(field === undefined ? {} : { details: { field } }),
})

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
    [{ id: "with space" }, "invalid-input", "id"],
    [{ queue: "with space" }, "invalid-input", "queue"],
    [{ input: 1, kwargs: {} }, "invalid-input", "input"],
    [{ timeLimit: { soft: 2, hard: 1 } }, "invalid-input", "timeLimit.soft"],
    [{ retry: { max: -1 } }, "invalid-input", "retry.max"],
    [{ input: { f: () => 1 } }, "invalid-input", "input"],
  ])("%o is refused before anything is kept", async (fields, code, field) => {
    const { client } = await start(false)
    await expect(client.submitMany([{ task: "echo", ...fields }])).rejects.toMatchObject(refusal(code, field))
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
    const wrong = client.submitMany([{ task: "echo" }, { task: "echo", priority: "high" }])
    await expect(wrong).rejects.toMatchObject({ code: "invalid-input", details: { index: 1, field: "priority" } })
    expect((await client.jobs()).jobs).toHaveLength(3)
  })
})

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
