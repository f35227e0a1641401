/** Calls that change many jobs answer in time: with 202 where jobs are left, and the same call goes on. */
import { connectHttp } from "callboard/client"
import { afterEach, expect, onTestFinished, test, vi } from "vitest"
import { type Running, start, stopAll } from "./harness.ts"

afterEach(stopAll)

/** A service without a worker, whose clock a decision moves on by `ms`. */
const slow = async (ms: number): Promise<Running> => {
  vi.useFakeTimers({ toFake: ["performance"] })
  onTestFinished(() => void vi.useRealTimers())
  const running = await start({ actors: [] })
  running.faults.before = (call) => {
    if (call === "jobs.decide") vi.advanceTimersByTime(ms)
  }
  return running
}

const many = (count: number, fields: object = {}) =>
  Array.from({ length: count }, () => ({ task: "work.echo", queue: "q", ...fields }))

/** Makes the same call until it is done. Resolves with what each call has done, and with what it has left. */
const untilDone = async ({ ask }: Running, method: string, path: string): Promise<ReadonlyArray<unknown>> => {
  const calls: Array<unknown> = []
  for (;;) {
    const { status, body } = await ask(method, path)
    if (status !== 202) return [...calls, status]
    calls.push([body.partial.done, body.partial.left])
  }
}

test("a purge, with a budget of ten seconds or another one", async () => {
  const running = await slow(400)
  await running.service.client.submitMany(many(80))
  expect(await untilDone(running, "POST", "/v1/queues/q/purge")).toEqual([[32, 48], [32, 16], 200])
  await running.service.client.submitMany(many(80))
  const { status, body } = await running.ask("POST", "/v1/queues/q/purge?budget=20s")
  expect([status, body]).toEqual([202, { purged: 64, partial: { done: 64, left: 16 } }])
  for (const budget of ["1ms", "51s", "soon"]) {
    const refused = { status: 400, body: { code: "invalid-input", field: "budget" } }
    expect(await running.ask("POST", `/v1/queues/q/purge?budget=${budget}`)).toMatchObject(refused)
  }
})

test("the deletion of a queue, which stays paused until it is empty", async () => {
  const running = await slow(400)
  await running.service.client.submitMany(many(50))
  const first = await running.ask("DELETE", "/v1/queues/q?forget=true")
  expect([first.status, first.body]).toEqual([202, { purged: 32, partial: { done: 32, left: 18 } }])
  expect((await running.ask("GET", "/v1/queues")).body.queues).toMatchObject([{ name: "q", paused: true, depth: 18 }])
  expect((await running.ask("DELETE", "/v1/queues/q")).body).toEqual({ purged: 18 })
  expect((await running.ask("GET", "/v1/queues")).body.queues).toEqual([])
  expect(await running.service.client.paused()).toEqual([])
})

test("decisions by a filter: as many as the budget and the limit allow, and with the cursor from there on", async () => {
  const running = await slow(100)
  const { client } = running.service
  await client.submitMany(many(300))
  const decide = async (path: string, cursor?: string) => {
    const from = cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`
    const { status, body } = await running.ask("POST", path + from)
    const { changed, more, partial, next } = body
    expect(more).toBe(status === 202)
    expect(next === undefined).toBe(partial === undefined)
    return { status, changed, partial, next }
  }
  const limited = await decide("/v1/jobs/cancel?queue=q&limit=10")
  expect(limited).toMatchObject({ status: 202, changed: 10, partial: { done: 10, left: 290 } })
  const path = "/v1/jobs/cancel?queue=q&limit=1000"
  const first = await decide(path)
  expect(first).toMatchObject({ status: 202, changed: 128, partial: { done: 128, left: 162 } })
  const second = await decide(path, first.next)
  expect(second).toMatchObject({ status: 202, changed: 128, partial: { done: 128, left: 34 } })
  expect(await decide(path, second.next)).toMatchObject({ status: 200, changed: 34, partial: undefined })

  const again = await decide("/v1/jobs/retry?queue=q&limit=1000")
  expect(again).toMatchObject({ status: 202, changed: 128, partial: { done: 128, left: 172 } })
  // By a filter that no transport counts by, 1,000 are counted, and there may be more.
  await client.submitMany(many(1_002, { task: "work.other" }))
  const counted = await decide("/v1/jobs/cancel?task=work.other&limit=1")
  expect(counted.partial).toEqual({ done: 1, left: 1_000, more: true })
  const named = (await client.jobs({ task: "work.other", limit: 100 })).jobs.map(({ id }) => id)
  expect(await running.ask("POST", `/v1/jobs/cancel?ids=${named}`)).toMatchObject({
    status: 200,
    body: { changed: 99 },
  })
})

test("the cancellation of a group", async () => {
  const running = await slow(100)
  await running.service.client.submitMany(many(300, { group: "night" }))
  expect(await untilDone(running, "POST", "/v1/groups/night/cancel")).toEqual([[128, 172], [128, 44], 200])
})

test("the deletion of a job with those that wait for it, which a client over HTTP goes on with", async () => {
  const running = await slow(3_000)
  const { client } = running.service
  const family = async (id: string): Promise<void> => {
    await client.submit("work.echo", { id, queue: "q" })
    await client.submitMany(many(7, { after: id }))
  }
  await family("a")
  expect(await untilDone(running, "DELETE", "/v1/jobs/a?dependents=true")).toEqual([[3, 4], 204])
  await family("b")
  await connectHttp(running.url).job("b").delete({ dependents: true })
  expect(await client.count({ queue: "q" })).toEqual({ count: 0 })
  for (const id of ["a", "b"]) expect(await running.ask("GET", `/v1/jobs/${id}`)).toMatchObject({ status: 410 })
})
