/** What clients that send too much at a time, too slowly, or do not read, may hold; and that it is given back. */
import { type Client, connect, type HttpAppOptions, http } from "callboard"
import { afterEach, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { currentRuntime } from "../../../../runtime/platform/runtime.js"
import { eventually } from "../../../support/servers/process.ts"

const clients: Array<Client> = []
afterEach(() => Promise.all(clients.splice(0).map((client) => client.close())))

const TOKENS: HttpAppOptions["tokens"] = [
  ...["one", "two"].map((token) => ({ token, scopes: ["submit", "read"] as const })),
  { token: "all", scopes: ["admin"] },
]

/** The application, asked without a server in between: so a test sends a body as slowly as it wants to. */
const start = async (bounds: NonNullable<HttpAppOptions["bounds"]>) => {
  const client = await connect(`memory://${generateId()}`)
  clients.push(client)
  const app = http(client, { tokens: TOKENS, bounds })
  const headers = (token: string) => ({ authorization: `Bearer ${token}`, "content-type": "application/json" })
  return {
    submit: async (body: string | ReadableStream<Uint8Array>, token = "one") => {
      const init = { method: "POST", headers: headers(token), body, duplex: "half" as const }
      return app.fetch(new Request("http://localhost/v1/jobs", init))
    },
    /** A request with a body that has no content type. */
    change: async (method: string, path: string, body: ReadableStream<Uint8Array>) => {
      const init = { method, headers: { authorization: "Bearer all" }, body, duplex: "half" as const }
      return app.fetch(new Request(`http://localhost${path}`, init))
    },
    events: async (token = "one") => app.fetch(new Request("http://localhost/v1/events", { headers: headers(token) })),
  }
}

/** A body that has begun, and goes on when it is told to. */
const slowBody = (bytes: number) => {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  const begun = writer.write(new TextEncoder().encode(`{"task":"echo","input":"${"x".repeat(bytes)}`))
  begun.catch(() => undefined)
  return {
    readable,
    /** Resolves when what there is has been read. */
    begun,
    finish: async () => {
      await writer.write(new TextEncoder().encode('"}'))
      await writer.close()
    },
  }
}

const overloaded = async (response: Response): Promise<void> => {
  expect(response.status).toBe(503)
  expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0)
  expect(await response.json()).toMatchObject({ code: "overloaded" })
}

test("bodies beyond the budget are refused until those before them are answered", async () => {
  const { submit } = await start({ bodyBytes: 10_000 })
  const slow = slowBody(8_000)
  const first = submit(slow.readable)
  const more = JSON.stringify({ task: "echo", input: "y".repeat(4_000) })
  await slow.begun
  await overloaded(await submit(more))
  await slow.finish()
  expect((await first).status).toBe(202)
  expect((await submit(more)).status).toBe(202)
  // A single body has room, whatever the budget: its size has a bound of its own.
  expect((await submit(JSON.stringify({ task: "echo", input: "z".repeat(20_000) }))).status).toBe(202)
})

test("a body that does not arrive in time is refused, and holds nothing any more", async () => {
  const { submit } = await start({ bodyBytes: 10_000, bodyTimeout: "200 ms" })
  await overloaded(await submit(slowBody(8_000).readable))
  expect((await submit(JSON.stringify({ task: "echo", input: "y".repeat(4_000) }))).status).toBe(202)
})

test.each([
  ["POST", "/v1/jobs/none/cancel"],
  ["POST", "/v1/jobs/none/retry"],
  ["DELETE", "/v1/jobs/none"],
  ["POST", "/v1/jobs/none/link"],
  ["POST", "/v1/jobs/none/signals/approved"],
])("%s %s: a body that never arrives is refused in time", async (method, path) => {
  const { change } = await start({ bodyTimeout: "50 ms" })
  let isGivenUp = false
  const cancel = () => {
    isGivenUp = true
  }
  await overloaded(await change(method, path, new ReadableStream({ cancel })))
  if (currentRuntime() !== "node") expect(isGivenUp).toBe(true)
})

test("streams beyond those of a token, and of all, are refused until one ends", async () => {
  const { events } = await start({ streams: 3, streamsPerToken: 2 })
  const [first, second] = [await events(), await events()]
  expect([first.status, second.status]).toEqual([200, 200])
  await overloaded(await events())
  const third = await events("two")
  expect(third.status).toBe(200)
  await overloaded(await events("two"))
  await first.body?.cancel()
  const reopened = await eventually(
    async () => {
      const response = await events("two")
      return response.status === 200 ? response : undefined
    },
    { deadline: 20_000, message: "a stream that was closed gives its place back" },
  )
  for (const open of [second, third, reopened]) await open.body?.cancel()
})
