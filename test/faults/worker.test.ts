/** Races and faults of the worker: no job is lost or run twice, no slot leaks, and no wait lasts for ever. */
import { actor, type Service } from "callboard"
import { describe, expect, test } from "vitest"
import { CANCEL_TOPIC } from "../../runtime/connection/connection.ts"
import { generateId } from "../../runtime/id.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import { gate, sleep, withJobs } from "../support/faulty-board.ts"
import { eventually } from "../support/servers/process.ts"
import { quick, remembering, start, WAIT } from "./service.ts"

test("jobs that a stop can neither settle nor hand back are named in the log", { timeout: 30_000 }, async () => {
  const refusing = new TransportError("unavailable", "the store is away")
  const answers = { refuses: () => Promise.reject(refusing), silent: () => new Promise<never>(() => undefined) }
  const stopped = Object.entries(answers).map(async ([how, answer]) => {
    let isAway = false
    let named: unknown
    const error = (message: string, fields: object) => {
      if (/handed back/.test(message)) named = { ...fields }
    }
    const transports = withJobs((jobs) => ({ settle: (ends) => (isAway ? answer() : jobs.settle(ends)) }))
    const held = actor("held", { methods: { run: () => new Promise(() => undefined) } })
    const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error }
    const service = await start([held], { transports, log, logLevel: "error" })
    await service.client.submit("held", { id: how })
    await eventually(() => service.worker?.describe().running.length === 1, { message: "it runs" })
    isAway = true
    expect(await service.stop({ now: true })).toMatchObject({ handedBack: 0, lost: 1 })
    return named
  })
  expect(await Promise.all(stopped)).toMatchObject([{ job: "refuses" }, { jobs: ["silent"] }])
})

describe("slots", () => {
  test("come back when onSettled throws", async () => {
    const service = await start([quick], {
      concurrency: 1,
      prefetch: 1,
      onSettled: () => {
        throw new Error("from the application")
      },
    })
    for (let n = 0; n < 3; n++) expect(await (await service.client.submit("quick")).result(WAIT)).toBe("done")
    await eventually(() => service.worker?.describe().inFlight === 0, { message: "nothing is held" })
    const began = performance.now()
    await service.stop()
    expect(performance.now() - began).toBeLessThan(10_000)
  })

  test("go on after the process stood still, though nothing new comes", async () => {
    const slow = gate()
    const stood = gate()
    let begun = false
    const block = actor("block", {
      methods: {
        run: async () => {
          begun = true
          await sleep(10)
          const end = performance.now() + 700
          while (performance.now() < end);
          stood.open()
        },
      },
    })
    // The answer about the leases comes only after the attempts that ran have ended. On a busy machine the worker may ask before
    // the job has begun; then it gets its answer at once, since no handler starts without one.
    const transports = withJobs((jobs) => ({
      extend: async (tokens) => {
        if (begun) await slow.opened
        return jobs.extend(tokens)
      },
    }))
    const service = await start([block, quick], { transports, lease: 1, concurrency: 1, prefetch: 4 })
    const [, waiting] = await service.client.submitMany([{ task: "block" }, { task: "quick" }])
    // The answer comes before the lease is over: a task that is delivered again would hide that the worker forgot its delivery.
    await stood.opened
    slow.open()
    const id = waiting !== undefined && "state" in waiting ? waiting.id : ""
    expect(await service.client.job(id).outcome(WAIT)).toMatchObject({ state: "succeeded" })
  })
})

describe("a great many tasks at once", () => {
  test("that end at once need no stack for each of them", async () => {
    const transport = `faulty://${generateId()}`
    const MANY = 12_000
    const faults: Array<string> = []
    const { log } = remembering()
    const noted = { ...log, error: (message: string) => void faults.push(message), with: () => noted }
    const sender = await start([], { transport })
    await sender.client.submitMany(Array.from({ length: MANY }, () => ({ task: "quick" })))
    const service = await start([quick], { transport, concurrency: 10_000, log: noted })
    const worker = service.worker
    await eventually(() => worker?.describe().processed === MANY, { message: "all are done" })
    expect(faults).toEqual([])
  })
})

describe("a queue that is not listened to any more", () => {
  test("gives nothing to run, also tasks that a take brings late", async () => {
    const late = gate()
    let takes = 0
    let arrived = 0
    const transports = withJobs((jobs) => ({
      take: async (request, signal) => {
        const deliveries = await jobs.take(request, signal)
        if (deliveries.length === 0) return deliveries
        takes++
        await late.opened
        arrived++
        return deliveries
      },
    }))
    let ran = 0
    const counting = actor("counting", { methods: { run: () => void ran++ } })
    const service = await start([counting], { transports, queues: ["left", "default"] })
    const job = await service.client.submit("counting", { queue: "left" })
    await eventually(() => takes === 1, { message: "it is on its way" })
    expect(service.worker?.removeQueue("left")).toBe(true)
    late.open()
    await eventually(() => arrived === 1 && service.worker?.describe().inFlight === 0, { message: "it is back" })
    await (await service.client.submit("counting")).outcome(WAIT)
    expect(ran).toBe(1)
    expect(await job.find()).toMatchObject({ state: "queued", attempts: 0 })
  })
})

describe("stopping", () => {
  test("hands back tasks that a take brought in the very moment of the stop", async () => {
    const transport = `faulty://${generateId()}`
    let service: Service | undefined
    let stopped: Promise<unknown> | undefined
    const transports = withJobs((jobs) => ({
      take: async (request, signal) => {
        const deliveries = await jobs.take(request, signal)
        // The task is taken, and the worker is stopped before it gets the delivery.
        if (deliveries.length > 0) stopped ??= service?.stop()
        return deliveries
      },
    }))
    service = await start([quick], { transport, transports })
    const other = await start([quick], { transport, queues: ["other"] })
    const { id } = await other.client.submit("quick")
    await eventually(() => stopped, { message: "the take has brought the task" })
    await stopped
    const stats = await other.client.queues()
    expect(stats).toMatchObject([{ name: "default", depth: 1, inFlight: 0 }])
    expect((await other.client.job(id).find()).attempts).toBe(0)
  })

  test("does not start a handler that was still being prepared", async () => {
    const transport = `faulty://${generateId()}`
    const claiming = gate()
    let claims = 0
    let ran = 0
    const counting = actor("counting", { methods: { run: () => void ran++ } })
    const transports = withJobs((jobs) => ({
      // The delivery counts as a redelivery, so that it must be claimed; the answer to the claim is late.
      take: async (request, signal) =>
        (await jobs.take(request, signal)).map((delivery) => ({ ...delivery, fresh: false })),
      claim: async (all) => {
        claims++
        const answers = await jobs.claim(all)
        await claiming.opened
        return answers
      },
    }))
    const service = await start([counting], { transport, transports })
    const other = await start([quick], { transport, queues: ["other"] })
    const { id } = await other.client.submit("counting")
    await eventually(() => claims === 1, { message: "the claim is under way" })
    const stopping = service.stop({ now: true })
    claiming.open()
    await stopping
    const record = await eventually(async () => (await other.client.connection.jobs.find(id))?.record)
    expect(record).toMatchObject({ state: "queued", attempt: 0, claims: 0 })
    expect(ran).toBe(0)
  })

  test("does not run a job whose lease was lost while it was being prepared", async () => {
    const claiming = gate()
    let lost = false
    let ran = 0
    const counting = actor("counting", { methods: { run: () => void ran++ } })
    const transports = withJobs((jobs) => ({
      take: async (request, signal) =>
        (await jobs.take(request, signal)).map((delivery) => ({ ...delivery, fresh: false })),
      claim: async (all) => {
        const answers = await jobs.claim(all)
        await claiming.opened
        return answers
      },
      extend: async (tokens) => {
        // The worker gets the answer some turns of the event loop later.
        setTimeout(() => {
          lost = true
        }, 100)
        return tokens.map(() => false)
      },
    }))
    const service = await start([counting], { transports, lease: 1 })
    await service.client.submit("counting")
    await eventually(() => lost, { message: "the lease was lost" })
    claiming.open()
    await eventually(() => service.worker?.describe().inFlight === 0, { message: "it is given up" })
    expect(ran).toBe(0)
  })

  test("does not wait for an actor that never starts again", async () => {
    let starts = 0
    let fail: (cause: unknown) => void = () => undefined
    const fragile = actor("fragile", {
      restart: { backoff: { base: "10 ms" } },
      start: (scope) => {
        fail = scope.fail
        return ++starts === 1 ? "first" : new Promise<string>(() => undefined)
      },
      methods: { run: () => null },
    })
    const service = await start([fragile])
    fail(new Error("lost"))
    await eventually(() => starts === 2, { message: "it is started again" })
    expect(await Promise.race([service.stop(), sleep(10_000)])).toMatchObject({ stuck: 0 })
  })

  test("a worker that had nothing to do was ready all the same", async () => {
    const service = await start([quick], { burst: true })
    await service.stopped
    await service.ready()
  })

  test("a worker that may be idle for years does not end at once", async () => {
    const service = await start([quick], { maxIdle: "800 days" })
    const ended = service.stopped.then(() => "ended")
    expect(await Promise.race([ended, sleep(300).then(() => "works")])).toBe("works")
    expect(await (await service.client.submit("quick")).outcome(WAIT)).toMatchObject({ state: "succeeded" })
  })

  test("a grace of years is a grace, and no hurry", async () => {
    const finish = gate()
    const waits = actor("waits", { methods: { run: () => finish.opened } })
    const service = await start([waits], { grace: "800 days" })
    await service.client.submit("waits")
    await eventually(() => service.worker?.describe().running.length === 1)
    const stopping = service.stop()
    await sleep(100)
    finish.open()
    expect(await stopping).toMatchObject({ finished: 1, handedBack: 0 })
  })
})

describe("news of a cancellation", () => {
  const announceCancellation = (service: Service, news: object) =>
    service.client.connection.broadcast.send(CANCEL_TOPIC, new TextEncoder().encode(JSON.stringify(news)))
  /** The cancellations that are announced from now on. */
  const cancellations = async (service: Service): Promise<ReadonlyArray<unknown>> => {
    const heard: Array<unknown> = []
    await service.client.connection.broadcast.listen(
      CANCEL_TOPIC,
      (payload) => heard.push(JSON.parse(new TextDecoder().decode(payload))),
      new AbortController().signal,
    )
    return heard
  }

  test("of an earlier run, that comes late, ends nothing of the next", async () => {
    const finish = gate()
    const waits = actor("waits", { methods: { run: () => finish.opened } })
    const service = await start([waits], { concurrency: 1 })
    const running = await service.client.submit("waits", { id: "running", delay: 60 })
    const waiting = await service.client.submit("waits", { id: "waiting", delay: 60 })
    for (const job of [running, waiting]) {
      await job.cancel()
      await job.retry()
    }
    await eventually(() => service.worker?.describe().inFlight === 2, { message: "both are held" })
    await eventually(() => service.worker?.describe().running.length === 1, { message: "one runs" })
    const heard = await cancellations(service)
    for (const id of ["running", "waiting"]) await announceCancellation(service, { id, run: 1, terminate: true })
    // The worker has listened for longer than this test, so it has received them as well.
    await eventually(() => heard.length === 2, { message: "the news have come" })
    finish.open()
    expect(await running.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(await waiting.outcome(WAIT)).toMatchObject({ state: "succeeded" })
  })

  test("names the run, so that it can be told from the next", async () => {
    const service = await start([quick])
    const heard = await cancellations(service)
    const job = await service.client.submit("quick", { delay: 60 })
    await job.cancel()
    await eventually(() => heard.length === 1)
    expect(heard).toEqual([{ id: job.id, run: 1, terminate: false }])
  })
})
