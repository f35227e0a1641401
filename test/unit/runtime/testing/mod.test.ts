import { actor, Retry } from "callboard"
import { type ActorRun, crashEverywhere, NotDrained, runActor } from "callboard/testing"
import { Effect } from "effect"
import { describe, expect, test } from "vitest"
import * as z from "zod"

const shop = actor("shop", {
  start: (scope) => {
    const steps: Array<string> = []
    scope.onStop(() => {
      steps.push("released")
      stops.push(steps)
    })
    return { steps }
  },
  methods: {
    price: {
      input: z.object({ amount: z.int() }),
      run: ({ amount }, job) => {
        job.use.steps.push(`price ${amount}`)
        job.log.info("priced", { amount })
        return { total: amount * 2, at: new Date(0) }
      },
    },
    fail: () => {
      throw new TypeError("never")
    },
    flaky: {
      retry: { max: 3, backoff: { base: "10 minutes" } },
      run: (_input, job) => {
        if (job.attempt < 4) throw new Error("not yet")
        return job.attempt
      },
    },
    asks: (_input, job) => {
      if (job.retries === 0) throw job.retry({ after: "1 hour", cause: new Error("busy") })
      return job.retries
    },
    asksAsync: async (_input, job) => {
      if (job.retries === 0) throw new Retry({ after: "1 hour" })
      return job.retries
    },
    asksInEffect: (_input, job) =>
      job.retries === 0 ? Effect.fail(job.retry({ after: 3600 })) : Effect.succeed(job.retries),
    family: async (input: { readonly depth: number }, job) => {
      if (input.depth > 0) await job.submit("shop.family", { input: { depth: input.depth - 1 } })
      return input.depth
    },
    hang: (_input, job) =>
      new Promise<void>((_resolve, reject) => {
        job.signal.addEventListener("abort", () => reject(job.signal.reason))
      }),
  },
})

const other = actor("other", {
  methods: { run: (_input, job) => job.submit("shop.price", { input: { amount: 4 } }).then(({ id }) => id) },
})

/** What each run of the shop did, once it was released. */
const stops: Array<ReadonlyArray<string>> = []

describe("runActor", () => {
  test("runs a method and gives its result, typed", async () => {
    await using run = await runActor(shop)
    const { total, at } = await run.call.price({ amount: 3 })
    expect([total, at satisfies Date]).toEqual([6, new Date(0)])
  })

  test("a call fails as result() does", async () => {
    await using run = await runActor(shop)
    await expect(run.call.fail()).rejects.toMatchObject({
      _tag: "JobFailed",
      error: { name: "TypeError", message: "never" },
    })
    // @ts-expect-error the amount is a number
    await expect(run.call.price({ amount: "3" })).rejects.toMatchObject({
      error: { name: "InvalidInput", field: "amount" },
    })
  })

  test("a submitted job can be followed and cancelled, and its options are those of any task", async () => {
    await using run = await runActor(shop)
    const job = await run.submit.hang({}, { meta: { by: "me" } })
    for await (const event of job.events()) {
      if (event.type === "transition" && event.state === "started") await job.cancel()
    }
    expect(await job.outcome()).toEqual({ state: "cancelled" })
    expect((await job.find()).meta).toEqual({ by: "me" })
  })

  test.each(["flaky", "asks", "asksAsync", "asksInEffect"] as const)(
    "%s is retried at once, with its attempts counted",
    async (method) => {
      await using run = await runActor(shop)
      const job = await run.submit[method]()
      expect(await job.result({ timeout: 60 })).toBe(method === "flaky" ? 4 : 1)
      expect((await job.find()).attempts).toBe(method === "flaky" ? 4 : 2)
    },
  )

  test("waits as the method says if asked to", async () => {
    await using run = await runActor(shop, { backoff: "real", timeout: 0.3 })
    const job = await run.submit.asks()
    await expect(run.drain()).rejects.toMatchObject({
      _tag: "NotDrained",
      message: expect.stringMatching(/^1 jobs have not ended: shop\.asks is scheduled until \d{4}-/),
    })
    expect(Date.parse((await job.find()).times.due ?? "")).toBeGreaterThan(Date.now() + 3_500_000)
  })

  test("drains jobs that jobs submit, of every actor that was given", async () => {
    await using run = await runActor(shop, { actors: [other] })
    const { id } = await run.submit.family({ depth: 5 })
    await run.client.submit("other")
    await run.drain()
    const { jobs } = await run.client.jobs({ rootId: id })
    expect([jobs.length, ...new Set(jobs.map((job) => job.state))]).toEqual([6, "succeeded"])
    expect((await run.client.jobs({ task: "shop.price" })).jobs[0]).toMatchObject({
      state: "succeeded",
      result: { total: 8 },
    })
  })

  test("drain names what has not ended", async () => {
    await using run = await runActor(shop)
    const { id } = await run.submit.hang()
    const error = await run.drain({ timeout: 0.2 }).catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(NotDrained)
    expect(error).toMatchObject({ jobs: [{ id }], message: `1 jobs have not ended: shop.hang is started (${id})` })
  })

  test("collects what was logged", async () => {
    await using run = await runActor(shop)
    const { id } = await run.submit.price({ amount: 3 })
    await run.drain()
    expect(run.logs).toContainEqual({
      level: "info",
      message: "priced",
      fields: expect.objectContaining({ job: id, task: "shop", method: "price", amount: 3 }),
    })
  })

  test("two runs share nothing, and each releases its own", async () => {
    stops.length = 0
    const runs: ReadonlyArray<ActorRun<typeof shop>> = await Promise.all([runActor(shop), runActor(shop)])
    await Promise.all(runs.map((run, at) => run.call.price({ amount: at })))
    for (const run of runs) expect((await run.client.jobs()).jobs).toHaveLength(1)
    for (const run of runs) await run.close()
    expect(stops).toEqual([
      ["price 0", "released"],
      ["price 1", "released"],
    ])
  })

  test("shares no board with the runs of crashEverywhere, however many there were of each", async () => {
    const ran = actor("shop", { methods: { run: (_input, job) => job.id } })
    const crashes = () => crashEverywhere(ran, { method: "run", look: () => undefined })
    const { length } = await crashes()
    for (let n = 0; n < length; n++) await (await runActor(ran)).close()
    await crashes()
    for (let n = 0; n < length; n++) {
      await using run = await runActor(ran)
      expect((await run.client.jobs()).jobs).toEqual([])
    }
  })

  test.each<[field: string, given: unknown, options: unknown, code?: string]>([
    ["actor", {}, {}],
    ["actor", undefined, {}],
    ["concurency", shop, { concurency: 1 }, "unknown-field"],
    ["backoff", shop, { backoff: "sometimes" }],
    ["actors", shop, { actors: other }],
    ["actors", shop, { actors: [{}] }],
    ["clock", shop, { clock: {} }],
  ])("what is wrong is refused by its name: %s", async (field, given, options, code = "invalid-input") => {
    await expect(Reflect.apply(runActor, undefined, [given, options])).rejects.toMatchObject({
      _tag: "CallboardError",
      code,
      details: { field },
    })
  })

  test("a start that fails is told", async () => {
    const broken = actor("broken", { start: () => Promise.reject(new Error("no database")), methods: { run: () => 1 } })
    await expect(runActor(broken)).rejects.toMatchObject({
      _tag: "ActorStartFailed",
      message: "actor broken did not start: no database",
    })
  })

  test("says what was submitted: by the test, by handlers and by outcomes, served or not", async () => {
    await using run = await runActor(shop, { actors: [other] })
    const first = await run.submit.family({ depth: 1 })
    await run.call.price(
      { amount: 2 },
      {
        callbacks: [{ task: "mail.send", immutable: true, kwargs: { to: "Ada" } }],
      },
    )
    const parent = await run.submit.price({ amount: 3 }, { delay: "1 hour", queue: "slow" })
    await run.submit.price({ amount: 5 }, { after: [parent.id] })
    await run.client.job(first.id).result()
    await expect.poll(() => run.submitted.length).toBe(6)
    const brief = run.submitted.map(({ name, input, queue, due, parentId }) => ({
      name,
      input,
      queue,
      later: due !== undefined && due.getTime() > Date.now() + 3_000_000,
      byAnother: parentId !== undefined,
    }))
    const plain = { queue: "default", later: false, byAnother: false }
    expect(brief).toContainEqual({ ...plain, name: "shop.family", input: { depth: 1 } })
    expect(brief).toContainEqual({ ...plain, name: "shop.family", input: { depth: 0 }, byAnother: true })
    expect(brief).toContainEqual({ ...plain, name: "shop.price", input: { amount: 2 } })
    expect(brief).toContainEqual({ ...plain, name: "mail.send", input: { to: "Ada" }, byAnother: true })
    expect(brief).toContainEqual({ ...plain, name: "shop.price", input: { amount: 3 }, queue: "slow", later: true })
    expect(brief).toContainEqual({ ...plain, name: "shop.price", input: { amount: 5 } })
  })

  test("a task that is tried again was submitted once", async () => {
    await using run = await runActor(shop)
    const job = await run.submit.flaky()
    await job.result({ timeout: 60 })
    expect(run.submitted.map(({ id }) => id)).toEqual([job.id])
  })
})
