/** Access to routes: tokens with their scopes, and what protects a service without tokens. */
import { connect as openSocket } from "node:net"
import { actor, type Token, type TokenScope } from "callboard"
import { afterAll, describe, expect, test } from "vitest"
import { routes } from "../../../../runtime/http/app.ts"
import { generateId } from "../../../../runtime/id.ts"
import { eventually } from "../../../support/servers/process.ts"
import { type Running, start, stopAll } from "./harness.ts"

afterAll(stopAll)

const READ = "read-0123456789"
const SUBMIT = "submit-0123456789"
const ADMIN = "admin-0123456789"
const OPERATE = "operate-0123456789"
const OUTLINE = "outline-0123456789"
const tokens: ReadonlyArray<Token> = [
  { token: READ, scopes: ["read"], name: "dashboard" },
  { token: SUBMIT, scopes: ["submit"] },
  { token: OPERATE, scopes: ["operate"] },
  { token: OUTLINE, scopes: ["read", "no-payload"], name: "on call" },
  // The token with all scopes comes last, because its requests may end the service.
  { token: ADMIN, scopes: ["admin"] },
]
/** Starts a service at the first call, for all cases that share it. */
const once = (begin: () => Promise<Running>): (() => Promise<Running>) => {
  let running: Promise<Running> | undefined
  return () => {
    running ??= begin()
    return running
  }
}
const ofItsOwn = () => start({ http: { port: 0, tokens } })
const withTokens = once(ofItsOwn)
const TASK = { task: "work.echo" }

describe("with tokens", () => {
  test.each([
    ["none", {}],
    ["an unknown one", { authorization: "Bearer nonsense" }],
    ["the beginning of one", { authorization: `Bearer ${READ.slice(0, -1)}` }],
    ["one with more behind it", { authorization: `Bearer ${READ}x` }],
    ["an empty one", { authorization: "Bearer " }],
    ["another scheme", { authorization: `Basic ${btoa(`user:${READ}`)}` }],
    ["the token alone", { authorization: READ }],
  ])("%s: 401 with a challenge", async (_what, headers) => {
    const { ask } = await withTokens()
    const response = await ask("GET", "/v1/jobs", { headers })
    expect(response).toMatchObject({ status: 401, body: { code: "unauthorized" } })
    expect(response.headers.get("www-authenticate")).toMatch(/^Bearer /)
    expect(response.text).not.toContain(READ)
  })

  test("the scheme may be written in any case", async () => {
    const { ask } = await withTokens()
    expect((await ask("GET", "/v1/jobs", { headers: { authorization: `bearer ${READ}` } })).status).toBe(200)
  })

  const concrete = (path: string) => path.replace("{id}", "unheard-of")
  test.each(
    routes
      .filter(({ scope }) => scope !== undefined && scope !== "any")
      .map((route) => [route.method, route.path, route.scope, route.showsPayload]),
  )("%s %s needs the scope %s, and admin has them all", async (method, path, scope, showsPayload) => {
    if (method === undefined || path === undefined) throw new Error("a route has a method and a path")
    const running = await (path.endsWith("/shutdown") ? ofItsOwn() : withTokens())
    for (const { token, scopes } of tokens) {
      const lacksPayload = showsPayload === true && scopes.includes("no-payload")
      const mayBe = (scopes[0] === scope && !lacksPayload) || scopes[0] === "admin"
      const lacking = scopes[0] === scope ? "payload" : scope
      // A stream would never end, so only its headers are requested.
      const how = path.endsWith("/events") ? "HEAD" : method
      const response = await running.ask(how, concrete(path), { token, ...(method === "PATCH" ? { body: {} } : {}) })
      if (mayBe) expect([401, 403]).not.toContain(response.status)
      else {
        expect(response.status).toBe(403)
        expect(response.headers.get("www-authenticate")).toContain(`scope="${lacking}"`)
        if (how !== "HEAD")
          expect(response.body).toMatchObject({
            code: "forbidden",
            scope: lacking,
            detail: expect.stringContaining(`${lacking}`),
          })
      }
    }
  })

  test("a token is told who it is and what it may do", async () => {
    const { ask } = await withTokens()
    const me = async (token: string) => (await ask("GET", "/v1/me", { token })).body
    expect(await me(READ)).toMatchObject({ name: "dashboard", scopes: ["read", "payload"], open: false, zone: "UTC" })
    expect(await me(OUTLINE)).toMatchObject({ name: "on call", scopes: ["read"] })
    expect(await me(ADMIN)).toMatchObject({ scopes: ["read", "payload", "submit", "operate", "admin"] })
    expect((await me(SUBMIT)).features).toEqual(expect.arrayContaining(["jobs", "queues", "schedules", "dead"]))
    expect((await ask("GET", "/v1/me")).status).toBe(401)
  })

  test("a token without payload sees no field of what a job was given or gave back", async () => {
    const { ask } = await withTokens()
    const secrets = {
      input: { pin: "s3cret" },
      meta: { by: "s3cret" },
      headers: { tenant: "s3cret" },
      details: { of: "s3cret" },
    }
    for (const method of ["echo", "fail"]) {
      const sent = { task: `work.${method}`, id: method, ...secrets }
      expect((await ask("POST", "/v1/jobs", { token: SUBMIT, body: sent })).status).toBe(202)
      const paths = [
        "/v1/jobs",
        `/v1/pulse?ids=${method}`,
        ...["", "/result?wait=20s", "/results", "/events", "/why", "/tree"].map((end) => `/v1/jobs/${method}${end}`),
      ]
      await ask("GET", `/v1/jobs/${method}/result?wait=20s`, { token: READ })
      expect((await ask("GET", `/v1/jobs/${method}`, { token: READ })).text).toContain("s3cret")
      for (const path of paths) {
        const { status, text } = await ask("GET", path, { token: OUTLINE })
        expect({ path, status, isHidden: !text.includes("s3cret") }).toEqual({ path, status: 200, isHidden: true })
      }
    }
    const asked = await ask("GET", "/v1/jobs/fail?with=input", { token: OUTLINE })
    expect(asked).toMatchObject({ status: 403, body: { code: "forbidden", scope: "payload" } })
    for (const path of ["/v1/revocations", "/v1/limits/work.echo/keys"])
      expect(await ask("GET", path, { token: OUTLINE })).toMatchObject({ status: 403, body: { scope: "payload" } })
    const failed = await ask("GET", "/v1/jobs/fail", { token: OUTLINE })
    expect(failed.body).toMatchObject({ state: "failed", description: "work.fail(…)", error: { name: "TypeError" } })
    // A token that may decide but not read gets an answer without these fields as well.
    const again = await ask("POST", "/v1/jobs/fail/retry", { token: OPERATE })
    expect(again.status).toBe(200)
    expect(again.text).not.toContain("s3cret")
    const weekly = { name: "weekly", cron: "0 7 * * mon", task: "work.echo", ...secrets }
    expect((await ask("POST", "/v1/schedules", { token: ADMIN, body: weekly })).text).toContain("s3cret")
    for (const decision of ["pause", "resume"]) {
      const decided = await ask("POST", `/v1/schedules/weekly/${decision}`, { token: OPERATE })
      expect(decided.body).toMatchObject({ name: "weekly", fields: { task: "work.echo", cron: "0 7 * * mon" } })
      expect(decided.text).not.toContain("s3cret")
    }
  })

  test("why a job waits names the value of a limit's key only to a token that sees input", async () => {
    const limited = actor("limited", {
      methods: {
        hold: {
          limit: { concurrency: 1, key: "tenant" },
          run: (_input: unknown, job) => new Promise((resolve) => job.signal.addEventListener("abort", resolve)),
        },
      },
    })
    const { ask } = await start({ actors: [limited], http: { port: 0, tokens } })
    for (const id of ["first", "second"]) {
      await ask("POST", "/v1/jobs", { token: SUBMIT, body: { task: "limited.hold", id, input: { tenant: "s3cret" } } })
    }
    const waiting = await eventually(async () => {
      const answers = await Promise.all(
        ["first", "second"].map(async (id) => ({ id, ...(await ask("GET", `/v1/jobs/${id}/why`, { token: READ })) })),
      )
      return answers.find(({ body }) => body.causes[0].code === "tenant-limit")
    })
    expect(waiting.text).toContain("s3cret")
    const { text, body } = await ask("GET", `/v1/jobs/${waiting.id}/why`, { token: OUTLINE })
    expect(body.causes[0]).toMatchObject({ code: "tenant-limit" })
    expect(text).not.toContain("s3cret")
  })

  test("health, readiness and the description need none", async () => {
    const { ask } = await withTokens()
    for (const path of ["/healthz", "/readyz", "/openapi.json", "/"]) expect((await ask("GET", path)).status).toBe(200)
  })

  test("who may submit and not read does not get results by Prefer: wait", async () => {
    const { ask } = await withTokens()
    const options = { body: TASK, headers: { prefer: "wait=5" } }
    expect((await ask("POST", "/v1/jobs", { ...options, token: SUBMIT })).status).toBe(202)
    expect((await ask("POST", "/v1/jobs", { ...options, token: ADMIN })).status).toBe(200)
  })

  test("who may not read jobs, with their results, names none as a parent that a handler then reads", async () => {
    const submitOutline = "submit-outline-0123456789"
    const submitRead = "submit-read-0123456789"
    const { ask } = await start({
      actors: [
        actor("work", {
          methods: { echo: (input: unknown) => input, look: async (_input: unknown, job) => await job.parent() },
        }),
      ],
      http: {
        port: 0,
        tokens: [
          ...tokens,
          { token: submitOutline, scopes: ["submit", "read", "no-payload"] },
          { token: submitRead, scopes: ["submit", "read"] },
        ],
      },
    })
    const secret = await ask("POST", "/v1/jobs", { token: ADMIN, body: { task: "work.echo", input: "secret" } })
    const parentId = secret.body.id
    const spy = { task: "work.look", parentId }
    const post = (token: string, body: unknown) =>
      ask("POST", "/v1/jobs", { token, body, headers: { prefer: "wait=9" } })
    const refused = (scope: string, field: string) => ({
      status: 403,
      body: { code: "forbidden", scope, field, detail: expect.stringContaining(`lacks the scope ${scope}`) },
    })
    expect(await post(SUBMIT, spy)).toMatchObject(refused("read", "parentId"))
    expect(await post(submitOutline, spy)).toMatchObject(refused("payload", "parentId"))
    expect(await post(SUBMIT, [TASK, spy])).toMatchObject({ ...refused("read", "parentId"), body: { index: 1 } })
    const inChord = { ...TASK, chord: [{ ...TASK, chord: [spy] }] }
    expect(await post(SUBMIT, inChord)).toMatchObject(refused("read", "chord[0].chord[0].parentId"))
    expect(await post(SUBMIT, { ...TASK, callbacks: [spy] })).toMatchObject({ status: 400 })
    expect(await post(submitRead, spy)).toMatchObject({
      status: 200,
      body: { result: { id: parentId, result: "secret" } },
    })
  })

  test("any name of the host is answered, and pages of other origins too: the token is what counts", async () => {
    const running = await withTokens()
    const response = await raw(running, [
      "POST /v1/jobs HTTP/1.1",
      "Host: board.example.com",
      "Origin: https://app.example.com",
      `Authorization: Bearer ${SUBMIT}`,
      "Content-Type: application/json",
    ])
    expect(response).toMatch(/^HTTP\/1.1 202 /)
  })

  test.each([
    ["an empty token", [{ token: "", scopes: ["read"] }]],
    ["a token with a blank", [{ token: "a b", scopes: ["read"] }]],
    ["no scopes", [{ token: "secret-token", scopes: [] }]],
    ["a scope that goes against another", [{ token: "secret-token", scopes: ["admin", "no-payload"] }]],
    ["nothing but what it must not", [{ token: "secret-token", scopes: ["no-payload"] }]],
    ["an unknown scope", [{ token: "secret-token", scopes: ["root"] }]],
    ["one token twice", [tokens[0], tokens[0]]],
  ])("%s: refuses to start, and does not tell the token", async (_what, wrong) => {
    const starting = start({ http: { port: 0, tokens: wrong as ReadonlyArray<Token> } })
    await expect(starting).rejects.toMatchObject({
      code: "invalid-input",
      message: expect.stringContaining("http.tokens"),
    })
    await expect(starting).rejects.not.toMatchObject({ message: expect.stringMatching(/secret-token|0123456789/) })
  })
})

test("a token that has lost a scope is told which, and goes on with what is left; one that was taken away is no one's", async () => {
  const transport = `memory://${generateId()}`
  const restarted = (scopes: ReadonlyArray<TokenScope> | undefined) => {
    const given = scopes === undefined ? [] : [{ token: OPERATE, scopes }]
    return start({ transport, actors: [], http: { port: 0, tokens: [...given, { token: ADMIN, scopes: ["admin"] }] } })
  }
  const requests = ["POST /v1/queues/default/pause", "GET /v1/pulse", "GET /v1/events"]
  /** The missing scope that a request is refused for, or the status of its answer. */
  const asked = ({ url }: Running) =>
    Promise.all(
      requests.map(async (request) => {
        const [method = "", path] = request.split(" ")
        const stop = new AbortController()
        const headers = { authorization: `Bearer ${OPERATE}` }
        // The answer begins at once, also for a stream.
        const response = await fetch(`${url}${path}`, { method, headers, signal: stop.signal })
        const scope: unknown = response.status === 403 ? (await response.json()).scope : undefined
        stop.abort()
        return scope ?? response.status
      }),
    )
  expect(await asked(await restarted(["read", "operate"]))).toEqual([204, 200, 200])
  expect(await asked(await restarted(["read", "no-payload"]))).toEqual(["operate", 200, "payload"])
  expect(await asked(await restarted(undefined))).toEqual([401, 401, 401])
})

test("a short token is refused where other machines reach the service, by its place and not by its text", async () => {
  const both: ReadonlyArray<Token> = [
    { token: "0123456789abcdef", scopes: ["admin"] },
    { token: "secret-token-15", scopes: ["read"] },
  ]
  const starting = start({ http: { port: 0, host: "0.0.0.0", tokens: both } })
  await expect(starting).rejects.toMatchObject({
    code: "invalid-input",
    message:
      "http.tokens[1]: token: must have at least 16 characters, because 0.0.0.0 is reachable from other machines; make one with `openssl rand -hex 32`",
  })
  await start({ http: { port: 0, tokens: both } })
})

/** Sends a request over a socket, since `fetch` sets Host and Origin itself. */
const raw = (running: Running, head: ReadonlyArray<string>, body = JSON.stringify(TASK)): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = openSocket(Number(new URL(running.url).port), "127.0.0.1", () => {
      socket.write(`${head.join("\r\n")}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`)
    })
    let text = ""
    socket.setEncoding("utf8").on("data", (chunk) => {
      text += String(chunk)
    })
    socket.on("close", () => resolve(text))
    socket.on("error", reject)
  })

test.each(["[", "a b", "board.example.com:99999"])("a request to the host %s is refused", async (host) => {
  for (const running of [await withTokens(), await start()]) {
    for (const path of ["/v1/jobs", "/healthz", "/", "/nothing"]) {
      const head = [`GET ${path} HTTP/1.1`, `Host: ${host}`, `Authorization: Bearer ${READ}`]
      const response = await raw(running, head, "")
      expect(response).toMatch(/^HTTP\/1.1 400 /)
      expect(response).toContain('"field":"Host"')
    }
  }
})

describe("without tokens", () => {
  const open = once(start)
  /** A service of its own for the cases in which every request is refused. */
  const untouched = once(start)
  const post = (...headers: ReadonlyArray<string>) => [
    "POST /v1/jobs HTTP/1.1",
    "Content-Type: application/json",
    ...headers,
  ]

  test.each([
    "localhost",
    "localhost:7420",
    "LOCALHOST",
    "board.localhost:80",
    "127.0.0.1:1",
    "127.1.2.3",
    "[::1]:7420",
  ])("the host %s is this machine", async (host) => {
    expect(await raw(await open(), post(`Host: ${host}`))).toMatch(/^HTTP\/1.1 202 /)
  })

  test.each([
    "evil.example",
    "evil.example:7420",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "192.168.0.1",
    "localhostx",
    "[::2]",
  ])("the host %s is not, whatever is asked", async (host) => {
    const running = await untouched()
    for (const path of ["/v1/jobs", "/healthz", "/", "/nothing"]) {
      const response = await raw(running, [`GET ${path} HTTP/1.1`, `Host: ${host}`], "")
      expect(response).toMatch(/^HTTP\/1.1 403 /)
      expect(response).toContain('"forbidden"')
    }
    expect(await raw(running, post(`Host: ${host}`))).toMatch(/^HTTP\/1.1 403 /)
    expect((await running.ask("GET", "/v1/jobs")).body.jobs).toEqual([])
  })

  test.each([
    ["Origin: https://evil.example"],
    ["Origin: http://localhost:3000"],
    ["Origin: null"],
    ["Sec-Fetch-Site: cross-site"],
    ["Sec-Fetch-Site: same-site"],
  ])("a page that sends %s changes nothing", async (header) => {
    const running = await start()
    const { body } = await running.submit({ ...TASK, delay: 3600 })
    expect(await raw(running, post("Host: localhost:7420", header))).toMatch(/^HTTP\/1.1 403 /)
    const cancel = [`POST ${body.href}/cancel HTTP/1.1`, "Host: localhost:7420", header, "Content-Type: text/plain"]
    expect(await raw(running, cancel, "")).toMatch(/^HTTP\/1.1 403 /)
    const bulk = ["POST /v1/jobs/cancel?state=scheduled HTTP/1.1", "Host: localhost:7420", header]
    expect(await raw(running, bulk, "")).toMatch(/^HTTP\/1.1 403 /)
    const forget = [`DELETE ${body.href} HTTP/1.1`, "Host: localhost:7420", header]
    expect(await raw(running, forget, "")).toMatch(/^HTTP\/1.1 403 /)
    const { jobs } = (await running.ask("GET", "/v1/jobs")).body
    expect(jobs).toMatchObject([{ id: body.id, state: "scheduled" }])
  })

  test("a page of the service itself may ask for changes", async () => {
    const running = await open()
    const own = post("Host: localhost:7420", "Origin: http://localhost:7420", "Sec-Fetch-Site: same-origin")
    expect(await raw(running, own)).toMatch(/^HTTP\/1.1 202 /)
  })

  test.each(["0.0.0.0", "::", "192.168.0.1", "board.example.com"])(
    "listening on %s is refused, with what to do",
    async (host) => {
      await expect(start({ http: { port: 0, host } })).rejects.toMatchObject({
        code: "invalid-input",
        details: { field: "http.host" },
        message: expect.stringMatching(/http\.tokens.*127\.0\.0\.1/),
      })
    },
  )

  test("no answer allows another origin to read it", async () => {
    const { ask } = await open()
    const response = await ask("GET", "/v1/jobs", { headers: { origin: "https://evil.example" } })
    expect(response.headers.get("access-control-allow-origin")).toBeNull()
    const preflight = await ask("OPTIONS", "/v1/jobs", {
      headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
    })
    expect(preflight.status).toBe(403)
  })
})
