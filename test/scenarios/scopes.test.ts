/** Scopes: parts of a handler that are reverted and tried again as a whole. */
import { readFileSync } from "node:fs"
import { actor, alwaysRevert, forEach, type Job, StepError, times } from "callboard"
import * as Effect from "effect/Effect"
import { describe, expect, test } from "vitest"
import { eventually, temporaryFolder } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { isolated } from "../unit/runtime/steps/isolated.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 30 }

onEveryBoard((newBoard) => {
  const serving = (run: (input: undefined, job: Job) => unknown, options: object = {}) =>
    start([actor("scene", { methods: { run: { run, ...options } } })], { transport: newBoard() })

  describe("a scope", () => {
    test("B1: is tried again with the next value, also after the job was suspended in it", async () => {
      const log: Array<string> = []
      const { client } = await serving((_input, job) =>
        job.scope(
          "book",
          async (inner, region) => {
            const note = (what: string) => void log.push(`${what} ${region}`)
            await inner.step("disk", () => note("disk"), { revert: () => note("-disk") })
            await inner.waitFor("attached")
            await inner.step("vm", async () => {
              note("vm")
              if (region === "eu") throw new Error("no room")
            })
            return region
          },
          { retry: forEach(["eu", "us"]) },
        ),
      )
      const job = await client.submit("scene")
      for (const _region of ["eu", "us"]) {
        await eventually(async () => (await job.find()).waits?.signals?.[0] === "attached")
        await job.signal("attached")
      }
      expect(await job.result(WAIT)).toBe("us")
      expect(log).toEqual(["disk eu", "vm eu", "-disk eu", "disk us", "vm us"])
      const { steps } = await client.steps(job.id)
      expect(steps.map(({ name, state }) => `${name} ${state}`)).toEqual([
        ...["book#1/disk reverted", "book#1/attached done", "book#1/vm failed", "book#1 failed"],
        ...["book#2/disk done", "book#2/attached done", "book#2/vm done"],
      ])
      expect(steps.find(({ name }) => name === "book#1")?.error).toEqual({ name: "Error", message: "no room" })
    })

    test("B2: a job that is cancelled while a try is reverted reverts what is left of it, and nothing twice", async () => {
      const log: Array<string> = []
      const reverting = Promise.withResolvers<void>()
      const { client } = await serving(async (_input, job) => {
        const undo = (what: string) => ({ revert: () => void log.push(`-${what}`) })
        await job.step("before", () => void log.push("before"), undo("before"))
        await job.scope(
          "book",
          async (inner) => {
            await inner.step("a", () => void log.push("a"), undo("a"))
            await inner.step("b", () => void log.push("b"), {
              revert: async ({ step }) => {
                const cancelled = new Promise((told) => job.signal.addEventListener("abort", told))
                reverting.resolve()
                await cancelled
                // The cancellation ends no revert.
                log.push(`-b ${step.signal.aborted}`)
              },
            })
            throw new Error("no")
          },
          { retry: times(3) },
        )
      })
      const job = await client.submit("scene")
      await reverting.promise
      await job.cancel()
      expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
      expect(log).toEqual(["before", "a", "b", "-b false", "-a", "-before"])
      expect(await job.find()).toMatchObject({ reverted: true })
      const { steps, unreverted } = await client.steps(job.id)
      expect(unreverted).toBeUndefined()
      expect(Object.fromEntries(steps.map(({ name, state }) => [name, state]))).toEqual({
        ...{ before: "reverted", "book#1/a": "reverted", "book#1/b": "reverted", "book#1": "failed" },
      })
    })
  })
})

const serving = (run: (input: undefined, job: Job) => unknown, options: object = {}) =>
  start([actor("scene", { methods: { run: { run, ...options } } })])

test("an isolated handler has scopes, and an Effect; the body of one may be an Effect, which is interrupted", async () => {
  const folder = temporaryFolder()
  const file = `${folder.path}/log`
  const log: Array<string> = []
  const effect = actor("effect", {
    methods: {
      run: (_input: undefined, job) =>
        Effect.gen(function* () {
          const tried = yield* Effect.promise(() =>
            job.scope(
              "book",
              (inner, n) =>
                Effect.gen(function* () {
                  yield* Effect.promise(() => inner.step("a", () => Effect.sync(() => void log.push(`a ${n}`))))
                  yield* Effect.promise(() => inner.sleep("nap", 2))
                  if (n < 2) return yield* Effect.fail(new TypeError("no"))
                  return n
                }).pipe(Effect.onInterrupt(() => Effect.sync(() => void log.push("interrupted")))),
              { retry: times(2, { on: ["TypeError"] }) },
            ),
          )
          return tried
        }),
    },
  })
  const { client } = await start([isolated, effect])
  const apart = await client.submit("isolated.scoped", { input: { log: file } })
  const inside = await client.submit("effect")
  expect(await apart.result(WAIT)).toEqual(["us", "RangeError", ["RangeError"]])
  expect(readFileSync(file, "utf8").trim().split("\n")).toEqual(["a eu", "-a eu", "a us"])
  expect(await inside.result(WAIT)).toBe(2)
  expect(log).toEqual(["a 1", "interrupted", "a 2", "interrupted"])
})

test("a job that was terminated and is run again keeps its scope that has succeeded, and its failed tries", async () => {
  const log: Array<string> = []
  const { client } = await serving(async (_input, job) => {
    const undo = (what: string) => ({ revert: () => void log.push(`-${what}`) })
    const won = await job.scope(
      "won",
      async (inner, n) => {
        await inner.step("a", () => void log.push(`a${n}`), undo(`a${n}`))
        if (n === 1) throw new Error("no")
        return n
      },
      { retry: times(3) },
    )
    await job
      .scope("lost", (inner) => inner.step("b", () => Promise.reject(new Error("no"))), { retry: alwaysRevert() })
      .catch(() => undefined)
    await job.waitFor("go")
    return won
  })
  const job = await client.submit("scene")
  await eventually(async () => (await job.find()).waits !== undefined)
  await job.cancel({ terminate: true })
  await job.retry()
  await eventually(async () => (await job.find()).waits !== undefined)
  await job.signal("go")
  expect(await job.result(WAIT)).toBe(2)
  expect(log).toEqual(["a1", "-a1", "a2"])
  const { steps } = await client.steps(job.id)
  expect(steps.filter(({ name }) => name.startsWith("lost")).map(({ name }) => name)).toEqual([
    ...["lost#1/b", "lost#1", "lost#2/b", "lost#2"],
  ])
})

test("a controller gets the values and errors of the tries that have failed", async () => {
  const histories: Array<unknown> = []
  const { client } = await serving((_input, job) =>
    job.scope("own", (_inner, value: string) => Promise.reject(new RangeError(value)), {
      retry: {
        next: ({ length }) => `try ${length}`,
        onFailure: (history) => {
          histories.push(history.map(({ value, error }) => [value, error instanceof StepError, error.is("RangeError")]))
          return history.length < 2 ? "retry" : "revert"
        },
      },
    }),
  )
  const job = await client.submit("scene")
  expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "RangeError", message: "try 1" } })
  expect(histories).toEqual([
    [["try 0", true, true]],
    [
      ["try 0", true, true],
      ["try 1", true, true],
    ],
  ])
})

test("a revert that a time limit ends is continued by the next attempt, which does not run the failed step again", async () => {
  const log: Array<string> = []
  const { client } = await serving(
    (_input, job) =>
      job.scope(
        "scope",
        async (inner, n) => {
          await inner.step("a", () => void log.push(`a${n}`), {
            revert: async () => {
              log.push(`-a${n}`)
              if (job.retries === 0) await new Promise(() => undefined)
            },
          })
          await inner.step("f", () => {
            log.push(`f${n}`)
            if (n === 1) throw new Error("no")
          })
          return n
        },
        { retry: times(2) },
      ),
    { timeLimit: 1, retry: { max: 1, interval: 0 } },
  )
  const job = await client.submit("scene")
  expect(await job.result(WAIT)).toBe(2)
  expect(log).toEqual(["a1", "f1", "-a1", "-a1", "a2", "f2"])
})

test("a job that a failed try has called is cancelled, and the one of the next try is not", async () => {
  const child = actor("child", { methods: { run: (_input: undefined, job) => job.waitFor("go") } })
  const scene = actor("scene", {
    methods: {
      run: (_input: undefined, job) =>
        job.scope(
          "scope",
          async (inner, n) => {
            const called = inner.call("call", "child")
            if (n === 2) return called
            await Promise.race([called, inner.sleep("patience", 1.5)])
            throw new Error("no")
          },
          { retry: times(2) },
        ),
    },
  })
  const { client } = await start([child, scene])
  const job = await client.submit("scene")
  const children = new Set<string>()
  await eventually(async () => {
    for (const id of (await job.find()).waits?.jobs ?? []) children.add(id)
    return children.size === 2
  })
  const [first = "", second = ""] = children
  await client.job(second).signal("go", 7)
  expect(await job.result(WAIT)).toBe(7)
  expect(await client.job(first).find()).toMatchObject({ state: "cancelled" })
  expect(await client.job(second).find()).toMatchObject({ state: "succeeded" })
})
