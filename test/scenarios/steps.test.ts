import { actor, CallboardError, Ignore, type Job, Reject, StepError, type StepOptions } from "callboard"
import * as Effect from "effect/Effect"
import { describe, expect, expectTypeOf, onTestFinished, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { journalPrefix } from "../../runtime/steps/page.ts"
import { collectLog } from "../../runtime/testing/log.ts"
import { startNats } from "../support/servers/nats.ts"
import { start } from "../support/services.ts"
import { isolated } from "../unit/runtime/steps/isolated.ts"
import { Declined, runOnce, WAIT } from "./step-scene.ts"

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
    ["items that are none", (job) => job.each("a", JSON.parse("5"), String, { key: String }), "TypeError", "iterable"],
    ["no key", (job) => job.each("a", [1], String, JSON.parse("{}")), "CallboardError", "key: must be a function"],
    [
      "no options",
      (job) => job.each("a", [1], String, JSON.parse("null")),
      "CallboardError",
      "the options of each() must be an object, such as { retry: … }",
    ],
    [
      "options of none",
      (job) => job.step("a", () => 1, JSON.parse("null")),
      "CallboardError",
      "options: must be an object",
    ],
    [
      "another option",
      (job) => job.step("a", () => 1, JSON.parse('{"timelimit":1}')),
      "CallboardError",
      "timelimit is not an option of a step (did you mean timeLimit?)",
    ],
    ["no function", (job) => job.step("a", JSON.parse("1")), "CallboardError", "run: must be a function"],
    [
      "items without a name",
      (job) => job.each("", [1], String, { key: String }),
      "CallboardError",
      "name: must be text",
    ],
    ["parallel 0", (job) => job.each("a", [1], String, { key: String, parallel: 0 }), "CallboardError", "parallel"],
    ["equal keys", (job) => job.each("a", [1, 1], String, { key: String }), "CallboardError", "key"],
    [
      "a key that is no text",
      (job) => job.each("a", [1], String, { key: (item) => JSON.parse(`${item}`) }),
      "CallboardError",
      "key: must return a text for each item",
    ],
    ["a function deep inside", (job) => job.step("a", () => [{ f: () => 1 }]), "ResultUnserialisable", "result[0].f"],
    [
      "a result that throws when it is touched",
      (job) => {
        const { proxy, revoke } = Proxy.revocable({}, {})
        revoke()
        return job
          .step("a", () => proxy)
          .catch((cause: StepError) => Promise.reject(new TypeError(String(cause instanceof StepError))))
      },
      "TypeError",
      "true",
    ],
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
    const words = /2097154 bytes; at most \d+ are allowed; store large results elsewhere and return their address/
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

  test("that are not awaited are waited for, and their failure is the job's", async () => {
    let ended = false
    const { state } = await runOnce((_input, job) => {
      void job.step("slow", async () => {
        await new Promise((resolve) => setTimeout(resolve, 30))
        ended = true
      })
    })
    expect([state, ended]).toEqual(["succeeded", true])
    const failed = await runOnce(async (_input, job) => {
      void job.step("bad", () => Promise.reject(new Declined("unseen")))
      await new Promise((resolve) => setTimeout(resolve, 10))
    })
    expect(failed).toMatchObject({ state: "failed", error: { name: "Declined", message: "unseen" } })
  })

  test("that are begun after their handler has returned do not run, never settle, and are logged once", async () => {
    const { log, lines } = collectLog()
    const begun: Array<string> = []
    const late: Array<Promise<unknown>> = []
    const { state, client, job } = await runOnce(
      async (_input, job) => {
        const step = (name: string) => job.step(name, () => begun.push(name))
        const gate = Promise.withResolvers<void>()
        void job.step("slow", () => gate.promise)
        setTimeout(() => gate.resolve(void late.push(step("late"), step("later"))), 20)
      },
      {},
      { log },
    )
    expect(state).toBe("succeeded")
    expect(late).toHaveLength(2)
    const settled = Promise.race(late.map((each) => each.finally(() => undefined)))
    expect(await Promise.race([settled, new Promise((resolve) => setTimeout(resolve, 50, "waits"))])).toBe("waits")
    expect(begun).toEqual([])
    expect((await client.steps(job.id)).steps.map(({ name }) => name)).toEqual(["slow"])
    const warnings = lines.filter(({ level }) => level === "warn").map(({ message }) => message)
    expect(warnings).toEqual([expect.stringContaining("after the handler had returned")])
  })

  test("that are the first ones of their job do not run either after its handler has returned", async () => {
    const { log, lines } = collectLog()
    const begun: Array<string> = []
    const came = Promise.withResolvers<void>()
    const { state, client, job } = await runOnce(
      async (_input, job) => {
        setTimeout(() => came.resolve(void job.step("late", () => begun.push("late"))), 50)
      },
      {},
      { log },
    )
    await came.promise
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect([state, begun, (await client.steps(job.id)).steps]).toEqual(["succeeded", [], []])
    expect(lines.filter(({ message }) => message.includes("after the handler had returned"))).toHaveLength(1)
  })

  test.each([true, false])(
    "to which a handler comes after its time limit free its slot (first: %s)",
    async (isFirst) => {
      const gate = Promise.withResolvers<void>()
      const begun: Array<number> = []
      const slow = actor("slow", {
        methods: {
          run: {
            timeLimit: { hard: 0.1 },
            run: async (_input: unknown, job) => {
              if (!isFirst) await job.step("early", () => 1)
              await gate.promise
              await job.step("late", () => begun.push(1))
            },
          },
          next: () => "next",
        },
      })
      const { client } = await start([slow], { concurrency: 1 })
      const lost = await client.submit("slow.run")
      expect(await lost.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "timeout" } })
      const next = await client.submit("slow.next")
      gate.resolve()
      expect(await next.result({ timeout: 20 })).toBe("next")
      expect(begun).toEqual([])
    },
  )

  test.each([true, false])("in a hook fail, whether the handler has steps or not (%s)", async (hasSteps) => {
    const told: Array<string> = []
    const tell = (hook: string, job: Job) =>
      job.step("more", () => told.push("ran")).catch((cause: unknown) => void told.push(`${hook}: ${cause}`))
    const { state, error } = await runOnce(
      async (_input, job) => {
        if (hasSteps) await job.step("one", () => 1)
      },
      {
        onSuccess: async (_result: unknown, job: Job) => {
          await tell("onSuccess", job)
          throw new Error("hooked")
        },
        onFailure: (_error: unknown, job: Job) => tell("onFailure", job),
      },
    )
    expect([state, error?.message]).toEqual(["failed", "hooked"])
    const why = "LateStep: step more was started in a hook, which runs after the steps: start it in the handler"
    expect(told).toEqual([`onSuccess: ${why}`, `onFailure: ${why}`])
  })

  test("for each item, a few at a time", async () => {
    let running = 0
    let max = 0
    const { result } = await runOnce(async (_input, job) => {
      const done = await job.each(
        "mail",
        [..."abcdefgh"],
        async (item, { key }) => {
          max = Math.max(max, ++running)
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
    expect(max).toBe(3)
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

  test("may ask for a retry of the job, after the time that they name, or end it without a result", async () => {
    let tries = 0
    const retried = await runOnce(
      async (_input, job) => {
        const before = await job.step("before", () => ++tries)
        const again = await job.step(
          "again",
          () => {
            if (++tries < 3) throw job.retry({ after: 0 })
            return "done"
          },
          // The request is the job's: the step is not tried again before.
          { retry: { max: 5, backoff: { base: "1 hour" } } },
        )
        return [before, again]
      },
      { retry: { max: 1, backoff: { base: "1 hour" } } },
    )
    expect(retried).toMatchObject({ result: [1, "done"], view: { retries: 1 } })
    const ignored = await runOnce((_input, job) =>
      job.step("a", () => {
        throw new Ignore("nothing to do")
      }),
    )
    expect(ignored).toMatchObject({ state: "succeeded", view: { attempts: 1 } })
    expect(ignored.result ?? null).toBeNull()
  })

  test("are refused where the task is acked early", async () => {
    const end = await runOnce((_input, job) => job.step("a", () => 1), { acks: { when: "early" } })
    expect(end).toMatchObject({ state: "failed", error: { message: expect.stringContaining("use late acks") } })
  })
})
