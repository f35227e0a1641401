/** The promises of a worker, on the memory transport. */
import { AsyncLocalStorage } from "node:async_hooks"
import { actor, Ignore, Reject, type Service } from "callboard"
import { Effect, Schema } from "effect"
import { describe, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"

const WAIT = { timeout: 60 } as const

describe("dispatch", () => {
  const greet = actor("greet", {
    methods: {
      run: () => "default",
      hello: { params: ["name"], run: ({ name }: { name: string }) => `hello ${name}` },
      effect: () => Effect.succeed("from an effect"),
      promise: async () => "from a promise",
      // A query builder may be a function that can be awaited.
      callable: () => Object.assign(() => undefined, { then: (done: (value: string) => void) => done("from a query") }),
    },
  })

  test.each([
    ["greet", {}, "default"],
    ["greet.hello", { input: { name: "ada" } }, "hello ada"],
    ["greet", { meth: "hello", kwargs: { name: "ada" } }, "hello ada"],
    ["greet.hello", { args: ["ada"] }, "hello ada"],
    ["greet.effect", {}, "from an effect"],
    ["greet.promise", {}, "from a promise"],
    ["greet.callable", {}, "from a query"],
  ])("%s with %j runs the method that the headers name", async (task, fields, result) => {
    const { client } = await start([greet])
    expect(await (await client.submit(task, fields)).result(WAIT)).toBe(result)
  })

  test("a task name of another application is mapped to a method", async () => {
    const { client } = await start([greet], { taskNames: { "app.tasks.hi": "greet.hello" } })
    expect(await (await client.submit("app.tasks.hi", { args: ["ada"] })).result(WAIT)).toBe("hello ada")
  })

  test("a task that no worker serves is handed back, then becomes a dead letter with the reason, and its neighbours run", async () => {
    const { client } = await start([greet], { unknownGrace: 0.2 })
    const unknown = await client.submit("nobody.home")
    const neighbour = await client.submit("greet")
    expect(await neighbour.result(WAIT)).toBe("default")
    const outcome = await unknown.outcome(WAIT)
    expect(outcome).toMatchObject({ state: "failed", error: { name: "NotRegistered", reason: "unknown-actor" } })
    expect(await unknown.find()).toMatchObject({ dead: "unknown-actor", attempts: 0 })
  })

  test("a task of another language goes to the queue of that language", async () => {
    const { client } = await start([greet], { languages: { rb: "ruby" } })
    const { connection } = client
    const plain = await client.submit("greet", { delay: 3600 })
    const found = await connection.jobs.find(plain.id)
    if (found?.record.message === undefined) throw new Error("a waiting job carries its message")
    const { message } = found.record
    const id = generateId()
    await connection.jobs.publish([
      {
        id,
        run: 1,
        retries: 0,
        queue: "default",
        level: 4,
        message: { ...message, headers: { lang: "rb", task: "Mailer.deliver", id } },
      },
    ])
    await eventually(async () => (await connection.jobs.find(id))?.record.queue === "ruby", {
      message: "the task is on queue ruby",
    })
    const ruby = await eventually(
      async () => (await connection.jobs.queues?.())?.find((queue) => queue.queue === "ruby"),
      {
        message: "queue ruby exists",
      },
    )
    expect(ruby).toMatchObject({ ready: 1 })
  })
})

const AtLeastTen = Schema.toStandardSchemaV1(
  Schema.Struct({ n: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(10)) }),
)

describe("outcomes", () => {
  const work = actor("work", {
    methods: {
      fail: () => {
        throw new TypeError("no such thing", { cause: new Error("the cause") })
      },
      reject: () => Promise.reject(new Reject("not for me")),
      ignore: () => Promise.reject(new Ignore()),
      failEffect: () => Effect.fail({ _tag: "Tagged", message: "by tag" }),
      dieEffect: () => Effect.die(new RangeError("defect")),
      symbol: () => ({ n: Symbol("x") }),
      nothing: () => undefined,
      throwNothing: () => {
        throw undefined
      },
      checked: { input: Schema.toStandardSchemaV1(Schema.Struct({ n: Schema.Finite })), run: ({ n }) => n * 2 },
      typed: { output: AtLeastTen, run: () => ({ n: 2 }) },
    },
  })

  test.each([
    [
      "fail",
      {
        name: "TypeError",
        message: "no such thing",
        reason: "handler",
        cause: { name: "Error", message: "the cause" },
      },
    ],
    ["reject", { name: "Reject", reason: "rejected" }],
    ["failEffect", { name: "Tagged", message: "by tag" }],
    ["dieEffect", { name: "RangeError", message: "defect" }],
    ["throwNothing", { name: "Error", reason: "handler" }],
    ["typed", { name: "InvalidResult", reason: "invalid-result", field: "n" }],
  ])("%s ends as failed, with what went wrong", async (method, error) => {
    const { client } = await start([work])
    expect(await (await client.submit(`work.${method}`)).outcome(WAIT)).toMatchObject({ state: "failed", error })
  })

  test("a result that JSON cannot hold is replaced by a text, unless another task would get it", async () => {
    const { client } = await start([work])
    const alone = await client.submit("work.symbol")
    expect(await alone.outcome(WAIT)).toEqual({
      state: "succeeded",
      result: expect.stringMatching(/^Unserializable return value: result\.n /),
    })
    const follow = [{ task: "work.fail" }]
    for (const fields of [{ callbacks: follow }, { chain: follow }]) {
      const followed = await client.submit("work.symbol", fields)
      expect(await followed.outcome(WAIT)).toMatchObject({
        state: "failed",
        error: { name: "UnserialisableResult", reason: "result-unserialisable" },
      })
    }
  })

  test("a traceback is kept", async () => {
    const { client } = await start([work])
    const job = await client.submit("work.fail")
    await job.outcome(WAIT)
    expect((await job.find()).error?.traceback).toContain("worker.test.ts")
  })

  test("input that the schema refuses fails the job and names the field", async () => {
    const { client } = await start([work])
    const job = await client.submit("work.checked", { input: { n: "two" } })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "invalid-input", field: "n" } })
  })

  test("returning nothing, and Ignore, succeed with null", async () => {
    const { client } = await start([work])
    expect(await (await client.submit("work.nothing")).outcome(WAIT)).toEqual({ state: "succeeded", result: null })
    expect(await (await client.submit("work.ignore")).outcome(WAIT)).toEqual({ state: "succeeded", result: null })
  })

  test("a result that the transport can never take ends the job as failed and does not loop", async () => {
    const huge = actor("huge", { methods: { run: () => "x".repeat(64 * 1024 * 1024) } })
    const { client } = await start([huge])
    expect(await (await client.submit("huge")).outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { reason: "result-too-large" },
    })
  })
})

describe("retries", () => {
  test("a task whose next attempt the transport would not take fails with its own error and that reason, once", async () => {
    let runs = 0
    const large = actor("large", {
      methods: {
        run: {
          retry: { max: 1, interval: 0 },
          run: () => {
            runs++
            throw new Error("not today")
          },
        },
      },
    })
    const { client } = await start([large], { maxBody: 64 * 1024 * 1024 })
    const { maxTask } = client.connection.transport.capabilities
    // The task of the next attempt also names its parent, for which there are not enough bytes left.
    const submit = (length: number) => client.submit("large", { input: "x".repeat(length) })
    const refusal = await submit(maxTask).then(() => "accepted", String)
    const over = Number(/(\d+) bytes/.exec(refusal)?.[1]) - maxTask
    const job = await submit(maxTask - over)
    expect(await job.outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { name: "Error", message: expect.stringMatching(/^not today \(and not tried again: .* bytes/) },
    })
    expect(await job.find()).toMatchObject({ dead: "too-large", attempts: 1 })
    expect(runs).toBe(1)
  })

  test("a failing job is tried again as often as its policy says, and its attempts are told", async () => {
    let runs = 0
    const flaky = actor("flaky", {
      methods: {
        run: {
          retry: { max: 2, backoff: { base: 0.01, jitter: false } },
          run: () => {
            if (++runs < 3) throw new Error(`attempt ${runs}`)
            return runs
          },
        },
      },
    })
    const { client } = await start([flaky])
    const job = await client.submit("flaky")
    expect(await job.result(WAIT)).toBe(3)
    const view = await job.find()
    expect(view).toMatchObject({ attempts: 3, retries: 2, state: "succeeded" })
    expect(view.transitions.map((transition) => transition.state)).toEqual([
      "queued",
      "started",
      "scheduled",
      "started",
      "scheduled",
      "started",
      "succeeded",
    ])
  })

  test("a task's own policy wins over the method's", async () => {
    let runs = 0
    const failing = actor("failing", {
      methods: {
        run: () => {
          runs++
          throw new Error("always")
        },
      },
    })
    const { client } = await start([failing])
    const job = await client.submit("failing", { retry: { max: 1, backoff: { base: 0.01, jitter: false } } })
    await job.outcome(WAIT)
    expect(runs).toBe(2)
  })

  test("a handler asks for a retry with its own delay", async () => {
    const asks = actor("asks", {
      methods: {
        run: (_input: unknown, job) => {
          if (job.retries === 0) throw job.retry({ after: 0.05 })
          return job.attempt
        },
      },
    })
    const { client } = await start([asks])
    expect(await (await client.submit("asks")).result(WAIT)).toBe(2)
  })
})

describe("time limits", () => {
  test("a handler that heeds its signal is ended at the hard limit", async () => {
    const slow = actor("slow", {
      methods: {
        run: {
          timeLimit: 0.1,
          run: (_input: unknown, job) =>
            new Promise((_resolve, reject) => job.signal.addEventListener("abort", () => reject(job.signal.reason))),
        },
      },
    })
    const { client } = await start([slow])
    expect(await (await client.submit("slow")).outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { name: "TimeLimitExceeded" },
    })
  })

  test("an Effect is interrupted at the hard limit, and its finalizers run", async () => {
    let finalized = false
    const slow = actor("slow", {
      methods: {
        run: {
          timeLimit: 0.1,
          run: () =>
            Effect.never.pipe(
              Effect.ensuring(
                Effect.sync(() => {
                  finalized = true
                }),
              ),
            ),
        },
      },
    })
    const { client } = await start([slow])
    expect(await (await client.submit("slow")).outcome(WAIT)).toMatchObject({ error: { reason: "timeout" } })
    expect(finalized).toBe(true)
  })

  test("the soft limit fires the signal, and what the handler then returns counts", async () => {
    const soft = actor("soft", {
      methods: {
        run: {
          timeLimit: { soft: 0.1, hard: 5 },
          run: (_input: unknown, job) =>
            new Promise((resolve) => job.signal.addEventListener("abort", () => resolve("cleaned up"))),
        },
      },
    })
    const { client } = await start([soft])
    expect(await (await client.submit("soft")).result(WAIT)).toBe("cleaned up")
  })

  test("a promise that ignores its signal keeps its slot until it stops, and its outcome is refused", async () => {
    const gate = Promise.withResolvers<string>()
    let second = false
    const stubborn = actor("stubborn", {
      methods: {
        hang: { timeLimit: 0.1, run: () => gate.promise },
        next: () => {
          second = true
        },
      },
    })
    const { client } = await start([stubborn], { concurrency: 1 })
    const hanging = await client.submit("stubborn.hang")
    expect(await hanging.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "TimeLimitExceeded" } })
    const next = await client.submit("stubborn.next")
    await expect(next.result({ timeout: 0.3 })).rejects.toMatchObject({ _tag: "WaitTimeout" })
    expect(second).toBe(false)
    gate.resolve("too late")
    await next.result(WAIT)
    expect((await hanging.find()).state).toBe("failed")
  })
})

describe("in flight", () => {
  test("handlers never outnumber the concurrency, whatever the backlog", async () => {
    let running = 0
    let max = 0
    const busy = actor("busy", {
      methods: {
        run: async () => {
          max = Math.max(max, ++running)
          await new Promise((resolve) => setImmediate(resolve))
          running--
        },
      },
    })
    const { client } = await start([busy], { concurrency: 5 })
    const receipts = await client.submitMany(Array.from({ length: 300 }, () => ({ task: "busy" })))
    expect(receipts).toHaveLength(300)
    await eventually(async () => (await client.jobs({ states: ["succeeded"], limit: 1000 })).jobs.length === 300, {
      message: "all 300 jobs succeed",
    })
    expect(max).toBe(5)
  })
})

describe("cancelling", () => {
  test("a waiting job never runs", async () => {
    let ran = false
    const late = actor("late", {
      methods: {
        run: () => {
          ran = true
        },
      },
    })
    const { client } = await start([late])
    const job = await client.submit("late", { delay: 0.2 })
    expect(await job.cancel()).toMatchObject({ state: "cancelled" })
    expect(await job.outcome(WAIT)).toEqual({ state: "cancelled" })
    await expect(job.cancel()).rejects.toMatchObject({ code: "already-terminal" })
    const after = await client.submit("late", { delay: 0.3, id: generateId() })
    await after.outcome(WAIT)
    expect(ran).toBe(true)
    expect((await job.find()).attempts).toBe(0)
  })

  test("a running job's signal fires and its outcome is refused", async () => {
    const began = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<void>()
    const long = actor("long", {
      methods: {
        run: (_input: unknown, job) =>
          new Promise((resolve) => {
            job.signal.addEventListener("abort", () => {
              resolve("done all the same")
              ended.resolve()
            })
            began.resolve()
          }),
      },
    })
    const { client } = await start([long])
    const job = await client.submit("long")
    await began.promise
    await job.cancel()
    await ended.promise
    expect(await job.outcome(WAIT)).toEqual({ state: "cancelled" })
    await eventually(async () => (await client.queues()).every((queue) => queue.inFlight === 0), {
      message: "the delivery is settled",
    })
    expect((await job.find()).state).toBe("cancelled")
  })

  test("the next job does not run in the context of the request that cancelled the one before, or in that of a handler", async () => {
    const context = new AsyncLocalStorage<string>()
    const began = Promise.withResolvers<void>()
    const seen = actor("seen", {
      methods: {
        waits: (_input: unknown, job) => {
          began.resolve()
          return new Promise((resolve) => job.signal.addEventListener("abort", resolve))
        },
        enters: () => context.enterWith("handler"),
        run: () => String(context.getStore()),
      },
    })
    const { client } = await start([seen], { concurrency: 1 })
    const waits = await client.submit("seen.waits")
    await began.promise
    const jobs = await Promise.all(["seen", "seen.enters", "seen"].map((task) => client.submit(task)))
    await context.run("request", () => waits.cancel())
    const [first, , last] = await Promise.all(jobs.map((job) => job.result(WAIT)))
    expect([first, last]).toEqual(["undefined", "undefined"])
  })

  test("a cancelled job runs again by hand, as its next run", async () => {
    const again = actor("again", { methods: { run: (_input: unknown, job) => job.run } })
    const { client } = await start([again])
    const job = await client.submit("again", { delay: 60 })
    await job.cancel()
    expect(await job.retry()).toMatchObject({ state: "queued", run: 2 })
    expect(await job.result(WAIT)).toBe(2)
  })
})

describe("expiry", () => {
  test("a task past its time is recorded as expired and does not run", async () => {
    let ran = false
    const gate = Promise.withResolvers<void>()
    const slow = actor("slow", {
      methods: {
        block: () => gate.promise,
        run: () => {
          ran = true
        },
      },
    })
    const { client } = await start([slow], { concurrency: 1 })
    await client.submit("slow.block")
    const job = await client.submit("slow", { expires: 0.1 })
    await eventually(async () => (await job.find()).state === "expired", { message: "the job expires" })
    gate.resolve()
    expect(await job.outcome(WAIT)).toEqual({ state: "expired" })
    expect(ran).toBe(false)
  })
})

describe("the job", () => {
  test("a handler reads the results of the jobs that it had to wait for", async () => {
    const sums = actor("sums", {
      methods: {
        double: (n: number) => 2 * n,
        total: async (_input: unknown, { after, job }) => {
          const parts = await Promise.all(after.map((id) => job<number>(id).result({ timeout: 30 })))
          return parts.reduce((sum, part) => sum + part, 0)
        },
        missing: (_input: unknown, { job }) => job("nowhere").find(),
      },
    })
    const { client } = await start([sums])
    const parts = await Promise.all([1, 2, 3].map((input) => client.submit("sums.double", { input })))
    const total = await client.submit("sums.total", { after: parts.map(({ id }) => id) })
    expect(await total.result(WAIT)).toBe(12)
    expect(await (await client.submit("sums.missing")).outcome(WAIT)).toMatchObject({
      error: { name: "CallboardError", message: "there is no job nowhere" },
    })
  })

  test("a child that a handler submits knows its parent and its root", async () => {
    const family = actor("family", {
      methods: {
        parent: async (_input: unknown, job) => (await job.submit("family.child")).id,
        child: () => "child",
      },
    })
    const { client } = await start([family])
    const parent = await client.submit("family.parent")
    const id = await parent.result(WAIT)
    if (typeof id !== "string") throw new Error("the parent returns its child's id")
    expect(await client.job(id).result(WAIT)).toBe("child")
    expect(await client.job(id).find()).toMatchObject({ parentId: parent.id, rootId: parent.id })
  })

  test("a handler submits to an actor by its type, and the job is its child", async () => {
    const adder = actor("adder", { methods: { add: ({ a, b }: { readonly a: number; readonly b: number }) => a + b } })
    const asker = actor("asker", {
      methods: {
        run: async (_input: unknown, job) =>
          (await job.actor<typeof adder>("adder").add.submit({ a: 1, b: 2 }, { priority: 9 })).id,
      },
    })
    const { client } = await start([adder, asker])
    const job = await client.submit("asker")
    const id = String(await job.result(WAIT))
    expect(await client.job(id).result(WAIT)).toBe(3)
    expect(await client.job(id).find()).toMatchObject({ parentId: job.id, rootId: job.id, priority: 9, meth: "add" })
  })

  test("progress is seen while it runs", async () => {
    const gate = Promise.withResolvers<void>()
    const steps = actor("steps", {
      methods: {
        run: async (_input: unknown, { progress }) => {
          progress(0.5, { step: 2 })
          await gate.promise
        },
      },
    })
    const { client } = await start([steps])
    const job = await client.submit("steps")
    const view = await eventually(
      async () => {
        const seen = await job.find()
        return seen.progress === undefined ? undefined : seen
      },
      { message: "progress is reported" },
    )
    expect(view).toMatchObject({ state: "started", progress: { fraction: 0.5, detail: { step: 2 } } })
    gate.resolve()
    await job.result(WAIT)
  })

  test("events are replayed from an id and end with the run", async () => {
    const one = actor("one", { methods: { run: () => 1 } })
    const { client } = await start([one])
    const job = await client.submit("one")
    await job.result(WAIT)
    const states: Array<string> = []
    for await (const event of job.events()) if (event.type === "transition") states.push(event.state)
    expect(states).toEqual(["queued", "started", "succeeded"])
    const resumed: Array<string> = []
    for await (const event of job.events({ lastEventId: "1.2" }))
      if (event.type === "transition") resumed.push(event.state)
    expect(resumed).toEqual(["succeeded"])
  })

  test("resources of start reach the methods, and are released when the service stops", async () => {
    const steps: Array<string> = []
    const shop = actor("shop", {
      start: (scope) => {
        scope.onStop(() => {
          steps.push("released")
        })
        return { stock: 3 }
      },
      stop: ({ stock }) => {
        steps.push(`stopped with ${stock}`)
      },
      methods: { run: (_input: unknown, job) => job.use.stock },
    })
    const service = await start([shop])
    expect(await (await service.client.submit("shop")).result(WAIT)).toBe(3)
    await service.stop()
    expect(steps).toEqual(["stopped with 3", "released"])
  })
})

describe("stopping", () => {
  test("lets what runs finish and hands back what waits, uncounted", async () => {
    const gate = Promise.withResolvers<void>()
    const slow = actor("slow", { methods: { run: () => gate.promise } })
    const transport = `memory://${generateId()}`
    const first = await start([slow], { transport, concurrency: 1 })
    const observer = await start([], { transport })
    const jobs = await Promise.all(Array.from({ length: 3 }, () => first.client.submit("slow")))
    await eventually(() => first.worker?.describe().running.length === 1, { message: "the first job runs" })
    const stopping = first.stop()
    gate.resolve()
    expect(await stopping).toEqual({ finished: 1, handedBack: 2, stuck: 0, lost: 0 })
    const views = await Promise.all(jobs.map((job) => observer.client.job(job.id).find()))
    expect(views.map((view) => view.state).sort()).toEqual(["queued", "queued", "succeeded"])
    expect(
      views.filter((view) => view.state === "queued").every((view) => view.attempts === 0 && view.retries === 0),
    ).toBe(true)
  })

  test("stopping now hands back what runs, uncounted, and another worker runs it", async () => {
    const transport = `memory://${generateId()}`
    let hold = true
    const slow = actor("slow", {
      methods: { run: (_input: unknown, job) => (hold ? new Promise(() => undefined) : job.attempt) },
    })
    const first = await start([slow], { transport })
    const observer = await start([], { transport })
    const job = await first.client.submit("slow")
    await eventually(() => first.worker?.describe().running.length === 1, { message: "the job runs" })
    expect(await first.stop({ now: true })).toEqual({ finished: 0, handedBack: 1, stuck: 1, lost: 0 })
    hold = false
    await start([slow], { transport })
    expect(await observer.client.job(job.id).result(WAIT)).toBe(1)
  })

  test("a job that is handed back after its time to wait does not expire, since it has started", async () => {
    const transport = `memory://${generateId()}`
    let hold = true
    const slow = actor("slow", { methods: { run: () => (hold ? new Promise(() => undefined) : "done") } })
    const first = await start([slow], { transport })
    const observer = await start([], { transport })
    const began = performance.now()
    const job = await first.client.submit("slow", { ttl: 0.5 })
    const { client } = observer
    await eventually(async () => (await client.job(job.id).find()).state === "started", { message: "it has started" })
    await eventually(() => performance.now() - began > 2_000, { message: "its time to wait is over" })
    await first.stop({ now: true })
    expect((await client.job(job.id).find()).state).toBe("queued")
    hold = false
    await start([slow], { transport })
    expect(await client.job(job.id).result(WAIT)).toBe("done")
  })
})

const never = () => new Promise<never>(() => undefined)

describe("an output schema that never answers", () => {
  const output = { "~standard": { version: 1, vendor: "test", validate: never } } as const
  const endless = actor("endless", { methods: { run: { output, retry: false, run: () => "done" } } })

  test("is ended by the time limit", async () => {
    const { client, worker } = await start([endless])
    const job = await client.submit("endless", { timeLimit: 0.2 })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "timeout" } })
    await eventually(() => worker?.load.inFlight === 0, { message: "its slot is free" })
  })

  test("is ended by a cancellation", async () => {
    const { client, worker } = await start([endless])
    const job = await client.submit("endless")
    await eventually(async () => (await job.find()).state === "started", { message: "it runs" })
    await job.cancel()
    expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
    await eventually(() => worker?.load.inFlight === 0, { message: "its slot is free" })
  })
})

describe.each([
  ["of a method", {}],
  ["of a method with a limit", { limit: { concurrency: 1, key: () => "all" } }],
])("an input schema that never answers, %s", (_, limited) => {
  let asked = 0
  const validate = (value: unknown) => {
    asked++
    return value === 1 ? never() : { value }
  }
  const input = { "~standard": { version: 1, vendor: "test", validate } } as const
  const endless = actor("endless", {
    methods: { run: { input, retry: false, ...limited, run: (given: unknown) => given } },
  })

  test("is ended by the time limit", async () => {
    const { client, worker } = await start([endless])
    const job = await client.submit("endless", { input: 1, timeLimit: 0.2 })
    const error = { reason: "timeout", message: "it exceeded its hard time limit of 0.2 s" }
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error })
    await eventually(() => worker?.load.inFlight === 0, { message: "its slot is free" })
    expect(await (await client.submit("endless", { input: 2 })).result(WAIT)).toBe(2)
  })

  test("is tried again after the time limit, as the retry policy says", async () => {
    const { client } = await start([endless])
    const job = await client.submit("endless", { input: 1, timeLimit: 0.2, retry: { max: 1, interval: 0.01 } })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "timeout" } })
    expect(await job.find()).toMatchObject({ retries: 1 })
  })

  test("is ended by a cancellation", async () => {
    asked = 0
    const { client, worker } = await start([endless])
    const job = await client.submit("endless", { input: 1 })
    await eventually(() => asked > 0, { message: "its input is validated" })
    await job.cancel()
    expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
    await eventually(() => worker?.load.inFlight === 0, { message: "its slot is free" })
    expect(await (await client.submit("endless", { input: 2 })).result(WAIT)).toBe(2)
  })

  test("does not keep a worker from stopping: the task is handed back", async () => {
    asked = 0
    const service = await start([endless])
    await service.client.submit("endless", { input: 1 })
    await eventually(() => asked > 0, { message: "its input is validated" })
    expect(await service.stop({ now: true })).toMatchObject({ handedBack: 1, stuck: 0, lost: 0 })
  })
})

describe.each([
  ["cannot be interrupted", Effect.uninterruptible],
  ["has a finalizer that never ends", (work: Effect.Effect<void>) => Effect.ensuring(Effect.never, work)],
])("an Effect that %s", (_, keep) => {
  let release: () => void = () => undefined
  const endless = actor("endless", {
    methods: {
      run: {
        retry: false,
        limit: { concurrency: 1 },
        run: (isEndless: boolean) => {
          const released = new Promise<void>((resolve) => {
            release = resolve
          })
          return isEndless ? keep(Effect.promise(() => released)) : Effect.succeed("ran")
        },
      },
    },
  })

  const keepsItsSlot = async ({ client, worker }: Service) => {
    await eventually(() => worker?.load.inFlight === 0, { message: "its job is settled" })
    expect(worker?.load.running).toBe(1)
    const next = await client.submit("endless", { input: false })
    await eventually(async () => (await client.why(next.id)).causes[0]?.code === "concurrency-limit", {
      message: "it keeps its place in the limit",
    })
    release()
    expect(await next.result(WAIT)).toBe("ran")
    await eventually(() => worker?.load.running === 0, { message: "its slot is free" })
  }

  test("is not waited for after the time limit, and keeps its slot", async () => {
    const service = await start([endless], { concurrency: 2 })
    const job = await service.client.submit("endless", { input: true, timeLimit: 0.2 })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "timeout" } })
    await keepsItsSlot(service)
  })

  test("is not waited for after a cancellation, and keeps its slot", async () => {
    const service = await start([endless], { concurrency: 2 })
    const job = await service.client.submit("endless", { input: true })
    await eventually(async () => (await job.find()).state === "started", { message: "it runs" })
    await job.cancel()
    await keepsItsSlot(service)
  })
})
