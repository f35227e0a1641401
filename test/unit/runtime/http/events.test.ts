/** Server-sent events: replayed, live, resumed, kept alive, ended. */
import { afterEach, describe, expect, test } from "vitest"
import { Client } from "../../../../runtime/client/client.ts"
import { http } from "../../../../runtime/http/app.ts"
import { eventually } from "../../../support/servers/process.ts"
import { finished, type Running, start, stopAll } from "./harness.ts"
import { eventsOf, type ServerSentEvent } from "./sse.ts"

afterEach(stopAll)

const open = async ({ url }: Running, path: string, init: RequestInit = {}): Promise<Response> => {
  const response = await fetch(`${url}${path}`, init)
  if (response.status === 200) expect(response.headers.get("content-type")).toMatch(/^text\/event-stream/)
  return response
}

/** Everything until the stream ends. */
const collect = async (response: Response): Promise<ReadonlyArray<ServerSentEvent>> => {
  const events: Array<ServerSentEvent> = []
  for await (const event of eventsOf(response)) if (event.event !== undefined) events.push(event)
  return events
}

const statesOf = (events: ReadonlyArray<ServerSentEvent>): ReadonlyArray<string> =>
  events.filter(({ event }) => event === "transition").map(({ data }) => JSON.parse(data ?? "").state)

describe("of a job", () => {
  test("replays what happened, goes on live, and ends with the job", async () => {
    const running = await start()
    const { body } = await running.submit({ task: "work.hold" })
    const response = await open(running, `${body.href}/events`)
    const events: Array<ServerSentEvent> = []
    for await (const event of eventsOf(response)) {
      if (event.event === undefined) continue
      events.push(event)
      if (event.event === "progress") running.release()
    }
    expect(statesOf(events)).toEqual(["queued", "started", "succeeded"])
    expect(events.filter(({ event }) => event === "transition").map(({ id }) => id)).toEqual(["1.1", "1.2", "1.3"])
    const progress = events.find(({ event }) => event === "progress")
    expect(progress).not.toHaveProperty("id")
    expect(JSON.parse(progress?.data ?? "")).toMatchObject({ fraction: 0.25, detail: { step: "holding" } })
  })

  test("resumes after Last-Event-ID, and after the same in the query", async () => {
    const running = await start()
    const id = await finished(running, { task: "work.echo" })
    const byHeader = await collect(
      await open(running, `/v1/jobs/${id}/events`, { headers: { "last-event-id": "1.1" } }),
    )
    expect(byHeader.map((event) => event.id)).toEqual(["1.2", "1.3"])
    const byQuery = await collect(await open(running, `/v1/jobs/${id}/events?lastEventId=1.2`))
    expect(byQuery.map((event) => event.id)).toEqual(["1.3"])
    const all = await collect(await open(running, `/v1/jobs/${id}/events`, { headers: { "last-event-id": "" } }))
    expect(all.map((event) => event.id)).toEqual(["1.1", "1.2", "1.3"])
  })

  test("resumed after the end has nothing more to say, so that browsers stop asking", async () => {
    const running = await start()
    const id = await finished(running, { task: "work.fail" })
    const path = `/v1/jobs/${id}/events`
    expect(await running.ask("GET", path, { headers: { "last-event-id": "1.3" } })).toMatchObject({
      status: 204,
      text: "",
    })
    // Until it runs again.
    await running.ask("POST", `/v1/jobs/${id}/retry`)
    await running.ask("GET", `/v1/jobs/${id}/result?wait=5s`)
    const events = await collect(await open(running, path, { headers: { "last-event-id": "1.3" } }))
    expect(events.map((event) => event.id)).toEqual(["2.4", "2.5", "2.6"])
  })

  test("lets go of the job when the client goes away", async () => {
    const running = await start()
    const { body } = await running.submit({ task: "work.hold" })
    const gone = new AbortController()
    const response = await open(running, `${body.href}/events`, { signal: gone.signal })
    const reader = response.body?.getReader()
    await reader?.read()
    await eventually(() => running.faults.watching.size > 0, { message: "the stream watches" })
    gone.abort()
    await eventually(() => running.faults.watching.size === 0, { message: "nobody watches any more" })
  })

  test("HEAD opens no stream", async () => {
    const running = await start()
    const { body } = await running.submit({ task: "work.hold" })
    expect((await running.ask("HEAD", `${body.href}/events`)).status).toBe(200)
    expect((await running.ask("HEAD", "/v1/events")).status).toBe(200)
    expect(running.faults.watching.size).toBe(0)
  })
})

describe("of the board", () => {
  test("tells what happens to every job, without its result", async () => {
    const running = await start()
    const response = await open(running, "/v1/events")
    const seen: Array<{ readonly job: { readonly id: string }; readonly event: { readonly state?: string } }> = []
    const reading = (async () => {
      for await (const { event, data } of eventsOf(response)) {
        if (event === undefined) continue
        seen.push(JSON.parse(data ?? ""))
        if (seen.filter(({ event: { state } }) => state === "succeeded").length === 2) return
      }
    })()
    await eventually(() => running.faults.watching.size > 0, { message: "the stream watches" })
    const ids = [
      await finished(running, { task: "work.echo" }),
      await finished(running, { task: "work.echo", input: "x" }),
    ]
    await reading
    expect(new Set(seen.map(({ job }) => job.id))).toEqual(new Set(ids))
    expect(seen[0]?.job).toMatchObject({ task: "work.echo", queue: "default" })
    expect(seen.at(-1)?.job).not.toHaveProperty("result")
    await eventually(() => running.faults.watching.size === 0, { message: "nobody watches any more" })
  })
})

describe("of the board, by type", () => {
  const typesUntil = async (response: Response, last: string): Promise<ReadonlyArray<string>> => {
    const seen: Array<string> = []
    for await (const { event } of eventsOf(response)) {
      if (event !== undefined) seen.push(event)
      if (event === last) break
    }
    return seen
  }

  test("only the types that were asked for, and no jobs", async () => {
    const running = await start()
    const { client } = running.service
    const some = await open(running, "/v1/events?types=order-shipped,test-*&jobs=false")
    const noJobs = await open(running, "/v1/events?jobs=false")
    const reading = [typesUntil(some, "test-over"), typesUntil(noJobs, "test-over")]
    await finished(running, { task: "work.echo" })
    for (const type of ["order-paid", "order-shipped", "test-begun", "test-over"])
      await client.event(type, { n: 2 ** 60 })
    expect(await reading[0]).toEqual(["order-shipped", "test-begun", "test-over"])
    const all = await reading[1]
    expect(all?.filter((type) => !type.startsWith("worker-"))).toEqual([
      "order-paid",
      "order-shipped",
      "test-begun",
      "test-over",
    ])
  })

  test.each([
    ["types=", "types"],
    ["types=task failed", "types"],
    ["types=*-failed", "types"],
    ["types=a**", "types"],
    [`types=${"a,".repeat(50)}a`, "types"],
    ["jobs=yes", "jobs"],
    ["type=task-failed", "type"],
  ])("%s is refused by name", async (query, field) => {
    const running = await start()
    const { status, body } = await running.ask("GET", `/v1/events?${query}`)
    expect({ status, field: body.field }).toEqual({ status: 400, field })
  })
})

test("a stream on which nothing happens shows that it lives", async () => {
  const running = await start()
  const app = http(new Client(running.service.client.connection), { keepAlive: "20 ms", open: true })
  const { body } = await running.submit({ task: "work.hold" })
  const response = await app.request(`${body.href}/events`)
  let comments = 0
  for await (const { comment } of eventsOf(response)) {
    if (comment !== undefined && ++comments === 3) break
  }
  expect(comments).toBe(3)
})

test("streams and waits end at once when the service stops", async () => {
  const running = await start()
  const { body } = await running.submit({ task: "work.hold" })
  const streams = [open(running, `${body.href}/events`), open(running, "/v1/events")]
  const opened = await Promise.all(streams)
  const wait = running.ask("GET", `${body.href}/result?wait=60s`)
  await eventually(() => running.faults.watching.size === 3, { message: "all three wait" })
  const began = performance.now()
  const stopped = running.service.stop({ now: true })
  await Promise.all(opened.map(collect))
  // Handed back already, or not yet.
  expect(await wait).toMatchObject({ status: 202, body: { state: expect.stringMatching(/^(started|queued)$/) } })
  running.release()
  await stopped
  expect(performance.now() - began).toBeLessThan(20_000)
})
