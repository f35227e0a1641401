/**
 * A service over AMQP with a real RabbitMQ: tasks in Celery's form, a server that ends, queues that are deleted, bad
 * input.
 */
import { type ConfirmChannel, connect as connectAmqp } from "amqplib"
import { actor, connect, serve } from "callboard"
import { afterAll, beforeAll, expect, test } from "vitest"
import { plugin } from "../../plugins/amqp/mod.ts"
import type { ConnectOptions } from "../../runtime/transport/mod.ts"
import { driverPosting } from "../kit/driver/task.ts"
import { keep } from "../support/servers/keep.ts"
import { startNats } from "../support/servers/nats.ts"
import { startPostgres } from "../support/servers/postgres.ts"
import { eventually, temporaryFolder } from "../support/servers/process.ts"
import { type RabbitmqServer, startRabbitmq } from "../support/servers/rabbitmq.ts"
import { startRedis } from "../support/servers/redis.ts"
import { workBoard } from "../support/work-board.ts"
import { startProxy } from "../unit/plugins/nats/proxy.ts"

let server: RabbitmqServer
const folder = temporaryFolder()

beforeAll(async () => {
  server = await startRabbitmq()
})

afterAll(async () => {
  await server?.stop()
  folder.remove()
})

const optionsOf = (namespace: string): ConnectOptions => ({ namespace, lease: 30_000, name: "test", timeout: 5_000 })

let boards = 0
/** URL of a new board. Its queues have the names that a Celery application uses. */
const freshUrl = (query = ""): string => `${server.url}?records=sqlite:${folder.path}/${++boards}.db${query}`

const lab = actor("lab", {
  methods: {
    add: ({ x, y }: { x: number; y: number }) => x + y,
    flaky: (_: unknown, job) => {
      if (job.attempt === 1) throw new Error("once more")
      return job.attempt
    },
    slow: async (_: unknown, job) => {
      await new Promise((resolve) => setTimeout(resolve, 300))
      return job.attempt
    },
  },
})

const started = async (transport: string, queue: string) => {
  const options = { signals: false, logLevel: "none", unknownGrace: "1 second" } as const
  const service = await serve({ transport, queues: [queue], actors: [lab], ...options })
  return keep(Object.assign(service, { [Symbol.asyncDispose]: () => service.stop() }))
}

/** A channel of the client library, as a Celery application would have. */
const channelOf = async () => {
  const connection = await connectAmqp(server.url)
  connection.on("error", () => undefined)
  keep({ [Symbol.asyncDispose]: () => connection.close().catch(() => undefined) })
  return connection.createConfirmChannel()
}

/** Declares a queue as Celery's client and worker do. */
const declare = async (channel: ConfirmChannel, queue: string): Promise<void> => {
  await channel.assertQueue(queue, { durable: true })
  await channel.assertExchange(queue, "direct", { durable: true })
  await channel.bindQueue(queue, queue, queue)
}

const celeryTask = (id: string, task: string) => ({
  contentType: "application/json",
  contentEncoding: "utf-8",
  correlationId: id,
  replyTo: "988ac6d3-1ce0-3124-82b5-1dda2f6cfd44",
  deliveryMode: 2,
  priority: 0,
  headers: {
    ...{ lang: "py", task, id, shadow: null, eta: null, expires: null, group: null, group_index: null, retries: 0 },
    ...{ timelimit: [null, null], root_id: id, parent_id: null, argsrepr: "()", kwargsrepr: "{}", origin: "gen1@vm" },
    ...{ ignore_result: false, replaced_task_nesting: 0, stamped_headers: null, stamps: {} },
  },
})

const bodyOf = (kwargs: object): Buffer =>
  Buffer.from(JSON.stringify([[], kwargs, { callbacks: null, errbacks: null, chain: null, chord: null }]))

test("jobs are submitted, deferred, retried and cancelled, and the broker is empty afterwards", async () => {
  const transport = freshUrl()
  const service = await started(transport, "plain")
  const { client } = service
  const sums = await Promise.all(
    Array.from({ length: 20 }, (_, x) => client.submit("lab.add", { queue: "plain", input: { x, y: 1 } })),
  )
  expect(await Promise.all(sums.map((job) => job.result({ timeout: 30 })))).toEqual(sums.map((_, x) => x + 1))
  const retried = await client.submit("lab.flaky", { queue: "plain", retry: { max: 2, interval: "100ms" } })
  expect(await retried.result({ timeout: 30 })).toBe(2)
  const later = await client.submit("lab.add", { queue: "plain", delay: "300ms", input: { x: 1, y: 1 } })
  expect(await later.find()).toMatchObject({ state: "scheduled" })
  expect(await later.result({ timeout: 30 })).toBe(2)
  await service.stop()
  await using other = await connect(transport)
  const waiting = await other.submit("lab.add", { queue: "plain", input: { x: 1, y: 1 } })
  expect(await waiting.find()).toMatchObject({ state: "queued" })
  await waiting.cancel()
  expect(await waiting.find()).toMatchObject({ state: "cancelled" })
  await started(transport, "plain")
  const channel = await channelOf()
  await eventually(async () => (await channel.checkQueue("plain")).messageCount === 0, { message: "an empty queue" })
  expect(await waiting.find()).toMatchObject({ state: "cancelled", attempts: 0 })
})

test("queues are declared as Celery declares them, and a queue that already exists is used as it is", async () => {
  const channel = await channelOf()
  await channel.assertQueue("priorities", { durable: true, arguments: { "x-max-priority": 5 } })
  const service = await started(freshUrl(), "priorities")
  const job = await service.client.submit("lab.add", { queue: "priorities", input: { x: 1, y: 2 } })
  expect(await job.result({ timeout: 30 })).toBe(3)
  await using client = await connect(freshUrl())
  await client.submit("lab.add", { queue: "declared", input: { x: 1, y: 2 } })
  // The server refuses a declaration with other arguments, so this one must be the same.
  await declare(channel, "declared")
  const message = await channel.get("declared")
  if (message === false) throw new Error("nothing was published")
  expect(message.fields).toMatchObject({ exchange: "", routingKey: "declared" })
  expect(message.properties).toMatchObject({
    contentType: "application/json",
    deliveryMode: 2,
    headers: { task: "lab.add" },
  })
  expect(message.properties.expiration).toBeUndefined()
})

test("a task that Celery publishes runs, and is found by its id", async () => {
  const service = await started(freshUrl(), "celery")
  const channel = await channelOf()
  await declare(channel, "celery")
  const id = "09a2c724-94c9-492b-bc0d-4ed93c268e2b"
  channel.publish("celery", "celery", bodyOf({ x: 9377, y: -2482 }), celeryTask(id, "lab.add"))
  await channel.waitForConfirms()
  const found = () =>
    service.client
      .job(id)
      .find()
      .catch(() => undefined)
  await eventually(async () => (await found())?.state === "succeeded", { message: "the end of the task" })
  expect(await service.client.job(id).result()).toBe(6895)
})

test("a message that is no task becomes a dead letter, and the worker continues", async () => {
  const service = await started(freshUrl(), "hostile")
  const { client } = service
  const channel = await channelOf()
  await declare(channel, "hostile")
  const { headers } = celeryTask("a", "lab.add")
  const bad = [
    { body: Buffer.from("\x80\x04cos\nsystem\n"), options: { contentType: "application/x-python-serialize", headers } },
    { body: Buffer.from("[1"), options: { ...celeryTask("b", "lab.add") } },
    { body: Buffer.alloc(0), options: {} },
    { body: Buffer.from("{}"), options: { headers: { id: { "!": "timestamp", value: 7 }, task: [["x"]] } } },
    { body: bodyOf({}), options: { ...celeryTask("c", "nobody.serves"), timestamp: 5, appId: "x", type: "y" } },
  ]
  for (const { body, options } of bad) channel.sendToQueue("hostile", body, options)
  const job = await client.submit("lab.add", { queue: "hostile", input: { x: 1, y: 2 } })
  expect(await job.result({ timeout: 30 })).toBe(3)
  const dead = async () => (await client.jobs({ dead: true, limit: 100 })).jobs
  await eventually(async () => (await dead()).length === bad.length, { message: "dead letters", deadline: 60_000 })
})

test("jobs that run and wait while the server is killed end once each, and none is lost", async () => {
  const transport = freshUrl()
  const service = await started(transport, "killed")
  const jobs = await Promise.all(
    Array.from({ length: 30 }, () => service.client.submit("lab.slow", { queue: "killed" })),
  )
  await eventually(async () => (await jobs[0]?.find())?.state !== "queued", { message: "a job that runs" })
  await server.kill()
  // While the server is away a submission is stored in the records, which publish the task later.
  const meanwhile = await service.client.submit("lab.slow", { queue: "killed" })
  await server.restart()
  for (const job of [...jobs, meanwhile]) {
    await job.result({ timeout: 90 })
    const { transitions } = await job.find()
    expect(transitions.filter(({ state }) => state === "succeeded")).toHaveLength(1)
  }
}, 200_000)

test("a new quorum queue keeps what it has confirmed although its only server is killed at once", async () => {
  const queues = await plugin.connect(new URL(`${server.url}?queue-type=quorum`), optionsOf("new"))
  const ids = Array.from({ length: 10 }, (_, n) => `task-${n}`)
  const receipts = await queues.publish(ids.map((id) => driverPosting({ id, queue: "quorum" })))
  expect(receipts).toEqual(ids.map(() => ({ status: "stored" })))
  await server.kill()
  await server.restart()
  const request = { queues: ["quorum"], max: ids.length, wait: 0, rotate: false }
  const left = new Set(ids)
  const take = async () => {
    const { deliveries } = await queues.take(request, new AbortController().signal)
    for (const { content } of deliveries) {
      if (!("headers" in content)) throw new Error("no message")
      left.delete(String(content.headers["id"]))
    }
    return left.size === 0
  }
  await eventually(() => take().catch(() => false), { message: "all confirmed messages", deadline: 60_000 })
  await queues.close()
}, 200_000)

test("tasks of a deleted queue are delivered by the records, and the queue is declared again", async () => {
  const transport = freshUrl()
  await using client = await connect(transport)
  const first = await client.submit("lab.add", { queue: "deleted", input: { x: 1, y: 1 } })
  const channel = await channelOf()
  await channel.purgeQueue("deleted")
  await channel.deleteQueue("deleted")
  const second = await client.submit("lab.add", { queue: "deleted", input: { x: 1, y: 2 } })
  const service = await started(transport, "deleted")
  expect(await second.result({ timeout: 60 })).toBe(3)
  const third = await service.client.submit("lab.add", { queue: "deleted", input: { x: 1, y: 3 } })
  expect(await third.result({ timeout: 60 })).toBe(4)
  // Messages that an operator has deleted on the server do not come back. Their job is still shown, and can be run
  // again.
  expect(await first.find()).toMatchObject({ state: "queued" })
  await first.cancel()
  await first.retry()
  expect(await first.result({ timeout: 60 })).toBe(2)
})

test("while the server accepts no message, the records accept tasks and deliver them", async () => {
  const transport = freshUrl()
  const service = await started(transport, "blocked")
  const submit = () => service.client.submit("lab.add", { queue: "blocked", input: { x: 1, y: 2 } })
  expect(await (await submit()).result({ timeout: 30 })).toBe(3)
  await server.control("set_vm_memory_high_watermark", "0.000001")
  try {
    const jobs = await Promise.all([submit(), submit()])
    for (const job of jobs) expect(await job.result({ timeout: 60 })).toBe(3)
  } finally {
    await server.control("set_vm_memory_high_watermark", "0.4")
  }
  expect(await (await submit()).result({ timeout: 60 })).toBe(3)
}, 120_000)

test.each([
  ["nats", startNats],
  ["postgres", startPostgres],
  ["redis", startRedis],
] as const)("the records may lie in %s", async (name, start) => {
  const { url } = keep(await start())
  const service = await started(`${server.url}?records=${encodeURIComponent(url)}`, `beside-${name}`)
  const submit = (delay?: string) =>
    service.client.submit("lab.add", { queue: `beside-${name}`, input: { x: 1, y: 2 }, ...(delay && { delay }) })
  const jobs = await Promise.all([submit(), submit(), submit("200ms")])
  for (const job of jobs) expect(await job.result({ timeout: 60 })).toBe(3)
})

test("a server that does not answer counts as a lost connection, and works again afterwards", async () => {
  const proxy = await startProxy(() => server.port)
  keep({ [Symbol.asyncDispose]: () => proxy.stop() })
  const url = new URL(server.url)
  url.port = String(proxy.port)
  const queues = await plugin.connect(url, {
    namespace: "silent",
    lease: 30_000,
    name: "t",
    timeout: 1_000,
    heartbeat: 500,
  })
  const heard: Array<string> = []
  queues.onStatus((status) => heard.push(status))
  const take = () => queues.take({ queues: ["a"], max: 1, wait: 0, rotate: false }, new AbortController().signal)
  const posting = driverPosting({ id: "one", queue: "a" })
  expect(await queues.publish([posting])).toEqual([{ status: "stored" }])
  const [delivery] = (await take()).deliveries
  proxy.freeze()
  await eventually(() => heard.includes("disconnected"), { message: "the loss of the connection" })
  expect(await queues.publish([posting]).catch(({ reason }) => reason)).toBe("unavailable")
  proxy.thaw()
  await proxy.heal()
  await eventually(() => heard.at(-1) === "connected", { message: "a connection" })
  expect(await queues.extend([delivery?.token ?? ""])).toEqual([false])
  await eventually(async () => (await take()).deliveries.length === 1, { message: "the task that was not acked" })
  await queues.close()
})

test("a queue that the server refuses loses no task of another queue", async () => {
  const queues = await plugin.connect(new URL(server.url), optionsOf("callboard"))
  const take = (names: ReadonlyArray<string>, wait: number) =>
    queues.take({ queues: names, max: 5, wait, rotate: false }, new AbortController().signal)
  await queues.publish([driverPosting({ id: "one", queue: "sound" })])
  for (const wait of [0, 200]) await expect(take(["sound", "amq.reserved"], wait)).rejects.toThrow("ACCESS_REFUSED")
  expect((await take(["sound"], 0)).deliveries).toHaveLength(1)
  await queues.close()
})

test("job boards work on this transport", () => workBoard(freshUrl()))

test("errors name the wrong part of the URL, or the missing permission", async () => {
  const refusal = (change: { [Part in "password" | "pathname" | "search" | "port"]?: string }) => {
    const url = Object.assign(new URL(server.url), change)
    return plugin.connect(url, optionsOf("a")).then(
      () => "connected",
      ({ reason, message }) => `${reason} ${message}`,
    )
  }
  expect(await refusal({ password: "wrong" })).toMatch(/^unauthorized .*ACCESS.REFUSED/)
  expect(await refusal({ pathname: "/nowhere" })).toMatch(/^unauthorized .*virtual host/)
  expect(await refusal({ search: "?queue-type=stream" })).toMatch(/^invalid .*classic or quorum/)
  expect(await refusal({ search: "?max-priority=300" })).toMatch(/^invalid .*0 to 255/)
  expect(await refusal({ search: "?queue-type=quorum&max-priority=3" })).toMatch(/^invalid .*quorum/)
  expect(await refusal({ search: "?bogus=1" })).toMatch(/^invalid .*\?bogus is not an option of amqp:/)
  expect(await refusal({ port: "1" })).toMatch(/^unavailable .*ECONNREFUSED/)
  await expect(connect(server.url)).rejects.toThrow("it does not store records")
})
