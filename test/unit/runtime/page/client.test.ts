/** Calls of the HTTP interface from the page. */
import { expect, test } from "vitest"
import { ApiError, apiClient, backOff, curlOf } from "../../../../runtime/page/client.ts"

interface Seen {
  readonly url: string
  readonly init: RequestInit
}

const clientOf = (answer: (seen: Seen) => Response | Promise<Response>, token?: string, timeoutMs?: number) => {
  const calls: Array<Seen> = []
  const errors: Array<ApiError> = []
  const clocks: Array<number | undefined> = []
  const client = apiClient({
    base: "/board",
    fetch: async (url, init) => {
      calls.push({ url, init })
      return answer({ url, init })
    },
    token: () => token,
    onAnswer: (_, time) => clocks.push(time),
    onError: (error) => errors.push(error),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  })
  return { client, calls, errors, clocks }
}

const errorOf = async (work: Promise<unknown>): Promise<ApiError> => {
  const caught = await work.catch((error: unknown) => error)
  if (!(caught instanceof ApiError)) throw new Error(`not an ApiError: ${String(caught)}`)
  return caught
}

test("the token goes along in a header, and never in the address", async () => {
  const { client, calls, clocks } = clientOf(
    () => Response.json({ a: 1 }, { headers: { etag: '"x"', date: "Sun, 22 Nov 2026 03:07:19 GMT" } }),
    "secret",
  )
  const query = { task: "a b&c", limit: 50, cursor: undefined }
  expect(await client.call("GET", "/v1/jobs", { query })).toEqual({ value: { a: 1 }, etag: '"x"' })
  expect(calls[0]?.url).toBe("/board/v1/jobs?task=a+b%26c&limit=50")
  expect(new Headers(calls[0]?.init.headers).get("authorization")).toBe("Bearer secret")
  expect(calls[0]?.init).toMatchObject({ cache: "no-store", redirect: "error" })
  expect(clocks).toEqual([Date.parse("2026-11-22T03:07:19Z")])
})

test("what is known already is not sent again", async () => {
  const { client, calls } = clientOf(() => new Response(null, { status: 304, headers: { etag: '"x"' } }))
  expect(await client.call("GET", "/v1/pulse", { etag: '"x"' })).toEqual({ value: undefined, etag: '"x"' })
  expect(new Headers(calls[0]?.init.headers).get("if-none-match")).toBe('"x"')
})

test("a problem is told with its field, and with the scope that is lacking", async () => {
  const field = clientOf(() =>
    Response.json({ code: "invalid-input", detail: "state: no", field: "state" }, { status: 400 }),
  )
  expect(await errorOf(field.client.call("GET", "/v1/jobs"))).toMatchObject({
    status: 400,
    code: "invalid-input",
    message: "state: no",
    field: "state",
  })
  expect(field.errors).toHaveLength(1)
  const scope = clientOf(() =>
    Response.json({ code: "forbidden" }, { status: 403, headers: { "www-authenticate": 'Bearer scope="operate"' } }),
  )
  expect(await errorOf(scope.client.call("POST", "/v1/jobs/a/retry"))).toMatchObject({ status: 403, scope: "operate" })
})

test("an answer in the words of a proxy is an error, not a fault", async () => {
  const { client } = clientOf(() => new Response("<html>Bad Gateway", { status: 502 }))
  expect(await errorOf(client.call("GET", "/v1/jobs"))).toMatchObject({ status: 502, code: "unknown" })
  const half = clientOf(() => new Response('{"jobs": ['))
  expect(await errorOf(half.client.call("GET", "/v1/jobs"))).toMatchObject({ status: 0 })
})

test("a service that does not answer is one error, and a call that was given up is none", async () => {
  const away = clientOf(() => Promise.reject(new TypeError("fetch failed")))
  expect(await errorOf(away.client.call("GET", "/v1/jobs"))).toMatchObject({ status: 0 })
  const slow = clientOf(
    ({ init }) =>
      new Promise((_, reject) => init.signal?.addEventListener("abort", () => reject(new Error("aborted")))),
    undefined,
    20,
  )
  expect(await errorOf(slow.client.call("GET", "/v1/jobs"))).toMatchObject({ status: 0 })
  const stop = new AbortController()
  const given = slow.client.call("GET", "/v1/jobs", { signal: stop.signal }).catch((error: Error) => error.message)
  stop.abort()
  expect(await given).toBe("aborted")
  expect(slow.errors).toHaveLength(1)
})

test("tries come further apart, half of it by chance, and never more than 30 seconds", () => {
  expect([1, 2, 3, 5, 9, 500].map((tries) => backOff(tries, 1))).toEqual([1000, 2000, 4000, 16_000, 30_000, 30_000])
  expect(backOff(3, 0)).toBe(2000)
})

test("a command is quoted, and names the token without holding it", () => {
  expect(curlOf("POST", "http://localhost/v1/jobs/a'b/retry", true, { note: "it's" })).toBe(
    `curl -X POST 'http://localhost/v1/jobs/a'\\''b/retry' -H "Authorization: Bearer $CALLBOARD_TOKEN" -H 'content-type: application/json' -d '{"note":"it'\\''s"}'`,
  )
  expect(curlOf("GET", "http://localhost/v1/me", false)).toBe("curl 'http://localhost/v1/me'")
})

test("a token that no header can hold is not known, and is not sent", async () => {
  for (const token of ["se\u200bcret", "s\u2026", "a b", "a\nb"]) {
    const { client, calls, errors } = clientOf(() => Response.json({}), token)
    expect(await errorOf(client.call("GET", "/v1/me"))).toMatchObject({ status: 401 })
    expect([calls.length, errors.length]).toEqual([0, 1])
  }
})
