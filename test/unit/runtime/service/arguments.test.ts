/** The functions that begin everything, with arguments of a wrong shape, as code without types gives them. */
import { actor, connect, connectCelery, connectSync, http, serve } from "callboard"
import { connectHttp } from "callboard/client"
import { expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"

const orders = actor("orders", { methods: { run: () => 1 } })
const url = `memory://${generateId()}`

/** What a call without types comes to: its error. */
const refusalOf = async (call: (...args: ReadonlyArray<never>) => unknown, ...args: ReadonlyArray<unknown>) => {
  try {
    return await Reflect.apply(call, undefined, args)
  } catch (error) {
    return error
  }
}

test.each<[string, (...args: ReadonlyArray<never>) => unknown, ReadonlyArray<unknown>]>([
  ["connect() with null", connect, [url, null]],
  ["connect() with text", connect, [url, "callboard"]],
  ["connectSync() without", connectSync, [url]],
  ["connectSync() with null", connectSync, [url, null]],
  ["connectHttp() with null", connectHttp, ["http://127.0.0.1", null]],
  ["connectCelery() without", connectCelery, []],
  ["connectCelery() with a URL", connectCelery, ["redis://127.0.0.1"]],
  ["serve() with null", serve, [null]],
  ["serve() with a number", serve, [7420]],
])("options that are no object are refused, and named: %s", async (_name, call, args) => {
  expect(await refusalOf(call, ...args)).toMatchObject({
    _tag: "CallboardError",
    code: "invalid-input",
    message: expect.stringMatching(/^the options of \w+\(\) must be an object/),
  })
})

test.each<[string, (...args: ReadonlyArray<never>) => unknown, object]>([
  ["actors", connectSync, {}],
  ["actors", connectSync, { actors: orders }],
  ["actors", connectSync, { actors: [{}] }],
  ["taskNames", connectSync, { actors: [orders], taskNames: new Map([["app.total", "orders"]]) }],
  ["taskNames", connect, { taskNames: new Map([["app.total", "orders"]]) }],
])("%s of a wrong shape are refused", async (field, call, settings) => {
  expect(await refusalOf(call, url, settings)).toMatchObject({
    _tag: "CallboardError",
    code: "invalid-input",
    message: expect.stringMatching(`^${field}: must be `),
    details: { field },
  })
})

const wrongConnection: ReadonlyArray<readonly [field: string, settings: object]> = [
  ["name", { name: 5 }],
  ["name", { name: "" }],
  ["name", { name: "x".repeat(256) }],
  ["taskSentEvents", { taskSentEvents: "no" }],
  ["tracing", { tracing: "yes" }],
  ["tracing", { tracing: {} }],
  ["transports", { transports: null }],
  ["transports", { transports: 5 }],
  ["transports.own", { transports: { own: 1 } }],
  ["namespace", { namespace: 5 }],
  ...["soon", Number.NaN, 0.999, 86_401, Number.POSITIVE_INFINITY, true].map((lease) => ["lease", { lease }] as const),
  ...["soon", 0, -1, Number.NaN, "2 days", null].map((timeout) => ["timeout", { timeout }] as const),
  ...[{}, -1, "999 ms"].map((heartbeat) => ["heartbeat", { heartbeat }] as const),
  ["reconnectDelay", { reconnectDelay: 5 }],
  ["failureTtl", { failureTtl: {} }],
  ["taskNames.total", { taskNames: { total: 2 } }],
]

const celery = { broker: "redis://127.0.0.1:1", resultBackend: "rpc://" }

test.each<[string, string, (...args: ReadonlyArray<never>) => unknown, ReadonlyArray<unknown>]>([
  ...wrongConnection.flatMap<[string, string, (...args: ReadonlyArray<never>) => unknown, ReadonlyArray<unknown>]>(
    ([field, settings]) => [
      ["connect", field, connect, [url, settings]],
      ["connectSync", field, connectSync, [url, { actors: [orders], ...settings }]],
    ],
  ),
  ...wrongConnection
    .filter(([field]) => !/^task|^failure/.test(field))
    .map<[string, string, (...args: ReadonlyArray<never>) => unknown, ReadonlyArray<unknown>]>(([field, settings]) => [
      "serve",
      field,
      serve,
      [{ transport: url, ...settings }],
    ]),
  ["connectSync", "resultTtl", connectSync, [url, { actors: [orders], resultTtl: {} }]],
  ["connectHttp", "token", connectHttp, ["http://127.0.0.1", { token: 5 }]],
  ["connectHttp", "timeout", connectHttp, ["http://127.0.0.1", { timeout: "soon" }]],
  ["connectCelery", "broker", connectCelery, [{}]],
  ["connectCelery", "broker", connectCelery, [{ ...celery, broker: 5 }]],
  ["connectCelery", "resultBackend", connectCelery, [{ ...celery, resultBackend: 5 }]],
  ["connectCelery", "queue", connectCelery, [{ ...celery, queue: 5 }]],
  ["connectCelery", "queue", connectCelery, [{ ...celery, queue: "" }]],
  ["connectCelery", "name", connectCelery, [{ ...celery, name: 5 }]],
])("%s() refuses a wrong %s by its name, before it connects", async (_function, field, call, args) => {
  expect(await refusalOf(call, ...args)).toMatchObject({
    _tag: "CallboardError",
    code: "invalid-input",
    message: expect.stringMatching(`^${field}: (must (be|have) |is missing|.* is not a duration|.* cannot be a name)`),
    details: { field },
  })
})

test("settings that are undefined hold their defaults", async () => {
  await using client = await connect(url, Object.fromEntries(wrongConnection.map(([field]) => [field, undefined])))
  expect(await client.count()).toMatchObject({ count: 0 })
})

test.each<[string, unknown]>([
  ["tokens", { tokens: "secret" }],
  ["open", { open: 1 }],
  ["origins", { open: true, origins: "https://app.example.com" }],
  ["maxBody", { open: true, maxBody: "1 MiB" }],
  ["maxBody", { open: true, maxBody: 0 }],
  ["ready", { open: true, ready: true }],
  ["loopbackOnly", { loopbackOnly: "yes" }],
  ["closing", { open: true, closing: new AbortController() }],
  ["keepAlive", { open: true, keepAlive: 0 }],
  ["bounds.streams", { open: true, bounds: { streams: -1 } }],
  ["log", { open: true, log: "console" }],
  ["metrics", { open: true, metrics: true }],
  ["page", { open: true, page: "no" }],
])("http() refuses a wrong %s by its name", async (field, options) => {
  await using client = await connect(url)
  expect(await refusalOf(http, client, options)).toMatchObject({
    _tag: "CallboardError",
    code: "invalid-input",
    message: expect.stringMatching(`^${field}: must be `),
    details: { field },
  })
})

test("http() refuses an option that it does not have, and what is no object", async () => {
  await using client = await connect(url)
  expect(await refusalOf(http, client, { open: true, orgins: [] })).toMatchObject({
    message: "orgins is not an option of http() (did you mean origins?)",
    details: { field: "orgins" },
  })
  expect(await refusalOf(http, client, null)).toMatchObject({
    message: expect.stringMatching(/^the options of http\(\) must be an object/),
  })
})
