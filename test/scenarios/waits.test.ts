/** Jobs that sleep, wait for signals and call other jobs: between two deliveries they hold nothing. */
import { readFileSync } from "node:fs"
import { actor, connect, type Job, type JobHandle, type ServeOptions, StepError } from "callboard"
import * as Effect from "effect/Effect"
import { describe, expect, onTestFinished, test } from "vitest"
import type { CallFields } from "../../runtime/actor/step.ts"
import { builtin } from "../../runtime/connection/builtin.ts"
import { generateId } from "../../runtime/id.ts"
import { decoder } from "../../runtime/protocol/text.ts"
import { overriding } from "../../runtime/testing/observed-transport.ts"
import type { Driver, Plugin } from "../../runtime/transport/driver.ts"
import { eventually, temporaryFolder } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { isolated } from "../unit/runtime/steps/isolated.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 30 }

onEveryBoard((newBoard) => {
  const startWith = (
    run: (input: never, job: Job) => unknown,
    options: Pick<ServeOptions, "concurrency" | "transport" | "transports"> = {},
  ) =>
    start([actor("waits", { methods: { run } }), actor("child", { methods: CHILD })], {
      transport: newBoard(),
      ...options,
    })

  describe("a job that sleeps", () => {
    test("holds no slot, is called again, and runs no step twice", async () => {
      const ran: Array<string> = []
      let calls = 0
      const service = await startWith(
        async (name: string, job) => {
          calls++
          await job.step("before", () => void ran.push(`${name} before`))
          await job.sleep("nap", 2)
          await job.step("after", () => void ran.push(`${name} after`))
          return `${name} ${job.attempt}`
        },
        { concurrency: 2 },
      )
      const began = performance.now()
      const jobs = await Promise.all(
        Array.from({ length: 10 }, (_, at) => service.client.submit("waits", { input: `${at}` })),
      )
      await eventually(async () => (await jobs[9]?.find())?.state === "scheduled")
      expect(await jobs[0]?.find()).toMatchObject({
        state: "scheduled",
        attempts: 0,
        waits: { until: expect.any(String) },
      })
      expect(await Promise.all(jobs.map((job) => job.result(WAIT)))).toEqual(jobs.map((_, at) => `${at} 1`))
      // One after another, with two slots, they would take ten seconds.
      expect(performance.now() - began).toBeLessThan(8_000)
      expect(ran).toHaveLength(20)
      expect(calls).toBe(20)
      const { waits, attempts, transitions } = (await jobs[0]?.find()) ?? {}
      expect([waits, attempts, transitions?.map(({ reason }) => reason).includes("suspended")]).toEqual([
        undefined,
        1,
        true,
      ])
    })

    test("does not go over its time limit meanwhile", async () => {
      const service = await startWith(async (_input, job) => {
        await job.sleep("nap", 2.5)
        return "rested"
      })
      const job = await service.client.submit("waits", { timeLimit: 2 })
      expect(await job.result(WAIT)).toBe("rested")
    })
  })

  describe("a signal", () => {
    test("continues a job that waits for it, also if it was sent before", async () => {
      const service = await startWith(async (_input, job) => {
        const one = await job.waitFor<{ by: string }>("one")
        const two = await job.waitFor("two", { timeout: "1 hour" })
        const none = await job.waitFor("none", { timeout: 0 })
        return [one, two, none ?? "over"]
      })
      const job = await service.client.submit("waits")
      await job.signal("two", 2)
      await eventually(async () => (await job.find()).waits?.signals?.[0] === "one")
      expect((await job.find()).signals).toMatchObject([{ name: "two" }])
      await job.signal("one", { by: "ada" })
      expect(await job.result(WAIT)).toEqual([{ by: "ada" }, 2, "over"])
      expect((await job.find()).signals).toBeUndefined()
      await expect(job.signal("one")).rejects.toMatchObject({ code: "already-terminal" })
    })

    test("is not lost if it comes before the first step with a revert", async () => {
      const gate = Promise.withResolvers<void>()
      const service = await startWith(async (_input, job) => {
        await gate.promise
        await job.step("book", () => 1, { revert: () => undefined })
        return job.waitFor("go")
      })
      const job = await service.client.submit("waits", { meta: { a: 1 } })
      await eventually(async () => (await job.find()).state === "started")
      await job.signal("go", "came")
      await job.patchMeta({ b: 2 })
      gate.resolve()
      expect(await job.result(WAIT)).toBe("came")
      expect((await job.find()).meta).toEqual({ a: 1, b: 2 })
    })

    test.each(SENT)("that is sent %s continues the job at once, by one turn more at most", async (when) => {
      const transport = newBoard()
      await using sender = await connect(transport)
      const id = generateId()
      let at = 0
      const send = async () => {
        await sender.job(id).signal("go", "came")
        at = performance.now()
      }
      let isSent = false
      /** Sends it at this moment, once. */
      const now = async (moment: string) => {
        if (moment !== when || isSent) return
        isSent = true
        await send()
      }
      const run = async (_input: unknown, job: Job) => {
        await job.step("last", () => now("during a step"))
        await now("between the last step and the wait")
        return job.waitFor("go", { timeout: "1 hour" })
      }
      await sender.submit("waits", { id })
      await now("before the job begins")
      const service = await startWith(
        run,
        whenSuspending(transport, () => now("as the job falls asleep")),
      )
      const job = service.client.job(id)
      if (when === "during the wait") {
        await eventually(async () => (await job.find()).waits !== undefined)
        await now(when)
      }
      expect(await job.result(WAIT)).toBe("came")
      expect(performance.now() - at).toBeLessThan(2_000)
      const { transitions, signals, waits } = await job.find()
      const turns = transitions.filter(({ state }) => state === "started").length
      expect([turns <= 2, signals, waits]).toEqual([true, undefined, undefined])
    })

    test("of 60 KB, and a called job's result of 200 KB, come whole", async () => {
      const [text, large] = ["é".repeat(30 * 1024), "x".repeat(200 * 1024)]
      const service = await startWith(async (_input, job) => {
        const [one, two] = [await job.waitFor("one"), await job.waitFor("two")]
        const result = await job.call("large", "child", { input: large })
        return [one, two, result].every((each, at) => each === [text, text, large][at])
      })
      const job = await service.client.submit("waits")
      await job.signal("two", text)
      await eventually(async () => (await job.find()).waits !== undefined)
      await job.signal("one", text)
      expect(await job.result(WAIT)).toBe(true)
    })

    test("counts once with the same key, and is taken in order", async () => {
      const service = await startWith(async (_input, job) => {
        const got: Array<unknown> = []
        for (let at = 0; at < 20; at++) got.push(await job.waitFor(`n/${at}`, { signal: "n" }))
        return got
      })
      const job = await service.client.submit("waits")
      for (let at = 0; at < 20; at++) for (const _ of [1, 2]) await job.signal("n", at, { key: `k${at}` })
      expect(await job.result(WAIT)).toEqual(Array.from({ length: 20 }, (_, at) => at))
    })

    test("is one of a hundred, each sent twice, and of sixty at the same moment from three connections", async () => {
      const board = newBoard()
      const service = await start(
        [
          actor("waits", {
            methods: {
              run: async (count: number, job) => {
                const got: Array<unknown> = []
                for (let at = 0; at < count; at++) got.push(await job.waitFor(`n/${at}`, { signal: "n" }))
                return got
              },
            },
          }),
        ],
        { transport: board },
      )
      const slow = await service.client.submit("waits", { input: 100 })
      const quick = await service.client.submit("waits", { input: 60 })
      const clients = await Promise.all([1, 2, 3].map(() => connect(board)))
      onTestFinished(async () => void (await Promise.all(clients.map((client) => client.close()))))
      const all = Array.from({ length: 60 }, (_, at) => at)
      await Promise.all(all.map((at) => clients[at % 3]?.job(quick.id).signal("n", at)))
      for (let at = 0; at < 100; at++) for (const _ of [1, 2]) await slow.signal("n", at, { key: `k${at}` })
      expect(await slow.result(WAIT)).toEqual(Array.from({ length: 100 }, (_, at) => at))
      const got = await quick.result(WAIT)
      expect(Array.isArray(got) ? got.toSorted((one, other) => one - other) : got).toEqual(all)
    })

    test("is refused if too many, or too large ones, are not taken", async () => {
      const service = await startWith(async (_input, job) => job.waitFor("go"))
      const job = await service.client.submit("waits", { delay: "1 hour" })
      await expect(job.signal("n", "x".repeat(64 * 1024))).rejects.toMatchObject({ code: "too-large" })
      for (let at = 0; at < 4; at++) await job.signal("n", "x".repeat(63 * 1024))
      await expect(job.signal("n", "x".repeat(8 * 1024))).rejects.toMatchObject({
        code: "too-large",
        message: expect.stringContaining("has not taken 4 signals yet"),
      })
      for (let at = 4; at < 100; at++) await job.signal("n", at)
      await expect(job.signal("n", 100)).rejects.toMatchObject({
        code: "too-large",
        message: expect.stringContaining("has not taken 100 signals yet"),
      })
    })
  })

  describe("a call", () => {
    test("continues however the other job ends", async () => {
      const transport = newBoard()
      const run = ({ task, fields = {} }: { task: string; fields?: CallFields }, job: Job) =>
        job.call("other", task, fields).catch((cause: unknown) => {
          if (!(cause instanceof StepError)) throw cause
          return [cause.name, cause.is("JobFailed"), cause.message]
        })
      const { client } = await startWith(run, { transport })
      const caller = (task: string, fields: CallFields = {}) => client.submit("waits", { input: { task, fields } })
      const called = async (job: JobHandle) =>
        client.job((await eventually(async () => (await job.find()).waits?.jobs?.[0])) ?? "")
      const cancelled = await caller("child", { delay: "1 hour" })
      const deleted = await caller("child", { delay: "1 hour" })
      const terminated = await caller("child.stays")
      const expired = await caller("child", { queue: "nobody", expires: 1 })
      const ended = await Promise.all([
        caller("child", { input: { a: 1 }, resultTtl: "1 hour" }),
        caller("child", { input: null }),
        caller("child.fails"),
        caller("child.none"),
        caller("child.forgotten"),
      ])
      await (await called(cancelled)).cancel()
      await (await called(deleted)).delete()
      const stays = await called(terminated)
      await eventually(async () => (await stays.find()).state === "started")
      await stays.cancel({ terminate: true })
      // A job that nothing serves has expired once a process looks at it.
      await (await called(expired)).outcome(WAIT)
      // Ends that no worker has stored are found by maintenance: a worker that starts does its first round at once.
      await startWith(run, { transport })
      const outside = [expired, cancelled, deleted, terminated]
      const results = await Promise.all([...ended, ...outside].map((job) => job.result({ timeout: 60 })))
      expect(results).toEqual([
        { a: 1 },
        null,
        ["RangeError", true, "no"],
        ["CallboardError", false, expect.stringContaining("has no method none")],
        ["JobGone", false, expect.stringContaining("not kept any more")],
        ["JobExpired", false, expect.stringContaining("expired")],
        ["JobCancelled", false, expect.stringContaining("cancelled")],
        ["JobGone", false, expect.stringContaining("not kept any more")],
        ["JobCancelled", false, expect.stringContaining("cancelled")],
      ])
    })

    test("is one of a hundred, for which its job continues a few times", async () => {
      const service = await startWith(
        async (count: number, job) =>
          Promise.all(Array.from({ length: count }, (_, at) => job.call<number>(`call ${at}`, "child", { input: at }))),
        { concurrency: 4 },
      )
      const job = await service.client.submit("waits", { input: 100 })
      expect(await job.result(WAIT)).toEqual(Array.from({ length: 100 }, (_, at) => at))
      const { transitions } = await job.find()
      expect(transitions.filter(({ state }) => state === "started").length).toBeLessThanOrEqual(5)
    })

    test("resolves with the result of the other job, and fails as that does", async () => {
      const service = await startWith(async (_input, job) => {
        const result = await job.call("child", "child", { input: { a: 1 } })
        const failed = await job.call("fails", "child.fails").catch((cause: unknown) => cause)
        const unknown = await job.call("none", "child", { queue: "" }).catch((cause: unknown) => cause)
        if (!(failed instanceof StepError && unknown instanceof StepError)) throw failed
        return [result, failed.is("RangeError"), failed.is("JobFailed"), unknown.is("CallboardError"), unknown.message]
      })
      const job = await service.client.submit("waits")
      const told = await job.result({ timeout: 60 })
      expect(told).toEqual([{ a: 1 }, true, true, true, expect.stringContaining("queue")])
    })

    test("of a tree of jobs ends on one slot", async () => {
      const service = await startWith(
        async (depth: number, job) => {
          if (depth === 0) return 1
          const counts = await Promise.all(
            [1, 2, 3].map((at) => job.call<number>(`part ${at}`, "waits", { input: depth - 1 })),
          )
          return counts.reduce((sum, each) => sum + each, 1)
        },
        { concurrency: 1 },
      )
      const job = await service.client.submit("waits", { input: 2 })
      expect(await job.result({ timeout: 60 })).toBe(13)
    })
  })

  test("a job that is tried again keeps what it has waited for, and makes calls anew that have failed", async () => {
    const service = await startWith(async (_input, job) => {
      const signal = await job.waitFor<string>("go")
      const called = await job.call<string>("call", "child.recovers", { meta: { of: job.id } })
      return [signal, called]
    })
    const byPolicy = await service.client.submit("waits", { retry: { max: 1, interval: 0 } })
    await byPolicy.signal("go", 1)
    expect(await byPolicy.result(WAIT)).toEqual([1, "recovered"])

    const failed = async () => {
      const job = await service.client.submit("waits")
      await job.signal("go", 2)
      expect(await job.outcome(WAIT)).toMatchObject({ state: "failed" })
      return job
    }
    const byHand = await failed()
    await byHand.retry()
    expect(await byHand.result(WAIT)).toEqual([2, "recovered"])

    const fromStart = await failed()
    await fromStart.retry({ from: "start" })
    await eventually(async () => (await fromStart.find()).waits?.signals?.[0] === "go")
    await fromStart.signal("go", 3)
    expect(await fromStart.result(WAIT)).toEqual([3, "recovered"])
  })

  test("a race of a wait and a sleep stays as it was", async () => {
    const service = await startWith(async (_input, job) => {
      const first = await Promise.race([
        job.sleep("deadline", 1.5).then(() => "late"),
        job.waitFor("go").then(() => "signalled"),
      ])
      await job.sleep("more", 1.5)
      return first
    })
    const [late, quick] = [await service.client.submit("waits"), await service.client.submit("waits")]
    await eventually(async () => (await quick.find()).waits !== undefined)
    await quick.signal("go")
    await eventually(
      async () => (await late.find()).transitions.filter(({ reason }) => reason === "suspended").length === 2,
    )
    await late.signal("go")
    expect([await late.result(WAIT), await quick.result(WAIT)]).toEqual(["late", "signalled"])
  })

  test("a job that waits can be cancelled, and its steps are reverted", async () => {
    const undone: Array<string> = []
    const service = await startWith(async (_input, job) => {
      await job.step("book", () => "seat", { revert: ({ result }) => void undone.push(String(result)) })
      await job.waitFor("never")
    })
    const job = await service.client.submit("waits")
    await eventually(async () => (await job.find()).waits !== undefined)
    await job.cancel()
    expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
    expect(undone).toEqual(["seat"])
  })
})

test("an isolated handler and an Effect wait as well, and hold neither process nor slot", async () => {
  using folder = temporaryFolder()
  const ended: Array<string> = []
  const effect = actor("effect", {
    methods: {
      run: (_input: unknown, job) =>
        Effect.gen(function* () {
          const one = yield* Effect.promise(() => job.step("one", () => 1))
          const two = yield* Effect.promise(() => job.waitFor<number>("go"))
          return one + two
        }).pipe(Effect.onInterrupt(() => Effect.sync(() => void ended.push("interrupted")))),
    },
  })
  const service = await start([isolated, effect], { concurrency: 1 })
  const log = `${folder.path}/log`
  const apart = await service.client.submit("isolated.waits", { input: { log } })
  const inside = await service.client.submit("effect")
  for (const job of [apart, inside]) await eventually(async () => (await job.find()).waits?.signals?.[0] === "go")
  expect(ended).toEqual(["interrupted"])
  for (const job of [inside, apart]) await job.signal("go", 41)
  expect([await inside.result(WAIT), await apart.result(WAIT)]).toEqual([42, [41, 41, 1]])
  expect(readFileSync(log, "utf8")).toMatch(/^\d+\nend\n$/)
})

/** When a signal is sent. */
const SENT = [
  ...["before the job begins", "during a step", "between the last step and the wait"],
  ...["as the job falls asleep", "during the wait"],
]

const isDriver = (opened: object): opened is Driver => "commit" in opened && "store" in opened

/** A transport that calls `now` before it stores a record that suspends a job. */
const whenSuspending = (transport: string, now: () => Promise<void>) => {
  const plugin: Plugin = {
    schemes: ["hooked"],
    connect: async (url, options) => {
      const [scheme = ""] = transport.split(":")
      const { connect } =
        await builtin[scheme === "nats" || scheme === "sqlite" || scheme === "redis" ? scheme : "memory"]()
      const driver = await connect(new URL(url.href.replace(/^hooked/, scheme)), options)
      if (!isDriver(driver)) throw new Error(`${scheme} is no driver`)
      return overriding(driver, {
        commit: async (commits) => {
          if (commits.some(({ record }) => decoder.decode(record?.bytes).includes('"waits":'))) await now()
          return driver.commit(commits)
        },
      })
    },
  }
  return { transport: transport.replace(/^\w+/, "hooked"), transports: { hooked: plugin } }
}

const CHILD = {
  run: (input: unknown) => input,
  fails: () => {
    throw new RangeError("no")
  },
  /** Fails at its first run, and succeeds at every later one. */
  recovers: (_input: unknown, job: Job) => {
    if (FAILED.has(String(job.meta["of"]))) return "recovered"
    FAILED.add(String(job.meta["of"]))
    throw new RangeError("not yet")
  },
  forgotten: { resultTtl: 0, run: () => "forgotten" },
  stays: (_input: unknown, job: Job) =>
    new Promise<void>((resolve) => job.signal.addEventListener("abort", () => resolve())),
}
const FAILED = new Set<string>()
