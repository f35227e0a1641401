/** Promises of the postgres transport beyond those of all transports, which `kit.test.ts` tests. Against a real server. */
import { actor, connect } from "callboard"
import pg from "pg"
import { afterAll, beforeAll, expect, test, vi } from "vitest"
import { SETTINGS } from "../../../../plugins/postgres/link.ts"
import { plugin } from "../../../../plugins/postgres/mod.ts"
import { schemaOf } from "../../../../plugins/postgres/schema.ts"
import type { Posting } from "../../../../runtime/transport/driver.ts"
import { type ConnectOptions, TransportError } from "../../../../runtime/transport/mod.ts"
import { type PostgresServer, startPostgres } from "../../../support/servers/postgres.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"
import { workBoard } from "../../../support/work-board.ts"
import { growing, QUERIES, readsOf } from "../bounded-lists.ts"
import { startProxy } from "../nats/proxy.ts"

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server?.stop())

const through = (port: number): URL => {
  const url = new URL(server.url)
  url.port = String(port)
  return url
}

/** Runs a statement in the server without the transport. */
const ask = async (
  text: string,
  values: ReadonlyArray<unknown> = [],
): Promise<ReadonlyArray<Record<string, unknown>>> => {
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text, [...values])).rows
  } finally {
    await client.end()
  }
}

const options = (namespace: string): ConnectOptions => ({ namespace, lease: 30_000, name: "test", timeout: 5_000 })

/** The error with which connecting fails. */
const refusal = async (url: URL, namespace: string): Promise<unknown> => {
  try {
    await (await plugin.connect(url, options(namespace))).close()
    return "it connected"
  } catch (error) {
    return error instanceof TransportError ? [error.reason, error.message] : error
  }
}

test("a job board is worked", () => workBoard(`${server.url}?ns=boards`))

test("pauses and revocations are in force when they resolve, and nothing runs of a queue that was deleted", async () => {
  const transport = `${server.url}?ns=in_force`
  const ran: Array<string> = []
  const note = actor("note", { methods: { run: (name: string) => void ran.push(name) } })
  await start([note], { transport, queues: ["default", "q"] })
  await using client = await connect(transport)
  const result = async (name: string) => (await client.submit("note", { args: [name] })).result({ timeout: 10 })
  for (const name of ["a", "b"]) {
    await client.revoke({ header: "tenant", values: [name], ttl: "1 hour" })
    const job = await client.submit("note", { args: ["revoked"], headers: { tenant: name } })
    expect(await job.outcome({ timeout: 10 })).toMatchObject({ state: "cancelled" })
  }
  await client.pause("q")
  await client.submitMany(Array.from({ length: 40 }, () => ({ task: "note", args: ["deleted"], queue: "q" })))
  await result("later")
  expect(await client.deleteQueue("q", { budget: 0 })).toEqual({ purged: 32, partial: { done: 32, left: 8 } })
  await result("in between")
  expect(await client.paused()).toEqual(["q"])
  expect(await client.deleteQueue("q")).toBe(8)
  await result("last")
  expect(ran).toEqual(["later", "in between", "last"])
})

test("a wrong password is refused as unauthorized", async () => {
  const url = through(server.port)
  url.password = "wrong"
  const message = 'postgres: password authentication failed for user "callboard"'
  expect(await refusal(url, "refused")).toEqual(["unauthorized", message])
})

test("a database that does not exist is invalid", async () => {
  const url = through(server.port)
  url.pathname = "/nowhere"
  expect(await refusal(url, "refused")).toEqual(["invalid", 'postgres: database "nowhere" does not exist'])
})

test("a schema of another version is refused, and left as it is", async () => {
  const driver = await plugin.connect(through(server.port), options("later"))
  await driver.close()
  const schema = schemaOf("later")
  await ask(`UPDATE "${schema}".meta SET version = 7`)
  const message = `postgres: schema "${schema}" has version 7, but this Callboard supports version 6: install a version that supports it, or use another namespace`
  expect(await refusal(through(server.port), "later")).toEqual(["unsupported", message])
  expect(await ask(`TABLE "${schema}".meta`)).toEqual([{ version: 7 }])
})

test("a database that holds no UTF-8 is refused", async () => {
  await ask("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
  const url = through(server.port)
  url.pathname = "/latin"
  const message = "postgres: needs PostgreSQL 13 or newer, a database in UTF8, and fsync = on"
  expect(await refusal(url, "latin")).toEqual(["unsupported", message])
})

test("a server that falls silent is given up within the bound, and found again", async () => {
  const wire = await startProxy(() => server.port)
  // On a busy machine connecting may take longer than this timeout, so it is repeated.
  const driver = await eventually(() => plugin.connect(through(wire.port), { ...options("silent"), timeout: 1_000 }))
  const statuses: Array<string> = []
  const news: Array<string> = []
  driver.onStatus((status) => statuses.push(status))
  await driver.listen({ kind: "jobs" }, ({ kind }) => news.push(kind), new AbortController().signal)
  try {
    wire.freeze()
    const began = performance.now()
    // The commit may have been stored. The answer says so for this item; the call itself does not fail.
    const [answer] = await driver.commit([{ id: "a", post: [posting("a", "t")] }])
    expect(answer).toMatchObject({ status: "failed", error: { reason: "unavailable", outcome: "unknown" } })
    expect(performance.now() - began).toBeLessThan(5_000)
    expect(statuses).toEqual(["disconnected"])
    await expect(driver.read(["a"], "all")).rejects.toMatchObject({ reason: "unavailable", outcome: "none" })
    wire.thaw()
    expect(await eventually(() => driver.read(["b"], "all"))).toEqual([undefined])
    await eventually(() => news.includes("missed"))
    expect(statuses).toEqual(["disconnected", "connected"])
  } finally {
    await driver.close()
    await wire.stop()
  }
})

test("several that come first at the same time make one schema", async () => {
  const drivers = await Promise.all(
    Array.from({ length: 4 }, () => plugin.connect(through(server.port), options("first"))),
  )
  await Promise.all(drivers.map((driver) => driver.close()))
  expect(await ask(`TABLE "${schemaOf("first")}".meta`)).toEqual([{ version: 6 }])
})

test("what is published during a take does not come before what was published earlier", async () => {
  const driver = await plugin.connect(through(server.port), options("order"))
  const schema = `"${schemaOf("order")}"`
  try {
    // A take of the middle queue waits in this function until the test lets it go on.
    await ask(`CREATE FUNCTION ${schema}.pause() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NEW; END'`)
    await driver.publish([{ ...posting("first", "t"), queue: "middle" }])
    await ask(`CREATE TRIGGER pause BEFORE UPDATE ON ${schema}.task FOR EACH ROW EXECUTE FUNCTION ${schema}.pause()`)
    const holder = new pg.Client({ connectionString: server.url })
    await holder.connect()
    await holder.query("SELECT pg_advisory_lock(77)")
    const taken = driver.take(
      { queues: ["high", "middle", "low"], max: 3, wait: 0, rotate: false },
      new AbortController().signal,
    )
    try {
      const waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted"
      await eventually(async () => (await ask(waits)).length > 0)
      await driver.publish([{ ...posting("second", "t"), queue: "high" }])
      await driver.publish([{ ...posting("third", "t"), queue: "low" }])
    } finally {
      await holder.end()
    }
    const { deliveries } = await taken
    expect(deliveries.map(({ queue }) => queue)).toEqual(["middle"])
  } finally {
    await driver.close()
  }
})

test("a queue in which nothing is to come names no time to ask again", async () => {
  const driver = await plugin.connect(through(server.port), options("idle"))
  const take = () => driver.take({ queues: ["q"], max: 1, wait: 0, rotate: false }, new AbortController().signal)
  try {
    expect(await take()).toEqual({ deliveries: [] })
    await driver.publish([{ ...posting("later", "q"), due: Date.now() + 60_000 }])
    expect(await take()).toEqual({ deliveries: [], next: expect.closeTo(60_000, -5) })
  } finally {
    await driver.close()
  }
})

test("long namespaces that begin alike are apart", () => {
  const [one, other] = [`${"n".repeat(63)}1`, `${"n".repeat(63)}2`].map(schemaOf)
  expect(one).not.toBe(other)
  // Names of channels are longer than the schema's, and have 63 bytes at most.
  expect(`${one}:queue`.length).toBeLessThanOrEqual(63)
})

const posting = (id: string, task: string): Posting => ({
  id,
  key: `${id}/1/0`,
  queue: "q",
  level: 4,
  index: { state: "queued", queue: "q", task, at: 1 },
  frame: new Uint8Array(1),
  message: { headers: {}, properties: { content_type: "", content_encoding: "" }, body: new Uint8Array(0) },
})

test("text that the database cannot hold harms no neighbour", async () => {
  const driver = await plugin.connect(through(server.port), options("zeros"))
  const odd = "a\0\ud800"
  const receipts = await driver.publish([posting("one", odd), posting(odd, "t"), posting("two", "t")])
  expect(receipts.map((each) => (each.status === "failed" ? each.error.reason : each.status))).toEqual([
    "stored",
    "invalid",
    "stored",
  ])
  expect((await driver.read(["one", odd, "two"], "all")).map((known) => known !== undefined)).toEqual([
    true,
    false,
    true,
  ])
  expect((await driver.query?.({ task: odd, limit: 10 }))?.jobs.length).toBe(1)
  await driver.close()
})

test("a take whose signal fired on the way gives back, uncounted, what it took", async () => {
  const driver = await plugin.connect(through(server.port), options("aborted"))
  await driver.publish([posting("a", "t")])
  const request = { queues: ["q"], max: 1, wait: 0, rotate: false }
  const stop = new AbortController()
  const taking = driver.take(request, stop.signal)
  stop.abort()
  expect(await taking).toEqual({ deliveries: [] })
  const { deliveries } = await driver.take(request, new AbortController().signal)
  expect(deliveries).toMatchObject([{ first: true, deliveries: 1 }])
  await driver.close()
})

test("what ended is removed from the tables", async () => {
  const driver = await plugin.connect(through(server.port), options("swept"))
  const bytes = new Uint8Array(1)
  const index = { state: "succeeded", queue: "q", task: "t", at: 1 } as const
  await driver.commit([{ id: "a", record: { expect: "", bytes, index, keep: 1 } }])
  await driver.store.write([
    { key: "a", value: bytes, ttl: 1_000 },
    { key: "b", value: bytes },
  ])
  const rows = async () => {
    const [row] = await ask(`SELECT (SELECT count(*) FROM "${schemaOf("swept")}".job)::int AS jobs,
      (SELECT count(*) FROM "${schemaOf("swept")}".entry)::int AS entries`)
    return row
  }
  await eventually(async () => JSON.stringify(await rows()) === '{"jobs":0,"entries":1}', { deadline: 10_000 })
  await driver.close()
})

test("a sweep reads as much however many tasks wait, and comes to each key", async () => {
  const driver = await plugin.connect(through(server.port), options("waiting"))
  await driver.close()
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  await client.query(`SET search_path = "${schemaOf("waiting")}"`)
  /** Publishes so many tasks whose keys are older than the window; every 1,000th is in no queue any more. */
  const wait = async (from: number, to: number) => {
    const numbers = `generate_series(${from}, ${to - 1}) n`
    await client.query(`INSERT INTO posted SELECT 'key' || n, n, n FROM ${numbers}`)
    await client.query(
      `INSERT INTO task SELECT n, 'id' || n, 'q', 4, true, 0, NULL, 0, n FROM ${numbers} WHERE n % 1000 <> 0`,
    )
    await client.query("ANALYZE")
  }
  const sweep = async () => {
    const { rows } = await client.query("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT sweep(1)")
    return blocksOf(rows[0]["QUERY PLAN"][0]["Plan"])
  }
  await wait(1, 6_000)
  const few = await sweep()
  await wait(6_000, 30_000)
  expect(await sweep()).toBeLessThan(1.5 * few)
  let since = 0
  do {
    const { rows } = await client.query("SELECT sweep($1) AS until", [since])
    since = Number(rows[0].until)
  } while (since > 0)
  const { rows } = await client.query("SELECT count(*)::int AS keys FROM posted")
  expect(rows).toEqual([{ keys: 29_999 - 29 }])
  await client.end()
})

/** Number of blocks that a statement has read, by its plan. */
const blocksOf = (plan: Readonly<Record<string, unknown>>): number =>
  Number(plan["Shared Hit Blocks"]) + Number(plan["Shared Read Blocks"])

test("a list reads as much with 20,000 jobs as with 1,000, and what it looks at lies together", async () => {
  const connecting = (namespace: string) => plugin.connect(through(server.port), options(namespace))
  expect(growing(await readsOf(connecting))).toEqual([])
  const driver = await connecting("lists-20000")
  const asked = vi.spyOn(pg.Client.prototype, "query")
  const dear: Array<string> = []
  const look = async (name: string, text: string, values: Array<unknown>): Promise<void> => {
    const blocks = await Promise.all(
      ["lists-1000", "lists-20000"].map(async (namespace) => {
        const client = new pg.Client({ connectionString: server.url })
        await client.connect()
        await client.query(`SET search_path = "${schemaOf(namespace)}"`)
        for (const [setting, value] of Object.entries(SETTINGS)) await client.query(`SET ${setting} = ${value}`)
        const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values)
        await client.end()
        return blocksOf(rows[0]["QUERY PLAN"][0]["Plan"])
      }),
    )
    const [few = 0, many = 0] = blocks
    if (!(many < few + 300 && many < 4_000)) dear.push(`${name}: ${few} blocks, ${many} with more jobs`)
  }
  for (const [name, query] of Object.entries(QUERIES)) {
    asked.mockClear()
    await driver.query?.({ ...query, limit: 50 })
    const [config]: ReadonlyArray<unknown> = asked.mock.calls[0] ?? []
    if (typeof config !== "object" || config === null || !("text" in config) || !("values" in config))
      throw new Error(`${name}: nothing was asked`)
    await look(name, String(config.text), Array.isArray(config.values) ? config.values : [])
  }
  await look("what has ended", "SELECT sweep(0)", [])
  // Counting ends where there are more than are asked for.
  expect(await driver.count?.("cancelled", undefined, 10)).toBe(11)
  expect(await driver.count?.("failed", "rare", 100)).toBe(50)
  await driver.close()
  expect(dear).toEqual([])
})
