/** Acceptance scenarios of durable steps that are reverted, on memory. */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { actor, type Job, Reject, type StepError, type SubmissionFields } from "callboard"
import * as Effect from "effect/Effect"
import { describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { journalPrefix, pageKey } from "../../runtime/steps/page.ts"
import { faulty } from "../support/faulty-board.ts"
import { eventually, isRunning, temporaryFolder } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { isolated } from "../unit/runtime/steps/isolated.ts"
import { Declined, runOnce, WAIT } from "./step-scene.ts"

describe("reverting", () => {
  const saga = (log: Array<string>, last: (job: Job) => unknown) => async (_input: unknown, job: Job) => {
    const reverting = (name: string) => ({
      revert: (reverting: { result: unknown; error: StepError | undefined; why: string; step: { key: string } }) => {
        log.push(
          `-${name} ${reverting.result ?? reverting.error?.name} ${reverting.why} ${reverting.step.key.endsWith(`/${name}`)}`,
        )
      },
    })
    const act = (name: string) => () => {
      log.push(name)
      return name
    }
    await job.step("a", act("a"), reverting("a"))
    await Promise.all([job.step("b", act("b"), reverting("b")), job.step("c", act("c"))])
    await job.step("last", () => last(job), reverting("last"))
  }

  test("a change of the metadata from outside stays that comes before the first step with a revert", async () => {
    const gate = Promise.withResolvers<void>()
    const run = async (_input: unknown, job: Job) => {
      await gate.promise
      await job.step("a", () => 1, { revert: () => undefined })
    }
    const { client } = await start([actor("scene", { methods: { run } })])
    const job = await client.submit("scene", { meta: { a: 1 } })
    await eventually(async () => (await job.find()).state === "started")
    await job.patchMeta({ b: 2 })
    gate.resolve()
    await job.result(WAIT)
    expect((await job.find()).meta).toEqual({ a: 1, b: 2 })
  })

  test("a job that fails for good reverts its steps, the last one first, and keeps its error", async () => {
    const log: Array<string> = []
    const { view } = await runOnce(
      saga(log, () => Promise.reject(new Declined("no"))),
      { retry: { max: 1, interval: 0 } },
    )
    expect(log).toEqual(["a", "b", "c", "-last Declined failed true", "-b b failed true", "-a a failed true"])
    expect(view).toMatchObject({ state: "failed", reverted: true, error: { name: "Declined" } })
  })

  test("a job that is cancelled reverts them, and ends as cancelled; terminated it reverts nothing", async () => {
    for (const terminate of [false, true]) {
      const log: Array<string> = []
      const begun = Promise.withResolvers<void>()
      const service = await start([
        actor("scene", {
          methods: {
            run: saga(log, async ({ signal }) => {
              begun.resolve()
              await new Promise((resolve) => signal.addEventListener("abort", resolve))
            }),
          },
        }),
      ])
      const job = await service.client.submit("scene.run")
      await begun.promise
      await job.cancel({ terminate })
      expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
      expect(log.slice(3)).toEqual(
        terminate ? [] : ["-last undefined cancelled true", "-b b cancelled true", "-a a cancelled true"],
      )
      const view = await job.find()
      expect(view.reverted).toBe(terminate ? undefined : true)
      const { unreverted } = await service.client.steps(job.id)
      expect(unreverted).toEqual(terminate ? ["a", "b"] : undefined)
    }
  })

  /** Serves a job that has failed once, waits for an hour, and has one step that can be reverted. */
  const waiting = async (fields: SubmissionFields = {}) => {
    const log: Array<string> = []
    const service = await start([
      actor("scene", {
        methods: {
          run: {
            retry: { max: 1, interval: "1 hour" },
            run: async (_input: unknown, job: Job) => {
              await job.step("a", () => log.push("a"), { revert: ({ why }) => void log.push(`-a ${why}`) })
              throw new Declined("no")
            },
          },
        },
      }),
    ])
    const job = await service.client.submit("scene.run", fields)
    await expect.poll(async () => (await job.find()).state).toBe("scheduled")
    return { log, job, client: service.client }
  }

  test("a job that waits to be tried again does not expire with steps that are not reverted", async () => {
    const { log, job, client } = await waiting({ expires: 0.5 })
    const { submitted } = (await job.find()).times
    await eventually(() => Date.now() > Date.parse(submitted) + 1_200, { message: "its time is long over" })
    expect((await job.find()).state).toBe("scheduled")
    expect((await client.why(job.id)).causes).toMatchObject([{ code: "retrying" }])
    await job.cancel()
    expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
    expect(log).toEqual(["a", "-a cancelled"])
  })

  test("a job that is purged reverts its steps, also where its record is not to stay", async () => {
    for (const forget of [false, true]) {
      const { log, job, client } = await waiting()
      await client.pause("default")
      expect(await client.purge("default", { forget })).toBe(1)
      expect(await client.purge("default", { forget })).toBe(0)
      expect(await job.find()).toMatchObject({ state: "queued", reverting: "cancelled" })
      await client.resume("default")
      expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
      expect(log).toEqual(["a", "-a cancelled"])
    }
  })

  test("a cancellation that is announced to nobody is heeded at the end of the attempt", async () => {
    const transports = faulty((transport) => ({
      ...transport,
      broadcast: { listen: async () => undefined, send: async () => undefined },
    }))
    const log: Array<string> = []
    const cancels = (job: Job) => job.job(job.id).cancel()
    const scene = actor("scene", { methods: { run: saga(log, cancels) } })
    const service = await start([scene], { transport: `faulty://${generateId()}`, transports })
    const job = await service.client.submit("scene.run")
    expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
    expect(log.slice(3).map((line) => line.split(" ")[0])).toEqual(["-last", "-b", "-a"])
    expect(await job.find()).toMatchObject({ reverted: true })
  })

  const between = (log: Array<string>, waits: (job: Job) => Promise<unknown>) => async (_input: unknown, job: Job) => {
    await job.step("a", () => log.push("a"), { revert: () => void log.push("-a") })
    log.push("waits")
    await waits(job)
  }
  const aborted = ({ signal }: Job) =>
    new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)))

  test("a job that is cancelled between its steps reverts them at once, and its handler holds no slot", async () => {
    const log: Array<string> = []
    const service = await start([actor("scene", { methods: { run: between(log, aborted) } })])
    const job = await service.client.submit("scene.run")
    await eventually(() => log.includes("waits"), { message: "the handler waits" })
    await job.cancel()
    expect(await job.outcome({ timeout: 5 })).toMatchObject({ state: "cancelled" })
    expect(log).toEqual(["a", "waits", "waits", "-a"])
    await eventually(() => service.worker?.load.running === 0, { message: "its slot is free" })
  })

  test("the Effect of a job that is cancelled between its steps is interrupted at once", async () => {
    const log: Array<string> = []
    const run = (_input: unknown, job: Job) =>
      Effect.gen(function* () {
        yield* Effect.promise(() => job.step("a", () => log.push("a"), { revert: () => void log.push("-a") }))
        log.push("waits")
        yield* Effect.onInterrupt(Effect.never, () => Effect.sync(() => log.push("interrupted")))
      })
    const { client } = await start([actor("scene", { methods: { run } })])
    const job = await client.submit("scene.run")
    await eventually(() => log.includes("waits"), { message: "the handler waits" })
    await job.cancel()
    expect(await job.outcome({ timeout: 5 })).toMatchObject({ state: "cancelled" })
    expect(log).toEqual(["a", "waits", "interrupted", "waits", "interrupted", "-a"])
  })

  test("a job that is cancelled while its next attempt is prepared begins no further step", async () => {
    const log: Array<string> = []
    const [checking, cancelled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const validate = async (value: unknown) => {
      if (log.length > 0) {
        checking.resolve()
        await cancelled.promise
      }
      return { value }
    }
    const run = {
      input: { "~standard": { version: 1 as const, vendor: "test", validate } },
      retry: { max: 1, interval: 0 },
      run: async (_input: unknown, job: Job) => {
        await job.step("a", () => log.push("a"), { revert: () => void log.push("-a") })
        if (job.attempt === 1) throw new Declined("no")
        await job.step("b", () => log.push("b"))
      },
    }
    const { client } = await start([actor("scene", { methods: { run } })])
    const job = await client.submit("scene.run", { input: {} })
    await checking.promise
    await job.cancel()
    cancelled.resolve()
    expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
    expect(log).toEqual(["a", "-a"])
  })

  test("a revert that fails for good is a dead letter, and a retry goes on reverting", async () => {
    const log: Array<string> = []
    let broken = true
    const { view, job } = await runOnce(async (_input, job) => {
      const revert = (name: string) => () => {
        log.push(name)
        if (broken && name === "a") throw new Reject("still there")
      }
      await job.step("a", () => "a", { revert: revert("a") })
      await job.step("b", () => "b", { revert: revert("b") })
      throw new Error("no")
    })
    expect(log).toEqual(["b", "a"])
    expect(view).toMatchObject({ state: "failed", dead: "revert-failed", unreverted: ["a"] })
    broken = false
    await job.retry()
    expect(await job.outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { message: expect.stringContaining("no") },
    })
    expect(log).toEqual(["b", "a", "a"])
    expect(await job.find()).toMatchObject({ reverted: true, run: 2 })
  })

  test("a job that is terminated while it reverts its steps goes on reverting when it is run again", async () => {
    const log: Array<string> = []
    const reverting = Promise.withResolvers<void>()
    const { client } = await start([
      actor("scene", {
        methods: {
          run: async (_input: unknown, job: Job) => {
            await job.step("a", () => log.push("a"), { revert: () => void log.push("-a") })
            const revert = async ({ step: { signal } }: { step: { signal: AbortSignal } }) => {
              log.push("-b")
              reverting.resolve()
              if (log.filter((each) => each === "-b").length > 1) return
              await new Promise((_resolve, reject) =>
                signal.addEventListener("abort", () => reject(new Reject("stop"))),
              )
            }
            await job.step("b", () => log.push("b"), { revert })
            throw new Error("no")
          },
        },
      }),
    ])
    const job = await client.submit("scene.run")
    await reverting.promise
    await job.cancel({ terminate: true })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
    expect((await client.steps(job.id)).unreverted).toEqual(["a", "b"])
    await job.retry()
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { message: "no" } })
    expect(log).toEqual(["a", "b", "-b", "-b", "-a"])
    expect(await job.find()).toMatchObject({ reverted: true, run: 2 })
  })

  test("a job that is run again reverts the steps that it kept: it fails, or is cancelled before it begins", async () => {
    for (const end of ["fails", "is cancelled"]) {
      const log: Array<string> = []
      const begun = Promise.withResolvers<void>()
      const { client } = await start([
        actor("scene", {
          methods: {
            run: async (_input: unknown, job: Job) => {
              await job.step("a", () => log.push("a"), { revert: ({ why }) => void log.push(`-a ${why}`) })
              begun.resolve()
              if (job.run === 2) throw new Declined("no")
              await new Promise((resolve) => job.signal.addEventListener("abort", resolve))
            },
          },
        }),
      ])
      const job = await client.submit("scene.run")
      await begun.promise
      await job.cancel({ terminate: true })
      await job.outcome(WAIT)
      if (end === "is cancelled") await client.pause("default")
      await job.retry()
      if (end === "is cancelled") {
        await job.cancel()
        await client.resume("default")
      }
      const [state, why] = end === "fails" ? ["failed", "failed"] : ["cancelled", "cancelled"]
      expect(await job.outcome(WAIT)).toMatchObject({ state })
      expect(log).toEqual(["a", `-a ${why}`])
      expect(await job.find()).toMatchObject({ reverted: true })
    }
  })

  test("a step inside a revert is refused as one inside another step", async () => {
    const refused: Array<string> = []
    const note = (cause: unknown) => void refused.push(cause instanceof Error ? cause.name : String(cause))
    const { view } = await runOnce(async (_input, job) => {
      const revert = async () => {
        await job.step("b", () => 1).catch(note)
        await job.each("c", [1], String, { key: String }).catch(note)
      }
      await job.step("a", () => 1, { revert })
      throw new Reject("no")
    })
    expect(refused).toEqual(["NestedStep", "NestedStep"])
    expect(view).toMatchObject({ state: "failed", reverted: true })
  })

  test("a worker whose job another one has taken over while it reverted lets go of the job", async () => {
    const reverts: Array<string> = []
    const scene = actor("scene", {
      methods: {
        run: async (_input: unknown, job: Job) => {
          const revert = async () => {
            reverts.push(job.id)
            // What another delivery does first: it writes the page of the journal under a name of its own.
            const { store } = service.client.connection
            const key = pageKey(journalPrefix(job.id, 1), 0)
            const [found] = await store.get([key])
            const text = new TextDecoder().decode(found?.value).replace(/"by":"[^"]*"/, '"by":"another"')
            await store.write([{ key, value: new TextEncoder().encode(text) }])
          }
          await job.step("a", () => "done", { revert })
          throw new Declined("no")
        },
      },
    })
    const service = await start([scene])
    await service.client.submit("scene.run")
    await eventually(() => reverts.length > 0, { message: "the step is reverted" })
    await eventually(() => service.worker?.load.inFlight === 0, { message: "the worker has nothing in hand" })
  })

  test("a job that is run again goes on with what is done, from the start with nothing", async () => {
    let broken = true
    const log: Array<string> = []
    const { view, job, client } = await runOnce(async (_input, job) => {
      await job.step("a", () => log.push("a"))
      await job.step("b", () => {
        log.push("b")
        if (broken) throw new Declined("no")
      })
    })
    expect(view.state).toBe("failed")
    broken = false
    await job.retry()
    expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(log).toEqual(["a", "b", "b"])
    broken = true
    const again = await client.submit("scene.run")
    await again.outcome(WAIT)
    broken = false
    await again.retry({ from: "start" })
    await again.outcome(WAIT)
    expect(log.slice(3)).toEqual(["a", "b", "a", "b"])
  })
})

test("in a process of its own a handler goes on where it was, and reverts its steps when it is cancelled", async () => {
  using folder = temporaryFolder()
  const service = await start([isolated])
  const { saga } = service.client.actor<typeof isolated>("isolated")
  const lines = (log: string) => (existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : [])
  const first = join(folder.path, "first")
  expect(await (await saga.submit({ log: first, fails: false })).result(WAIT)).toEqual({
    a: null,
    large: 9_000,
    error: "RangeError",
  })
  expect(lines(first)).toEqual(["a", "b"])
  const second = join(folder.path, "second")
  const job = await saga.submit({ log: second, fails: true })
  await eventually(async () => (await job.find()).retries === 1 && lines(second).length === 2, {
    message: "it goes on",
  })
  await job.cancel()
  expect(await job.outcome(WAIT)).toMatchObject({ state: "cancelled" })
  expect(lines(second)).toEqual(["a", "b", "-b cancelled", "-a"])
})

test("in a process of its own a handler that is cancelled between its steps reverts them, and its process is free", async () => {
  for (const heeds of [true, false]) {
    using folder = temporaryFolder()
    const log = join(folder.path, "log")
    const service = await start([isolated])
    const job = await service.client.actor<typeof isolated>("isolated").between.submit({ log, heeds })
    await eventually(() => existsSync(log) && readFileSync(log, "utf8").endsWith("waits\n"), { message: "it waits" })
    await job.cancel()
    expect(await job.outcome({ timeout: heeds ? 8 : 20 })).toMatchObject({ state: "cancelled" })
    expect(readFileSync(log, "utf8")).toBe("a\nwaits\nwaits\n-a\n")
    expect(await job.find()).toMatchObject({ reverted: true })
    if (heeds) await eventually(() => service.worker?.load.running === 0, { message: "its slot is free" })
  }
})

test("a job that is terminated while its steps are to be reverted ends at once, and so does its process", async () => {
  using folder = temporaryFolder()
  const log = join(folder.path, "log")
  const service = await start([isolated])
  const job = await service.client.actor<typeof isolated>("isolated").stays.submit({ log })
  await eventually(async () => (await service.client.steps(job.id)).steps.length === 1, { message: "it stays" })
  const pid = Number(readFileSync(log, "utf8"))
  await job.cancel()
  expect(await job.find()).toMatchObject({ state: "started", reverting: "cancelled" })
  await job.cancel({ terminate: true })
  const ended = await job.find()
  expect([ended.state, ended.reverting]).toEqual(["cancelled", undefined])
  await expect.poll(() => isRunning(pid), { timeout: 10_000 }).toBe(false)
  expect(readFileSync(log, "utf8")).toBe(`${pid}\n`)
  expect((await service.client.steps(job.id)).unreverted).toEqual(["a"])
})
