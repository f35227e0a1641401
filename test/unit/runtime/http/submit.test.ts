/** Submission over HTTP: receipts, arrays, preferences, content types. */
import { encode } from "@msgpack/msgpack"
import { afterEach, describe, expect, test } from "vitest"
import { eventually } from "../../../support/servers/process.ts"
import { start, stopAll } from "./harness.ts"

afterEach(stopAll)

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe("one task", () => {
  test("is accepted with a receipt that names its id, its place and how hard it is kept", async () => {
    const { ask, submit } = await start()
    const { status, headers, body } = await submit({ task: "work.echo", input: { n: 1 } })
    expect(status).toBe(202)
    expect(body).toEqual({
      id: expect.stringMatching(UUID7),
      state: "queued",
      href: `/v1/jobs/${body.id}`,
      durability: "none",
    })
    expect(headers.get("location")).toBe(body.href)
    expect((await ask("GET", `${body.href}/result?wait=5s`)).body).toEqual({
      id: body.id,
      state: "succeeded",
      result: { n: 1 },
    })
  })

  test("that is due later says scheduled", async () => {
    const { submit } = await start()
    expect((await submit({ task: "work.echo", delay: "1 hour" })).body).toMatchObject({ state: "scheduled" })
  })

  test("keeps the id that it is given; the same again is a duplicate, another under that id is refused", async () => {
    const { submit, ask } = await start()
    const task = { task: "work.echo", input: { n: 1 }, id: "order-1", delay: 3600 }
    expect((await submit(task)).body).toMatchObject({ id: "order-1" })
    const again = await submit(task)
    expect(again).toMatchObject({ status: 202, body: { id: "order-1", duplicate: true } })
    const other = await submit({ ...task, input: { n: 2 } })
    expect(other).toMatchObject({ status: 409, body: { code: "job-exists", id: "order-1", field: "id" } })
    expect((await ask("GET", "/v1/jobs")).body.jobs).toHaveLength(1)
  })

  test.each(["application/msgpack", "application/x-msgpack", "application/vnd.msgpack"])(
    "may come as %s",
    async (type) => {
      const { ask } = await start()
      const body = encode({ task: "work.echo", input: { n: 1, text: "ä", list: [true, null] } })
      const response = await ask("POST", "/v1/jobs", { body, headers: { "content-type": type, prefer: "wait=5" } })
      expect(response).toMatchObject({ status: 200, body: { result: { n: 1, text: "ä", list: [true, null] } } })
    },
  )

  test("may come with a charset, in chunks and without a length", async () => {
    const { url } = await start()
    const text = new TextEncoder().encode(JSON.stringify({ task: "work.echo", input: { text: "ä" } }))
    const body = new ReadableStream({
      start(controller) {
        for (const byte of text) controller.enqueue(new Uint8Array([byte]))
        controller.close()
      },
    })
    const response = await fetch(`${url}/v1/jobs`, {
      method: "POST",
      body,
      headers: { "content-type": "Application/JSON; charset=utf-8", prefer: "wait=5" },
      duplex: "half",
    } as RequestInit)
    expect(await response.json()).toMatchObject({ result: { text: "ä" } })
  })

  test("carries the trace of the request along, and no malformed one", async () => {
    const { submit, service } = await start({ actors: [] })
    const { jobs } = service.client.connection
    const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for (const [traceparent, tracestate, expected] of [
      [trace, undefined, { traceparent: trace }],
      [trace, "a=1, b=2", { traceparent: trace, tracestate: "a=1,b=2" }],
      [trace, "a=1,nonsense", { traceparent: trace }],
      [`${trace}-more`, "a=1", {}],
      [trace.replace("0af7651916cd43dd8448eb211c80319c", "0".repeat(32)), "a=1", {}],
      ["nonsense", "a=1", {}],
      [undefined, "a=1", {}],
    ] as const) {
      const given = { ...(traceparent && { traceparent }), ...(tracestate && { tracestate }) }
      const { body } = await submit({ task: "work.echo" }, given)
      const headers = (await jobs.find(body.id))?.record.message?.headers ?? {}
      const kept = Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith("trace")))
      expect(kept).toEqual(expected)
    }
  })
})

describe("tasks that nobody is known to serve", () => {
  test("are refused where this process runs actors, with those that it knows", async () => {
    const { submit } = await start()
    const actor = await submit({ task: "nobody.home" })
    expect(actor).toMatchObject({ status: 400, body: { code: "unknown-actor", field: "task" } })
    expect(actor.body.detail).toContain("work")
    const method = await submit({ task: "work", meth: "nope" })
    expect(method).toMatchObject({ status: 400, body: { code: "unknown-actor", field: "meth" } })
    expect(method.body.detail).toContain("echo")
    expect(await submit({ task: "work", meth: "nope" }, { prefer: "handling=lenient" })).toMatchObject({ status: 202 })
  })

  test("are accepted with Prefer: handling=lenient, which the answer confirms", async () => {
    const { submit } = await start()
    const { status, headers } = await submit({ task: "nobody.home" }, { prefer: "handling=lenient" })
    expect(status).toBe(202)
    expect(headers.get("preference-applied")).toBe("handling=lenient")
  })

  test("are accepted where no actors run: they may run elsewhere", async () => {
    const { submit } = await start({ actors: [] })
    expect(await submit({ task: "nobody.home" })).toMatchObject({ status: 202 })
  })
})

describe("arrays", () => {
  test("are answered with one receipt per task, in order", async () => {
    const { ask, submit } = await start()
    const tasks = Array.from({ length: 1_000 }, (_, n) => ({ task: "work.echo", input: { n } }))
    const { status, headers, body } = await submit(tasks)
    expect(status).toBe(202)
    expect(headers.get("location")).toBeNull()
    expect(body).toHaveLength(1_000)
    expect(new Set(body.map(({ id }: { id: string }) => id)).size).toBe(1_000)
    expect((await ask("GET", `/v1/jobs/${body[777].id}/result?wait=10s`)).body.result).toEqual({ n: 777 })
  })

  test("with one wrong element are refused as a whole, naming it", async () => {
    const { submit, ask } = await start()
    const response = await submit([{ task: "work.echo" }, { task: "work.echo", priority: 12 }, { task: "work.echo" }])
    expect(response).toMatchObject({ status: 400, body: { code: "invalid-input", index: 1, field: "priority" } })
    expect((await ask("GET", "/v1/jobs")).body.jobs).toEqual([])
  })

  test("are an operation of their own, which takes nothing else", async () => {
    const { ask } = await start()
    const one = { task: "work.echo", input: 1 }
    expect(await ask("POST", "/v1/jobs/batch", { body: [one, one] })).toMatchObject({
      status: 202,
      body: [{ state: "queued" }, { state: "queued" }],
    })
    expect(await ask("POST", "/v1/jobs/batch", { body: one })).toMatchObject({
      status: 400,
      body: { code: "invalid-input", detail: "the body must be an array of tasks; POST /v1/jobs takes a single one" },
    })
    const { body: document } = await ask("GET", "/openapi.json")
    const form = (path: string) => {
      const { requestBody, responses } = document.paths[path].post
      return [requestBody, responses["202"]].map(({ content }) => content["application/json"].schema)
    }
    const named = (name: string) => ({ $ref: `#/components/schemas/${name}` })
    expect(form("/v1/jobs")).toEqual([named("Task"), named("Receipt")])
    const tasks = { type: "array", items: named("Task"), minItems: 1, maxItems: 1_000 }
    expect(form("/v1/jobs/batch")).toEqual([tasks, named("BatchReceipts")])
  })

  test("of one name the element too", async () => {
    const { submit } = await start()
    expect((await submit([{ task: "nobody.home" }])).body).toMatchObject({ code: "unknown-actor", index: 0 })
  })

  test("must not hold one id twice", async () => {
    const { submit } = await start()
    const response = await submit([
      { task: "work.echo", id: "a", input: 1 },
      { task: "work.echo", id: "a", input: 2 },
    ])
    expect(response).toMatchObject({ status: 400, body: { code: "invalid-input", index: 1, field: "id" } })
  })

  test("whose elements fare differently have an error beside the receipts", async () => {
    const { submit } = await start()
    await submit({ task: "work.echo", id: "taken", input: 1, delay: 3600 })
    const { status, body } = await submit([
      { task: "work.echo" },
      { task: "work.echo", id: "taken", input: 2 },
      { task: "work.echo", id: "taken-not", input: 2 },
    ])
    expect(status).toBe(202)
    expect(body).toMatchObject([
      { state: "queued" },
      { status: 409, code: "job-exists", id: "taken", index: 1 },
      { id: "taken-not", state: "queued" },
    ])
  })
})

describe("Prefer: wait", () => {
  test("answers with the result when it comes in time", async () => {
    const { submit } = await start()
    const { status, headers, body } = await submit({ task: "work.echo", input: 7 }, { prefer: "wait=5" })
    expect(status).toBe(200)
    expect(body).toMatchObject({ state: "succeeded", result: 7, durability: "none", href: `/v1/jobs/${body.id}` })
    expect(headers.get("location")).toBe(body.href)
    expect(headers.get("preference-applied")).toBe("wait=5")
  })

  test("answers with the error of a job that fails in time", async () => {
    const { submit } = await start()
    const { status, body } = await submit({ task: "work.fail" }, { prefer: 'respond-async, wait="5"' })
    expect(status).toBe(200)
    expect(body).toMatchObject({ state: "failed", error: { name: "TypeError", message: "no such thing" } })
  })

  test("answers with the receipt when it does not; the job goes on", async () => {
    const { submit, ask, release } = await start()
    const { status, body } = await submit({ task: "work.hold" }, { prefer: "wait=0" })
    expect(status).toBe(202)
    release()
    expect((await ask("GET", `${body.href}/result?wait=5s`)).body).toMatchObject({ result: "released" })
  })

  test("is passed over for arrays, and where it is malformed", async () => {
    const { submit } = await start()
    for (const [body, prefer] of [
      [[{ task: "work.hold" }], "wait=5"],
      [{ task: "work.hold" }, "wait=soon"],
    ] as const) {
      const response = await submit(body, { prefer })
      expect(response.status).toBe(202)
      expect(response.headers.get("preference-applied")).toBeNull()
    }
  })

  test("ends when the client goes away", async () => {
    const { url, faults } = await start()
    const gone = new AbortController()
    const request = fetch(`${url}/v1/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json", prefer: "wait=60" },
      body: JSON.stringify({ task: "work.hold" }),
      signal: gone.signal,
    })
    await eventually(() => faults.watching.size > 0, { message: "the wait has begun" })
    gone.abort()
    await expect(request).rejects.toThrow()
    await eventually(() => faults.watching.size === 0, { message: "the wait has ended" })
  })
})
