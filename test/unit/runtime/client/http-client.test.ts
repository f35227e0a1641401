/** The client over HTTP, against a service that is served on loopback, and against what may stand between them. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { actor } from "callboard"
import {
  CallboardError,
  connect,
  connectHttp,
  type HttpClient,
  JobCancelled,
  JobFailed,
  TransportError,
  WaitTimeout,
} from "callboard/client"
import { afterEach, describe, expect, onTestFinished, test } from "vitest"
import { freePort } from "../../../support/servers/process.ts"
import { type StartOptions, start, stopAll } from "../http/harness.ts"
import { refusal, WAIT } from "./start.ts"

afterEach(stopAll)

const serving = async (options?: StartOptions) => {
  const running = await start(options)
  return { ...running, client: connectHttp(running.url) }
}

const fails = (work: Promise<unknown>): Promise<CallboardError> =>
  work.then(
    (value) => {
      throw new Error(`it came to ${JSON.stringify(value)}`)
    },
    (cause: unknown) => {
      expect(cause).toBeInstanceOf(CallboardError)
      return cause as CallboardError
    },
  )

type Handle = (request: IncomingMessage, response: ServerResponse) => unknown

/** A server of HTTP that the test scripts; resolves with its address. */
const listen = async (handle: Handle): Promise<string> => {
  const server = createServer((request, response) => void handle(request, response))
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Sends a request on, and returns the answer of the service. */
const forward = async (request: IncomingMessage, url: string): Promise<Response> => {
  const chunks: Array<Uint8Array<ArrayBuffer>> = []
  for await (const chunk of request) chunks.push(chunk)
  const { method = "GET" } = request
  return fetch(url, {
    method,
    headers: { "content-type": "application/json" },
    ...(method === "POST" ? { body: await new Blob(chunks).text() } : {}),
  })
}

const passOn = async (answer: Response, response: ServerResponse): Promise<void> => {
  response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" })
  response.end(await answer.text())
}

test("submits, waits for the result and finds the job", async () => {
  const { client } = await serving()
  await client.health()
  const job = await client.submit<{ n: number }>("work", { meth: "echo", input: { n: 1 }, meta: { customer: 7 } })
  expect(job.receipt).toEqual({ id: job.id, state: "queued", durability: expect.any(String) })
  expect((await job.result(WAIT)).n).toBe(1)
  expect(await job.outcome(WAIT)).toEqual({ state: "succeeded", result: { n: 1 } })
  expect(await client.job(job.id).find()).toMatchObject({ id: job.id, state: "succeeded", meta: { customer: 7 } })
  const again = await client.submit("work", { meth: "echo", input: { n: 1 }, id: job.id })
  expect(again.receipt).toMatchObject({ id: job.id, duplicate: true })
  const nothing = await client.submit("work", { meth: "nothing" })
  expect(await nothing.result(WAIT)).toBe(null)
})

test("a mounted service is reached below its path, and options travel as parameters", async () => {
  const { url } = await serving()
  const asked: Array<string> = []
  const mounted = await listen(async (request, response) => {
    asked.push(`${request.method} ${request.url}`)
    const [, path = "/elsewhere"] = /^\/board(\/.*)$/.exec(request.url ?? "") ?? []
    await passOn(await forward(request, url + path), response)
  })
  const job = await connectHttp(`${mounted}/board/`).submit("work", { meth: "echo", input: 2 })
  expect(await job.result(WAIT)).toBe(2)
  await expect(job.cancel({ terminate: true, release: false })).rejects.toMatchObject(refusal("already-terminal"))
  await job.delete({ dependents: true })
  expect([asked[0], ...asked.slice(-2)]).toEqual([
    "POST /board/v1/jobs",
    `POST /board/v1/jobs/${job.id}/cancel?terminate=true&release=false`,
    `DELETE /board/v1/jobs/${job.id}?dependents=true`,
  ])
})

test.each([null, 7, "work", [{ task: "work" }]])(
  "%j is refused as a task, as by a client over a transport",
  async (given) => {
    const { client } = await serving()
    const tasks: ReadonlyArray<never> = JSON.parse(JSON.stringify([{ task: "work", meth: "echo" }, given]))
    const refused = {
      ...refusal("invalid-input"),
      message: expect.stringContaining("a `task` field"),
      details: { index: 1 },
    }
    await expect(client.submitMany(tasks)).rejects.toMatchObject(refused)
  },
)

test("a failure is the error that a client over a transport throws", async () => {
  const { client } = await serving()
  const job = await client.submit("work", { meth: "fail" })
  const failed = await job.result(WAIT).catch((cause: unknown) => cause)
  expect(failed).toBeInstanceOf(JobFailed)
  expect(failed).toMatchObject({ id: job.id, error: { name: "TypeError", message: "no such thing" } })
  expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "TypeError" } })
  expect(await job.retry()).toMatchObject({ id: job.id, run: 2 })
  expect(await job.outcome(WAIT)).toMatchObject({ state: "failed" })
  await job.delete()
  await expect(job.find()).rejects.toMatchObject(refusal("gone"))
  expect(await job.outcome(WAIT)).toEqual({ state: "gone" })
})

test("what runs is cancelled, and a wait ends with its time or its signal", async () => {
  const { client } = await serving()
  const job = await client.submit("work", { meth: "hold" })
  await expect(job.result({ timeout: "200ms" })).rejects.toThrow(WaitTimeout)
  const stop = new AbortController()
  const waiting = expect(job.result({ signal: stop.signal })).rejects.toThrow("enough")
  stop.abort(new Error("enough"))
  await waiting
  expect(await job.cancel({ release: true })).toMatchObject({ state: "cancelled" })
  await expect(job.result(WAIT)).rejects.toThrow(JobCancelled)
  await expect(job.cancel()).rejects.toMatchObject(refusal("already-terminal"))
})

test("what is refused says why, and names the field", async () => {
  const { client } = await serving()
  await expect(client.submit("work", { meth: "echo", priority: 12 })).rejects.toMatchObject(
    refusal("invalid-input", "priority"),
  )
  expect((await fails(client.submit("work", { priority: 12 }))).details.outcome).toBe(undefined)
  await expect(client.submit("absent", {})).rejects.toMatchObject(refusal("unknown-actor"))
  await expect(client.submit("work", { meth: "echo", unique: "id" })).rejects.toMatchObject({
    code: "invalid-input",
    message: "unique: needs an `id` that no other job has",
  })
  await expect(client.submitMany([{ task: "work.echo" }, { task: "work.echo", unique: true }])).rejects.toMatchObject({
    code: "invalid-input",
    details: { field: "unique", index: 1 },
  })
  await expect(client.submit("work", { input: Symbol("x") })).rejects.toMatchObject(refusal("invalid-input"))
  await expect(client.job("absent").find()).rejects.toMatchObject(refusal("not-found"))
  await expect(client.job("absent").result(WAIT)).rejects.toMatchObject(refusal("not-found"))
  await expect(client.job("../info").find()).rejects.toMatchObject(refusal("not-found"))
  await expect(
    client.submitMany([
      { task: "work", meth: "echo" },
      { task: "work", meth: "echo", queue: "" },
    ]),
  ).rejects.toMatchObject({
    code: "invalid-input",
    details: { field: "queue", index: 1 },
  })
})

test("an id that an address cannot hold is not found, and no other route is asked", async () => {
  const { client } = await serving()
  const waits = await client.submit("work", { meth: "echo", delay: 60 })
  const board = client.board("builds")
  const posted = await board.post("compile")
  for (const id of ["", ".", ".."]) {
    const job = client.job(id)
    const calls: ReadonlyArray<() => Promise<unknown>> = [
      () => job.find(),
      () => job.cancel(),
      () => job.retry(),
      () => job.delete(),
      () => job.results(),
      () => job.patchMeta({}),
      () => job.result(WAIT),
      () => board.job(id),
      () => board.claim(id, "me"),
      () => board.consume(id, "me"),
      () => board.trashedJob(id),
      () => board.restore(id),
    ]
    for (const call of calls)
      expect(await fails(call())).toMatchObject({
        code: "not-found",
        message: `the id "${id}" cannot be used over HTTP`,
      })
    expect(await board.findOwner(id)).toBe(null)
  }
  expect([(await waits.find()).state, await posted.state()]).toEqual(["scheduled", "UNCLAIMED"])
})

test("what a board has no job for says how long it was waited for, in however many requests", async () => {
  const url = await listen((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://service")
    const what = pathname.endsWith("/claim")
      ? "no job of board builds can be claimed"
      : "there is no job on board builds"
    const detail = `${what}: waited ${Number.parseInt(searchParams.get("wait") ?? "", 10) / 1000} s`
    response.writeHead(404, { "content-type": "application/problem+json" })
    response.end(JSON.stringify({ type: "about:blank", title: "Not found", status: 404, code: "not-found", detail }))
  })
  const board = connectHttp(url).board("builds")
  expect((await fails(board.take("me", { wait: "50ms" }))).message).toBe(
    "no job of board builds can be claimed: waited 0.05 s",
  )
  expect((await fails(board.wait("50ms"))).message).toBe("there is no job on board builds: waited 0.05 s")
})

test("an array has an answer for each task", async () => {
  const { client } = await serving()
  expect(await client.submitMany([])).toEqual([])
  const inputs = [1, 2, 3]
  const receipts = await client.submitMany(inputs.map((input) => ({ task: "work", meth: "echo", input })))
  const ids = receipts.map((each) => {
    expect(each).toEqual({ id: expect.any(String), state: "queued", durability: expect.any(String) })
    return each instanceof CallboardError ? "" : each.id
  })
  expect(await Promise.all(ids.map((id) => client.job(id).result(WAIT)))).toEqual(inputs)
})

test("a service with tokens wants one that is known, and that may", async () => {
  const { url } = await start({
    http: {
      port: 0,
      tokens: [
        { token: "all", scopes: ["submit", "read"] },
        { token: "look", scopes: ["read"] },
      ],
    },
  })
  await connectHttp(url).health()
  await expect(connectHttp(url).submit("work")).rejects.toMatchObject(refusal("unauthorized"))
  await expect(connectHttp(url, { token: "wrong" }).submit("work")).rejects.toMatchObject(refusal("unauthorized"))
  await expect(connectHttp(url, { token: "look" }).submit("work")).rejects.toMatchObject(refusal("forbidden"))
  const job = await connectHttp(url, { token: "all" }).submit("work", { meth: "echo", input: 1 })
  expect(await job.result(WAIT)).toBe(1)
})

test("a task whose answer was lost counts once when it is submitted again with its id", async () => {
  const runs: Array<unknown> = []
  const counter = actor("counter", { methods: { run: (input: unknown) => void runs.push(input) } })
  const { url, client } = await serving({ actors: [counter] })
  let lose = true
  const between = await listen(async (request, response) => {
    const answer = await forward(request, `${url}${request.url}`)
    if (lose) request.socket.destroy()
    else await passOn(answer, response)
  })
  const lossy = connectHttp(between)
  const lost = await fails(lossy.submit("counter", { input: 1 }))
  expect(lost).toMatchObject({ code: "transport-unavailable", details: { outcome: "unknown", id: expect.any(String) } })
  const { id = "" } = lost.details
  expect(lost.message).toContain(`it is safe to submit it again with id ${id}`)
  const many = await lossy.submitMany([
    { task: "counter", input: 2 },
    { task: "counter", input: 3, id: "mine" },
  ])
  expect(many).toMatchObject([
    { code: "transport-unavailable", details: { outcome: "unknown", id: expect.any(String) } },
    { code: "transport-unavailable", details: { outcome: "unknown", id: "mine" } },
  ])
  lose = false
  const again = await lossy.submit("counter", { input: 1, id })
  expect(again.receipt).toMatchObject({ id, duplicate: true })
  await Promise.all([id, "mine"].map((each) => client.job(each).result(WAIT)))
  expect(runs.filter((input) => input === 1)).toEqual([1])
})

test("while the transport of the service is away, each task has its id and whether it may have been accepted", async () => {
  const { client, faults } = await serving()
  faults.before = (call) => {
    if (call === "jobs.publish") throw new TransportError("unavailable", "connection refused")
  }
  const lost = await fails(client.submit("work", { meth: "echo", id: "mine" }))
  expect(lost).toMatchObject({ code: "transport-unavailable", details: { id: "mine", outcome: "none" } })
  expect(lost.message.match(/is safe/g)).toHaveLength(1)
  const many = await client.submitMany(["a", "b"].map((id) => ({ task: "work", meth: "echo", id })))
  expect(many).toMatchObject(["a", "b"].map((id) => ({ _tag: "CallboardError", details: { id, outcome: "none" } })))
})

test("what was never sent was not accepted; what no service answers may have been", async () => {
  const nobody = connectHttp(`http://127.0.0.1:${await freePort()}`)
  expect(await fails(nobody.submit("work", { id: "mine" }))).toMatchObject({
    code: "transport-unavailable",
    details: { outcome: "none", id: "mine" },
  })
  await expect(nobody.health()).rejects.toMatchObject(refusal("transport-unavailable"))
  await expect(nobody.job("mine").result(WAIT)).rejects.toMatchObject(refusal("transport-unavailable"))
  for (const [status, text] of [
    [502, "<h1>Bad gateway</h1>"],
    [404, `{"message": "no such page"}`],
    [302, ""],
  ] as const) {
    const proxy = await listen((_request, response) => response.writeHead(status, { location: "/" }).end(text))
    expect(await fails(connectHttp(proxy).submit("work"))).toMatchObject({
      code: "transport-unavailable",
      message: expect.stringContaining(`status ${status}`),
      details: { outcome: "unknown", id: expect.any(String) },
    })
  }
  const silent = connectHttp(await listen(() => undefined), { timeout: "50 ms" })
  expect(await fails(silent.submit("work"))).toMatchObject({ details: { outcome: "unknown" } })
  const other = await listen((_request, response) => response.writeHead(202).end(`{"from": "another version"}`))
  expect(await fails(connectHttp(other).submit("work"))).toMatchObject({
    code: "internal",
    details: { outcome: "unknown" },
  })
})

test("a wait outlasts one request, and a service that is away for a while", async () => {
  const { url, client, release } = await serving()
  const job = await client.submit("work", { meth: "hold" })
  const polls: Array<string> = []
  const impatient = await listen(async (request, response) => {
    polls.push(request.url ?? "")
    if (polls.length === 3) release()
    if (polls.length === 2) response.writeHead(502).end("Bad gateway")
    else await passOn(await forward(request, `${url}${request.url?.replace(/\d+ms/, "10ms")}`), response)
  })
  expect(await connectHttp(impatient).job(job.id).result(WAIT)).toBe("released")
  expect(polls.length).toBeGreaterThanOrEqual(3)
  expect(polls[0]).toBe(`/v1/jobs/${job.id}/result?wait=20000ms`)
})

test("options that do not exist or cannot be are refused by name", async () => {
  const url = "http://127.0.0.1:7420"
  const mistyped = { tokn: "secret", timeout: 9 }
  expect(() => connectHttp(url, mistyped)).toThrow("tokn is not an option of connectHttp() (did you mean token?)")
  expect(() => connectHttp(url, { token: "" })).toThrow(/^token: /)
  expect(() => connectHttp(url, { timeout: 0 })).toThrow(/^timeout: /)
  for (const wrong of ["127.0.0.1:7420", "nats://localhost", "http://me:secret@localhost", `${url}/?token=secret`]) {
    expect(() => connectHttp(wrong)).toThrow(/^url: (?!.*secret)/)
  }
  await expect(connect(url)).rejects.toThrow(/use connectHttp\(\) of callboard\/client/)
})

describe("an answer that says nothing of what was asked", () => {
  const asked: Readonly<Record<string, (client: HttpClient) => Promise<unknown>>> = {
    find: (client) => client.job("x").find(),
    result: (client) => client.job("x").result(WAIT),
    results: (client) => client.job("x").results(),
    cancel: (client) => client.job("x").cancel(),
    retry: (client) => client.job("x").retry(),
    patchMeta: (client) => client.job("x").patchMeta({}),
    delete: (client) => client.job("x").delete(),
    submit: (client) => client.submit("work"),
    health: (client) => client.health(),
    "schedules.find": (client) => client.schedules.find("s"),
    "schedules.list": (client) => client.schedules.list(),
    "schedules.run": (client) => client.schedules.run("s"),
    "board.post": (client) => client.board("b").post("x"),
    "board.take": (client) => client.board("b").take("me"),
    "board.count": (client) => client.board("b").count(),
    "board.list": (client) => client.board("b").list(),
    "board.waitFor": (client) => client.board("b").waitFor("x", { timeout: "10 seconds" }),
    "board.consume": (client) => client.board("b").consume("x", "me"),
    "board.extendExpiry": (client) => client.board("b").extendExpiry("x", 5),
    "board.entities": (client) => client.board("b").entities(),
    "board.trashed": (client) => client.board("b").trashed(),
  }

  test.each(["{}", "[]", "", '{"id":"x","state":"weird"}'])("is refused after one request: %s", async (text) => {
    let requests = 0
    const url = await listen((_request, response) => {
      requests++
      response.end(text)
    })
    const client = connectHttp(url)
    // Nothing is said of a deletion that is done.
    const names = Object.keys(asked).filter((name) => !(text === "" && name === "delete"))
    for (const name of text.includes("state") ? ["result", "submit"] : names) {
      requests = 0
      const { code } = await fails(asked[name]?.(client) ?? Promise.resolve())
      expect({ name, code, requests }).toEqual({ name, code: "internal", requests: 1 })
    }
  })
})
