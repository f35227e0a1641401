/** The option `acks`: tasks that are acked before they run, and failures and timeouts that become dead letters. */
import { actor, type Client, connect } from "callboard"
import { Effect } from "effect"
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest"
import { connectTransport } from "../../../../runtime/connection/connect.ts"
import { connectionOf } from "../../../../runtime/connection/connection.ts"
import { generateId } from "../../../../runtime/id.ts"
import { retried, succeeded } from "../../../../runtime/jobs/outcome/settlement.ts"
import { parseTask, postingOf } from "../../../../runtime/protocol/headers.ts"
import { type JobRecord, recordOfPosting, started } from "../../../../runtime/protocol/record.ts"
import type { LiftedPlugin } from "../../../../runtime/transport/job-store/plugin.ts"
import type { Settlement } from "../../../../runtime/transport/job-store/transport.ts"
import { ActiveDelivery } from "../../../../runtime/worker/active-delivery.ts"
import { DeliveryBuffer } from "../../../../runtime/worker/fetch/delivery-buffer.ts"
import { LostJobs } from "../../../../runtime/worker/maintenance/lost-jobs.ts"
import { EARLY_LISTS, EarlyAcks } from "../../../../runtime/worker/run/early-acks.ts"
import { onEveryBoard } from "../../../scenarios/boards.ts"
import { memory } from "../../../support/memory.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"

const WAIT = { timeout: 60 } as const

/** How long the connection of a lost job keeps failures. */
const KEPT_MS = 5_400_000

const open: Array<() => Promise<void>> = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

const keep = <R extends AsyncDisposable>(resource: R): R => {
  open.push(async () => resource[Symbol.asyncDispose]())
  return resource
}

/** An actor whose handlers wait until the test opens a gate. */
const gated = () => {
  const began: Array<number> = []
  const gate = Promise.withResolvers<void>()
  const acks = { when: "early" } as const
  const wait = (_input: unknown, job: { readonly attempt: number; readonly signal: AbortSignal }) => {
    began.push(job.attempt)
    const aborted = new Promise<never>((_, reject) => {
      job.signal.addEventListener("abort", () => reject(job.signal.reason), { once: true })
    })
    return Promise.race([gate.promise.then(() => job.attempt), aborted])
  }
  const early = actor("early", {
    methods: {
      wait: { acks, run: wait },
      /** A handler that ignores its signal. */
      deaf: { acks, run: () => gate.promise },
      tell: {
        acks,
        run: async (input: unknown, job) => {
          job.progress(0.5, "half")
          return wait(input, job)
        },
      },
      flaky: {
        acks,
        run: (_input: unknown, job) => {
          if (job.attempt < 2) throw new TypeError("not yet")
          return job.attempt
        },
      },
      fail: {
        acks,
        run: () => {
          throw new TypeError("no")
        },
      },
      heard: () => "heard",
    },
  })
  return { early, began, open: () => gate.resolve() }
}

const heard = () => {
  const id = `heard-${generateId()}`
  return { id, followUps: [{ task: "early.heard", id, immutable: true }] }
}

const tasksIn = async ({ connection }: Client) =>
  ((await connection.jobs.queues?.()) ?? []).reduce(
    (sum, { ready, scheduled, held }) => sum + ready + scheduled + held,
    0,
  )

onEveryBoard((newBoard) => {
  describe("acked early, a job", () => {
    test("has left its queue while its handler runs, is started for all to see, and its outcome is recorded", async () => {
      const { early, open } = gated()
      const { client, worker } = await start([early], { transport: newBoard() })
      const callback = heard()
      const job = await client.submit("early.tell", { callbacks: callback.followUps })
      await eventually(async () => (await job.find()).progress?.fraction === 0.5, { message: "its progress is told" })
      await eventually(async () => (await tasksIn(client)) === 0, { message: "no task is left" })
      expect(await job.find()).toMatchObject({ state: "started", attempts: 1 })
      open()
      expect(await job.outcome(WAIT)).toEqual({ state: "succeeded", result: 1 })
      expect(await client.job(callback.id).result(WAIT)).toBe("heard")
      await eventually(() => worker?.describe().inFlight === 0, { message: "nothing is left in its hands" })
      expect(worker?.describe()).toMatchObject({ processed: 2, failed: 0, superseded: 0 })
      expect((await job.find()).transitions.map(({ state }) => state)).toEqual(["queued", "started", "succeeded"])
    })

    test("that fails is retried by its policy, and fails for good with its errbacks", async () => {
      const { early } = gated()
      const { client } = await start([early], { transport: newBoard() })
      const flaky = await client.submit("early.flaky", { retry: { max: 1, interval: 0 } })
      expect(await flaky.result(WAIT)).toBe(2)
      const errback = heard()
      const job = await client.submit("early.fail", { errbacks: errback.followUps })
      expect(await job.outcome(WAIT)).toMatchObject({
        state: "failed",
        error: { name: "TypeError", reason: "handler" },
      })
      expect(await client.job(errback.id).result(WAIT)).toBe("heard")
      expect((await job.find()).dead).toBeUndefined()
    })

    test("ends at its hard time limit", async () => {
      const { early } = gated()
      const { client } = await start([early], { transport: newBoard() })
      const job = await client.submit("early.wait", { timeLimit: 0.3 })
      expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "TimeLimitExceeded" } })
    })

    test("can be cancelled while it runs, and leaves its slot to the next", async () => {
      const { early, began, open } = gated()
      const { client } = await start([early], { transport: newBoard(), concurrency: 1 })
      const job = await client.submit("early.wait")
      await eventually(() => began.length === 1, { message: "it runs" })
      await job.cancel()
      open()
      expect(await (await client.submit("early.heard")).result(WAIT)).toBe("heard")
      expect(await job.find()).toMatchObject({ state: "cancelled" })
    })

    test("outlasts several leases, and runs once", async () => {
      const { early, began, open } = gated()
      const { client } = await start([early], { transport: newBoard({ lease: 1 }) })
      const from = Date.now()
      const job = await client.submit("early.wait")
      await eventually(() => began.length === 1 && Date.now() - from > 3_000, { message: "three leases are over" })
      open()
      expect(await job.result(WAIT)).toBe(1)
      expect(began).toEqual([1])
    })

    test("whose worker stops has failed, as a dead letter with its errbacks, unless a retry is left", async () => {
      const transport = newBoard()
      const { early, began, open } = gated()
      const service = await start([early], { transport, concurrency: 3 })
      const client = keep(await connect(transport))
      const errback = heard()
      const jobs = await Promise.all(
        ["early.wait", "early.deaf"].map((task) => client.submit(task, { errbacks: errback.followUps })),
      )
      const retried = await client.submit("early.wait", { retry: { max: 1, interval: 0 } })
      await eventually(() => began.length === 2 && service.worker?.describe().running.length === 3, {
        message: "they run",
      })
      expect(await service.stop({ now: true })).toMatchObject({ handedBack: 0 })
      for (const job of jobs) {
        expect(await job.outcome(WAIT)).toMatchObject({
          state: "failed",
          error: { name: "WorkerStopped", reason: "worker-lost" },
        })
        expect(await job.find()).toMatchObject({ dead: "worker-lost", attempts: 1 })
      }
      open()
      await start([early], { transport })
      expect(await retried.result(WAIT)).toBe(2)
      expect(await client.job(errback.id).result(WAIT)).toBe("heard")
      expect(await tasksIn(client)).toBe(0)
    })
  })

  test("a job that must not be begun twice has failed where its worker stops, and one that has not begun goes on", async () => {
    const transport = newBoard()
    const began: Array<string> = []
    const wait = (_input: unknown, { id, signal }: { readonly id: string; readonly signal: AbortSignal }) => {
      began.push(id)
      return new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))
    }
    const once = actor("once", { methods: { run: { onLost: "fail", run: wait } } })
    const service = await start([once], { transport, concurrency: 1 })
    const client = keep(await connect(transport))
    const job = await client.submit("once.run")
    await eventually(() => began.length === 1, { message: "it runs" })
    const next = await client.submit("once.run")
    expect(await service.stop({ now: true })).toMatchObject({ finished: 1 })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "WorkerStopped" } })
    expect(await job.find()).toMatchObject({ dead: "worker-lost", attempts: 1 })
    expect(began).toEqual([job.id])
    // One that has not begun waits for another worker.
    expect(await next.find()).toMatchObject({ state: "queued", attempts: 0 })
  })

  describe("rejecting", () => {
    const strict = actor("strict", {
      methods: {
        fail: {
          acks: { onFailure: "reject" },
          run: () => {
            throw new TypeError("no")
          },
        },
        unfit: { acks: { onFailure: "reject" }, run: () => ({ bad: Symbol("x") }) },
        slow: { acks: { onTimeout: "reject" }, timeLimit: 0.2, run: () => new Promise(() => undefined) },
        lax: { acks: { onFailure: "reject" }, timeLimit: 0.2, run: () => new Promise(() => undefined) },
      },
    })

    test("makes a dead letter of what has failed after its retries, or run too long, for its own reason", async () => {
      const { client } = await start([strict], { transport: newBoard(), concurrency: 8 })
      const submit = (task: string) => client.submit(task, { retry: { max: 1, interval: 0 } })
      const [fail, slow, lax] = await Promise.all([submit("strict.fail"), submit("strict.slow"), submit("strict.lax")])
      const unfit = await client.submit("strict.unfit", { callbacks: [{ task: "strict.fail" }] })
      for (const job of [fail, slow, lax, unfit])
        expect(await job.outcome({ timeout: 60 })).toMatchObject({ state: "failed" })
      expect(await fail.find()).toMatchObject({ dead: "handler", attempts: 2 })
      expect(await slow.find()).toMatchObject({ dead: "timeout", attempts: 2 })
      expect(await unfit.find()).toMatchObject({ dead: "result-unserialisable" })
      expect((await lax.find()).dead).toBeUndefined()
      const { jobs } = await client.jobs({ dead: true, limit: 10 })
      expect(new Set(jobs.map(({ id }) => id))).toEqual(new Set([fail.id, slow.id, unfit.id]))
      const redriven = await fail.retry()
      expect(redriven.state).toBe("queued")
      await eventually(async () => (await fail.find()).dead === "handler", { message: "it is given up again" })
    })
  })

  describe("of a worker that died", () => {
    /** A board on which a worker has acked jobs early and died. */
    const abandoned = async () => {
      const url = newBoard()
      const transport = await connectTransport(url)
      open.push(() => transport.close())
      const connection = connectionOf(transport, () => KEPT_MS)
      const own = () => new EarlyAcks({ store: connection.store, worker: `worker-${generateId()}`, startedAt: "then" })
      const dead = own()
      const client = keep(await connect(url))
      const take = async (id: string, fields: object = {}) => {
        await client.submit("early.wait", { id, queue: "default", ...fields })
        const [delivery] = await connection.jobs.take(
          { queues: ["default"], max: 1, wait: 5_000 },
          new AbortController().signal,
        )
        if (delivery === undefined || !("headers" in delivery.message)) throw new Error("nothing came")
        const { token, fence, message } = delivery
        const read = postingOf(message, "default")
        const task = parseTask(message)
        if (read._tag === "Failure" || task._tag === "Failure") throw new Error("no task came")
        const posting = read.success
        const derived = recordOfPosting(posting, Date.now())
        if (derived._tag === "Failure") throw new Error("no record")
        const now = Date.now()
        const record: JobRecord = {
          ...started(derived.success, { fence, worker: "dead", at: now }),
          acked: true,
          message,
        }
        const store = (settlement: Settlement) =>
          Effect.promise(async () => {
            const [settled] = await connection.jobs.settle([settlement])
            return settled?.status === "ended" ? settlement : "lost"
          })
        const taking = await Effect.runPromise(dead.take(new ActiveDelivery(delivery, 0), record, { store }))
        expect(taking).toBe("taken")
        return { token, fence, posting, task: task.success, record, now, keep: { resultMs: 60_000, failureMs: 60_000 } }
      }
      const lost: Array<string> = []
      const sweeper = (list = own(), ...held: ReadonlyArray<string>) =>
        new LostJobs({
          connection,
          own: list,
          isComplete: async () => true,
          held: () => new Set(held),
          queueFor: () => undefined,
          redactFor: () => undefined,
          onLost: ({ id }) => void lost.push(id),
        })
      return { connection, client, take, lost, sweeper, dead }
    }

    test("a job fails once, however many find it, and its errback is posted once; others are left alone", async () => {
      const { connection, client, take, lost, sweeper } = await abandoned()
      const errback = heard()
      const id = generateId()
      await take(id, { errbacks: errback.followUps })
      const late = await client.submit("early.wait", { queue: "late" })
      const [delivery] = await connection.jobs.take(
        { queues: ["late"], max: 1, wait: 5_000 },
        new AbortController().signal,
      )
      if (delivery === undefined || !("headers" in delivery.message)) throw new Error("nothing came")
      const posting = postingOf(delivery.message, "late")
      if (posting._tag === "Failure") throw new Error("no task came")
      const { token } = delivery
      await connection.jobs.claim([
        { token, id: late.id, run: 1, retries: 0, worker: "dead", at: Date.now(), posting: posting.success },
      ])

      const sweepers = [sweeper(), sweeper(), sweeper()]
      await Promise.all(sweepers.map((each) => each.look(0)))
      await Promise.all(sweepers.map((each) => each.look(1_000)))
      expect(await client.job(id).find()).toMatchObject({ state: "started" })
      await Promise.all(sweepers.map((each) => each.look(60_000)))
      await sweeper().look(0)
      expect(lost).toEqual([id])
      expect(await client.job(id).find()).toMatchObject({
        state: "failed",
        dead: "worker-lost",
        error: { name: "WorkerLost", reason: "worker-lost" },
      })
      expect((await connection.jobs.find(id))?.record.keepMs).toBe(KEPT_MS)
      expect(await client.job(errback.id).find()).toMatchObject({ state: "queued" })
      expect(await tasksIn(client)).toBe(2)
      expect(await late.find()).toMatchObject({ state: "started" })
      expect(await connection.store.list({ prefix: EARLY_LISTS.prefix, limit: 10 })).toEqual([])
      await client.job(id).retry()
      expect(await client.job(id).find()).toMatchObject({ state: "queued", run: 2 })
    })

    test("a job whose outcome its own worker could not store is ended by that worker at once, others not", async () => {
      const { connection, client, take, lost, sweeper, dead } = await abandoned()
      const [dropped, runs] = [generateId(), generateId()]
      await take(dropped)
      const { token } = await take(runs)
      await sweeper(dead, token).look(0)
      expect(lost).toEqual([dropped])
      expect(await client.job(dropped).find()).toMatchObject({ state: "failed", dead: "worker-lost" })
      expect(await client.job(runs).find()).toMatchObject({ state: "started" })
      dead.done(token)
      await dead.end()
      expect(await connection.store.list({ prefix: EARLY_LISTS.prefix, limit: 10 })).toEqual([])
    })

    test("a job that cannot be listed, or was decided meanwhile, is left in its queue", async () => {
      const { connection, client } = await abandoned()
      const job = await client.submit("early.wait", { queue: "default" })
      const [delivery] = await connection.jobs.take(
        { queues: ["default"], max: 1, wait: 5_000 },
        new AbortController().signal,
      )
      if (delivery === undefined) throw new Error("nothing came")
      const record = (await connection.jobs.find(job.id))?.record
      if (record === undefined) throw new Error("no record")
      const store = { ...connection.store, write: () => Promise.reject(new Error("full")) }
      const settle = { store: () => Effect.die(new Error("nothing is to be settled")) }
      const active = new ActiveDelivery(delivery, 0)
      const full = new EarlyAcks({ store, worker: "w", startedAt: "then" })
      expect(await Effect.runPromise(full.take(active, record, settle))).toBe("unlisted")
      expect(active.offQueue).toBe(false)
      active.end("hand-back")
      const early = new EarlyAcks({ store: connection.store, worker: "w", startedAt: "then" })
      expect(await Effect.runPromise(early.take(active, record, settle))).toBe("unlisted")
      const replaced = new ActiveDelivery(delivery, 0)
      const listing = Effect.runPromise(early.take(replaced, record, settle))
      replaced.delivery = { ...delivery, token: "of a newer delivery" }
      expect(await listing).toBe("unlisted")
      await early.end()
      expect(await tasksIn(client)).toBe(1)
      expect(await connection.store.list({ prefix: EARLY_LISTS.prefix, limit: 10 })).toEqual([])
    })

    test("a job whose outcome was stored stays as it is, and what follows it is posted", async () => {
      const { connection, client, take, lost, sweeper } = await abandoned()
      const [one, other, ended] = [generateId(), generateId(), generateId()]
      const callback = await take(other)
      const again = await take(one)
      const success = await take(ended)
      const next = { ...callback.posting, id: `${other}-next` }
      const message = { ...next.message, headers: { ...next.message.headers, id: next.id } }
      const followed = succeeded(callback, 7, [{ ...next, message }])
      const retry = retried(again, { name: "TypeError", message: "no", reason: "handler" }, 0)
      // The worker dies after it stored the record, before it publishes the follow-ups.
      for (const { followUps: _followUps, ...settlement } of [followed, retry, succeeded(success, 8)])
        await connection.jobs.settle([settlement])
      const each = sweeper()
      for (const now of [0, 60_000, 120_000]) await each.look(now)
      expect(lost).toEqual([])
      expect(await client.job(other).find()).toMatchObject({ state: "succeeded", result: 7 })
      expect(await client.job(ended).find()).toMatchObject({ state: "succeeded", result: 8 })
      expect(await client.job(next.id).find()).toMatchObject({ state: "queued" })
      const came = await connection.jobs.take(
        { queues: ["default"], max: 5, wait: 5_000 },
        new AbortController().signal,
      )
      const second =
        came.length < 2
          ? await connection.jobs.take({ queues: ["default"], max: 5, wait: 5_000 }, new AbortController().signal)
          : []
      const ids = [...came, ...second].map(({ message: each }) => ("headers" in each ? each.headers["id"] : undefined))
      expect(new Set(ids)).toEqual(new Set([one, next.id]))
      expect(ids).toHaveLength(2)
    })
  })
})

test("a task that comes again while it is being acked early is no new delivery of the run", async () => {
  const { early, began, open } = gated()
  const listed = Promise.withResolvers<void>()
  const looked = Promise.withResolvers<void>()
  let isListing = false
  let came = 0
  // The lease ends while the list of jobs is written, and the task is acked while the redelivery is looked at.
  const slow: LiftedPlugin = {
    schemes: ["slow"],
    connect: async (url, options) => {
      const transport = await memory.connect(url, options)
      const { store, jobs } = transport
      return {
        ...transport,
        store: {
          ...store,
          write: async (operations) => {
            if (!isListing && operations.some(({ key }) => key.startsWith(EARLY_LISTS.prefix))) {
              isListing = true
              await listed.promise
            }
            return store.write(operations)
          },
        },
        jobs: {
          ...jobs,
          take: async (request, signal) => {
            const deliveries = await jobs.take(request, signal)
            came += deliveries.length
            return deliveries
          },
          extend: async (tokens) => (began.length === 0 ? tokens.map(() => true) : jobs.extend(tokens)),
          find: async (id) => {
            if (isListing && came > 1 && began.length === 0) {
              listed.resolve()
              await looked.promise
            }
            return jobs.find(id)
          },
        },
      }
    },
  }
  const adopt = vi.spyOn(DeliveryBuffer.prototype, "adopt")
  onTestFinished(() => adopt.mockRestore())
  const options = { transport: `slow://${generateId()}`, transports: { slow }, lease: 1, concurrency: 2 }
  const { client } = await start([early], options)
  const job = await client.submit("early.wait")
  await eventually(() => began.length === 1, { message: "it runs" })
  looked.resolve()
  await eventually(async () => (await tasksIn(client)) === 0, { message: "the redelivery is found to be taken" })
  open()
  expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
  expect(began).toEqual([1])
  expect(adopt).not.toHaveBeenCalled()
})
