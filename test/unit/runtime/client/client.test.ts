import { connect, fetchBoard, TransportError } from "callboard"
import { connectHttp } from "callboard/client"
import { afterEach, describe, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { memory } from "../../../support/memory.ts"
import { start, stopAll } from "../http/harness.ts"

afterEach(stopAll)

const startService = async () => {
  const { service, url } = await start()
  return { client: service.client, url }
}

describe("connect", () => {
  test.each([
    ["nonsense", "invalid", "invalid-input"],
    ["memory://host?bogus=1", "invalid", "invalid-input"],
    ["gopher://host", "unsupported", "unsupported"],
    ["sqlite:board.db?bogus=1", "invalid", "invalid-input"],
    // Nothing listens on the first port.
    ["nats://127.0.0.1:1", "unavailable", "transport-unavailable"],
    ["postgres://127.0.0.1:1/board", "unavailable", "transport-unavailable"],
    ["redis://127.0.0.1:1", "unavailable", "transport-unavailable"],
    ["amqp://127.0.0.1:1?records=memory:", "unavailable", "transport-unavailable"],
  ])("%s fails as %s with the code %s", async (target, reason, code) => {
    await expect(connect(target)).rejects.toMatchObject({ _tag: "TransportError", reason, code })
  })

  test("the scheme of a URL that is nearly that of a transport is told from one that is not", async () => {
    await expect(connect("sqllite:jobs.db")).rejects.toThrow(/^no transport for sqllite: \(did you mean sqlite\?\) — /)
    const transports = { carrier: memory }
    await expect(connect("carier:coop", { transports })).rejects.toThrow(/\(did you mean carrier\?\)/)
    await expect(connect("gopher://host")).rejects.toThrow(/^no transport for gopher: — /)
    expect(() => fetchBoard("builds", "postgre://host")).toThrow(/"postgre" \(did you mean postgres\?\)/)
  })

  test("an object that is no client of a known broker is refused", async () => {
    await expect(connect({})).rejects.toBeInstanceOf(TransportError)
  })

  test("an option that does not exist is refused by name, and one that says nothing is none", async () => {
    const mistyped = { timeoutMs: 1, lease: 9 }
    await expect(connect(`memory://${generateId()}`, mistyped)).rejects.toMatchObject({
      code: "unknown-field",
      message: "timeoutMs is not an option of connect() (did you mean timeout?)",
      details: { field: "timeoutMs" },
    })
    const empty = { timeoutMs: undefined, lease: 9 }
    await using client = await connect(`memory://${generateId()}`, empty)
    expect(client.connection.transport.name).toBe("memory")
  })

  test("`await using` closes what connect opened", async () => {
    let kept: Awaited<ReturnType<typeof connect>>
    {
      await using client = await connect(`memory://${generateId()}`)
      await client.submit("echo")
      kept = client
    }
    await expect(kept.submit("echo")).rejects.toMatchObject({
      code: "transport-unavailable",
      details: { outcome: "none" },
    })
  })
})

test.each([null, 5, "tea", ["tea"], Symbol("tea")])(
  "fields of a task that are %o are refused, in code and over HTTP",
  async (fields) => {
    const { client, url } = await startService()
    for (const { submit } of [{ submit: client.submit.bind(client) }, connectHttp(url)])
      await expect(Reflect.apply(submit, undefined, ["work.echo", fields])).rejects.toMatchObject({
        code: "invalid-input",
        message: "the options of a task must be an object, such as { input: … }",
      })
    for (const { submitMany } of [{ submitMany: client.submitMany.bind(client) }, connectHttp(url)])
      await expect(Reflect.apply(submitMany, undefined, [{ task: "work.echo" }])).rejects.toMatchObject({
        code: "invalid-input",
        message: "the tasks must be a list of objects, each with a `task`",
      })
    await expect(Reflect.apply(client.board("b").post, client.board("b"), ["a", fields])).rejects.toMatchObject({
      code: "invalid-input",
    })
    expect((await client.count()).count).toBe(0)
  },
)

test.each([undefined, null, 5])("a job whose id is %o is not found", async (id) => {
  const { client } = await startService()
  const refused = await Promise.resolve()
    .then(() => Reflect.apply(client.job, client, [id]).find())
    .catch((cause: unknown) => cause)
  expect(refused).toMatchObject({ _tag: "CallboardError", code: "not-found" })
})

test("an option that a call does not have is refused by name, in code and over HTTP, and nothing is done", async () => {
  const { client, url } = await startService()
  const http = connectHttp(url)
  await client.submit("echo", { delay: 600 })
  const boards = [client.board("b"), http.board("b")]
  const posted = await client.board("b").post("a")
  const odd = <A extends object>(options: A) => ({ ...options, odd: 1 })
  const query = odd({ limit: 1 })
  const calls: Readonly<Record<string, ReadonlyArray<() => Promise<unknown>>>> = {
    "suspend()": [() => client.suspend("w1", odd({ ttl: 5 }))],
    "pause()": [() => client.pause("default", odd({ by: "me" }))],
    "purge()": [() => client.purge("default", odd({ forget: true }))],
    "deleteQueue()": [() => client.deleteQueue("default", odd({ forget: true }))],
    "groups()": [() => client.groups(query)],
    "group()": [async () => void client.group([{ task: "echo" }], odd({ id: "g" }))],
    "control()": [() => client.control("ping", {}, odd({ timeout: 1 }))],
    "a query of jobs": [
      () => client.jobs(query),
      () => client.count(odd({ queue: "q" })),
      () => client.cancelAll(query),
      () => client.retryAll(query),
      () => client.planAll("cancel", odd({ queue: "q" })),
    ],
    "waiting()": [() => client.waiting("default", odd({ offset: 5 }))],
    "claim()": boards.map((board) => () => board.claim(posted.id, "me", odd({ expiry: 5 }))),
    "take()": boards.map((board) => () => board.take("me", odd({ expiry: 5 }))),
    "consume()": boards.map((board) => () => board.consume(posted.id, "me", odd({ claim: 1 }))),
    "abandon()": boards.map((board) => () => board.abandon(posted.id, "me", odd({ claim: 1 }))),
    "trash()": boards.map((board) => () => board.trash(posted.id, "me", odd({ claim: 1 }))),
    "extendExpiry()": boards.map((board) => () => board.extendExpiry(posted.id, 5, odd({ claim: 1 }))),
    "iterate()": boards.map((board) => async () => board.iterate(odd({ fresh: true }))),
    "list()": boards.map((board) => () => board.list(query)),
    "trashed()": boards.map((board) => () => board.trashed(query)),
    "wait()": boards.map((board) => () => board.waitFor(posted.id, odd({ timeout: 0 }))),
  }
  for (const [owner, each] of Object.entries(calls))
    for (const call of each)
      await expect(call(), owner).rejects.toMatchObject({
        code: "unknown-field",
        message: expect.stringContaining(`odd is not an option of ${owner}`),
        details: { field: "odd" },
      })
  expect((await client.jobs()).jobs.map(({ state }) => state)).toEqual(["scheduled"])
  expect(await client.board("b").findOwner(posted.id)).toBeNull()
})

test("a filter of jobs that none can meet is refused by name", async () => {
  await using client = await connect(`memory://${generateId()}`)
  const never = new Date("never")
  for (const query of [{ error: "$$$" }, { error: "" }, { idEnds: "abc" }, { since: never }, { until: never }]) {
    const refused = { code: "invalid-input", details: { field: Object.keys(query)[0] } }
    await expect(client.jobs(query)).rejects.toMatchObject(refused)
    await expect(client.retryAll(query)).rejects.toMatchObject(refused)
  }
})

test.each(["", "x".repeat(256)])("a worker by the name %j is not suspended", async (worker) => {
  await using client = await connect(`memory://${generateId()}`)
  for (const call of [client.suspend(worker), client.unsuspend(worker)])
    await expect(call).rejects.toMatchObject({ code: "invalid-input", details: { field: "worker" } })
})

describe("queues", () => {
  test("are told with the names that HTTP and the command line have, paused ones as such", async () => {
    await using client = await connect(`memory://${generateId()}`)
    await client.submitMany([{ task: "a" }, { task: "a", delay: 3_600 }, { task: "a", queue: "other" }])
    await client.pause("other")
    const queues = [...(await client.queues())].sort((a, b) => a.name.localeCompare(b.name))
    const waits = {
      running: 0,
      inFlight: 0,
      oldest: expect.stringMatching(/^\d{4}-.*Z$/),
      oldestAge: expect.any(Number),
    }
    expect(queues).toEqual([
      { name: "default", paused: false, depth: 1, scheduled: 1, ...waits },
      { name: "other", paused: true, depth: 1, scheduled: 0, ...waits },
    ])
    expect(queues[0]?.oldestAge).toBeLessThan(60)
  })
})

test("an argument of another kind is refused by its name, and never means all jobs", async () => {
  const { client } = await startService()
  const job = await client.submit("echo", { delay: 600 })
  // What code without types may give.
  const call = (method: (...args: ReadonlyArray<never>) => unknown, self: object, ...args: ReadonlyArray<unknown>) =>
    new Promise((resolve) => resolve(Reflect.apply(method, self, args)))
  const asked = (field: string, value: unknown) => [field, () => call(client.jobs, client, { [field]: value })] as const
  const calls: ReadonlyArray<readonly [field: string | undefined, refused: () => Promise<unknown>]> = [
    ...[null, 5, "failed", []].map((states) => [undefined, () => call(client.cancelAll, client, states)] as const),
    ...[null, 5, []].map((query) => [undefined, () => call(client.count, client, query)] as const),
    ...[null, 5, []].map((query) => [undefined, () => call(client.planAll, client, "cancel", query)] as const),
    ["decision", () => call(client.planAll, client, "cancle", {})],
    ["ids", () => call(client.cancelAll, client, { ids: undefined })],
    ["ids", () => call(client.cancelAll, client, { ids: job.id })],
    ["ids[0]", () => call(client.retryAll, client, { ids: [5] })],
    ["until", () => call(client.retryAll, client, { ids: [job.id], until: "2031-01-01" })],
    asked("states", 5),
    asked("task", 5),
    asked("rootId", {}),
    asked("since", "2031-01-01"),
    asked("until", new Date(Number.NaN)),
    asked("dead", "yes"),
    asked("after", 5),
    asked("signal", {}),
    ["most", () => call(client.count, client, {}, [])],
    ["limit", () => call(client.waiting, client, "default", { limit: "5" })],
    ["tasks", () => call(client.group, client, null)],
    ["tasks", () => call(client.group, client, {})],
    ["inputs", () => call(client.map, client, "echo", 5)],
    ["inputs", () => call(client.chunks, client, "echo", null, 2)],
    ["listener", () => call(client.listen, client, null, AbortSignal.abort())],
    ["signal", () => call(client.listen, client, () => undefined)],
    ["signal", () => call(client.events(Reflect.get({}, "signal")).next, client.events(Reflect.get({}, "signal")))],
    ["signal", () => call(job.result, job, { timeout: 0, signal: {} })],
  ]
  for (const [field, refused] of calls)
    await expect(refused(), `${field} ${refused}`).rejects.toMatchObject({
      code: "invalid-input",
      ...(field === undefined ? {} : { message: expect.stringContaining(field), details: { field } }),
    })
  expect((await client.jobs()).jobs.map(({ state }) => state)).toEqual(["scheduled"])
})

test("an option of a submission that does not exist is refused, over HTTP as well", async () => {
  const { client, url } = await startService()
  const misspelt: object = { atomc: true }
  const message = "atomc is not an option of submitMany() (did you mean atomic?)"
  const refused = { code: "unknown-field", message, details: { field: "atomc" } }
  for (const each of [client, connectHttp(url)])
    await expect(each.submitMany([{ task: "work.echo", input: 1 }], misspelt)).rejects.toMatchObject(refused)
})
