/** Hooks of a method: when they run, what they get, what their failures do, and that they end with their attempt. */

import { actor, Ignore, Reject, Retry } from "callboard"
import { type LogLine, runActor } from "callboard/testing"
import { Effect } from "effect"
import { beforeEach, describe, expect, test } from "vitest"
import * as z from "zod"
import { runStoppedHook } from "../../../../runtime/worker/run/handler.ts"
import { eventually } from "../../../support/servers/process.ts"

/** The hooks and handlers that ran, in order. */
let ran: Array<string> = []
beforeEach(() => {
  ran = []
})

const WAIT = { timeout: 60 } as const

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : String(error))

const noted = {
  onSuccess: (result: unknown) => void ran.push(`onSuccess ${JSON.stringify(result)}`),
  onFailure: async (error: unknown) => void ran.push(`onFailure ${nameOf(error)}`),
  onStopped: () => void ran.push("onStopped"),
}

const logged = (lines: ReadonlyArray<LogLine>, message: string) =>
  lines.find((line) => line.message.startsWith(message))

const never = () => new Promise<never>(() => undefined)
const throws = (make: () => unknown) => () => Promise.reject(make())

const hooked = actor("hooked", {
  methods: {
    flaky: {
      ...noted,
      retry: { max: 2 },
      run: (_input, job) => (job.retries < 2 ? Effect.fail(new TypeError("not yet")) : Effect.succeed(job.retries)),
    },
    control: {
      ...noted,
      retry: { max: 2 },
      run: (input: "retry" | "ignore" | "reject", job) => {
        if (input === "ignore") throw new Ignore()
        if (input === "reject") throw new Reject("not for me")
        if (job.retries === 0) throw job.retry()
        return "in the end"
      },
    },
    rejectedTwice: {
      retry: { max: 2 },
      run: throws(() => new Reject("not for me")),
      onFailure: throws(() => new RangeError("nor for me")),
    },
    retried: {
      run: (_input, job) => {
        if (job.retries === 0) throw new TypeError("not the first time")
        return job.retries
      },
      onFailure: throws(() => new Retry({ after: 0 })),
    },
    date: {
      ...noted,
      output: z.object({ at: z.string().transform((text) => new Date(text)) }),
      run: (input: string) => ({ at: input }),
      onSuccess: (result: { at: Date }) => {
        noted.onSuccess(result.at.getTime())
        result.at.setTime(0)
      },
    },
    misfit: { ...noted, retry: { max: 2 }, output: z.number(), run: (input: unknown): never => input as never },
    symbol: { ...noted, run: () => Symbol("x") },
    checked: { ...noted, input: z.number(), run: (input) => input },
    late: { ...noted, timeLimit: 0.2, run: () => 1, onSuccess: never },
    waits: {
      ...noted,
      run: () => 1,
      onSuccess: () =>
        Effect.sync(() => ran.push("waits")).pipe(
          Effect.andThen(Effect.never),
          Effect.ensuring(Effect.sync(() => ran.push("interrupted"))),
        ),
    },
    endless: { ...noted, run: never },
    stopFails: { ...noted, run: never, onStopped: throws(() => new Error("cannot tidy up")) },
  },
})

describe("hooks", () => {
  test("run for each attempt: onFailure before every retry, onSuccess at the end", async () => {
    await using run = await runActor(hooked)
    expect(await run.call.flaky()).toBe(2)
    expect(ran).toEqual(["onFailure TypeError", "onFailure TypeError", "onSuccess 2"])
  })

  test.each([
    ["retry", { state: "succeeded", result: "in the end" }, ['onSuccess "in the end"']],
    ["ignore", { state: "succeeded", result: null }, []],
    ["reject", { state: "failed", error: { name: "Reject" } }, ["onFailure Reject"]],
  ] as const)("do not take a request for a failure: %s", async (input, outcome, hooks) => {
    await using run = await runActor(hooked)
    expect(await (await run.submit.control(input)).outcome(WAIT)).toMatchObject(outcome)
    expect(ran).toEqual(hooks)
  })

  test("a rejected job is not tried again because its hook fails, too", async () => {
    await using run = await runActor(hooked)
    const job = await run.submit.rejectedTwice()
    expect(await job.outcome(WAIT)).toMatchObject({ error: { name: "RangeError", message: "nor for me" } })
    expect((await job.find()).attempts).toBe(1)
  })

  test("may ask for a retry", async () => {
    await using run = await runActor(hooked)
    expect(await run.call.retried()).toBe(1)
  })

  test("onSuccess gets the result as the schema made it; what it does to it changes nothing", async () => {
    await using run = await runActor(hooked)
    const { at } = await run.call.date("2026-01-01T00:00:00.000Z")
    expect(at).toEqual(new Date("2026-01-01T00:00:00.000Z"))
    expect(ran).toEqual([`onSuccess ${Date.UTC(2026, 0, 1)}`])
  })

  test("a result that does not fit, or cannot be stored, is a failure", async () => {
    await using run = await runActor(hooked)
    const misfit = await run.submit.misfit("text")
    expect(await misfit.outcome(WAIT)).toMatchObject({ error: { name: "InvalidResult", reason: "invalid-result" } })
    expect((await misfit.find()).attempts).toBe(1)
    const symbol = await run.client.submit("hooked.symbol", { callbacks: [{ task: "hooked.symbol" }] })
    expect(await symbol.outcome(WAIT)).toMatchObject({ error: { name: "UnserialisableResult" } })
    expect(ran).toEqual(["onFailure InvalidResult", "onFailure UnserialisableResult"])
  })

  test("do not run for an input that the handler never saw", async () => {
    await using run = await runActor(hooked)
    const job = await run.client.submit("hooked.checked", { input: "text" })
    expect(await job.outcome(WAIT)).toMatchObject({ error: { name: "InvalidInput" } })
    expect(ran).toEqual([])
  })

  test("share the time limit of the attempt, after which no hook runs", async () => {
    await using run = await runActor(hooked)
    const job = await run.submit.late()
    expect(await job.outcome(WAIT)).toMatchObject({ error: { name: "TimeLimitExceeded" } })
    expect(ran).toEqual([])
  })

  test("are interrupted when the job is cancelled", async () => {
    await using run = await runActor(hooked)
    const job = await run.submit.waits()
    await eventually(() => ran.includes("waits"), { message: "the hook runs" })
    await job.cancel()
    await eventually(() => ran.includes("onStopped"), { message: "it is stopped" })
    expect(ran).toEqual(["waits", "interrupted", "onStopped"])
  })
})

describe("onStopped", () => {
  test("does not run for a job that is cancelled while it waits", async () => {
    await using run = await runActor(hooked)
    const job = await run.client.submit("hooked.endless", { delay: 60 })
    await job.cancel()
    await (await run.client.submit("hooked.checked", { input: 1 })).result(WAIT)
    expect(ran).toEqual(["onSuccess 1"])
  })

  test("may fail: that is logged, and changes nothing", async () => {
    await using run = await runActor(hooked)
    const job = await run.submit.stopFails()
    await eventually(async () => (await job.find()).state === "started", { message: "it runs" })
    await job.cancel()
    const line = await eventually(() => logged(run.logs, "onStopped failed"), { message: "the failure is logged" })
    expect(line.fields).toMatchObject({ job: job.id, cause: "cannot tidy up" })
    expect(await job.find()).toMatchObject({ state: "cancelled" })
  })

  test.each([
    ["promise", never],
    [
      "Effect",
      () =>
        Effect.ensuring(
          Effect.never,
          Effect.sync(() => ran.push("interrupted")),
        ),
    ],
  ])("that does not end is not waited for for ever: %s", async (kind, onStopped) => {
    await using run = await runActor(
      actor("outer", {
        methods: {
          run: async (_input, job) => {
            await Effect.runPromise(runStoppedHook({ onStopped }, job, 50))
            return job.state
          },
        },
      }),
    )
    expect(await run.client.submit("outer").then((job) => job.result(WAIT))).toBe("cancelled")
    expect(logged(run.logs, "onStopped did not end within 0.05 s")).toBeDefined()
    expect(ran).toEqual(kind === "Effect" ? ["interrupted"] : [])
  })
})

describe("job.parent()", () => {
  const family = actor("family", {
    methods: {
      child: async (_input: unknown, { parentId, rootId, parent }) => ({ parentId, rootId, parent: await parent() }),
      run: async (_input: unknown, job) => {
        const child = await job.submit("family.child")
        return child.result(WAIT)
      },
    },
  })

  test("is the record of the job that submitted it", async () => {
    await using run = await runActor(family)
    const job = await run.submit.run()
    expect(await job.result(WAIT)).toMatchObject({
      ...{ parentId: job.id, rootId: job.id },
      parent: { id: job.id, name: "family.run" },
    })
  })

  test("is undefined where there is none, or it is not kept", async () => {
    await using run = await runActor(family)
    const alone = await run.submit.child()
    expect(await alone.result(WAIT)).toEqual({ rootId: alone.id })
    expect(await (await run.submit.child(undefined, { parentId: "unheard-of" })).result(WAIT)).toMatchObject({
      parentId: "unheard-of",
    })
    await alone.delete()
    const orphan = await run.submit.child(undefined, { parentId: alone.id })
    expect(await orphan.result(WAIT)).toEqual({ parentId: alone.id, rootId: orphan.id })
  })
})

describe("job.job(id)", () => {
  const board = actor("board", {
    methods: {
      add: ({ a, b }: { a: number; b: number }) => a + b,
      fail: throws(() => new TypeError("it fails")),
      sum: async (_input: unknown, { after, job }) => {
        const results = await Promise.all(after.map((id) => job<number>(id).result(WAIT)))
        return results.reduce((sum, each) => sum + each, 0)
      },
      ask: async (id: string, { job }) => {
        const handle = job(id)
        return [handle.id, (await handle.find()).state, (await handle.outcome(WAIT)).state]
      },
      cancel: async (id: string, { job }) => (await job(id).cancel()).state,
    },
  })

  test("is the handle of any job, of those that this one waited for among them", async () => {
    await using run = await runActor(board)
    const parents = [await run.submit.add({ a: 1, b: 2 }), await run.submit.add({ a: 3, b: 4 })]
    const sum = await run.submit.sum(undefined, { after: parents.map(({ id }) => id) })
    expect(await sum.result(WAIT)).toBe(10)
    const failed = await run.submit.fail()
    expect(await failed.outcome(WAIT)).toMatchObject({ state: "failed" })
    expect(await (await run.submit.ask(failed.id)).result(WAIT)).toEqual([failed.id, "failed", "failed"])
    const waiting = await run.submit.add({ a: 1, b: 1 }, { delay: 60 })
    expect(await (await run.submit.cancel(waiting.id)).result(WAIT)).toBe("cancelled")
    expect(await waiting.find()).toMatchObject({ state: "cancelled" })
  })

  test("fails the handler that asks for a job which does not exist, by name", async () => {
    await using run = await runActor(board)
    const asked = await run.submit.ask("unheard-of")
    expect(await asked.outcome(WAIT)).toMatchObject({ error: { message: expect.stringContaining("unheard-of") } })
  })
})
