/** `Idempotency-Key`: the same request twice is one submission, whatever happens in between. */
import { encode } from "@msgpack/msgpack"
import { TransportError } from "callboard/transport"
import { afterEach, describe, expect, test, vi } from "vitest"
import { NO_EMBED } from "../../../../runtime/protocol/body.ts"
import { type Running, start, stopAll } from "./harness.ts"

afterEach(stopAll)

const KEY = { "idempotency-key": "order-4711" }
const TASK = { task: "work.echo", input: { n: 1 } }

const count = async ({ service }: Running): Promise<number> => (await service.client.jobs({ limit: 1_000 })).jobs.length

const unavailable = (outcome: "none" | "unknown") => new TransportError("unavailable", "cut off", { outcome })

test("the same request gets the same receipt, as a duplicate", async () => {
  const running = await start()
  const first = await running.submit(TASK, KEY)
  const again = await running.submit(TASK, KEY)
  expect(first.body).not.toHaveProperty("duplicate")
  expect(again).toMatchObject({ status: 202, body: { ...first.body, duplicate: true } })
  expect(again.headers.get("location")).toBe(first.headers.get("location"))
  expect(await count(running)).toBe(1)
})

test("a task under a key is encoded once", async () => {
  const { submit } = await start()
  const input = { marker: "only here" }
  const text = JSON.stringify([[], input, NO_EMBED])
  const stringify = vi.spyOn(JSON, "stringify")
  try {
    expect(
      (await submit({ ...TASK, task: "nobody.listens", input }, { ...KEY, prefer: "handling=lenient" })).status,
    ).toBe(202)
    expect(stringify.mock.results.filter(({ value }) => value === text)).toHaveLength(1)
  } finally {
    stringify.mockRestore()
  }
})

test("it gets it also when the job and its record are gone", async () => {
  const running = await start()
  const first = await running.submit(TASK, { ...KEY, prefer: "wait=5" })
  expect((await running.ask("DELETE", first.body.href)).status).toBe(204)
  const again = await running.submit(TASK, KEY)
  expect(again).toMatchObject({ status: 202, body: { id: first.body.id, duplicate: true } })
  expect(await count(running)).toBe(0)
})

test("it may wait for the result the second time", async () => {
  const { submit } = await start()
  const first = await submit(TASK, KEY)
  const again = await submit(TASK, { ...KEY, prefer: "wait=5" })
  expect(again).toMatchObject({ status: 200, body: { id: first.body.id, duplicate: true, result: { n: 1 } } })
})

test("it is the same also when its expiry has passed in between", async () => {
  const { submit } = await start()
  const task = { ...TASK, expires: new Date(Date.now() + 300).toISOString() }
  const first = await submit(task, KEY)
  await expect.poll(() => submit({ ...task, id: "other" }).then(({ status }) => status)).toBe(400)
  expect(await submit(task, KEY)).toMatchObject({ status: 202, body: { id: first.body.id, duplicate: true } })
})

test("another body, or the same in another content type, is refused", async () => {
  const running = await start()
  await running.submit(TASK, KEY)
  const other = await running.submit({ ...TASK, input: { n: 2 } }, KEY)
  expect(other).toMatchObject({ status: 422, body: { code: "idempotency-mismatch", field: "Idempotency-Key" } })
  const packed = await running.ask("POST", "/v1/jobs", {
    body: encode(TASK),
    headers: { ...KEY, "content-type": "application/msgpack" },
  })
  expect(packed.status).toBe(422)
  expect(await count(running)).toBe(1)
})

test("a key may be written as a quoted string, as the draft of the IETF has it", async () => {
  const { submit } = await start()
  const first = await submit(TASK, { "idempotency-key": '"a-1"' })
  expect((await submit(TASK, { "idempotency-key": "a-1" })).body).toMatchObject({ id: first.body.id, duplicate: true })
})

test("without a key, and under two keys, equal requests are two submissions", async () => {
  const running = await start()
  await running.submit(TASK)
  await running.submit(TASK)
  await running.submit(TASK, { "idempotency-key": "a" })
  await running.submit(TASK, { "idempotency-key": "b" })
  expect(await count(running)).toBe(4)
})

test("keys of two tokens never meet", async () => {
  const running = await start({
    http: {
      port: 0,
      tokens: [
        { token: "one", scopes: ["submit"] },
        { token: "two", scopes: ["submit"] },
      ],
    },
  })
  const first = await running.ask("POST", "/v1/jobs", { body: TASK, headers: KEY, token: "one" })
  const second = await running.ask("POST", "/v1/jobs", { body: { ...TASK, input: 2 }, headers: KEY, token: "two" })
  expect([first.status, second.status]).toEqual([202, 202])
  expect(await count(running)).toBe(2)
})

/** The memory transport answers within one turn of the event loop: a race needs one that takes a moment. */
const slowStore = async (): Promise<Running> => {
  const running = await start()
  running.faults.before = (call) =>
    call.startsWith("store.") ? new Promise((resolve) => setTimeout(resolve, 2)) : undefined
  return running
}

test("equal requests that race are one submission", async () => {
  const running = await slowStore()
  const answers = await Promise.all(Array.from({ length: 20 }, () => running.submit(TASK, KEY)))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]))
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
  expect(answers.filter(({ body }) => body.duplicate !== true)).toHaveLength(1)
  expect(await count(running)).toBe(1)
})

test("of different requests that race for a key one is accepted", async () => {
  const running = await slowStore()
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, n) => running.submit({ ...TASK, input: { n } }, KEY)),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([202, ...Array(9).fill(422)])
  expect(await count(running)).toBe(1)
})

test("an array has one key for all of it", async () => {
  const running = await start()
  const tasks = [TASK, { ...TASK, input: { n: 2 } }]
  const first = await running.submit(tasks, KEY)
  const again = await running.submit(tasks, KEY)
  expect(again.body).toEqual(first.body.map((receipt: object) => ({ ...receipt, duplicate: true })))
  expect(await count(running)).toBe(2)
})

describe("a first request that failed does not poison its key", () => {
  test("when it was not valid: nothing was kept under the key", async () => {
    const running = await start()
    expect((await running.submit({ ...TASK, priority: 12 }, KEY)).status).toBe(400)
    expect((await running.submit({ task: "nobody.home" }, KEY)).status).toBe(400)
    expect((await running.submit(TASK, KEY)).body).not.toHaveProperty("duplicate")
    expect(await count(running)).toBe(1)
  })

  test("when nothing was accepted: the key is free for the same body, and for another", async () => {
    const running = await start()
    const { faults } = running
    faults.before = (call) => {
      if (call === "jobs.publish") throw unavailable("none")
    }
    const failed = await running.submit(TASK, KEY)
    expect(failed).toMatchObject({ status: 503, body: { outcome: "none" } })
    faults.before = () => undefined
    const other = await running.submit({ ...TASK, input: { n: 2 } }, KEY)
    expect(other.status).toBe(202)
    expect(other.body).not.toHaveProperty("duplicate")
    expect((await running.submit(TASK, KEY)).status).toBe(422)
    expect(await count(running)).toBe(1)
  })

  test("when its acknowledgement was lost: the same body finds the same job, and another body is refused", async () => {
    const running = await start()
    const { faults } = running
    faults.after = (call) => {
      if (call === "jobs.publish") throw unavailable("unknown")
    }
    const failed = await running.submit(TASK, KEY)
    expect(failed).toMatchObject({ status: 503, body: { outcome: "unknown" } })
    faults.after = () => undefined
    expect((await running.submit({ ...TASK, input: { n: 2 } }, KEY)).status).toBe(422)
    const again = await running.submit(TASK, KEY)
    expect(again).toMatchObject({ status: 202, body: { id: failed.body.id, duplicate: true } })
    expect(await count(running)).toBe(1)
  })

  test("when the key could not be brought up to date afterwards", async () => {
    const running = await start()
    const { faults } = running
    let writes = 0
    faults.before = (call) => {
      if (call === "store.write" && ++writes > 1) throw unavailable("none")
    }
    const first = await running.submit(TASK, KEY)
    expect(first.status).toBe(202)
    faults.before = () => undefined
    expect((await running.submit(TASK, KEY)).body).toMatchObject({ id: first.body.id, duplicate: true })
    expect(await count(running)).toBe(1)
  })

  test("when some of its tasks were not confirmed", async () => {
    const running = await start({
      change: (transport) => {
        let isFirst = true
        const publish: typeof transport.jobs.publish = async (postings) => {
          if (!isFirst) return transport.jobs.publish(postings)
          isFirst = false
          const [stored] = await transport.jobs.publish(postings.slice(0, 1))
          return [stored ?? { status: "stored" }, { status: "failed", error: unavailable("unknown") }]
        }
        return { ...transport, jobs: Object.assign(Object.create(transport.jobs), { publish }) }
      },
    })
    const tasks = [TASK, { ...TASK, input: { n: 2 } }]
    const first = await running.submit(tasks, KEY)
    expect(first).toMatchObject({
      status: 202,
      body: [{ state: "queued" }, { code: "transport-unavailable", status: 503, index: 1, outcome: "unknown" }],
    })
    const again = await running.submit(tasks, KEY)
    expect(again.body).toMatchObject([
      { id: first.body[0].id, duplicate: true },
      { id: first.body[1].id, state: "queued" },
    ])
    expect(await count(running)).toBe(2)
  })
})
