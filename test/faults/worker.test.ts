/** Races and faults of the worker: no job is lost or run twice, no slot leaks, and no wait lasts for ever. */
import { type ActorDefinition, actor, type ServeOptions, type Service, serve } from "callboard"
import { TransportError } from "callboard/transport"
import { afterEach, describe, expect, test } from "vitest"
import { CANCEL_TOPIC } from "../../runtime/connection/connection.ts"
import { generateId } from "../../runtime/id.ts"
import { makeLog } from "../../runtime/log/log.ts"
import type { Jobs } from "../../runtime/transport/lift/transport.ts"
import { faulty, gate, sleep, withJobs } from "../support/faulty-board.ts"
import { eventually } from "../support/servers/process.ts"

const services: Array<Service> = []
afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => service.stop({ now: true })))
})

const start = async (actors: ReadonlyArray<ActorDefinition>, options: ServeOptions = {}): Promise<Service> => {
  const service = await serve({
    transport: `faulty://${generateId()}`,
    transports: faulty((same) => same),
    actors,
    signals: false,
    logLevel: "none",
    ...options,
  })
  services.push(service)
  await service.ready()
  return service
}

const WAIT = { timeout: 60 } as const
const quick = actor("quick", { methods: { run: () => "done" } })

/** A log that keeps its lines for the test. */
const remembering = () => {
  const lines: Array<string> = []
  const silent = makeLog({ level: "none" })
  const log = {
    ...silent,
    enabled: () => true,
    warn: (message: string) => void lines.push(`warn ${message}`),
    error: (message: string) => void lines.push(`error ${message}`),
    with: () => log,
  }
  return { lines, log }
}

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
    const service = await start([block, quick], { transports, leaseMs: 1_000, concurrency: 1, prefetch: 4 })
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
      begin: async (all) => {
        claims++
        const answers = await jobs.begin(all)
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
      begin: async (all) => {
        const answers = await jobs.begin(all)
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
    const service = await start([counting], { transports, leaseMs: 1_000 })
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
    expect(await Promise.race([service.stop(), sleep(4_000)])).toMatchObject({ stuck: 0 })
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

describe("a transport that misbehaves", () => {
  test("one whose store fails at the start lets a worker begin, and end when its name is a live worker's", async () => {
    const transport = `faulty://${generateId()}`
    const first = await start([quick], { transport, name: "w1" })
    const { lines, log } = remembering()
    let fails = true
    const transports = faulty(({ store, ...transport }) => ({
      ...transport,
      store: {
        ...store,
        get: async (keys) => {
          if (fails && keys.includes("worker/w1")) throw new TransportError("unavailable", "away for a moment")
          return store.get(keys)
        },
      },
    }))
    const second = await start([quick], { transport, transports, name: "w1", log })
    const began = (await first.client.workers())[0]?.startedAt
    fails = false
    expect(await second.failed).toMatchObject({ reason: "invalid", message: expect.stringContaining("w1 already") })
    expect(lines).toEqual([expect.stringMatching(/^error the worker gives up: .* give this one another name$/)])
    expect(second.worker?.listening).toBe(false)
    await second.stop({ now: true })
    expect(await first.client.workers()).toMatchObject([{ name: "w1", startedAt: began }])
    expect(await (await first.client.submit("quick")).result(WAIT)).toBe("done")
  })

  /** A transport on which every delivery must be claimed. `claim` gets the number of the call and the function that really claims. */
  const claiming = (claim: (count: number, ask: () => ReturnType<Jobs["begin"]>) => ReturnType<Jobs["begin"]>) => {
    let count = 0
    return withJobs((jobs) => ({
      take: async (request, signal) =>
        (await jobs.take(request, signal)).map((delivery) => ({ ...delivery, fresh: false })),
      begin: (all) => claim(++count, () => jobs.begin(all)),
    }))
  }

  test("one that rejects a claim is asked again: the job runs in the same delivery", async () => {
    const { lines, log } = remembering()
    const transports = claiming(async (count, ask) => {
      if (count === 1) throw new TransportError("unavailable", "away for a moment")
      return ask()
    })
    const service = await start([quick], { transports, log })
    expect(await (await service.client.submit("quick")).result(WAIT)).toBe("done")
    expect(lines).toEqual([])
  })

  test("one that loses the answer to a claim is asked again: the attempt counts once", async () => {
    const transports = claiming(async (count, ask) => {
      const answers = await ask()
      if (count <= 2) throw new TransportError("unavailable", "the answer was lost", { outcome: "unknown" })
      return answers
    })
    const service = await start([quick], { transports })
    const job = await service.client.submit("quick")
    expect(await job.result(WAIT)).toBe("done")
    const found = await service.client.connection.jobs.find(job.id)
    expect(found?.record.attempt).toBe(1)
    expect(found?.record.timeline.map(({ n, state }) => `${n} ${state}`)).toEqual([
      "1 queued",
      "2 started",
      "3 succeeded",
    ])
  })

  test("one that rejects claims for longer is waited for: the job runs later, and nothing is called a fault", async () => {
    const { lines, log } = remembering()
    const transports = claiming(async (count, ask) => {
      if (count <= 3) throw new TransportError("unavailable", "away for a while")
      return ask()
    })
    const service = await start([quick], { transports, log })
    expect(await (await service.client.submit("quick")).result(WAIT)).toBe("done")
    expect(lines).toEqual(["warn a job could not be claimed"])
  })

  test("one that loses all answers to a first claim has lost no worker by it", async () => {
    let claims = 0
    const transports = withJobs((jobs) => ({
      begin: async (all) => {
        const answers = await jobs.begin(all)
        if (++claims <= 3) throw new TransportError("unavailable", "the answer was lost", { outcome: "unknown" })
        return answers
      },
    }))
    const careful = actor("careful", { methods: { run: { onLost: "fail", run: () => "done" } } })
    const service = await start([careful], { transports })
    const job = await service.client.submit("careful")
    expect(await job.result(WAIT)).toBe("done")
    expect((await service.client.connection.jobs.find(job.id))?.record.attempt).toBe(1)
  })

  test("one that throws instead of rejecting does not end the process", async () => {
    let ends = 0
    const transports = withJobs((jobs) => ({
      end: (all) => {
        if (++ends === 1) throw new TransportError("unavailable", "thrown, not rejected")
        return jobs.end(all)
      },
    }))
    const service = await start([quick], { transports })
    expect(await (await service.client.submit("quick")).result(WAIT)).toBe("done")
  })

  test("one internal fault of a take does not end the worker", async () => {
    let takes = 0
    const transports = withJobs((jobs) => ({
      take: (request, signal) =>
        ++takes === 2 ? Promise.reject(new TransportError("internal", "hiccup")) : jobs.take(request, signal),
    }))
    const service = await start([quick], { transports })
    for (let n = 0; n < 3; n++) expect(await (await service.client.submit("quick")).result(WAIT)).toBe("done")
  })

  test("one that can never work ends the worker, which says so", async () => {
    const { lines, log } = remembering()
    let isRevoked = false
    const revoked = gate()
    const transports = withJobs((jobs) => ({
      take: async (request, signal) => {
        if (!isRevoked) await Promise.race([jobs.take({ ...request, wait: 50 }, signal)])
        if (isRevoked) throw new TransportError("unauthorized", "these credentials were revoked")
        return []
      },
    }))
    const service = await start([quick], { transports, log })
    // Handled at once, so that its later failure is not an unhandled rejection.
    await service.ready()
    isRevoked = true
    revoked.open()
    expect(await service.failed).toMatchObject({ reason: "unauthorized" })
    expect(lines.join()).toContain("these credentials were revoked")
    await expect(service.ready()).rejects.toMatchObject({ reason: "unauthorized" })
  })

  test("waiting for a transport that is down leaves no listener behind", async () => {
    let isDown = true
    let tries = 0
    const listeners = new Set<unknown>()
    const add = EventTarget.prototype.addEventListener
    const remove = EventTarget.prototype.removeEventListener
    const transports = withJobs((jobs) => ({
      end: async (all) => {
        tries++
        if (isDown) throw new TransportError("unavailable", "down")
        return jobs.end(all)
      },
    }))
    const service = await start([quick], { transports })
    EventTarget.prototype.addEventListener = function (this: EventTarget, ...args: Parameters<typeof add>) {
      if (args[0] === "abort") listeners.add(args[1])
      return add.apply(this, args)
    }
    EventTarget.prototype.removeEventListener = function (this: EventTarget, ...args: Parameters<typeof remove>) {
      listeners.delete(args[1])
      return remove.apply(this, args)
    }
    try {
      const job = await service.client.submit("quick")
      await eventually(() => tries === 5, { message: "it is tried again and again" })
      isDown = false
      await job.result(WAIT)
      await eventually(() => service.worker?.describe().inFlight === 0)
      // The listeners are those of the waiting take and of the signals that may end it; earlier tries have removed theirs.
      expect(listeners.size).toBeLessThanOrEqual(8)
    } finally {
      EventTarget.prototype.addEventListener = add
      EventTarget.prototype.removeEventListener = remove
    }
  })
})

describe("a task that nobody here serves", () => {
  test("has its grace anew with each retry: elsewhere it was served in between", async () => {
    const transport = `faulty://${generateId()}`
    const missing = actor("missing", {
      methods: {
        run: (_input, job) => {
          if (job.retries < 2) throw job.retry({ after: "3500 ms" })
          return "in the end"
        },
      },
    })
    let taken = 0
    const transports = withJobs((jobs) => ({
      take: async (request, signal) => {
        const deliveries = await jobs.take(request, signal)
        taken += deliveries.length
        return deliveries
      },
    }))
    const stranger = await start([quick], { transport, transports, unknownGrace: "3 seconds" })
    const job = await stranger.client.submit("missing", { retry: { max: 5 } })
    await eventually(() => taken > 0, { message: "it has come where it is not known" })
    await start([missing], { transport })
    expect(await job.outcome({ timeout: 60 })).toEqual({ state: "succeeded", result: "in the end" })
  })
})

describe("what comes over the wire", () => {
  test("a task that two workers forward to each other comes to an end", async () => {
    const transport = `faulty://${generateId()}`
    const here = await start([quick], { transport, queues: ["here"], languages: { py: "there" }, unknownGrace: 0.1 })
    await start([quick], { transport, queues: ["there"], languages: { py: "here" }, unknownGrace: 0.1 })
    const { connection } = here.client
    const { id } = await here.client.submit("nobody", { queue: "nowhere" })
    const message = (await connection.jobs.find(id))?.record.message
    if (message === undefined) throw new Error("there is no message")
    const headers = { ...message.headers, id: "lost", root_id: "lost", lang: "py" }
    await connection.jobs.publish([
      { id: "lost", run: 1, retries: 0, queue: "here", level: 4, message: { ...message, headers } },
    ])
    expect(await here.client.job("lost").outcome(WAIT)).toMatchObject({ error: { reason: "unknown-actor" } })
    expect((await here.client.job("lost").find()).dead).toBe("unknown-actor")
  })

  test("a time that no calendar has does not poison lists and failure handlers", async () => {
    const failures: Array<string> = []
    const failing = actor("failing", {
      methods: {
        run: () => {
          throw new Error("no")
        },
      },
    })
    const service = await start([failing], { onFailure: [({ job }) => void failures.push(job.id)] })
    const { client } = service
    const { id } = await client.submit("failing", { id: "odd", delay: 60 })
    const message = (await client.connection.jobs.find(id))?.record.message
    if (message === undefined) throw new Error("there is no message")
    const headers = { ...message.headers, id: "hostile", eta: null, callboard: { submittedAt: 1e300 } }
    await client.connection.jobs.publish([
      { id: "hostile", run: 1, retries: 0, queue: "default", level: 4, message: { ...message, headers } },
    ])
    await client.job("hostile").outcome(WAIT)
    expect((await client.jobs()).jobs.map((job) => job.id).sort()).toEqual(["hostile", "odd"])
    await eventually(() => failures.includes("hostile"))
  })
})

describe("a task that comes again while its job runs", () => {
  /** A board on which no lease is ever extended, as while a broker is away; `handedOver` grows with each delivery. */
  const lapsing = () => {
    const seen = { handedOver: 0 }
    const transports = withJobs((jobs) => ({
      extend: async (tokens) => tokens.map(() => false),
      take: async (request, signal) => {
        const deliveries = await jobs.take(request, signal)
        seen.handedOver += deliveries.length
        return deliveries
      },
    }))
    return { seen, transports }
  }

  const holding = () => {
    const { open, opened } = gate()
    const told = Promise.withResolvers<(fraction: number) => void>()
    let runs = 0
    const hold = actor("hold", {
      methods: {
        run: async (_, job) => {
          runs++
          told.resolve(job.progress)
          await opened
          return job.signal.aborted
        },
      },
    })
    return { hold, open, progress: told.promise, runs: () => runs }
  }

  test("goes on with the delivery that comes: it runs once, tells its progress, and its outcome is the task's", async () => {
    const { seen, transports } = lapsing()
    const { hold, open, progress, runs } = holding()
    const { client, worker } = await start([hold], { transport: `faulty://${generateId()}?lease=1`, transports })
    const job = await client.submit("hold")
    await eventually(() => seen.handedOver >= 4, { message: "its task has come again and again" })
    const tell = await progress
    tell(0.5)
    await eventually(async () => (await job.find()).progress?.fraction === 0.5, { message: "its progress is told" })
    open()
    expect(await job.result(WAIT)).toBe(false)
    expect(runs()).toBe(1)
    expect(await job.find()).toMatchObject({
      attempts: 1,
      transitions: [{}, { state: "started" }, { state: "succeeded" }],
    })
    await eventually(() => worker?.describe().inFlight === 0, { message: "nothing is held" })
    expect((await client.queues()).filter(({ depth, inFlight }) => depth + inFlight > 0)).toEqual([])
  })

  test("in another worker is left to the living one that runs it, and counts for nothing", async () => {
    const name = generateId()
    const { transports } = lapsing()
    const { hold, open, runs } = holding()
    const settings = { transport: `faulty://${name}?lease=1`, concurrency: 1, prefetch: 1, lostCap: 1 }
    const first = await start([hold], { ...settings, transports })
    const job = await first.client.submit("hold")
    await eventually(() => runs() === 1, { message: "it runs" })
    await eventually(async () => (await first.client.workers()).some(({ running }) => running.includes(job.id)), {
      message: "its worker says that it runs it",
    })
    const other = lapsing()
    await start([hold], { ...settings, transports: other.transports })
    await eventually(() => other.seen.handedOver >= 3, { message: "its task has come to another worker" })
    expect(runs()).toBe(1)
    open()
    expect(await job.result(WAIT)).toBe(false)
    expect(runs()).toBe(1)
    expect(await job.find()).toMatchObject({ attempts: 1 })
    await eventually(async () => (await first.client.queues()).every(({ depth, inFlight }) => depth + inFlight === 0), {
      message: "its task is off the queue",
    })
  })

  test("is ended as soon as another delivery is known to have claimed the job", async () => {
    const { transports } = lapsing()
    const { hold, runs } = holding()
    const name = generateId()
    const { client } = await start([hold], {
      transport: `faulty://${name}?lease=1`,
      transports,
      concurrency: 1,
      prefetch: 1,
    })
    const job = await client.submit("hold")
    await eventually(() => runs() === 1, { message: "it runs" })
    const taken = await eventually(async () => {
      const request = { queues: ["default"], max: 1, wait: 1_000 }
      const [delivery] = await client.connection.jobs.take(request, new AbortController().signal)
      return delivery
    })
    const found = await client.connection.jobs.find(job.id)
    if (found?.record.message === undefined) throw new Error("a running job carries its message")
    const posting = { id: job.id, run: 1, retries: 0, queue: "default", level: 4, message: found.record.message }
    const { token } = taken
    const claim = { token, id: job.id, run: 1, retries: 0, worker: "other", at: Date.now(), posting }
    expect(await client.connection.jobs.begin([claim])).toMatchObject([{ status: "started" }])
    const [service] = services
    await eventually(() => service?.worker?.describe().superseded === 1, { message: "the first run is refused" })
  })
})
