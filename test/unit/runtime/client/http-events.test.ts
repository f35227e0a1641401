/** The events of a job over HTTP, from a service, and from a stream that breaks or is refused. */
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { actor } from "callboard"
import { connectHttp, type JobEvent } from "callboard/http"
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest"
import { start, stopAll } from "../http/harness.ts"
import { refusal, WAIT } from "./start.ts"

afterEach(stopAll)

/** A server that answers the n-th request with the n-th answer, and the last one again; with the ids that were sent. */
const streaming = async (...answers: ReadonlyArray<(response: ServerResponse) => unknown>) => {
  const lastIds: Array<string | undefined> = []
  const server = createServer((request, response) => {
    const answer = answers[Math.min(lastIds.length, answers.length - 1)]
    lastIds.push(request.headers["last-event-id"]?.toString())
    answer?.(response)
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const client = connectHttp(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  return { job: client.job("a"), lastIds }
}

const transition = (n: number, state: string) =>
  `event: transition\ndata: ${JSON.stringify({ type: "transition", id: `1.${n}`, at: "2031-01-01T00:00:00Z", state })}\nid: 1.${n}\n\n`

/** Sends parts of a stream, each alone, then cuts the connection, or leaves it open. */
const sends =
  (parts: ReadonlyArray<string>, end: "cut" | "open" | "end" = "cut") =>
  async (response: ServerResponse) => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    for (const part of parts) {
      await new Promise((written) => response.write(part, written))
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    // A connection that is reset can lose what was sent before, so it is closed in the middle of the body instead.
    if (end === "cut") response.socket?.end()
    if (end === "end") response.end()
  }

const hasEnded = (response: ServerResponse) => response.writeHead(204).end()

/** Answers with text that is no stream of events, as a proxy does. */
const answers =
  (status: number, contentType: string, text: string, headers: Readonly<Record<string, string>> = {}) =>
  (response: ServerResponse) => {
    response.writeHead(status, { "content-type": contentType, ...headers })
    response.end(text)
  }

/** Resolves with the error with which the stream ends, after its last event. */
const failureOf = async (events: AsyncIterable<unknown>): Promise<unknown> => {
  try {
    for await (const _event of events);
  } catch (error) {
    return error
  }
  return undefined
}

const refuses =
  (status: number, code: string, headers: Readonly<Record<string, string>> = {}) =>
  (response: ServerResponse) => {
    response.writeHead(status, { "content-type": "application/problem+json", ...headers })
    response.end(JSON.stringify({ code, detail: "no", title: "no", status }))
  }

test("a job is followed from its beginning, and after an event", async () => {
  const { url } = await start()
  const job = await connectHttp(url).submit("work", { meth: "echo", input: 1 })
  await job.result(WAIT)
  const states = async (lastEventId?: string) => {
    const found: Array<string> = []
    for await (const event of job.events({ lastEventId })) if (event.type === "transition") found.push(event.state)
    return found
  }
  expect(await states()).toEqual(["queued", "started", "succeeded"])
  expect(await states("1.2")).toEqual(["succeeded"])
  expect(await states("1.3")).toEqual([])
  expect(() => job.events({ lastEventId: "first" })).toThrow("lastEventId: is not an event id")
  await expect(connectHttp(url).job("absent").events()[Symbol.asyncIterator]().next()).rejects.toMatchObject(
    refusal("not-found"),
  )
})

test("every run of a job that was run again is followed, as over the transport", async () => {
  let runs = 0
  const twice = actor("work", {
    methods: {
      twice: () => {
        if (runs++ === 0) throw new Error("first")
        return "second"
      },
    },
  })
  const { service, url } = await start({ actors: [twice] })
  const { id } = await service.client.submit("work.twice", {})
  const job = connectHttp(url).job(id)
  await job.outcome(WAIT)
  await job.retry()
  await job.outcome(WAIT)
  const idsOf = async (events: AsyncIterable<JobEvent>) => {
    const ids: Array<string> = []
    for await (const event of events) if (event.type === "transition") ids.push(`${event.id} ${event.state}`)
    return ids
  }
  const ids = await idsOf(job.events())
  expect(ids).toEqual(await idsOf(service.client.job(id).events()))
  expect(ids.at(-1)).toMatch(/^2\.\d succeeded$/)
  expect(ids.filter((each) => each.startsWith("1."))).toHaveLength(3)
})

test("a token is sent", async () => {
  const { url } = await start({ http: { port: 0, tokens: [{ token: "reader", scopes: ["read", "submit"] }] } })
  const client = connectHttp(url, { token: "reader" })
  const job = await client.submit("work", { meth: "echo", input: 1 })
  const events = []
  for await (const event of job.events()) events.push(event.type)
  expect(events.length).toBeGreaterThan(1)
  await expect(connectHttp(url).job(job.id).events()[Symbol.asyncIterator]().next()).rejects.toMatchObject(
    refusal("unauthorized"),
  )
})

describe("a stream that", () => {
  const rest = transition(3, "succeeded")

  test("is cut after the second event continues without a repeated or lost one", async () => {
    const half = rest.slice(0, 30)
    const first = transition(1, "queued")
    const { job, lastIds } = await streaming(
      sends(["retry: 20\n\n", ": hello\n\n", first.slice(0, 9), first.slice(9), transition(2, "started"), half]),
      sends([rest.replaceAll("\n", "\r\n")], "end"),
      hasEnded,
    )
    const found = []
    for await (const event of job.events()) found.push(event)
    expect(found.map((event) => event.type === "transition" && event.id)).toEqual(["1.1", "1.2", "1.3"])
    expect(lastIds).toEqual([undefined, "1.2", "1.3"])
  })

  test("has nothing more to tell ends with 204", async () => {
    const { job, lastIds } = await streaming(sends(["retry: 20\n\n", transition(1, "queued")], "end"), hasEnded)
    const found = []
    for await (const event of job.events({ lastEventId: "1.0" })) found.push(event)
    expect(found).toHaveLength(1)
    expect(lastIds).toEqual(["1.0", "1.1"])
  })

  test("pauses ends when the signal fires", async () => {
    const { job, lastIds } = await streaming(sends(["retry: 60000\n\n", transition(1, "queued")]))
    const stop = new AbortController()
    const events = job.events({ signal: stop.signal })[Symbol.asyncIterator]()
    expect((await events.next()).done).toBe(false)
    const next = events.next()
    setTimeout(() => stop.abort(), 50)
    expect((await next).done).toBe(true)
    expect(lastIds).toHaveLength(1)
  })

  test("is open ends when the signal fires, and when its reader leaves", async () => {
    const { job } = await streaming(sends([transition(1, "queued")], "open"))
    const stop = new AbortController()
    const events = job.events({ signal: stop.signal })[Symbol.asyncIterator]()
    await events.next()
    const next = events.next()
    stop.abort()
    expect((await next).done).toBe(true)
    for await (const event of job.events()) if (event.type === "transition") break
  })

  test.each([
    [401, "unauthorized"],
    [410, "gone"],
  ])("is refused with %i while it is followed fails with %s", async (status, code) => {
    const { job } = await streaming(sends(["retry: 20\n\n", transition(1, "queued")]), refuses(status, code))
    const events = job.events()[Symbol.asyncIterator]()
    expect((await events.next()).done).toBe(false)
    await expect(events.next()).rejects.toMatchObject(refusal(code))
  })

  test("is refused with 429 or an outage while it is followed is opened again; at first it fails", async () => {
    const { job, lastIds } = await streaming(
      sends(["retry: 20\n\n", transition(1, "queued")]),
      refuses(429, "overloaded"),
      answers(502, "text/html", "<html>"),
      answers(200, "text/html", "<html>"),
      (response) => response.destroy(),
      sends([rest], "end"),
      hasEnded,
    )
    const found = []
    for await (const event of job.events()) found.push(event)
    expect(found).toHaveLength(2)
    expect(lastIds).toEqual([undefined, "1.1", "1.1", "1.1", "1.1", "1.1", "1.3"])
    const refused = await streaming(refuses(429, "overloaded"))
    await expect(refused.job.events()[Symbol.asyncIterator]().next()).rejects.toMatchObject(refusal("overloaded"))
  })

  test("ends between two runs is opened again at once, and tells the next run", async () => {
    const again = `event: transition\ndata: ${JSON.stringify({ type: "transition", id: "2.4", at: "2031-01-01T00:00:00Z", state: "queued" })}\nid: 2.4\n\n`
    const { job, lastIds } = await streaming(
      sends(["retry: 60000\n\n", transition(3, "failed")], "end"),
      sends([again, transition(5, "succeeded")], "end"),
      hasEnded,
    )
    const found = []
    for await (const event of job.events()) found.push(event.type === "transition" && event.state)
    expect(found).toEqual(["failed", "queued", "succeeded"])
    expect(lastIds).toEqual([undefined, "1.3", "1.5"])
  })

  test.each<readonly [string, (response: ServerResponse) => unknown]>([
    ["is gone", refuses(410, "gone")],
    ["is out of reach", (response) => response.destroy()],
    ["begins again from the first event", sends([transition(3, "failed")], "end")],
  ])("has ended with the job is over, also if the service then %s", async (_what, then) => {
    const { job, lastIds } = await streaming(sends([transition(3, "failed")], "end"), then)
    expect(await failureOf(job.events())).toBeUndefined()
    // Bun sends a request again whose connection was closed.
    expect(new Set(lastIds)).toEqual(new Set([undefined, "1.3"]))
  })

  test.each([
    ["text/html", "<!doctype html>\n<p>app</p>\n"],
    ["application/json", "{}"],
  ])("is %s fails, as every other answer that is not Callboard's", async (contentType, text) => {
    const { job, lastIds } = await streaming(answers(200, contentType, text))
    expect(await failureOf(job.events())).toMatchObject({
      code: "transport-unavailable",
      message: expect.stringContaining("answered with status 200, but not as Callboard does"),
    })
    expect(lastIds).toHaveLength(1)
  })

  test.each(["{half", "null", "1"])("has the event %s fails and is not opened again", async (data) => {
    const { job, lastIds } = await streaming(
      sends([`retry: 20\n\n`, transition(1, "queued"), `event: transition\ndata: ${data}\nid: 1.2\n\n`], "end"),
    )
    expect(await failureOf(job.events())).toMatchObject({
      code: "internal",
      message: expect.stringContaining("cannot be read"),
    })
    expect(lastIds).toHaveLength(1)
  })

  test.each<readonly [string, string, Readonly<Record<string, string>>]>([
    ["Retry-After", "retry: 20\n\n", { "retry-after": "3000000" }],
    ["a negative Retry-After", "retry: 60000\n\n", { "retry-after": "-1" }],
    ["retry", "retry: 3000000000\n\n", {}],
  ])("is opened again after a pause, however long the one is that %s asks for", async (_what, retry, headers) => {
    const { job, lastIds } = await streaming(
      sends([retry, transition(1, "queued")], "end"),
      refuses(503, "overloaded", headers),
    )
    const delays = vi.spyOn(globalThis, "setTimeout")
    onTestFinished(() => delays.mockRestore())
    const stop = new AbortController()
    const followed = failureOf(job.events({ signal: stop.signal }))
    await expect.poll(() => delays.mock.calls.map(([, ms]) => ms)).toContain(60_000)
    stop.abort()
    expect(await followed).toBeUndefined()
    expect(lastIds.length).toBeLessThanOrEqual(2)
  })
})
