/** The transport is down, hangs, or loses its acknowledgement: what clients are told, and how soon. */
import { TransportError } from "callboard/transport"
import { afterEach, describe, expect, test } from "vitest"
import { fastest } from "../../../support/fastest.ts"
import { type Running, start, stopAll } from "./harness.ts"

afterEach(stopAll)

const TASK = { task: "work.echo", input: { n: 1 } }
const down = () => {
  throw new TransportError("unavailable", "connection refused")
}

const only = (wanted: string, fault: () => void | Promise<void>) => (call: string) =>
  call === wanted ? fault() : undefined

const jobs = async ({ service }: Running) => (await service.client.jobs()).jobs

describe("submitting", () => {
  test("while it is down: 503 with the id, when to come back, and that nothing was accepted", async () => {
    const { submit, faults } = await start()
    faults.before = only("jobs.publish", down)
    const { status, headers, body } = await submit(TASK)
    expect(status).toBe(503)
    expect(body).toMatchObject({
      code: "transport-unavailable",
      id: expect.stringMatching(/^[\w-]{36}$/),
      outcome: "none",
    })
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0)
  })

  test("while it hangs: within two seconds, and perhaps it was accepted", async () => {
    const { submit, faults } = await start()
    faults.before = only("jobs.publish", () => faults.hang())
    const [{ status, body }, ms] = await fastest(2_000, () => submit(TASK))
    expect(status).toBe(503)
    expect(body).toMatchObject({ code: "transport-unavailable", outcome: "unknown", id: expect.any(String) })
    expect(ms).toBeLessThan(2_000)
  })

  test("while its store hangs before anything is published: nothing was accepted, and nothing is later", async () => {
    const running = await start()
    const { submit, faults } = running
    faults.before = (call) => (call.startsWith("store.") ? faults.hang() : undefined)
    // Where its tasks go is in the store, as no worker of this process serves the actor.
    const elsewhere = () => submit({ task: "elsewhere.run" }, { prefer: "handling=lenient" })
    const [{ status, body }, ms] = await fastest(2_000, elsewhere)
    expect(status).toBe(503)
    expect(body).toMatchObject({ outcome: "none", id: expect.any(String) })
    expect(ms).toBeLessThan(2_000)
    faults.heal()
    // This one comes behind what the first request still does.
    expect((await submit({ ...TASK, id: "later" }, { prefer: "wait=5" })).status).toBe(200)
    expect((await jobs(running)).map(({ id }) => id)).toEqual(["later"])
  })

  test.each([
    ["looked up", "store.get"],
    ["reserved", "store.write"],
  ])("while its Idempotency-Key is %s: the key is named and no id, and nothing is accepted later", async (_, call) => {
    const running = await start()
    const { submit, faults } = running
    const key = { "idempotency-key": "a" }
    faults.before = only(call, () => faults.hang())
    const answers = await Promise.all([submit(TASK, key), submit(TASK, key), submit([TASK, { ...TASK, id: "b" }], key)])
    for (const { status } of answers) expect(status).toBe(503)
    for (const { body } of answers.slice(0, 2)) {
      expect(body).toMatchObject({ outcome: "none", detail: expect.stringContaining("the same Idempotency-Key") })
      expect(body).not.toHaveProperty("id")
    }
    expect(answers[2]?.body.errors).toMatchObject([{ outcome: "none" }, { outcome: "none", id: "b" }])
    expect(answers[2]?.body.errors[0]).not.toHaveProperty("id")
    faults.heal()
    await submit({ ...TASK, id: "later" }, { prefer: "wait=5" })
    expect((await jobs(running)).map(({ id }) => id)).toEqual(["later"])
  })

  test("under the Idempotency-Key of a request in doubt: in doubt as well, with the id of that request", async () => {
    const running = await start()
    const { submit, faults } = running
    const key = { "idempotency-key": "a" }
    faults.after = only("jobs.publish", () => {
      throw new TransportError("unavailable", "cut off", { outcome: "unknown" })
    })
    const first = await submit(TASK, key)
    faults.after = () => undefined
    faults.before = only("jobs.find", down)
    const again = await submit(TASK, key)
    expect(again).toMatchObject({ status: 503, body: { id: first.body.id, outcome: "unknown" } })
    faults.before = () => undefined
    expect(await submit(TASK, key)).toMatchObject({ status: 202, body: { id: first.body.id, duplicate: true } })
    expect(await jobs(running)).toHaveLength(1)
  })

  test("while it is down for lookups too: the id that was given is in the answer", async () => {
    const { submit, faults } = await start()
    faults.before = (call) => (call === "jobs.take" ? undefined : down())
    expect(await submit({ ...TASK, id: "mine" })).toMatchObject({ status: 503, body: { id: "mine", outcome: "none" } })
  })

  test("again with the id of a lost acknowledgement adds nothing", async () => {
    const running = await start()
    const { submit, ask, faults } = running
    faults.after = (call) => {
      if (call === "jobs.publish") throw new TransportError("unavailable", "cut off", { outcome: "unknown" })
    }
    const lost = await submit(TASK)
    expect(lost).toMatchObject({ status: 503, body: { outcome: "unknown" } })
    faults.after = () => undefined
    const again = await submit({ ...TASK, id: lost.body.id })
    expect(again).toMatchObject({ status: 202, body: { id: lost.body.id, duplicate: true } })
    expect(await jobs(running)).toHaveLength(1)
    expect((await ask("GET", `${again.body.href}/result?wait=5`)).body).toMatchObject({ result: { n: 1 } })
  })

  test("an array of which nothing was confirmed: 503 with all ids", async () => {
    const { submit, faults } = await start()
    faults.before = only("jobs.publish", down)
    const { status, headers, body } = await submit([TASK, { ...TASK, id: "mine" }])
    expect(status).toBe(503)
    expect(headers.get("retry-after")).toBe("1")
    expect(body.errors).toMatchObject([
      { index: 0, code: "transport-unavailable", outcome: "none", id: expect.any(String) },
      { index: 1, code: "transport-unavailable", outcome: "none", id: "mine" },
    ])
  })

  test("a wait that fails does not hide that the task is accepted", async () => {
    const { submit, faults } = await start()
    faults.before = only("jobs.find", down)
    const response = await submit({ task: "work.hold" }, { prefer: "wait=5" })
    expect(response).toMatchObject({ status: 202, body: { state: "queued" } })
  })

  test("a task that the transport finds too large is refused as that", async () => {
    const { submit, faults } = await start()
    faults.before = only("jobs.publish", () => {
      throw new TransportError("too-large", "1,048,577 bytes, and 1,048,576 are allowed")
    })
    expect(await submit(TASK)).toMatchObject({ status: 413, body: { code: "too-large" } })
  })
})

describe("asking", () => {
  test.each([
    ["GET", "/v1/jobs/a", "jobs.find"],
    ["GET", "/v1/jobs/a/result", "jobs.find"],
    ["GET", "/v1/jobs/a/events", "jobs.find"],
    ["GET", "/v1/jobs", "jobs.list"],
    ["GET", "/v1/dead", "jobs.list"],
    ["GET", "/v1/queues", "jobs.queues"],
    ["GET", "/v1/count", "jobs.count"],
    ["GET", "/v1/queues/q/jobs", "jobs.waiting"],
    ["GET", "/v1/jobs/a/position", "jobs.find"],
    ["DELETE", "/v1/queues/q", "jobs.queueNames"],
    ["GET", "/v1/workers", "store.list"],
    ["GET", "/v1/actors", "store.list"],
    ["POST", "/v1/jobs/a/cancel", "jobs.find"],
    ["POST", "/v1/jobs/a/retry", "jobs.find"],
    ["DELETE", "/v1/jobs/a", "jobs.find"],
    ["POST", "/v1/jobs/cancel?state=queued", "jobs.list"],
    ["POST", "/v1/dead/redrive", "jobs.list"],
  ])("%s %s while it is down: 503", async (method, path, call) => {
    const { ask, faults } = await start()
    faults.before = only(call, down)
    const response = await ask(method, path)
    expect(response).toMatchObject({
      status: 503,
      body: { code: "transport-unavailable", detail: "connection refused" },
    })
    expect(response.headers.get("retry-after")).toBe("1")
  })

  test("for a record while it hangs: 503 in the end", async () => {
    const { ask, faults } = await start()
    faults.before = only("jobs.find", () => faults.hang())
    const [response, ms] = await fastest(8_000, () => ask("GET", "/v1/jobs/a"))
    expect(response).toMatchObject({ status: 503 })
    expect(ms).toBeLessThan(8_000)
  })

  test("for events of the board while it is not connected: 503 instead of a stream that says nothing", async () => {
    const { ask, faults } = await start()
    faults.status("disconnected")
    expect(await ask("GET", "/v1/events")).toMatchObject({ status: 503, body: { code: "transport-unavailable" } })
  })

  test("for what a transport cannot tell: unsupported", async () => {
    const { ask } = await start({
      change: (transport) => ({
        ...transport,
        jobs: Object.assign(Object.create(transport.jobs), { queues: undefined, waiting: undefined }),
      }),
    })
    for (const path of ["/v1/queues", "/v1/queues/q/jobs", "/v1/jobs/a/position"])
      expect(await ask("GET", path)).toMatchObject({ status: 400, body: { code: "unsupported" } })
  })

  test("what nobody foresaw is internal, and says nothing of itself", async () => {
    const { ask, faults } = await start()
    faults.before = only("jobs.find", () => {
      throw new Error("password=hunter2 at /secret/path")
    })
    const response = await ask("GET", "/v1/jobs/a")
    expect(response).toMatchObject({ status: 500, body: { code: "internal" } })
    expect(response.text).not.toContain("hunter2")
    expect(response.text).not.toContain("/secret")
  })
})

test("/readyz is green only while it consumes and its transport is within reach; /healthz always", async () => {
  const { ask, faults } = await start()
  expect(await ask("GET", "/readyz")).toMatchObject({ status: 200, body: { ready: true } })
  faults.status("disconnected")
  expect(await ask("GET", "/readyz")).toMatchObject({ status: 503, body: { code: "transport-unavailable" } })
  expect(await ask("GET", "/healthz")).toMatchObject({ status: 200, body: { status: "ok" } })
  faults.status("connected")
  expect((await ask("GET", "/readyz")).status).toBe(200)
})
