/** Links to one job: what each route does with one, what it shows, who can make one, and when it ends. */
import { createHmac } from "node:crypto"
import { actor, type Client, http, type Token } from "callboard"
import { connectHttp } from "callboard/client"
import { afterAll, afterEach, describe, expect, test, vi } from "vitest"
import { routes } from "../../../../runtime/http/app.ts"
import { openLink } from "../../../../runtime/http/link.ts"
import { type Running, start, stopAll } from "./harness.ts"
import { eventsOf } from "./sse.ts"

afterAll(stopAll)
afterEach(() => void vi.useRealTimers())

const JSON_TYPE = { "content-type": "application/json" }
const SECRET = "0123456789abcdef0123456789abcdef"
const READ = "read-0123456789"
const OUTLINE = "outline-0123456789"
const ADMIN = "admin-0123456789"
const SUBMIT = "submit-0123456789"
const tokens: ReadonlyArray<Token> = [
  { token: READ, scopes: ["read"] },
  { token: OUTLINE, scopes: ["read", "no-payload"] },
  { token: SUBMIT, scopes: ["submit"] },
  { token: ADMIN, scopes: ["admin"] },
]

let shared: Promise<Running> | undefined
const board = (): Promise<Running> => {
  shared ??= start({ name: "s3cret-host", version: "s3cret-version", http: { port: 0, tokens, linkSecret: SECRET } })
  return shared
}

const submitted = async ({ submit }: Running, task: object): Promise<string> =>
  (await submit(task, { authorization: `Bearer ${ADMIN}` })).body.id

const linkTo = async ({ ask }: Running, id: string, body: object = {}, token = ADMIN): Promise<string> => {
  const made = await ask("POST", `/v1/jobs/${id}/link`, { token, body })
  expect(made).toMatchObject({ status: 200, body: { id } })
  return made.body.token
}

/** A job that has ended, with a link to it. */
const ended = async (running: Running, task: object, options: object = {}) => {
  const id = await submitted(running, task)
  await running.ask("GET", `/v1/jobs/${id}/result?wait=20s`, { token: ADMIN })
  return { id, token: await linkTo(running, id, options) }
}

describe("a link may use", () => {
  test("these routes, and no other: a new one needs a reason, and a case below that it shows no more than it should", () => {
    const open = routes.filter(({ link }) => link).map(({ method, path }) => `${method} ${path}`)
    expect(open).toEqual([
      "GET /v1/jobs/{id}",
      "GET /v1/jobs/{id}/result",
      "POST /v1/jobs/{id}/cancel",
      "POST /v1/jobs/{id}/retry",
      "GET /v1/jobs/{id}/events",
    ])
  })

  const asked = routes.filter(({ scope }) => scope !== undefined)
  test.each(asked.map((route) => [route.method, route.path, route.link === true] as const))(
    "%s %s: %s",
    async (method, path, may) => {
      const running = await board()
      const { id, token } = await ended(running, { task: "work.fail" }, { scopes: ["read", "operate"] })
      const ask = (to: string) =>
        running.ask(path.endsWith("/events") ? "HEAD" : method, path.replace("{id}", to).replace("{board}", "any"), {
          token,
        })
      const own = await ask(id)
      if (may) expect([401, 403]).not.toContain(own.status)
      else expect(own.status).toBe(403)
      // Neither the id of another job nor one that no job has is looked up.
      const other = await submitted(running, { task: "work.echo" })
      for (const each of path.includes("{id}") ? [other, "unheard-of"] : []) expect((await ask(each)).status).toBe(403)
    },
  )

  test("cancel and retry only with the scope for it, and only for its job alone", async () => {
    const running = await board()
    const { ask } = running
    const { id, token } = await ended(running, { task: "work.fail" })
    for (const decision of ["cancel", "retry"]) {
      const refused = await ask("POST", `/v1/jobs/${id}/${decision}`, { token })
      expect(refused).toMatchObject({ status: 403, body: { code: "forbidden", scope: "operate" } })
    }
    const held = await submitted(running, { task: "work.hold" })
    const operator = await linkTo(running, held, { scopes: ["operate"] })
    expect(await ask("GET", `/v1/jobs/${held}`, { token: operator })).toMatchObject({ body: { scope: "read" } })
    for (const option of ["terminate", "release"]) {
      const refused = await ask("POST", `/v1/jobs/${held}/cancel?${option}=true`, { token: operator })
      expect(refused).toMatchObject({ status: 403, body: { detail: expect.stringContaining("other jobs") } })
    }
    expect(await ask("POST", `/v1/jobs/${held}/cancel`, { token: operator })).toMatchObject({
      status: 200,
      body: { state: "cancelled" },
    })
  })
})

const SECRETS = {
  input: { pin: "s3cret" },
  meta: { by: "s3cret" },
  headers: { tenant: "s3cret" },
  details: { of: "s3cret" },
  description: "s3cret",
  group: "s3cret",
}

/** A job whose every part that a link must not show holds `s3cret`. */
const secretive = actor("work", {
  methods: {
    lose: async (_input: unknown, job) => {
      job.progress(0.5, { step: "half" })
      const cause = new Error("s3cret")
      const error = new RangeError("no such order", { cause })
      error.stack = "RangeError: no such order\n    at s3cret"
      throw error
    },
    find: (_input: unknown, job) => {
      job.progress(0.5, { step: "half" })
      return { total: 10 }
    },
  },
})

describe("a link shows", () => {
  test("state, times, progress, result and error of its job, and nothing of its input, its code or its worker", async () => {
    const http = { port: 0, tokens, linkSecret: SECRET }
    const running = await start({ name: "s3cret-host", version: "s3cret-version", actors: [secretive], http })
    const { ask } = running
    for (const method of ["find", "lose"]) {
      const retry = method === "lose" ? { retry: { max: 1, interval: 0 } } : {}
      const { id, token } = await ended(
        running,
        { task: `work.${method}`, id: method, ...SECRETS, ...retry },
        { scopes: ["read", "operate"] },
      )
      expect((await ask("GET", `/v1/jobs/${id}`, { token: ADMIN })).text).toContain("s3cret")
      for (const path of ["", "/result", "/events"]) {
        const { status, text } = await ask("GET", `/v1/jobs/${id}${path}`, { token })
        expect({ path, status, isHidden: !text.includes("s3cret") }).toEqual({ path, status: 200, isHidden: true })
      }
      const { body } = await ask("GET", `/v1/jobs/${id}`, { token })
      expect(body).toMatchObject(
        method === "find"
          ? { state: "succeeded", result: { total: 10 }, progress: { fraction: 0.5, detail: { step: "half" } } }
          : { state: "failed", attempts: 2, error: { name: "RangeError", message: "no such order" } },
      )
      expect(body.transitions.at(-1)).toMatchObject({ state: body.state })
      for (const part of ["input", "attempts"])
        expect((await ask("GET", `/v1/jobs/${id}?with=${part}`, { token })).status).toBe(403)
      if (method === "find") continue
      const again = await ask("POST", `/v1/jobs/${id}/retry`, { token })
      expect(again).toMatchObject({ status: 200, body: { run: 2 } })
      expect(again.text).not.toContain("s3cret")
    }
  })

  test("neither result nor details with no-payload", async () => {
    const running = await board()
    const { id, token } = await ended(
      running,
      { task: "work.echo", input: "s3cret" },
      { scopes: ["read", "no-payload"] },
    )
    for (const path of ["", "/result", "/events"]) {
      const { status, text } = await running.ask("GET", `/v1/jobs/${id}${path}`, { token })
      expect({ path, status, isHidden: !text.includes("s3cret") }).toEqual({ path, status: 200, isHidden: true })
    }
    const job = connectHttp(running.url, { token }).job(id)
    await expect(job.result()).rejects.toMatchObject({ code: "forbidden", details: { scope: "payload" } })
    expect(await job.outcome()).toEqual({ state: "succeeded", result: undefined })
  })

  test("events to an EventSource, which sends it in the query, and to nothing else there", async () => {
    const running = await board()
    const { id, token } = await ended(running, { task: "work.echo" })
    const open = (path: string) => fetch(`${running.url}/v1/jobs/${id}${path}?access_token=${token}`)
    const events = []
    for await (const event of eventsOf(await open("/events"))) events.push(event.event)
    expect(events).toContain("transition")
    expect((await open("")).status).toBe(401)
  })

  test("events to an EventSource behind a password, which sends that in the header and the link in the query", async () => {
    const running = await board()
    const { id, token } = await ended(running, { task: "work.echo" })
    const statusWith = async (authorization: string, query = `?access_token=${token}`) => {
      const url = `${running.url}/v1/jobs/${id}/events${query}`
      return (await fetch(url, { method: "HEAD", headers: { authorization } })).status
    }
    expect(await statusWith("Basic dTpw")).toBe(200)
    expect(await statusWith("Basic dTpw", "")).toBe(401)
    // A token in the header counts, and not the one in the query.
    expect(await statusWith("Bearer unknown")).toBe(401)
    expect(await statusWith(`Bearer ${ADMIN}`, "?access_token=unknown")).toBe(200)
  })
})

describe("a link is made", () => {
  test("with the scopes and the time that are asked for", async () => {
    const running = await board()
    const id = await submitted(running, { task: "work.echo" })
    const make = async (body: object) => (await running.ask("POST", `/v1/jobs/${id}/link`, { token: ADMIN, body })).body
    const lasts = ({ expires }: { readonly expires: string }) => Math.round((Date.parse(expires) - Date.now()) / 60_000)
    const usual = await make({})
    expect(usual).toMatchObject({
      id,
      scopes: ["read", "payload"],
      token: expect.stringMatching(/^cbl1\.[\w-]+\.[\w-]+$/),
    })
    expect(lasts(usual)).toBe(24 * 60)
    const other = await make({ scopes: ["read", "operate", "no-payload"], ttl: "1h" })
    expect(other).toMatchObject({ scopes: ["read", "operate"] })
    expect(lasts(other)).toBe(60)
  })

  test.each([
    ["no body", {}],
    ["an empty body", { body: new Blob([]).stream(), duplex: "half" }],
    ["an empty body of JSON", { body: new Blob([]).stream(), headers: JSON_TYPE, duplex: "half" }],
  ])("to read, for a day, by a request with %s", async (_, { headers, ...request }: RequestInit) => {
    const running = await board()
    const id = await submitted(running, { task: "work.echo" })
    const authorization = { authorization: `Bearer ${ADMIN}` }
    const sent = { method: "POST", headers: { ...authorization, ...headers }, ...request }
    const made = await fetch(`${running.url}/v1/jobs/${id}/link`, sent)
    expect(await made.json()).toMatchObject({ id, scopes: ["read", "payload"] })
  })

  test.each<readonly [body: object, code: string, field: string]>([
    [{ scopes: [] }, "invalid-input", "scopes"],
    [{ scopes: ["no-payload"] }, "invalid-input", "scopes"],
    [{ scopes: ["admin"] }, "invalid-input", "scopes[0]"],
    [{ scopes: ["submit"] }, "invalid-input", "scopes[0]"],
    [{ scopes: "read" }, "invalid-input", "scopes"],
    [{ ttl: "31 days" }, "invalid-input", "ttl"],
    [{ ttl: 0 }, "invalid-input", "ttl"],
    [{ ttl: -1 }, "invalid-input", "ttl"],
    [{ ttl: "soon" }, "invalid-input", "ttl"],
    [{ scope: ["read"] }, "unknown-field", "scope"],
  ])("not with %j", async (body, code, field) => {
    const running = await board()
    const id = await submitted(running, { task: "work.echo" })
    const refused = await running.ask("POST", `/v1/jobs/${id}/link`, { token: ADMIN, body })
    expect(refused).toMatchObject({ status: 400, body: { code, field } })
  })

  test("never with more than its maker may, and not by a link", async () => {
    const running = await board()
    const { ask } = running
    const { id, token: link } = await ended(running, { task: "work.echo" })
    const make = (token: string, scopes: ReadonlyArray<string>) =>
      ask("POST", `/v1/jobs/${id}/link`, { token, body: { scopes } })
    const lacks = (scope: string) => ({ status: 403, body: { code: "forbidden", scope } })
    expect(await make(READ, ["read", "operate"])).toMatchObject(lacks("operate"))
    expect(await make(SUBMIT, ["read"])).toMatchObject(lacks("read"))
    expect(await make(OUTLINE, ["read"])).toMatchObject(lacks("payload"))
    expect(await make(OUTLINE, ["read", "no-payload"])).toMatchObject({ status: 200, body: { scopes: ["read"] } })
    expect((await make(link, ["read"])).status).toBe(403)
  })

  test("not for a job that does not exist, or is no longer kept", async () => {
    const running = await board()
    const { ask } = running
    const make = (id: string) => ask("POST", `/v1/jobs/${id}/link`, { token: ADMIN, body: {} })
    expect(await make("unheard-of")).toMatchObject({ status: 404, body: { code: "not-found" } })
    const { id, token } = await ended(running, { task: "work.echo" })
    await ask("DELETE", `/v1/jobs/${id}`, { token: ADMIN })
    expect(await make(id)).toMatchObject({ status: 410, body: { code: "gone" } })
    expect(await ask("GET", `/v1/jobs/${id}`, { token })).toMatchObject({ status: 410 })
  })

  test("and accepted only where http.linkSecret is set", async () => {
    const running = await board()
    const { id, token } = await ended(running, { task: "work.echo" })
    for (const without of [await start({ http: { port: 0, tokens } }), await start()]) {
      const own = await submitted(without, { task: "work.echo" })
      const made = await without.ask("POST", `/v1/jobs/${own}/link`, { token: ADMIN, body: {} })
      expect(made).toMatchObject({ status: 400, body: { code: "unsupported", field: "http.linkSecret" } })
      expect(await without.ask("GET", `/v1/jobs/${id}`, { token })).toMatchObject({
        status: 401,
        body: { detail: expect.stringContaining("http.linkSecret") },
      })
      await expect(without.service.link(own)).rejects.toMatchObject({ code: "unsupported" })
    }
  })

  test("for its job alone also by a service without tokens", async () => {
    const running = await start({ http: { port: 0, linkSecret: SECRET } })
    const { id, token } = await ended(running, { task: "work.echo" })
    const other = await submitted(running, { task: "work.echo" })
    expect((await running.ask("GET", `/v1/jobs/${id}`, { token })).status).toBe(200)
    expect((await running.ask("GET", `/v1/jobs/${other}`, { token })).status).toBe(403)
    expect((await running.ask("GET", `/v1/jobs/${other}`)).status).toBe(200)
  })

  test("by the client over HTTP and by the service in code, for a client that has only the link", async () => {
    const running = await board()
    const all = connectHttp(running.url, { token: ADMIN })
    const job = await all.submit("work.hold")
    const { token } = await all.job(job.id).link({ scopes: ["read", "operate"], ttl: "1 hour" })
    const page = connectHttp(running.url, { token })
    expect(await page.job(job.id).find()).toMatchObject({ id: job.id })
    await expect(page.submit("work.echo")).rejects.toMatchObject({ code: "forbidden" })
    await expect(page.job("other").find()).rejects.toMatchObject({ code: "forbidden" })
    await expect(page.job(job.id).link()).rejects.toMatchObject({ code: "forbidden" })
    await expect(all.job(job.id).link({ ttl: "31 days" })).rejects.toMatchObject({ code: "invalid-input" })
    const made = await running.service.link(job.id, { ttl: 60 })
    expect(made).toMatchObject({ id: job.id, scopes: ["read", "payload"] })
    await expect(connectHttp(running.url, { token: made.token }).job(job.id).cancel()).rejects.toMatchObject({
      code: "forbidden",
      details: { scope: "operate" },
    })
    expect(await page.job(job.id).cancel()).toMatchObject({ state: "cancelled" })
    expect(await page.job(job.id).outcome({ timeout: 10 })).toMatchObject({ state: "cancelled" })
    await expect(running.service.link("unheard-of")).rejects.toMatchObject({ code: "not-found" })
  })
})

describe("a token that begins like a link is refused", () => {
  const payloadOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")
  const sign = (text: string, secret = SECRET) =>
    `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`
  const link = { id: "a", scopes: ["read"], until: Date.now() + 60_000 }
  const refusal = (token: string): string => {
    try {
      return JSON.stringify(openLink(SECRET, token))
    } catch (cause) {
      return cause instanceof Error && "code" in cause && cause.code === "unauthorized" ? cause.message : String(cause)
    }
  }

  test("unless it is one", () => {
    expect(openLink(SECRET, sign(`cbl1.${payloadOf(link)}`))).toEqual(link)
  })

  test("if any character of it is another one, is missing or is added", () => {
    const token = sign(`cbl1.${payloadOf(link)}`)
    const wrong = [...token].flatMap((character, at) => [
      ...["A", "B", "-", "."]
        .filter((each) => each !== character)
        .map((each) => token.slice(0, at) + each + token.slice(at + 1)),
      token.slice(0, at) + token.slice(at + 1),
    ])
    for (const each of [...wrong, `${token}A`, `${token}=`, `${token}.`, "cbl1.", "cbl1..", "cbl1.a.b"])
      expect(refusal(each), each).toMatch(/^this link is not valid/)
  })

  test.each<readonly [string, string, RegExp]>([
    ["with another secret", sign(`cbl1.${payloadOf(link)}`, `${SECRET}0`), /not valid: .* another http\.linkSecret/],
    ["with another version", sign(`cbl2.${payloadOf(link)}`).replace("cbl2", "cbl1"), /not valid/],
    ["that has ended", sign(`cbl1.${payloadOf({ ...link, until: Date.now() })}`), /this link ended at 20/],
    [
      "with a field that this version does not know",
      sign(`cbl1.${payloadOf({ ...link, ip: "::1" })}`),
      /another version/,
    ],
    ["without an id", sign(`cbl1.${payloadOf({ ...link, id: undefined })}`), /another version/],
    ["with a scope that does not exist", sign(`cbl1.${payloadOf({ ...link, scopes: ["own"] })}`), /another version/],
    ["that is no JSON", sign("cbl1.A"), /another version/],
  ])("if it was made %s", (_what, token, message) => {
    expect(refusal(token)).toMatch(message)
  })

  test("by the service with 401 and a challenge", async () => {
    const running = await board()
    const { id, token } = await ended(running, { task: "work.echo" })
    for (const wrong of [`${token}A`, sign(`cbl2.${payloadOf({ ...link, id })}`)]) {
      const refused = await running.ask("GET", `/v1/jobs/${id}`, { token: wrong })
      expect(refused).toMatchObject({ status: 401, body: { code: "unauthorized" } })
      expect(refused.headers.get("www-authenticate")).toMatch(/^Bearer /)
      expect(refused.text).not.toContain(token)
    }
  })
})

describe("a link ends", () => {
  test("by the clock of the service", async () => {
    const running = await board()
    const { id, token } = await ended(running, { task: "work.echo" }, { ttl: "1h" })
    vi.useFakeTimers({ toFake: ["Date"] })
    vi.setSystemTime(Date.now() + 3_590_000)
    expect((await running.ask("GET", `/v1/jobs/${id}`, { token })).status).toBe(200)
    vi.setSystemTime(Date.now() + 10_000)
    const refused = await running.ask("GET", `/v1/jobs/${id}`, { token })
    expect(refused).toMatchObject({ status: 401, body: { detail: expect.stringMatching(/^this link ended at /) } })
  })

  test("and ends a wait and a stream that began before, at that time", async () => {
    const running = await board()
    const id = await submitted(running, { task: "work.hold" })
    const token = await linkTo(running, id, { ttl: "1s" })
    const app = http(running.service.client, { tokens, linkSecret: SECRET, keepAlive: "1 hour" })
    const headers = { authorization: `Bearer ${token}` }
    const began = performance.now()
    const [waited, response] = await Promise.all([
      running.ask("GET", `/v1/jobs/${id}/result?wait=60s`, { token }),
      app.request(`/v1/jobs/${id}/events`, { headers }),
    ])
    // A timer may go off a moment before the clock shows its time: the next request is refused then.
    if (waited.status === 202) expect(waited.body).toEqual({ id, state: "started" })
    else expect(waited).toMatchObject({ status: 401, body: { detail: expect.stringMatching(/^this link ended at /) } })
    for await (const _event of eventsOf(response));
    expect(performance.now() - began).toBeLessThan(30_000)
    await expect.poll(async () => (await app.request(`/v1/jobs/${id}/events`, { headers })).status).toBe(401)
  })

  test("and ends its streams, which began before", async () => {
    const running = await board()
    const id = await submitted(running, { task: "work.hold" })
    const token = await linkTo(running, id, { ttl: "1h" })
    const client: Client = running.service.client
    const app = http(client, { tokens, linkSecret: SECRET, keepAlive: "20 ms" })
    const headers = { authorization: `Bearer ${token}` }
    const response = await app.request(`/v1/jobs/${id}/events`, { headers })
    expect(response.status).toBe(200)
    const events = eventsOf(response)
    expect((await events.next()).done).toBe(false)
    vi.useFakeTimers({ toFake: ["Date"] })
    vi.setSystemTime(Date.now() + 3_600_000)
    for await (const _event of events);
    expect((await app.request(`/v1/jobs/${id}/events`, { headers })).status).toBe(401)
  })
})

test.each<readonly [string, object, RegExp]>([
  ["is short", { linkSecret: "0123456789abcdef0123456789abcde" }, /linkSecret: must have 32 characters or more/],
  ["is a token", { linkSecret: SECRET, tokens: [{ token: SECRET, scopes: ["read"] }] }, /must differ from every token/],
])("a secret that %s is refused, and not shown", async (_what, options, message) => {
  const client = (await board()).service.client
  for (const refused of [
    () => start({ http: { port: 0, ...options } }),
    async () => http(client, { open: true, ...options }),
  ]) {
    const error: unknown = await refused().catch((cause: unknown) => cause)
    expect(error).toMatchObject({ code: "invalid-input", message: expect.stringMatching(message) })
    expect(String(error)).not.toContain("0123456789abcdef")
  }
})

test("a token of the service that begins like a link is refused", async () => {
  const options = { port: 0, tokens: [{ token: "cbl1.0123456789abcdef", scopes: ["read"] }] } as const
  await expect(start({ http: options })).rejects.toMatchObject({
    code: "invalid-input",
    details: { field: "http.tokens[0]" },
  })
})
