/** Acceptance scenarios of durable steps, on memory. Crashes at every write are in `test/unit/runtime/testing/`. */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import {
  actor,
  CallboardError,
  type Client,
  http,
  type Job,
  type ReceivedEvent,
  Reject,
  type ServeOptions,
  StepError,
  type StepOptions,
} from "callboard"
import * as Effect from "effect/Effect"
import { describe, expect, expectTypeOf, onTestFinished, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { JournalSweep } from "../../runtime/steps/listing.ts"
import { decodePage, journalPrefix } from "../../runtime/steps/page.ts"
import { faulty } from "../support/faulty-board.ts"
import { startNats } from "../support/servers/nats.ts"
import { eventually, temporaryFolder } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { isolated } from "../unit/runtime/steps/isolated.ts"

const WAIT = { timeout: 30 } as const

class Declined extends Error {
  readonly limit = 5
}

/** Serves one handler and submits its job. Resolves with the ended job. */
const runOnce = async (
  run: (input: unknown, job: Job) => unknown,
  options: object = {},
  { transport }: Pick<ServeOptions, "transport"> = {},
) => {
  const scene = actor("scene", { methods: { run: { run, ...options } } })
  const service = await start([scene], transport === undefined ? {} : { transport })
  const job = await service.client.submit("scene.run")
  const outcome = await job.outcome(WAIT)
  const view = await job.find()
  return { state: outcome.state, result: view.result, error: view.error, view, job, client: service.client }
}

/** The function of a step that begins another step. */
const nested = (job: Job) => () => job.step("b", () => 1)

describe("steps", () => {
  test("run once over all attempts, with the same results and errors as the first time", async () => {
    const ran: Array<string> = []
    const seen: Array<ReadonlyArray<unknown>> = []
    const { result, view } = await runOnce(
      async (_input, job) => {
        const date = await job.step("date", () => {
          ran.push("date")
          return { at: new Date(0), none: undefined, big: 2n ** 60n, list: [1, undefined] }
        })
        const failed = await job
          .step("fails", () => {
            ran.push("fails")
            throw new Declined("no", { cause: new TypeError("deep") })
          })
          .catch((cause: unknown) => cause)
        const large = await job.step("large", () => ({ text: "x".repeat(10_000) }))
        const key = await job.step("key", ({ key, attempt }) => `${key} ${attempt}`)
        const [one, two] = await Promise.all([
          job.step("one", () =>
            Effect.delay(
              Effect.sync(() => ran.push("one")),
              5,
            ),
          ),
          job.step("two", async () => ran.push("two")),
        ])
        expect(failed).toBeInstanceOf(StepError)
        if (!(failed instanceof StepError)) throw failed
        const { name, message, fields, cause } = failed
        const is = [failed.is("Declined"), failed.is("Error"), failed.is("TypeError")]
        seen.push([date, name, message, fields, is, String(cause), large.text.length, key, one, two])
        if (job.retries === 0) throw new Error("again")
        return "done"
      },
      { retry: { max: 1, interval: 0 } },
    )
    expect(result).toBe("done")
    // A step that failed in an earlier attempt of the job runs again.
    expect(ran).toEqual(["date", "fails", "two", "one", "fails"])
    expect(seen).toHaveLength(2)
    expect(seen[1]).toEqual(seen[0])
    expect(seen[0]).toEqual([
      { at: new Date(0), big: 2n ** 60n, list: [1, null] },
      "Declined",
      "no",
      { limit: 5 },
      [true, true, false],
      "TypeError: deep",
      10_000,
      `${view.id}/1/key 1`,
      4,
      3,
    ])
  })

  test("are retried within the attempt, and limited in time", async () => {
    const attempts: Array<number> = []
    let fired: unknown
    const { result } = await runOnce(async (_input, job) => {
      const third = await job.step(
        "flaky",
        ({ attempt }) => {
          attempts.push(attempt)
          if (attempt < 3) throw new Declined("not yet")
          return attempt
        },
        { retry: { max: 3, backoff: { base: 0 }, on: ["Declined"] } },
      )
      const slow = await job
        .step(
          "slow",
          ({ signal }) => new Promise(() => signal.addEventListener("abort", () => (fired = signal.reason))),
          {
            timeLimit: 0.02,
          },
        )
        .catch((cause: StepError) => cause.name)
      const other = await job
        .step("other", () => Promise.reject(new TypeError("x")), { retry: { max: 3, on: ["Declined"] } })
        .catch((cause: StepError) => cause.name)
      return [third, slow, other]
    })
    expect(result).toEqual([3, "TimeLimitExceeded", "TypeError"])
    expect(attempts).toEqual([1, 2, 3])
    expect(fired).toBeInstanceOf(DOMException)
  })

  test.each<[what: string, use: (job: Job) => unknown, name: string, words: string]>([
    [
      "a name twice",
      async (job) => [await job.step("a", () => 1), await job.step("a", () => 2)],
      "DuplicateStep",
      "job.each",
    ],
    [
      "a step in a step",
      (job) => job.step("a", async () => job.step("b", () => 1)),
      "NestedStep",
      "inside another step",
    ],
    [
      "a step in the Effect of a step",
      (job) => job.step("a", () => Effect.delay(Effect.promise(nested(job)), 1)),
      "NestedStep",
      "inside another step",
    ],
    [
      "a step in a step of an Effect",
      (job) => Effect.promise(() => job.step("a", () => Effect.promise(nested(job)))),
      "NestedStep",
      "inside another step",
    ],
    ["a wrong name that nothing awaits", (job) => void job.step("", () => 1), "CallboardError", "name: must be text"],
    ["no name", (job) => job.step("", () => 1), "CallboardError", "name: must be text"],
    ["a long name", (job) => job.step("é".repeat(65), () => 1), "CallboardError", "128 bytes"],
    ["a control character", (job) => job.step("a\u0000", () => 1), "CallboardError", "control characters"],
    ["half a surrogate", (job) => job.step("\ud800", () => 1), "CallboardError", "well-formed"],
    ["NaN", (job) => job.step("a", () => 1, { timeLimit: Number.NaN }), "CallboardError", "timeLimit"],
    ["a negative limit", (job) => job.step("a", () => 1, { timeLimit: -1 }), "CallboardError", "timeLimit"],
    ["no time at all", (job) => job.step("a", () => 1, { timeLimit: 0 }), "CallboardError", "more than 0"],
    [
      "a wrong wait",
      (job) => job.step("a", () => 1, { retry: { backoff: { base: "soon" } } }),
      "CallboardError",
      "retry.backoff.base",
    ],
    ["parallel 0", (job) => job.each("a", [1], String, { key: String, parallel: 0 }), "CallboardError", "parallel"],
    ["equal keys", (job) => job.each("a", [1, 1], String, { key: String }), "CallboardError", "key"],
    [
      "a key that is no text",
      (job) => job.each("a", [1], String, { key: (item) => JSON.parse(`${item}`) }),
      "CallboardError",
      "key: must give each item a text",
    ],
    ["a function deep inside", (job) => job.step("a", () => [{ f: () => 1 }]), "ResultUnserialisable", "result[0].f"],
    ["a symbol", (job) => job.step("a", () => Symbol("s")), "ResultUnserialisable", "return plain values"],
    ["a BigInt without end", (job) => job.step("a", () => 10n ** 5_000n), "ResultUnserialisable", "4300 digits"],
    [
      "a result that cannot be read",
      (job) =>
        job.step("a", () => ({
          get card(): string {
            throw new Error("no card")
          },
        })),
      "ResultUnserialisable",
      "no card",
    ],
    ["a function", (job) => job.step("a", () => () => 1), "ResultUnserialisable", "return plain values"],
    [
      "a cycle",
      (job) => {
        const a: { a?: unknown } = {}
        a.a = a
        return job.step("a", () => a)
      },
      "ResultUnserialisable",
      "plain values",
    ],
  ])("refuse %s", async (_what, use, name, words) => {
    const end = await runOnce((_input, job) => use(job))
    expect(end).toMatchObject({ state: "failed", error: { name, message: expect.stringContaining(words) } })
  })

  test("refuse durations and counts that are none, before anything runs", async () => {
    let ran = 0
    const times = [
      Number.NaN,
      Number.POSITIVE_INFINITY,
      -1,
      1e300,
      "",
      " ",
      "soon",
      "-1s",
      "10 parsecs",
      "9".repeat(400),
    ]
    const bad: ReadonlyArray<readonly [field: string, options: StepOptions<number>]> = [
      ...times.map((timeLimit) => ["timeLimit", { timeLimit }] as const),
      ...times.map((base) => ["retry.backoff.base", { retry: { backoff: { base } } }] as const),
      ...times.map((max) => ["retry.backoff.max", { retry: { backoff: { max } } }] as const),
      ...[Number.NaN, -1, 1.5].map((max) => ["retry.max", { retry: { max } }] as const),
    ]
    const { result } = await runOnce(async (_input, job) => {
      const fields: Array<unknown> = []
      for (const [, options] of bad) {
        const refused: unknown = await job.step("a", () => ++ran, options).catch((cause: unknown) => cause)
        fields.push(refused instanceof CallboardError ? refused.details.field : refused)
      }
      // A refused step leaves its name unused.
      return [...fields, await job.step("a", () => "done")]
    })
    expect(result).toEqual([...bad.map(([field]) => field), "done"])
    expect(ran).toBe(0)
  })

  test("have time limits longer than any timer", async () => {
    const slow = () => new Promise((resolve) => setTimeout(() => resolve("done"), 30))
    const { result } = await runOnce((_input, job) => job.step("a", slow, { timeLimit: "30 days" }))
    expect(result).toBe("done")
  })

  test("have names of any bytes but controls, and are found again by them", async () => {
    const isControl = (name: string) => /^\p{Cc}$/u.test(name) && name < "\u0080"
    const bytes = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code))
    const names = [...bytes, "__proto__", "constructor", "../000000", "v/1", "a.b *>", "\u2028", "😀".repeat(32)]
    let ran = 0
    const { result, client, job } = await runOnce(
      async (_input, job) => {
        const begin = (name: string) => job.step(name, () => `${name} ${++ran}`).catch(() => null)
        const done = await Promise.all(names.map(begin))
        if (job.retries === 0) throw new Error("again")
        return done
      },
      { retry: { max: 1, interval: 0 } },
    )
    const taken = names.filter((name) => !isControl(name))
    expect(taken).toHaveLength(names.length - 33)
    expect(result).toEqual(names.map((name) => (isControl(name) ? null : `${name} ${taken.indexOf(name) + 1}`)))
    expect(ran).toBe(taken.length)
    const { steps } = await client.steps(job.id, { limit: 1_000 })
    expect(steps.map(({ name }) => name)).toEqual(taken)
  })

  test("that nobody awaits have ended before their job is tried again, and do not run twice", async () => {
    let ran = 0
    const { result } = await runOnce(
      async (_input, job) => {
        const slow = job.step("slow", async () => {
          await new Promise((resolve) => setTimeout(resolve, 30))
          return ++ran
        })
        if (job.retries === 0) throw new Error("at once")
        return slow
      },
      { retry: { max: 1, interval: 0 } },
    )
    expect([result, ran]).toEqual([1, 1])
  })

  test("with a result of 2 MiB fail on nats, by its size, and nothing of it is stored", async () => {
    const server = await startNats()
    onTestFinished(() => server.stop())
    let ran = 0
    const { result, client, job } = await runOnce(
      async (_input, job) => {
        const large = () => {
          ran++
          return "x".repeat(2 ** 21)
        }
        const cause: unknown = await job.step("large", large, { retry: { max: 3 } }).catch((cause: unknown) => cause)
        const small = await job.step("small", () => "small")
        return cause instanceof StepError ? [cause.name, cause.message, small] : "no error"
      },
      {},
      { transport: `${server.url}?ns=${generateId()}` },
    )
    const words = /2097154 bytes, \d+ are allowed; store large results elsewhere and return where they are/
    expect(result).toEqual(["ResultTooLarge", expect.stringMatching(words), "small"])
    expect(ran).toBe(1)
    expect((await client.steps(job.id)).steps).toMatchObject([
      { name: "large", state: "failed", tries: 1, error: { name: "ResultTooLarge" } },
      { name: "small", state: "done", value: '"small"' },
    ])
    const prefix = journalPrefix(job.id, 1)
    const kept = await client.connection.store.list({ prefix, limit: 10 })
    expect(kept.map(({ key }) => key.slice(prefix.length))).toEqual(["000000"])
    const service = await start([isolated], { transport: `${server.url}?ns=${generateId()}` })
    const inside = await service.client.actor<typeof isolated>("isolated").large.submit({ bytes: 2 ** 21 })
    expect(await inside.result(WAIT)).toEqual(["ResultTooLarge", expect.stringMatching(words), "small"])
  })

  test("that nobody awaits are waited for, and their failure is the job's; after the end none begins", async () => {
    let late: (() => unknown) | undefined
    let ended = false
    const { state } = await runOnce((_input, job) => {
      void job.step("slow", async () => {
        await new Promise((resolve) => setTimeout(resolve, 30))
        ended = true
      })
      late = () => job.step("late", () => expect.unreachable())
    })
    expect([state, ended]).toEqual(["succeeded", true])
    void late?.()
    const failed = await runOnce(async (_input, job) => {
      void job.step("bad", () => Promise.reject(new Declined("unseen")))
      await new Promise((resolve) => setTimeout(resolve, 10))
    })
    expect(failed).toMatchObject({ state: "failed", error: { name: "Declined", message: "unseen" } })
  })

  test("for each item, a few at a time", async () => {
    let running = 0
    let most = 0
    const { result } = await runOnce(async (_input, job) => {
      const done = await job.each(
        "mail",
        [..."abcdefgh"],
        async (item, { key }) => {
          most = Math.max(most, ++running)
          await new Promise((resolve) => setTimeout(resolve, 2))
          running--
          return key.endsWith(`mail/${item}`) ? item.toUpperCase() : key
        },
        { key: (item) => item, parallel: 3 },
      )
      expectTypeOf(done).toEqualTypeOf<ReadonlyArray<string>>()
      return done.join("")
    })
    expect(result).toBe("ABCDEFGH")
    expect(most).toBe(3)
  })

  test("for each item end with the first failure: what has begun ends, and no further one begins", async () => {
    const ran: Array<number> = []
    const fails = async (n: number) => {
      ran.push(n)
      if (n === 2) throw new Declined("no")
      await new Promise((resolve) => setTimeout(resolve, 10))
      return n
    }
    const { result, client, job } = await runOnce((_input, job) =>
      job.each("n", [1, 2, 3, 4], fails, { key: String, parallel: 2 }).catch((cause: StepError) => cause.name),
    )
    expect([result, ran]).toEqual(["Declined", [1, 2]])
    expect((await client.steps(job.id)).steps).toMatchObject([
      { name: "n/2", state: "failed" },
      { name: "n/1", state: "done" },
    ])
  })

  test("of a handler that is an Effect, and a Reject from inside of one", async () => {
    const { result } = await runOnce((_input, job) =>
      Effect.gen(function* () {
        const one = yield* Effect.promise(() =>
          job.step("one", () => Effect.runPromise(Effect.delay(Effect.succeed(1), 1))),
        )
        const [two, three] = yield* Effect.all(
          [2, 3].map((n) => Effect.promise(() => job.step(`${n}`, () => Effect.delay(Effect.succeed(n), 1)))),
          { concurrency: "unbounded" },
        )
        return [one, two, three]
      }),
    )
    expect(result).toEqual([1, 2, 3])
    const rejected = await runOnce(
      (_input, job) =>
        job.step("a", () => {
          throw new Reject("never")
        }),
      { retry: { max: 3 } },
    )
    expect(rejected.view).toMatchObject({ state: "failed", dead: "rejected", retries: 0 })
  })

  test("are refused where the task is acked early", async () => {
    const end = await runOnce((_input, job) => job.step("a", () => 1), { acks: { when: "early" } })
    expect(end).toMatchObject({ state: "failed", error: { message: expect.stringContaining("ack late") } })
  })
})

describe("reverting", () => {
  const saga = (log: Array<string>, last: (job: Job) => unknown) => async (_input: unknown, job: Job) => {
    const undoing = (name: string) => ({
      revert: (undo: { result: unknown; error: StepError | undefined; why: string; step: { key: string } }) => {
        log.push(`-${name} ${undo.result ?? undo.error?.name} ${undo.why} ${undo.step.key.endsWith(`/${name}`)}`)
      },
    })
    const act = (name: string) => () => {
      log.push(name)
      return name
    }
    await job.step("a", act("a"), undoing("a"))
    await Promise.all([job.step("b", act("b"), undoing("b")), job.step("c", act("c"))])
    await job.step("last", () => last(job), undoing("last"))
  }

  test("a job that fails for good undoes its steps, the last one first, and keeps its error", async () => {
    const log: Array<string> = []
    const { view } = await runOnce(
      saga(log, () => Promise.reject(new Declined("no"))),
      { retry: { max: 1, interval: 0 } },
    )
    expect(log).toEqual(["a", "b", "c", "-last Declined failed true", "-b b failed true", "-a a failed true"])
    expect(view).toMatchObject({ state: "failed", reverted: true, error: { name: "Declined" } })
  })

  test("a job that is cancelled undoes them, and ends as cancelled; terminated it undoes nothing", async () => {
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

test("in a process of its own a handler goes on where it was, and undoes its steps when it is cancelled", async () => {
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

describe("looking at the steps of a job", () => {
  const app = (client: Client) => http(client, { open: true })

  test("lists what has ended, by pages, with what came of it", async () => {
    const { client, job } = await runOnce(async (_input, job) => {
      await job.each("n", [1, 2, 3], (n) => ({ n }), { key: String, parallel: 1 })
      await job.step("large", () => "x".repeat(5_000))
      await job.step("bad", () => Promise.reject(new Declined("no")), { revert: () => undefined })
    })
    const first = await client.steps(job.id, { limit: 4 })
    expect(first).toMatchObject({
      run: 1,
      steps: [
        ...[1, 2, 3].map((n) => ({ name: `n/${n}`, state: "done", tries: 1, value: `{"n":${n}}` })),
        { name: "large", large: true },
      ],
    })
    const rest = await client.steps(job.id, { after: first.next ?? "" })
    expect(rest.steps).toMatchObject([{ name: "bad", state: "reverted", revert: true, error: { name: "Declined" } }])
    expect(rest.next).toBeUndefined()
    const answer = await app(client).request(`/v1/jobs/${job.id}/steps?limit=4&cursor=${first.next}`)
    expect(await answer.json()).toEqual(rest)
    expect((await app(client).request(`/v1/jobs/${job.id}/steps?cursor=x`)).status).toBe(400)
    expect((await app(client).request("/v1/jobs/nowhere/steps")).status).toBe(404)
  })

  test("is told by events, metrics and why while they run", async () => {
    const gate = Promise.withResolvers<void>()
    const scene = actor("scene", {
      methods: {
        run: async (_input: unknown, job) => {
          await job.step("a", () => gate.promise, { revert: () => undefined })
          await job.step("b", () => Promise.reject(new Declined("no")), { retry: { max: 1, backoff: { base: 0 } } })
        },
      },
    })
    const service = await start([scene], { events: true, http: { port: 0 } })
    const { client } = service
    const told: Array<ReceivedEvent> = []
    const stop = new AbortController()
    onTestFinished(() => stop.abort())
    await client.listen((event) => void (event.type.startsWith("step-") && told.push(event)), stop.signal)
    const job = await client.submit("scene.run")
    const why = async () => (await client.why(job.id)).causes[0]?.message
    await expect.poll(why, { timeout: 10_000 }).toContain("in the step a")
    gate.resolve()
    await job.outcome(WAIT)
    await expect.poll(() => told.length, { timeout: 10_000 }).toBe(6)
    expect(told).toMatchObject([
      { type: "step-started", uuid: job.id, step: "a" },
      { type: "step-done", step: "a", tries: 1, took: expect.any(Number) },
      { type: "step-started", step: "b" },
      { type: "step-failed", step: "b", tries: 2, exception: 'Declined("no")' },
      { type: "step-reverting", step: "a" },
      { type: "step-reverted", step: "a" },
    ])
    const metrics = await (await fetch(`${service.url}/metrics`)).text()
    for (const outcome of ["done", "failed", "reverted"])
      expect(metrics).toContain(`callboard_steps_total{task="scene.run",outcome="${outcome}"} 1`)
    expect(metrics).toContain('callboard_step_run_seconds_count{task="scene.run"} 3')
  })

  test("hides what the method hides", async () => {
    const hidden = await runOnce((_input, job) => job.step("a", () => ({ card: "4111", to: "Ada" })), {
      redact: ["card"],
    })
    expect((await hidden.client.steps(hidden.job.id)).steps[0]?.value).toBe('{"card":"***","to":"Ada"}')
  })
})

describe("what steps cost", () => {
  /** Counts the calls of the store and of the queue for one job. */
  const callsOf = async (run: (input: unknown, job: Job) => unknown, method: object = {}) => {
    const calls: Array<string> = []
    const counted = <T extends object>(part: T, name: string): T =>
      new Proxy(part, {
        get: (target, key) => {
          const found: unknown = Reflect.get(target, key)
          if (typeof found !== "function") return found
          return (...args: ReadonlyArray<unknown>) => {
            const text = JSON.stringify(args) ?? ""
            if (text.includes("flow/") || name === "jobs") calls.push(`${name}.${String(key)}`)
            return Reflect.apply(found, target, args)
          }
        },
      })
    const transports = faulty((transport) => ({
      ...transport,
      jobs: counted(transport.jobs, "jobs"),
      store: counted(transport.store, "store"),
    }))
    const { client } = await start([actor("scene", { methods: { run: { run, ...method } } })], {
      transport: `faulty://${generateId()}`,
      transports,
    })
    const job = await client.submit("scene.run")
    await job.outcome(WAIT)
    // The time to live of the journal is written after the end of the job.
    await new Promise((resolve) => setTimeout(resolve, 50))
    return calls.filter((call) => ["jobs.begin", "jobs.end", "store.write", "store.get", "store.list"].includes(call))
  }

  test("a job without steps makes no call more, also where it fails or is retried", async () => {
    expect(await callsOf(() => 1)).toEqual(["jobs.end"])
    expect(await callsOf(() => Promise.reject(new Error("no")))).toEqual(["jobs.end"])
    const retried = await callsOf(() => Promise.reject(new Error("no")), { retry: { max: 1, interval: 0 } })
    expect(retried).toEqual(["jobs.end", "jobs.begin", "jobs.end"])
  })

  test("a step is one write, parallel ones share it, and the end is one more in the background", async () => {
    const one = await callsOf(async (_input, job) => [await job.step("a", () => 1), await job.step("b", () => 2)])
    expect(one).toEqual(["store.write", "store.write", "jobs.end", "store.write"])
    const undone = await callsOf((_input, job) => job.step("a", () => 1, { revert: () => undefined }))
    expect(undone).toEqual(["jobs.begin", "store.write", "jobs.end", "store.write"])
    const many = await callsOf((_input, job) =>
      job.each("n", Array.from({ length: 100 }).keys(), (n) => n, { key: String, parallel: 100 }),
    )
    expect(many.slice(0, many.indexOf("jobs.end")).length).toBeLessThanOrEqual(6)
  })
})

test("10,000 steps are enough for anybody, and the one after them says what to do", async () => {
  const { error } = await runOnce(async (_input, job) => {
    await job.each("n", Array.from({ length: 10_000 }).keys(), () => 1, { key: String, parallel: 10_000 })
    await job.step("more", () => 1)
  })
  expect(error).toMatchObject({ name: "JournalFull", message: expect.stringContaining("10000 steps at most") })
})

test("64 MiB of results are enough, and the step after them does not begin", async () => {
  const big = "x".repeat(2 ** 19)
  let ran = 0
  const { view, client, job } = await runOnce(
    async (_input, job) => {
      for (let n = 0; n < 200; n++)
        await job.step(`n${n}`, () => {
          ran++
          return big
        })
    },
    { retry: { max: 1, interval: 0 } },
  )
  const message = expect.stringMatching(/n128 does not begin.*64 MiB at most: store large results elsewhere/)
  expect(view).toMatchObject({ retries: 1, error: { name: "JournalFull", message } })
  // The second attempt has counted the steps of the first one as well.
  expect(ran).toBe(128)
  expect((await client.steps(job.id, { limit: 1_000 })).steps).toHaveLength(128)
})

test("a journal whose job was ended from outside gets its time to live by the sweep", async () => {
  const begun = Promise.withResolvers<void>()
  const service = await start([
    actor("scene", {
      methods: {
        run: async (_input: unknown, job) => {
          await job.step("a", () => 1)
          begun.resolve()
          await new Promise((resolve) => job.signal.addEventListener("abort", resolve))
        },
      },
    }),
  ])
  const job = await service.client.submit("scene.run")
  await begun.promise
  const { connection } = service.client
  const page = async () => {
    const [found] = await connection.store.list({ prefix: journalPrefix(job.id, 1), limit: 1 })
    return found && decodePage(found.value)
  }
  const sweep = new JournalSweep()
  const round = async () => {
    for (let shard = 0; shard < 16; shard++) await sweep.round(connection)
  }
  await round()
  expect((await page())?.ended).toBeUndefined()
  await job.cancel()
  await round()
  expect((await page())?.ended).toBe(true)
})
