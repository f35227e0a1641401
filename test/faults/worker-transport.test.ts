/** The worker over a transport that fails, answers late, delivers a task again or hands over what it cannot run. */
import { actor, serve } from "callboard"
import { TransportError } from "callboard/transport"
import { describe, expect, onTestFinished, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import type { Jobs } from "../../runtime/transport/job-store/transport.ts"
import { faulty, gate, withJobs } from "../support/faulty-board.ts"
import { eventually } from "../support/servers/process.ts"
import { quick, remembering, start, WAIT } from "./service.ts"

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
    expect(await second.failed).toMatchObject({
      reason: "invalid",
      message: expect.stringContaining("already named w1"),
    })
    expect(lines).toEqual([
      expect.stringMatching(/^error the worker is stopping: .* choose another name, or none to generate one$/),
    ])
    expect(second.worker?.listening).toBe(false)
    await second.stop({ now: true })
    expect(await first.client.workers()).toMatchObject([{ name: "w1", startedAt: began }])
    expect(await (await first.client.submit("quick")).result(WAIT)).toBe("done")
  })

  test("one that has not answered yet has no worker that is ready, even if a queue is paused meanwhile", async () => {
    const { open, opened } = gate()
    let pulls = 0
    const transports = withJobs(() => ({
      take: async () => {
        pulls++
        await opened
        throw new TransportError("unauthorized", "this user may not take tasks")
      },
    }))
    const { log } = remembering()
    const options = { transport: `faulty://${generateId()}`, transports, log, signals: false }
    const service = await serve({ ...options, actors: [quick] })
    onTestFinished(async () => void (await service.stop({ now: true })))
    await eventually(() => pulls === 1)
    await service.client.pause("another")
    // The change ends the wait of the first pull.
    await eventually(() => pulls === 2)
    expect(service.worker?.listening).toBe(false)
    open()
    await expect(service.ready()).rejects.toMatchObject({ reason: "unauthorized" })
  })

  /** A transport on which every delivery must be claimed. `claim` gets the number of the call and the function that really claims. */
  const claiming = (claim: (count: number, ask: () => ReturnType<Jobs["claim"]>) => ReturnType<Jobs["claim"]>) => {
    let count = 0
    return withJobs((jobs) => ({
      take: async (request, signal) =>
        (await jobs.take(request, signal)).map((delivery) => ({ ...delivery, fresh: false })),
      claim: (all) => claim(++count, () => jobs.claim(all)),
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

  test("one that rejects claims for longer is waited for: the job runs in the same delivery, and nothing is called a fault", async () => {
    const { lines, log } = remembering()
    const transports = claiming(async (count, ask) => {
      if (count <= 5) throw new TransportError("unavailable", "away for a while")
      return ask()
    })
    const service = await start([quick], { transports, log })
    expect(await (await service.client.submit("quick")).result(WAIT)).toBe("done")
    expect(lines).toEqual([])
  })

  test("one that loses all answers to a first claim has lost no worker by it", async () => {
    let claims = 0
    const transports = withJobs((jobs) => ({
      claim: async (all) => {
        const answers = await jobs.claim(all)
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
      settle: (all) => {
        if (++ends === 1) throw new TransportError("unavailable", "thrown, not rejected")
        return jobs.settle(all)
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
      settle: async (all) => {
        tries++
        if (isDown) throw new TransportError("unavailable", "down")
        return jobs.settle(all)
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
  /**
   * A board on which no lease is extended once the handler `runs`, as while a broker is away; `handedOver` grows with each
   * delivery.
   */
  const lapsing = (runs: () => number) => {
    const seen = { handedOver: 0 }
    const transports = withJobs((jobs) => ({
      extend: async (tokens) => (runs() === 0 ? jobs.extend(tokens) : tokens.map(() => false)),
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
    /** Which attempt of the job it is. A lease that lapses before, on a busy machine, may have begun others. */
    let attempt = 0
    const hold = actor("hold", {
      methods: {
        run: async (_, job) => {
          runs++
          attempt = job.attempt
          told.resolve(job.progress)
          await opened
          return job.signal.aborted
        },
      },
    })
    return { hold, open, progress: told.promise, runs: () => runs, attempt: () => attempt }
  }

  test("goes on with the delivery that comes: it runs once, tells its progress, and its outcome is the task's", async () => {
    const { hold, open, progress, runs, attempt } = holding()
    const { seen, transports } = lapsing(runs)
    const { client, worker } = await start([hold], { transport: `faulty://${generateId()}?lease=1`, transports })
    const job = await client.submit("hold")
    await eventually(() => seen.handedOver >= 4, { message: "its task has come again and again" })
    const tell = await progress
    tell(0.5)
    await eventually(async () => (await job.find()).progress?.fraction === 0.5, { message: "its progress is told" })
    open()
    expect(await job.result(WAIT)).toBe(false)
    expect(runs()).toBe(1)
    const { attempts, transitions } = await job.find()
    expect(attempts).toBe(attempt())
    expect(transitions.slice(-2)).toMatchObject([{ state: "started", attempt: attempt() }, { state: "succeeded" }])
    await eventually(() => worker?.describe().inFlight === 0, { message: "nothing is held" })
    expect((await client.queues()).filter(({ depth, inFlight }) => depth + inFlight > 0)).toEqual([])
  })

  test("in another worker is left to the living one that runs it, and counts for nothing", async () => {
    const name = generateId()
    const { hold, open, runs, attempt } = holding()
    const { transports } = lapsing(runs)
    const settings = { transport: `faulty://${name}?lease=1`, concurrency: 1, prefetch: 1, lostCap: 1 }
    const first = await start([hold], { ...settings, transports })
    const job = await first.client.submit("hold")
    await eventually(() => runs() === 1, { message: "it runs" })
    await eventually(async () => (await first.client.workers()).some(({ running }) => running.includes(job.id)), {
      message: "its worker says that it runs it",
    })
    const other = lapsing(runs)
    await start([hold], { ...settings, transports: other.transports })
    await eventually(() => other.seen.handedOver >= 3, { message: "its task has come to another worker" })
    expect(runs()).toBe(1)
    open()
    expect(await job.result(WAIT)).toBe(false)
    expect(runs()).toBe(1)
    expect((await job.find()).attempts).toBe(attempt())
    await eventually(async () => (await first.client.queues()).every(({ depth, inFlight }) => depth + inFlight === 0), {
      message: "its task is off the queue",
    })
  })

  test("is ended as soon as another delivery is known to have claimed the job", async () => {
    const { hold, runs } = holding()
    const { transports } = lapsing(runs)
    const name = generateId()
    const service = await start([hold], {
      transport: `faulty://${name}?lease=1`,
      transports,
      concurrency: 1,
      prefetch: 1,
    })
    const { client } = service
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
    expect(await client.connection.jobs.claim([claim])).toMatchObject([{ status: "started" }])
    await eventually(() => service.worker?.describe().superseded === 1, { message: "the first run is refused" })
  })
})
