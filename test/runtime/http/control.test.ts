/** What is wrong with a command to workers is refused by its field, over HTTP as from code; nothing is sent then. */
import { afterEach, expect, test } from "vitest"
import { start, stopAll } from "./harness.ts"

afterEach(stopAll)

const WHOLE = "must be a whole number from 1 to 10000"

test.each<readonly [path: string, body: unknown, status: number, problem: object]>([
  ["pool-grow", {}, 400, { field: "count", detail: `count: is missing: it ${WHOLE}` }],
  ["pool-grow", { count: 0 }, 400, { field: "count", detail: `count: ${WHOLE}` }],
  ["pool-grow", { count: "2" }, 400, { field: "count", detail: `count: ${WHOLE}` }],
  ["pool-grow", { cuont: 2 }, 400, { field: "cuont", detail: expect.stringContaining("did you mean count?") }],
  ["pool-grow", [1], 400, { detail: "the body of pool-grow must be an object with its arguments" }],
  ["pool-grow", 5, 400, { detail: "the body of pool-grow must be an object with its arguments" }],
  ["pool-grow", "{", 400, { code: "invalid-json" }],
  ["pool-grow", undefined, 415, { code: "unsupported-content-type", field: "Content-Type" }],
  ["pool-grow?workers=nobody", { count: 1 }, 404, { code: "not-found", field: "workers" }],
  ["pool-grow?timeout=0", { count: 1 }, 400, { field: "timeout" }],
  ["autoscale", { min: 5, max: 2 }, 400, { field: "min", detail: expect.stringContaining("did you mean min 2") }],
  ["autoscale", { min: "16,2" }, 400, { field: "min", detail: `min: ${WHOLE}` }],
  ["rate-limit", { task: "work.echo", rate: "10/x" }, 400, { field: "rate", detail: expect.stringContaining("10/m") }],
  ["rate-limit", { task: "work.echo", rate: "-1/m" }, 400, { field: "rate", detail: expect.stringContaining("10/m") }],
  ["rate-limit", { task: "work.echo", rate: "ten" }, 400, { field: "rate", detail: expect.stringContaining("10/m") }],
  ["time-limit", { task: "work.echo", hard: "soon" }, 400, { field: "hard" }],
  ["add-consumer", { queue: "a b" }, 400, { field: "queue" }],
  ["shutdown", { now: true }, 400, { field: "now", detail: "now: is not an argument of shutdown: it takes none" }],
])("%s %j", async (path, body, status, problem) => {
  const { ask, service } = await start()
  const before = service.worker?.describe().concurrency
  const answer = await ask("POST", `/v1/control/${path}`, body === undefined ? {} : { body })
  expect(answer).toMatchObject({ status, body: { ...(status === 400 ? { code: "invalid-input" } : {}), ...problem } })
  expect(service.worker?.describe()).toMatchObject({ concurrency: before, queues: ["default"] })
  expect(service.isReady).toBe(true)
})

test("a worker that cannot do it says so by the field", async () => {
  const { ask } = await start({ concurrency: 4, name: "one" })
  const { status, body } = await ask("POST", "/v1/control/pool-shrink", { body: { count: 4 } })
  expect({ status, body }).toEqual({
    status: 200,
    body: { answers: [{ worker: "one", error: "count: it has 4 handler(s) and must keep one: 3 at most" }] },
  })
})

test("a command without arguments takes no body, or an empty one", async () => {
  const { ask } = await start({ name: "one" })
  const answers = [{ worker: "one", value: "task events enabled" }]
  expect(await ask("POST", "/v1/control/enable-events")).toMatchObject({ status: 200, body: { answers } })
  expect(await ask("POST", "/v1/control/enable-events", { body: {} })).toMatchObject({ status: 200 })
})
