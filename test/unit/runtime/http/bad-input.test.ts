/** Bad input: each kind gets a clear error with a code, and the next request is served. */

import { connect as openSocket } from "node:net"
import type { Log } from "callboard"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { type AskOptions, type Running, start, stopAll } from "./harness.ts"

const MAX_BODY = 64 * 1024

let running: Running
beforeAll(async () => {
  running = await start({ maxBody: MAX_BODY })
})
afterAll(stopAll)

const deep = (depth: number): string => `{"task":"work.echo","input":${"[".repeat(depth)}${"]".repeat(depth)}}`
const past = new Date(Date.now() - 60_000).toISOString()
const msgpack = { "content-type": "application/msgpack" }

// Nested arrays of one element, deeper than the library would write them.
const deepMsgpack = new Uint8Array(5_000).fill(0x91)

type Case = readonly [what: string, options: AskOptions, status: number, problem: object]

const task = (fields: object): AskOptions => ({ body: { task: "work.echo", ...fields } })

describe("POST /v1/jobs", () => {
  const cases: ReadonlyArray<Case> = [
    ["an empty body", { body: "" }, 400, { code: "invalid-json" }],
    ["malformed JSON", { body: '{"task": "work.echo"' }, 400, { code: "invalid-json" }],
    ["JSON with something behind it", { body: '{"task":"work.echo"} x' }, 400, { code: "invalid-json" }],
    ["bytes that are not UTF-8", { body: new Uint8Array([0x7b, 0xff, 0xfe, 0x7d]) }, 400, { code: "invalid-json" }],
    ["JSON that lies too deep", { body: deep(500) }, 400, { code: "invalid-input" }],
    ["JSON that lies very much too deep", { body: deep(20_000) }, 400, { code: "invalid-input" }],
    [
      "malformed msgpack",
      { body: new Uint8Array([0x81, 0xa4, 0x74]), headers: msgpack },
      400,
      { code: "invalid-input" },
    ],
    [
      "msgpack with a reserved byte",
      { body: new Uint8Array([0xc1]), headers: msgpack },
      400,
      { code: "invalid-input" },
    ],
    ["msgpack that lies too deep", { body: deepMsgpack, headers: msgpack }, 400, { code: "invalid-input" }],
    ["text instead of a task", { body: '"work.echo"' }, 400, { code: "invalid-input" }],
    ["null", { body: "null" }, 400, { code: "invalid-input" }],
    ["an empty array", { body: [] }, 400, { code: "invalid-input" }],
    ["an array in an array", { body: [[]] }, 400, { code: "invalid-input", index: 0 }],
    ["too many tasks", { body: Array(1_001).fill({ task: "work.echo" }) }, 413, { code: "too-large" }],
    ["no task", { body: {} }, 400, { code: "invalid-input", field: "task" }],
    ["a task that is no text", { body: { task: 7 } }, 400, { code: "invalid-input", field: "task" }],
    ["a task without a name", { body: { task: "" } }, 400, { code: "invalid-input", field: "task" }],
    ["an unknown field", task({ colour: "red" }), 400, { code: "unknown-field", field: "colour" }],
    ["an unknown field inside", task({ retry: { often: 3 } }), 400, { code: "unknown-field", field: "retry.often" }],
    ["a field of a later version", task({ key: "a" }), 400, { code: "unsupported", field: "key" }],
    ["input and kwargs", task({ input: {}, kwargs: {} }), 400, { code: "invalid-input", field: "input" }],
    ["args that are no list", task({ args: {} }), 400, { code: "invalid-input", field: "args" }],
    ["kwargs that are a list", task({ kwargs: [] }), 400, { code: "invalid-input", field: "kwargs" }],
    ["an id with a blank", task({ id: "a b" }), 400, { code: "invalid-input", field: "id" }],
    ["an empty id", task({ id: "" }), 400, { code: "invalid-input", field: "id" }],
    ["an id that is too long", task({ id: "a".repeat(129) }), 400, { code: "invalid-input", field: "id" }],
    ["a queue with a blank", task({ queue: "a b" }), 400, { code: "invalid-input", field: "queue" }],
    ["a queue with a wildcard", task({ queue: "a.*" }), 400, { code: "invalid-input", field: "queue" }],
    ["a queue that is too long", task({ queue: "q".repeat(200) }), 400, { code: "invalid-input", field: "queue" }],
    ["a priority of 10", task({ priority: 10 }), 400, { code: "invalid-input", field: "priority" }],
    ["a priority with a fraction", task({ priority: 1.5 }), 400, { code: "invalid-input", field: "priority" }],
    ["an expiry that has passed", task({ expires: past }), 400, { code: "invalid-input", field: "expires" }],
    ["an expiry of no time", task({ expires: 0 }), 400, { code: "invalid-input", field: "expires" }],
    ["an expiry that is no time", task({ expires: "soon" }), 400, { code: "invalid-input", field: "expires" }],
    ["an eta that is no time", task({ eta: "2031-13-01" }), 400, { code: "invalid-input", field: "eta" }],
    ["a delay without a unit's name", task({ delay: "5 parsecs" }), 400, { code: "invalid-input", field: "delay" }],
    ["a negative delay", task({ delay: -1 }), 400, { code: "invalid-input", field: "delay" }],
    ["a delay of a thousand years", task({ delay: 1e12 }), 400, { code: "invalid-input", field: "delay" }],
    ["delay and eta", task({ delay: 1, eta: "2031-01-01" }), 400, { code: "invalid-input", field: "delay" }],
    ["a time limit of nothing", task({ timeLimit: 0 }), 400, { code: "invalid-input", field: "timeLimit.hard" }],
    ["a standard header", task({ headers: { task: "x" } }), 400, { code: "invalid-input", field: "headers.task" }],
    ["meta that is no object", task({ meta: [1] }), 400, { code: "invalid-input", field: "meta" }],
    [
      "meta with what JSON has no form for",
      { body: `{"task":"work.echo","meta":{"n":${"9".repeat(20)}}}` },
      400,
      { code: "invalid-input" },
    ],
    ["one task that is too large", task({ input: "x".repeat(MAX_BODY) }), 413, { code: "too-large" }],
    [
      "one of several that is too large",
      { body: [{ task: "work.echo" }, { task: "work.echo", input: "x".repeat(MAX_BODY) }] },
      413,
      { code: "too-large", index: 1 },
    ],
    [
      "an array that is too large",
      { body: Array(20).fill({ task: "x".repeat(MAX_BODY) }) },
      413,
      { code: "too-large" },
    ],
    ["no content type", { body: "{}", headers: { "content-type": "" } }, 415, { code: "unsupported-content-type" }],
    ...["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/x-python-serialize"].map(
      (type): Case => [
        `the content type ${type}`,
        { body: '{"task":"work.echo"}', headers: { "content-type": type } },
        415,
        { code: "unsupported-content-type", field: "Content-Type" },
      ],
    ),
    [
      "another charset",
      { body: "{}", headers: { "content-type": "application/json; charset=latin1" } },
      415,
      { code: "unsupported-content-type" },
    ],
    [
      "a compressed body",
      { body: "{}", headers: { "content-encoding": "gzip" } },
      415,
      { code: "unsupported-content-type", field: "Content-Encoding" },
    ],
    ["an unknown parameter", {}, 400, { code: "unknown-field", field: "wait" }],
    [
      "an Idempotency-Key with a blank",
      { body: { task: "work.echo" }, headers: { "idempotency-key": "a b" } },
      400,
      { code: "invalid-input", field: "Idempotency-Key" },
    ],
    [
      "an Idempotency-Key that is not ASCII",
      { body: { task: "work.echo" }, headers: { "idempotency-key": "schl\u00fcssel" } },
      400,
      { code: "invalid-input", field: "Idempotency-Key" },
    ],
    [
      "an Idempotency-Key that is too long",
      { body: { task: "work.echo" }, headers: { "idempotency-key": "k".repeat(256) } },
      400,
      { code: "invalid-input", field: "Idempotency-Key" },
    ],
  ]
  test.each(cases)("%s", async (what, options, status, problem) => {
    const path = what === "an unknown parameter" ? "/v1/jobs?wait=3" : "/v1/jobs"
    const response = await running.ask("POST", path, options)
    expect(response).toMatchObject({ status, body: { ...problem, status, detail: expect.stringMatching(/./) } })
    expect(response.headers.get("content-type")).toBe("application/problem+json")
    expect(response.body).not.toHaveProperty("stack")
    // The next request is served.
    expect(await running.submit({ task: "work.echo", input: 1 }, { prefer: "wait=5" })).toMatchObject({ status: 200 })
  })

  test("a refusal says what a field must be", async () => {
    const detail = async (body: object) => (await running.ask("POST", "/v1/jobs", { body })).body.detail
    expect(await detail({})).toMatch(/^task: is missing: .*1 to 255 characters$/)
    expect(await detail({ task: "work.echo", priority: 10 })).toMatch(/^priority: .*0 to 9$/)
  })

  test("a length that is too large is refused before anything is read", async () => {
    const response = await rawRequest(
      "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 999999999999\r\n\r\n{",
    )
    expect(response).toMatch(/^HTTP\/1.1 413 /)
    expect(response).toContain('"too-large"')
  })

  test("a body without an end is refused once there is too much of it", async () => {
    let sent = 0
    const body = new ReadableStream({
      pull(controller) {
        sent += 16 * 1024
        controller.enqueue(new Uint8Array(16 * 1024).fill(0x20))
      },
    })
    const request = fetch(`${running.url}/v1/jobs`, {
      method: "POST",
      body,
      headers: { "content-type": "application/json" },
      duplex: "half",
    } as RequestInit)
    // The service may close the connection while the client still sends. It has read a bounded part in either case.
    const status = await request.then(
      (response) => response.status,
      () => 413,
    )
    expect(status).toBe(413)
    expect(sent).toBeLessThan(64 * 1024 * 1024)
  })

  test("header bytes that are not UTF-8 do no harm", async () => {
    const response = await rawRequest(
      Buffer.concat([
        Buffer.from(
          "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nPrefer: ",
        ),
        Buffer.from([0xff, 0xfe, 0xc3]),
        Buffer.from('\r\nContent-Length: 20\r\n\r\n{"task":"work.echo"}'),
      ]),
    )
    expect(response).toMatch(/^HTTP\/1.1 (202|400) /)
    expect(await running.submit({ task: "work.echo" })).toMatchObject({ status: 202 })
  })

  test.each([
    '{"task":"work.echo","input":{"__proto__":{"polluted":1}}}',
    '{"task":"work.echo","input":{"a":[{"constructor":{"prototype":1}}]}}',
    '{"task":"work.echo","__proto__":{"id":"x y"}}',
  ])("%s: keys that may change JavaScript's own objects are refused by name", async (body) => {
    expect(await running.ask("POST", "/v1/jobs", { body })).toMatchObject({
      status: 400,
      body: { code: "invalid-json", detail: expect.stringMatching(/the key (__proto__|constructor) is refused/) },
    })
  })
})

/** Sends bytes as they are, and returns what comes within a moment. */
const rawRequest = (bytes: string | Uint8Array): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = openSocket(Number(new URL(running.url).port), "127.0.0.1", () => socket.write(bytes))
    let text = ""
    const done = () => {
      socket.destroy()
      resolve(text)
    }
    socket.setEncoding("utf8").setTimeout(5_000, done)
    socket.on("data", (chunk) => {
      text += String(chunk)
      if (/\r\n\r\n.*\}/s.test(text)) done()
    })
    socket.on("close", () => resolve(text))
    socket.on("error", reject)
  })

describe("other routes", () => {
  test.each([
    ["GET", "/v1/jobs?state=sleeping", 400, { code: "invalid-input", field: "state" }],
    ["GET", "/v1/jobs?state=", 400, { code: "invalid-input", field: "state" }],
    ["GET", "/v1/jobs?colour=red", 400, { code: "unknown-field", field: "colour" }],
    ["GET", "/v1/jobs?__proto__=1", 400, { code: "unknown-field" }],
    ["GET", "/v1/jobs?limit=0", 400, { code: "invalid-input", field: "limit" }],
    ["GET", "/v1/jobs?limit=1001", 400, { code: "invalid-input", field: "limit" }],
    ["GET", "/v1/jobs?limit=ten", 400, { code: "invalid-input", field: "limit" }],
    ["GET", "/v1/jobs?limit=1.5", 400, { code: "invalid-input", field: "limit" }],
    ["GET", "/v1/jobs?limit=5&limit=6", 400, { code: "invalid-input", field: "limit" }],
    ["GET", "/v1/jobs?cursor=nonsense", 400, { code: "invalid-input", field: "cursor" }],
    ["POST", "/v1/jobs/retry?until=2026-01-01T00:00:00Z", 400, { code: "invalid-input", field: "state" }],
    ["POST", "/v1/jobs/retry?state=failed&expect=-1", 400, { code: "invalid-input", field: "expect" }],
    ["POST", "/v1/jobs/retry?state=failed&budget=1s", 400, { code: "unknown-field", field: "budget" }],
    ["GET", "/v1/jobs/x?with=secrets", 400, { code: "invalid-input", field: "with" }],
    ["GET", "/v1/jobs/x/tree?limit=0", 400, { code: "invalid-input", field: "limit" }],
    ["GET", "/v1/jobs?stat=failed", 400, { code: "unknown-field", field: "stat" }],
    ["GET", "/v1/jobs?budget=1ms", 400, { code: "invalid-input", field: "budget" }],
    ["GET", "/v1/jobs?budget=1h", 400, { code: "invalid-input", field: "budget" }],
    ["GET", "/v1/jobs?budget=soon", 400, { code: "invalid-input", field: "budget" }],
    ["GET", "/v1/jobs?since=yesterday", 400, { code: "invalid-input", field: "since" }],
    ["GET", "/v1/jobs?until=2026-02-31T00:00:00Z", 400, { code: "invalid-input", field: "until" }],
    ["GET", "/v1/jobs?idEnds=1", 400, { code: "invalid-input", field: "idEnds" }],
    ["GET", "/v1/jobs?error=%00", 400, { code: "invalid-input", field: "error" }],
    ["GET", "/v1/jobs?count=1", 400, { code: "invalid-input", field: "count" }],
    ["GET", "/v1/jobs?queue=", 400, { code: "invalid-input", field: "queue" }],
    ["GET", "/v1/dead?state=failed", 400, { code: "unknown-field", field: "state" }],
    ["GET", "/v1/dead?cursor=nonsense", 400, { code: "invalid-input", field: "cursor" }],
    ["POST", "/v1/jobs/cancel", 400, { code: "invalid-input", field: "state" }],
    ["POST", "/v1/jobs/cancel?limit=5", 400, { code: "invalid-input", field: "state" }],
    ["POST", "/v1/jobs/cancel?state=succeeded", 400, { code: "invalid-input", field: "state" }],
    ["POST", "/v1/jobs/cancel?state=queued&cursor=nonsense", 400, { code: "invalid-input", field: "cursor" }],
    ["POST", "/v1/jobs/retry?state=queued", 400, { code: "invalid-input", field: "state" }],
    ["GET", "/v1/jobs/unheard-of", 404, { code: "not-found", id: "unheard-of" }],
    ["GET", "/v1/jobs/unheard-of/result", 404, { code: "not-found" }],
    ["GET", "/v1/jobs/unheard-of/result?wait=1s", 404, { code: "not-found" }],
    ["GET", "/v1/jobs/unheard-of/result?wait=61", 400, { code: "invalid-input", field: "wait" }],
    ["GET", "/v1/jobs/unheard-of/result?wait=-1", 400, { code: "invalid-input", field: "wait" }],
    ["GET", "/v1/jobs/unheard-of/events", 404, { code: "not-found" }],
    ["POST", "/v1/jobs/unheard-of/cancel", 404, { code: "not-found" }],
    ["POST", "/v1/jobs/unheard-of/retry", 404, { code: "not-found" }],
    ["DELETE", "/v1/jobs/unheard-of", 404, { code: "not-found" }],
    ["POST", "/v1/dead/unheard-of/redrive", 404, { code: "not-found" }],
    ["GET", `/v1/jobs/${"x".repeat(256)}`, 400, { code: "invalid-input", field: "id" }],
    ["GET", "/v1/jobs/%ED%A0%80", 404, { code: "not-found" }],
    ["GET", "/v1/jobs/a%2Fb%20%E2%82%AC", 404, { code: "not-found", id: "a/b €" }],
    ["GET", "/v1/jobs/", 404, { code: "not-found" }],
    ["GET", "/v1/nothing", 404, { code: "not-found" }],
    ["GET", "/v1/jobs/a/why", 404, { code: "not-found" }],
    ["GET", "/metric", 404, { code: "not-found" }],
    ["GET", "/../../etc/passwd", 404, { code: "not-found" }],
  ])("%s %s", async (method, path, status, problem) => {
    expect(await running.ask(method, path)).toMatchObject({ status, body: { status, ...problem } })
  })

  test.each([
    ["/v1/jobs?idEnds=1", "idEnds: must be eight hexadecimal characters"],
    ["/v1/jobs?error=%00", "error: must be a fingerprint: 1 to 64 letters, digits, - and _"],
    ["/v1/events?types=a%20b", "types: must be types of events such as task-failed, or prefixes such as worker-*"],
  ])("%s says what is wanted, and not by which pattern", async (path, detail) => {
    expect((await running.ask("GET", path)).body.detail).toBe(detail)
  })

  test("each of them refuses a parameter that it does not have, by its name, before anything is done", async () => {
    const { paths } = (await running.ask("GET", "/openapi.json")).body
    const routes = Object.entries<object>(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => [method.toUpperCase(), path.replaceAll(/\{\w+\}/g, "x")] as const),
    )
    const strict = routes.filter(([, path]) => path.startsWith("/v1/"))
    expect(strict.length).toBeGreaterThan(60)
    const lenient: Array<string> = []
    for (const [method, path] of strict) {
      const { status, body } = await running.ask(method, `${path}?colour=red`)
      if (status !== 400 || body?.code !== "unknown-field" || body.field !== "colour") lenient.push(`${method} ${path}`)
    }
    expect(lenient).toEqual([])
  })

  test.each([
    ["PUT", "/v1/jobs", "POST, GET, HEAD"],
    ["POST", "/v1/jobs/a", "GET, HEAD, DELETE"],
    ["GET", "/v1/jobs/a/cancel", "POST"],
    ["PUT", "/v1/jobs/cancel", "GET, HEAD, DELETE, POST"],
    ["POST", "/v1/info", "GET, HEAD"],
    ["OPTIONS", "/v1/jobs", "POST, GET, HEAD"],
    ["DELETE", "/", "GET, HEAD"],
  ])("%s %s is answered with the methods that there are", async (method, path, allow) => {
    const response = await running.ask(method, path)
    expect(response).toMatchObject({ status: 405, body: { code: "unsupported", status: 405 } })
    expect(response.headers.get("allow")).toBe(allow)
  })

  test.each([
    ['{"a":', 400, { code: "invalid-json" }],
    ["[1]", 400, { code: "invalid-input" }],
  ])("PATCH meta with %s", async (body, status, problem) => {
    expect(await running.ask("PATCH", "/v1/jobs/a/meta", { body })).toMatchObject({ status, body: problem })
  })
})

test("a client that hangs up in the middle of its body is no error of the service", async () => {
  const errors: Array<string> = []
  const log: Log = {
    level: "error",
    enabled: () => true,
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: (message) => void errors.push(message),
    with: () => log,
  }
  const { url, submit } = await start({ log })
  const { hostname, port } = new URL(url)
  for (const head of ["Content-Length: 1000\r\n\r\n{", 'Transfer-Encoding: chunked\r\n\r\n2\r\n{"\r\n']) {
    await new Promise<void>((resolve) => {
      const socket = openSocket(Number(port), hostname, () => {
        const request = `POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${head}`
        socket.write(request, () => setTimeout(() => socket.destroy(), 100))
      })
      socket.once("close", () => resolve())
    })
  }
  expect((await submit({ task: "work.echo" }, { prefer: "wait=5" })).status).toBe(200)
  expect(errors).toEqual([])
})

test.each(["/v1/jobs/%ZZ", "/v1/jobs/%E0%A4/result", "/%ZZ"])("%s is not found", async (path) => {
  const { url } = await start()
  expect((await fetch(`${url}${path}`)).status).toBe(404)
})

describe("a body on a route that takes none", () => {
  test.each<readonly [string, string]>([
    ["POST", "/v1/queues/default/purge"],
    ["POST", "/v1/dead/redrive"],
    ["POST", "/v1/workers/suspend"],
    ["POST", "/v1/jobs/kept/cancel"],
    ["POST", "/v1/jobs/kept/retry"],
    ["DELETE", "/v1/jobs/kept"],
  ])("is refused, and nothing is done: %s %s", async (method, path) => {
    const { ask } = running
    await ask("POST", "/v1/jobs", { body: { task: "work.echo", id: "kept", delay: "1h" } })
    for (const body of [{ dryRun: true }, "terminate", "x".repeat(1_000), new Uint8Array(300)]) {
      expect(await ask(method, path, { body })).toMatchObject({
        status: 400,
        body: { code: "unknown-field", detail: expect.stringContaining("takes no body") },
      })
    }
    expect((await ask("GET", "/v1/jobs/kept")).body).toMatchObject({ state: "scheduled" })
  })

  test("is passed over if it is empty", async () => {
    const { ask } = running
    for (const body of ["", "{}", " {} "])
      expect(await ask("POST", "/v1/queues/other/resume", { body })).toMatchObject({ status: 204 })
  })
})
