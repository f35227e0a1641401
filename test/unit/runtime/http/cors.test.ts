/** Web pages of other origins, and their streams of events. */
import { afterEach, expect, test } from "vitest"
import { start, stopAll } from "./harness.ts"

afterEach(stopAll)

const PAGE = "https://app.example.com"
const TOKENS = [{ token: "one", scopes: ["submit", "read"] as const }]
const preflight = (url: string, origin: string) =>
  fetch(`${url}/v1/jobs`, {
    method: "OPTIONS",
    headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization" },
  })

test("a page of an allowed origin may ask, and read the answers; another may not", async () => {
  const { url, ask } = await start({ http: { port: 0, tokens: TOKENS, origins: [PAGE] } })
  const may = await preflight(url, PAGE)
  expect(may.status).toBe(204)
  expect(may.headers.get("access-control-allow-origin")).toBe(PAGE)
  expect(may.headers.get("access-control-allow-headers")).toContain("authorization")
  expect(may.headers.get("access-control-allow-methods")).toContain("PATCH")
  const posted = await ask("POST", "/v1/jobs", { body: { task: "work.echo" }, token: "one", headers: { origin: PAGE } })
  expect(posted.status).toBe(202)
  expect(posted.headers.get("access-control-allow-origin")).toBe(PAGE)
  expect(posted.headers.get("access-control-expose-headers")).toContain("location")
  expect(posted.headers.get("vary")).toContain("origin")
  // An error can be read as well, and needs the token as ever.
  const refused = await ask("GET", "/v1/jobs", { headers: { origin: PAGE } })
  expect(refused.status).toBe(401)
  expect(refused.headers.get("access-control-allow-origin")).toBe(PAGE)

  for (const origin of ["https://evil.example.com", `${PAGE}.evil.com`, "null"]) {
    const mayNot = await preflight(url, origin)
    expect(mayNot.headers.has("access-control-allow-origin")).toBe(false)
    expect(mayNot.status).toBe(403)
    expect(await mayNot.json()).toMatchObject({
      code: "forbidden",
      field: "http.origins",
      detail: expect.stringContaining(origin),
    })
    const answer = await ask("GET", "/v1/jobs", { token: "one", headers: { origin } })
    expect(answer.headers.has("access-control-allow-origin")).toBe(false)
  }
})

test("an EventSource gives its token in the query, on streams alone", async () => {
  const { url } = await start({ http: { port: 0, tokens: TOKENS, origins: [PAGE] } })
  const stop = new AbortController()
  const open = (path: string) => fetch(url + path, { headers: { origin: PAGE }, signal: stop.signal })
  try {
    const stream = await open("/v1/events?access_token=one")
    expect(stream.status).toBe(200)
    expect(stream.headers.get("content-type")).toContain("text/event-stream")
    expect(stream.headers.get("access-control-allow-origin")).toBe(PAGE)
    expect((await open("/v1/events?access_token=two")).status).toBe(401)
    expect((await open("/v1/events")).status).toBe(401)
    expect((await open("/v1/jobs?access_token=one")).status).toBe(401)
  } finally {
    stop.abort()
  }
})

test.each([
  [{ origins: [PAGE] }, /need a token/],
  [{ origins: [`${PAGE}/path`], tokens: TOKENS }, /is not an origin such as/],
  [{ origins: ["*"], tokens: TOKENS }, /is not an origin such as/],
])("%j is refused at the start", async (http, message) => {
  await expect(start({ http: { port: 0, ...http } })).rejects.toMatchObject({
    code: "invalid-input",
    message: expect.stringMatching(message),
  })
})
