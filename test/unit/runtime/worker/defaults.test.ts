/** Options that actor and service set for methods hold wherever a method runs, and a task's own options win. */
import { actor, connect, connectSync, type JobHandle } from "callboard"
import { describe, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { keep } from "../../../support/servers/keep.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"
import { isolated } from "./isolated-actor.ts"

const WAIT = { timeout: 60 } as const
const LIMIT = { timeLimit: "0.3 seconds" } as const
const forever = () => new Promise<never>(() => undefined)

const timedOut = {
  state: "failed",
  error: { name: "TimeLimitExceeded", message: "it exceeded its hard time limit of 0.3 s", reason: "timeout" },
}

const hangs = actor("hangs", {
  methods: {
    run: forever,
    heeds: (_input, { signal }) =>
      new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    later: ({ first }: { first: boolean }) => (first ? "first" : forever()),
    repeats: (_input, { run }) => (run === 1 ? 1 : forever()),
    hook: { run: () => 1, onSuccess: forever },
    patient: { timeLimit: -1, run: () => new Promise((resolve) => setTimeout(() => resolve("done"), 600)) },
  },
})

describe("a time limit of the service ends", () => {
  test("a handler in the worker, one in a separate process, and a hook", async () => {
    const { client } = await start([hangs, isolated], LIMIT)
    const jobs = await Promise.all([
      client.submit("hangs.run"),
      client.submit("isolated.stuck", { input: { ledger: "/dev/null" } }),
      client.submit("hangs.hook"),
    ])
    for (const job of jobs) expect(await job.outcome(WAIT)).toMatchObject(timedOut)
  })

  test("the job of a schedule, the second run of a job that repeats, and the second link of a chain", async () => {
    const { client } = await start([hangs], LIMIT)
    await client.schedules.create("hourly", { every: "1 hour", task: "hangs.run" })
    const repeats = await client.submit("hangs.repeats", { repeat: { times: 2 } })
    const chain = await client.submit("hangs.later", {
      input: { first: true },
      chain: [{ task: "hangs.later", input: { first: false }, immutable: true }],
    })
    expect(await repeats.outcome(WAIT)).toMatchObject(timedOut)
    expect(await chain.result(WAIT)).toBe("first")
    for (const [name, parent] of [["hangs.run"], ["hangs.later", chain.id]] as const) {
      const job = await eventually(
        async () => {
          const { jobs } = await client.jobs({ task: name })
          return jobs.find(({ id, parentId }) => id !== chain.id && (parent === undefined || parentId === parent))
        },
        { message: `${name} is submitted` },
      )
      expect(await client.job(job.id).outcome(WAIT)).toMatchObject(timedOut)
    }
  })

  test("neither a method that has none, nor a job that sets another one", async () => {
    const { client } = await start([hangs], LIMIT)
    expect(await (await client.submit("hangs.patient")).result(WAIT)).toBe("done")
    const own = await client.submit("hangs.run", { timeLimit: 0.5 })
    expect(await own.outcome(WAIT)).toMatchObject({
      error: { message: "it exceeded its hard time limit of 0.5 s" },
    })
  })

  test("a job that was submitted before the service had it", async () => {
    const transport = `memory://${generateId()}`
    const client = keep(await connect(transport))
    const job = await client.submit("hangs.run")
    await start([hangs], { transport, ...LIMIT })
    expect(await job.outcome(WAIT)).toMatchObject(timedOut)
  })
})

test("a client that runs jobs in its own process takes a time limit and a retry policy", async () => {
  const options = { actors: [hangs], ...LIMIT, retry: { max: 1, interval: 0 } } as const
  const client = keep(await connectSync(`memory://${generateId()}`, options))
  const job = await client.submit("hangs.heeds")
  expect(await job.find()).toMatchObject({ ...timedOut, attempts: 2 })
})

describe("a retry policy", () => {
  const fails = actor("fails", {
    retry: { max: 2, interval: 0 },
    methods: {
      thrice: (_input, { attempt }) => {
        if (attempt < 3) throw new RangeError(`attempt ${attempt}`)
        return attempt
      },
      once: {
        retry: false,
        run: () => {
          throw new RangeError("no")
        },
      },
    },
  })
  const attemptsOf = async (job: JobHandle) => {
    await job.outcome(WAIT)
    const { state, attempts } = await job.find()
    return { state, attempts }
  }

  test("of the actor wins over that of the service; that of a method or task wins over it", async () => {
    const { client } = await start([fails], { retry: { max: 1, interval: 0 } })
    expect(await attemptsOf(await client.submit("fails.thrice"))).toEqual({ state: "succeeded", attempts: 3 })
    expect(await attemptsOf(await client.submit("fails.once"))).toEqual({ state: "failed", attempts: 1 })
    const asked = await client.submit("fails.once", { retry: { max: 1, interval: 0 } })
    expect(await attemptsOf(asked)).toEqual({ state: "failed", attempts: 2 })
    const not = await client.submit("fails.thrice", { retry: false })
    expect(await attemptsOf(not)).toEqual({ state: "failed", attempts: 1 })
  })

  test("of the service is that of methods whose actor has none", async () => {
    const plain = actor("plain", {
      methods: {
        run: () => {
          throw new RangeError("no")
        },
      },
    })
    const { client } = await start([plain], { retry: { max: 2, interval: 0 } })
    expect(await attemptsOf(await client.submit("plain"))).toEqual({ state: "failed", attempts: 3 })
  })
})

test("resultTtl and failureTtl of an actor win over those of the service", async () => {
  const brief = actor("brief", {
    resultTtl: 0,
    failureTtl: 0,
    methods: {
      run: () => 1,
      kept: { resultTtl: "1 hour", run: () => 2 },
      fails: () => {
        throw new RangeError("no")
      },
    },
  })
  const { client } = await start([brief], { resultTtl: "1 hour", failureTtl: "1 hour" })
  for (const task of ["brief.run", "brief.fails"]) {
    const job = await client.submit(task)
    await eventually(
      () =>
        job.find().then(
          () => false,
          ({ code }) => code === "gone",
        ),
      { message: `${task} is gone` },
    )
  }
  const kept = await client.submit("brief.kept")
  expect(await kept.result(WAIT)).toBe(2)
  expect(await kept.find()).toMatchObject({ state: "succeeded" })
  // One that ends outside a worker, too.
  const cancelled = await client.submit("brief.run", { delay: "1 hour" })
  await cancelled.cancel()
  await expect(cancelled.find()).rejects.toMatchObject({ code: "gone" })
})

test("with onLost fail from the service a job fails if its worker stops, unless its method is to be redelivered", async () => {
  const waits = (_input: unknown, { signal }: { readonly signal: AbortSignal }) =>
    new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))
  const careful = actor("careful", { methods: { run: waits, again: { onLost: "redeliver", run: waits } } })
  const transport = `memory://${generateId()}`
  const client = keep(await connect(transport))
  const service = await start([careful], { transport, onLost: "fail" })
  const jobs = [await client.submit("careful.run"), await client.submit("careful.again")] as const
  for (const job of jobs) await eventually(async () => (await job.find()).state === "started", { message: "it runs" })
  await service.stop({ now: true })
  expect(await jobs[0].outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "WorkerStopped" } })
  expect(await jobs[1].find()).toMatchObject({ state: "queued" })
})

test("an option of the service that is undefined is as if absent, also within an option", async () => {
  const { client } = await start([hangs], {
    timeLimit: undefined,
    onLost: undefined,
    resultTtl: undefined,
    retry: { max: 1, interval: undefined, backoff: { base: 5, factor: undefined } },
  })
  const methods = (await client.actors())[0]?.methods
  expect(methods?.find(({ name }) => name === "run")?.options).toEqual({
    timeLimit: { value: { hard: 1_800 }, from: "default" },
    retry: { value: { max: 1, backoff: { base: 5, factor: 2, max: 600, jitter: true } }, from: "service" },
    resultTtl: { value: 86_400, from: "default" },
    failureTtl: { value: 604_800, from: "default" },
    onLost: { value: "redeliver", from: "default" },
  })
})

test("the actors that workers serve are listed with the options that hold", async () => {
  const mail = actor("mail", {
    retry: { max: 2 },
    methods: { send: { timeLimit: { soft: 1, hard: 2 }, run: () => 1 } },
  })
  const { client } = await start([mail], { onLost: "fail", failureTtl: -1 })
  expect((await client.actors())[0]?.methods[0]?.options).toMatchObject({
    timeLimit: { value: { hard: 2, soft: 1 }, from: "method" },
    retry: { value: { max: 2 }, from: "actor" },
    resultTtl: { from: "default" },
    failureTtl: { value: -1, from: "service" },
    onLost: { value: "fail", from: "service" },
  })
})
