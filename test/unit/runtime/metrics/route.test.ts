/** `GET /metrics` as a route: which tokens may read it, and what it answers while the transport is away. */
import { actor, http, TransportError } from "callboard"
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest"
import { WORKERS } from "../../../../runtime/cluster/directory.ts"
import { generateId } from "../../../../runtime/id.ts"
import { MAX_QUEUES } from "../../../../runtime/metrics/metrics.ts"
import { step } from "../../../../runtime/protocol/record.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { eventually } from "../../../support/servers/process.ts"
import { startProxy } from "../../plugins/nats/proxy.ts"
import { finished, start, stopAll } from "../http/harness.ts"
import { Exposition } from "./exposition.ts"

afterEach(stopAll)

test("needs the scope read where there are tokens", async () => {
  const tokens = [
    { token: "reader", scopes: ["read"] },
    { token: "sender", scopes: ["submit"] },
  ] as const
  const { ask } = await start({ http: { port: 0, tokens } })
  expect((await ask("GET", "/metrics")).status).toBe(401)
  expect((await ask("GET", "/metrics", { token: "sender" })).status).toBe(403)
  const { status, text } = await ask("GET", "/metrics", { token: "reader" })
  expect(status).toBe(200)
  expect(new Exposition(text).value("callboard_worker_concurrency")).toBeGreaterThan(0)
})

test("a process without a worker tells of the queues; one with metrics off, nothing", async () => {
  const { ask, service } = await start({ actors: [] })
  await service.client.submit("any.task", { queue: "mail" })
  const text = new Exposition((await ask("GET", "/metrics")).text)
  expect(text.of("callboard_queue_depth")).toEqual({ mail: 1 })
  expect(text.value("callboard_workers_blocked")).toBe(0)
  expect(text.all.filter(({ name }) => /worker_|jobs/.test(name))).toEqual([])

  const off = await start({ metrics: false })
  expect(off.service.metrics).toBeUndefined()
  expect(await off.ask("GET", "/metrics")).toMatchObject({ status: 404, body: { code: "not-found" } })
})

test("tells how many workers are blocked, also of other processes", async () => {
  const { ask, service } = await start()
  const [worker] = await service.client.workers()
  if (worker === undefined) throw new Error("no worker is alive")
  const blocked = { ...worker, name: "blocked", state: "blocked" as const, blocked: { since: worker.startedAt } }
  await service.client.connection.store.write([WORKERS.put("blocked", blocked)])
  await eventually(
    async () => new Exposition((await ask("GET", "/metrics")).text).value("callboard_workers_blocked") === 1,
    { message: "it is counted" },
  )
})

test("an application that mounts the routes tells of the board, and of the worker where it is given", async () => {
  const { service } = await start()
  const alone = await (await http(service.client, { open: true }).request("/metrics")).text()
  expect(new Exposition(alone).value("callboard_transport_connected")).toBe(1)
  expect(alone).not.toContain("callboard_worker_")
  const whole = await (
    await http(service.client, { open: true, metrics: service.metrics ?? false }).request("/metrics")
  ).text()
  expect(new Exposition(whole).value("callboard_worker_concurrency")).toBeGreaterThan(0)
})

test("a transport that does not answer costs two seconds, and one that is away nothing", async () => {
  const running = await start()
  const { ask, faults, service } = running
  await finished(running, { task: "work.echo" })
  await running.submit({ task: "work.echo", delay: "1 hour" })
  const own = async () => {
    const began = performance.now()
    const { status, text } = await ask("GET", "/metrics")
    expect(status).toBe(200)
    return { now: new Exposition(text), ms: performance.now() - began }
  }
  await eventually(async () =>
    expect((await own()).now.of("callboard_jobs_total")).toEqual({ "work.echo succeeded": 1 }),
  )
  const whole = (await own()).now
  expect(whole.value("callboard_queue_depth", { queue: "default" })).toBe(0)

  faults.before = (call) => (call === "jobs.queues" ? faults.hang() : undefined)
  const slow = await own()
  expect(slow.ms).toBeGreaterThan(1_900)
  expect(slow.ms).toBeLessThan(4_500)
  expect(slow.now.of("callboard_jobs_total")).toEqual({ "work.echo succeeded": 1 })
  expect(slow.now.value("callboard_queue_depth")).toBeUndefined()

  faults.before = (call) => {
    if (call === "jobs.queues") throw new Error("no")
  }
  expect((await own()).now.value("callboard_queue_depth")).toBeUndefined()

  const asked = faults.calls.get("jobs.queues")
  faults.status("disconnected")
  const away = await own()
  expect(faults.calls.get("jobs.queues")).toBe(asked)
  expect(away.now.value("callboard_transport_connected")).toBe(0)
  expect(away.now.value("callboard_reconnects_total")).toBe(0)
  faults.heal()
  faults.status("connected")
  faults.status("disconnected")
  faults.status("connected")
  const back = await own()
  expect(back.now.value("callboard_reconnects_total")).toBe(2)
  expect(back.now.value("callboard_queue_depth", { queue: "default" })).toBe(0)
  expect(service.metrics).toBeDefined()
})

test("an outcome that is lost, and one that is refused", async () => {
  const { promise: asked, resolve: ask } = Promise.withResolvers<string>()
  const { promise: decided, resolve: decide } = Promise.withResolvers<void>()
  const late = actor("late", {
    methods: {
      works: () => "done",
      waits: async (_input: unknown, job) => {
        ask(job.id)
        await decided
      },
    },
  })
  const running = await start({ transport: `faulty://${generateId()}?lease=1`, actors: [late] })
  const { faults, service } = running
  const { jobs } = service.client.connection
  const scrape = async () => new Exposition((await running.ask("GET", "/metrics")).text)
  faults.before = (call) => {
    if (call !== "jobs.settle") return
    faults.before = () => undefined
    throw new TransportError("unauthorized", "out of order")
  }
  // The first outcome of the job is lost, so that the job runs again when the lease is over.
  await finished(running, { task: "late.works" })
  const lost = await eventually(async () => {
    const now = await scrape()
    expect(now.of("callboard_jobs_total")).toEqual({ "late.works succeeded": 1 })
    return now
  })
  expect(lost.value("callboard_unsettled_total")).toBe(1)
  expect(lost.value("callboard_redeliveries_total")).toBe(1)
  expect(lost.of("callboard_job_wait_seconds_count")).toEqual({ "late.works": 2 })

  const { body } = await running.submit({ task: "late.waits" })
  await asked
  const found = await jobs.find(body.id)
  if (found === undefined) throw new Error("there is no record")
  const record = { ...step(found.record, { at: Date.now(), state: "cancelled" }), fence: "", endedAt: Date.now() }
  // The job is cancelled by a client whose broadcast does not reach the worker.
  await jobs.decide([{ id: body.id, expect: found.revision, record }])
  decide()
  const refused = await eventually(async () => {
    const now = await scrape()
    expect(now.value("callboard_superseded_total")).toBe(1)
    return now
  })
  expect(refused.of("callboard_jobs_total")).toEqual({ "late.works succeeded": 1 })
})

describe("on nats", () => {
  let server: NatsServer
  beforeAll(async () => {
    server = await startNats()
  })
  afterAll(() => server.stop())

  test("a scrape answers while the server is out of reach, and counts that it is back", {
    timeout: 120_000,
  }, async () => {
    const proxy = await startProxy(() => server.port)
    try {
      const { ask } = await start({ transport: `nats://127.0.0.1:${proxy.port}` })
      const scrape = async () => new Exposition((await ask("GET", "/metrics")).text)
      await proxy.cut()
      const away = await eventually(async () => {
        const now = await scrape()
        expect(now.value("callboard_transport_connected")).toBe(0)
        return now
      })
      expect(away.value("callboard_reconnects_total")).toBe(0)
      expect(away.value("callboard_worker_concurrency")).toBeGreaterThan(0)
      expect(away.value("callboard_queue_depth")).toBeUndefined()
      await proxy.heal()
      const back = await eventually(
        async () => {
          const now = await scrape()
          expect(now.value("callboard_transport_connected")).toBe(1)
          return now
        },
        { deadline: 60_000 },
      )
      expect(back.value("callboard_reconnects_total")).toBe(1)
    } finally {
      await stopAll()
      await proxy.stop()
    }
  })
})

test("whoever makes queues without end does not fill the page", async () => {
  const { ask, service } = await start({ actors: [] })
  const tasks = Array.from({ length: MAX_QUEUES + 50 }, (_, at) => ({ task: "any.task", queue: `q${at}` }))
  await service.client.submitMany(tasks)
  await service.client.submitMany([{ task: "any.task", queue: `q${MAX_QUEUES + 49}` }])
  const depths = new Exposition((await ask("GET", "/metrics")).text).of("callboard_queue_depth")
  expect(Object.keys(depths)).toHaveLength(MAX_QUEUES)
  expect(depths[`q${MAX_QUEUES + 49}`]).toBe(2)
})
