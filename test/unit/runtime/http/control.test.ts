/** Commands to workers over HTTP: each is answered, and what is wrong with one is refused by its field, before anything is sent. */
import { afterEach, expect, onTestFinished, test, vi } from "vitest"
import { eventually } from "../../../support/servers/process.ts"
import { start, stopAll } from "./harness.ts"

afterEach(stopAll)

test("every question has its answer", async () => {
  const { ask, submit, release } = await start({ name: "one", concurrency: 1 })
  // A worker gives back what waits behind a handler that has run for a second: here no time passes, however busy the machine.
  vi.useFakeTimers({ toFake: ["performance"] })
  onTestFinished(() => void vi.useRealTimers())
  await submit([
    { task: "work.hold", id: "runs" },
    { task: "work.echo", id: "waits" },
  ])
  await eventually(async () => (await ask("GET", "/v1/jobs/runs")).body.state === "started", { message: "it runs" })
  await submit({ task: "work.echo", id: "later", delay: "1h" })
  const value = async (what: string) => {
    const { status, body } = await ask("GET", `/v1/inspect/${what}?timeout=5s&workers=one`)
    expect({ status, worker: body.answers[0].worker, count: body.answers.length }).toEqual({
      status: 200,
      worker: "one",
      count: 1,
    })
    return body.answers[0].value
  }
  expect(await value("ping")).toBe("pong")
  expect(await value("active")).toMatchObject([{ id: "runs", name: "work.hold", attempt: 1 }])
  await eventually(async () => JSON.stringify(await value("reserved")).includes('"waits"'), { message: "one waits" })
  expect(await value("put-off")).toEqual([])
  expect(await value("stats")).toMatchObject({ name: "one", concurrency: 1, state: "busy", inFlight: 2 })
  expect(await value("registered")).toMatchObject([{ name: "work" }])
  expect(await value("queues")).toEqual(["default"])
  expect((await ask("GET", "/v1/jobs?state=scheduled")).body.jobs).toMatchObject([{ id: "later" }])
  release()
})

test("a queue is limited, and the limit is listed until it is removed", async () => {
  const { ask, service } = await start({ name: "one" })
  const limits = async () => (await service.client.queues()).map(({ maxInFlight }) => maxInFlight)
  await service.client.submit("work.echo", { delay: "1h" })
  expect(await ask("PATCH", "/v1/queues/default", { body: { maxInFlight: 50 } })).toMatchObject({ status: 204 })
  expect(await limits()).toEqual([50])
  const rule = "must be a whole number from 1 to 100000, or null"
  const wrong = [0, -1, 1.5, 100_001, "5", true, [5]].map((maxInFlight) => [{ maxInFlight }, rule] as const)
  for (const [body, detail] of [...wrong, [{}, `is missing: it ${rule}`] as const])
    expect(await ask("PATCH", "/v1/queues/default", { body })).toMatchObject({
      status: 400,
      body: { code: "invalid-input", field: "maxInFlight", detail: `maxInFlight: ${detail}` },
    })
  for (const body of [null, [], "5", 5])
    expect(await ask("PATCH", "/v1/queues/default", { body })).toMatchObject({
      status: 400,
      body: { code: "invalid-input", detail: "queue: must be an object" },
    })
  expect(await ask("PATCH", "/v1/queues/a%0ab", { body: { maxInFlight: 5 } })).toMatchObject({
    status: 400,
    body: { code: "invalid-input", field: "queue" },
  })
  expect(await ask("PATCH", "/v1/queues/default", { body: { maxInFligth: 5 } })).toMatchObject({
    status: 400,
    body: { code: "unknown-field", detail: expect.stringContaining("did you mean maxInFlight") },
  })
  expect(await limits()).toEqual([50])
  expect(await ask("PATCH", "/v1/queues/default", { body: { maxInFlight: null } })).toMatchObject({ status: 204 })
  expect(await limits()).toEqual([undefined])
})

test("every command does what it says", async () => {
  const { ask, service } = await start({ name: "one", concurrency: 1 })
  const value = async (command: string, body: object = {}) => {
    const response = await ask("POST", `/v1/control/${command}`, { body })
    expect(response).toMatchObject({ status: 200, body: { answers: [{ worker: "one" }] } })
    return response.body.answers[0].value
  }
  expect(await value("pool-grow", { count: 2 })).toEqual({ concurrency: 3 })
  expect(await value("pool-shrink", { count: 1 })).toEqual({ concurrency: 2 })
  expect(await value("add-consumer", { queue: "more" })).toEqual(["default", "more"])
  expect(await value("cancel-consumer", { queue: "more" })).toEqual(["default"])
  expect(await value("time-limit", { task: "work.echo", hard: "10s", soft: 5 })).toMatchObject({ hard: "10s", soft: 5 })
  expect(await value("rate-limit", { task: "work.echo", rate: "10/m" })).toEqual({ task: "work.echo", rate: "10/m" })
  expect(await value("rate-limit", { task: "work.echo", rate: "none" })).toMatchObject({ rate: "none" })
  expect(await value("autoscale", { min: 1, max: 3 })).toEqual({ min: 1, max: 3 })
  expect(await value("enable-events")).toBe("task events enabled")
  expect(await value("disable-events")).toBe("task events disabled")
  expect(service.worker?.describe()).toMatchObject({ concurrency: 2, queues: ["default"] })
  expect(await value("shutdown")).toBe("stopping")
  await service.stopped
})

test.each<readonly [path: string, body: unknown, status: number, problem: object]>([
  ["pool-grow", {}, 400, { field: "count", detail: expect.stringMatching(/^count: is missing: .*1 to 10000$/) }],
  ["pool-grow", { count: 0 }, 400, { field: "count", detail: expect.stringMatching(/^count: .*1 to 10000$/) }],
  ["pool-grow", { count: "2" }, 400, { field: "count", detail: expect.stringMatching(/^count: .*1 to 10000$/) }],
  [
    "pool-grow",
    { cuont: 2 },
    400,
    { code: "unknown-field", field: "cuont", detail: "cuont is not an option of pool-grow (did you mean count?)" },
  ],
  ["pool-grow", [1], 400, { detail: "the body of pool-grow must be an object with its arguments" }],
  ["pool-grow", 5, 400, { detail: "the body of pool-grow must be an object with its arguments" }],
  ["pool-grow", "{", 400, { code: "invalid-json" }],
  ["pool-grow", undefined, 415, { code: "unsupported-content-type", field: "Content-Type" }],
  ["pool-grow?workers=nobody", { count: 1 }, 404, { code: "not-found", field: "workers" }],
  ["pool-grow?timeout=0", { count: 1 }, 400, { field: "timeout" }],
  ["autoscale", { min: 5, max: 2 }, 400, { field: "min", detail: expect.stringContaining("did you mean min 2") }],
  ["autoscale", { min: "16,2" }, 400, { field: "min", detail: expect.stringMatching(/^min: .*1 to 10000$/) }],
  ["rate-limit", { task: "work.echo", rate: "10/x" }, 400, { field: "rate", detail: expect.stringContaining("10/m") }],
  ["rate-limit", { task: "work.echo", rate: "-1/m" }, 400, { field: "rate", detail: expect.stringContaining("10/m") }],
  ["rate-limit", { task: "work.echo", rate: "ten" }, 400, { field: "rate", detail: expect.stringContaining("10/m") }],
  ["time-limit", { task: "work.echo", hard: "soon" }, 400, { field: "hard" }],
  ["add-consumer", { queue: "a b" }, 400, { field: "queue" }],
  [
    "shutdown",
    { now: true },
    400,
    {
      code: "unknown-field",
      detail: "POST /v1/control/shutdown takes no body: its options are parameters of the query",
    },
  ],
])("%s %j", async (path, body, status, problem) => {
  const { ask, service } = await start()
  const before = service.worker?.describe().concurrency
  const response = await ask("POST", `/v1/control/${path}`, body === undefined ? {} : { body })
  expect(response).toMatchObject({ status, body: { ...(status === 400 ? { code: "invalid-input" } : {}), ...problem } })
  expect(service.worker?.describe()).toMatchObject({ concurrency: before, queues: ["default"] })
  expect(service.isReady).toBe(true)
})

test("a worker that cannot do it says so by the field", async () => {
  const { ask } = await start({ concurrency: 4, name: "one" })
  const { status, body } = await ask("POST", "/v1/control/pool-shrink", { body: { count: 4 } })
  expect({ status, body }).toEqual({
    status: 200,
    body: { answers: [{ worker: "one", error: "count: the worker has 4 handler(s) and must keep one: at most 3" }] },
  })
})

test("a command without arguments takes no body, or an empty one", async () => {
  const { ask } = await start({ name: "one" })
  const answers = [{ worker: "one", value: "task events enabled" }]
  expect(await ask("POST", "/v1/control/enable-events")).toMatchObject({ status: 200, body: { answers } })
  expect(await ask("POST", "/v1/control/enable-events", { body: {} })).toMatchObject({ status: 200 })
})
