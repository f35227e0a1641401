/** Rates and limits in one worker, and how actors set them. */
import { actor, type InvalidActor } from "callboard"
import { runActor, virtualClock } from "callboard/testing"
import { Schema } from "effect"
import { describe, expect, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { decodeState, encodeState, limitKey } from "../../../../../runtime/worker/limits/permits.ts"
import { block } from "../../../../support/block.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start } from "../../../../support/services.ts"

/** Counts its runs, by name, with the time of each. */
const counter = () => {
  const runs: Array<{ readonly who: string; readonly at: number }> = []
  const note = (input: unknown) => {
    const who = typeof input === "object" && input !== null && "who" in input ? String(input.who) : ""
    runs.push({ who, at: performance.now() })
    return who
  }
  return { runs, note, of: (who: string) => runs.filter((run) => run.who === who).length }
}

const refusal = (method: object): string => {
  try {
    actor("x", { methods: { run: { run: () => 1, ...method } } })
    return "accepted"
  } catch (cause) {
    return (cause as InvalidActor).message
  }
}

describe("an actor", () => {
  test.each(["10/x", 0, -1, Number.NaN, "abc", "9999999/s", null])("with the rate %j is refused by name", (rate) => {
    expect(refusal({ rate })).toMatch(/^method x\.run: rate: /)
    expect(refusal({ limit: { rate } })).toMatch(/^method x\.run: limit\.rate: /)
  })

  test.each([
    [{ concurrency: 0 }, "limit.concurrency"],
    [{ concurrency: 1.5 }, "limit.concurrency"],
    [{ concurrency: "2" }, "limit.concurrency"],
    [{ concurrency: 1, key: 5 }, "limit.key"],
    [{ concurrency: 1, key: "" }, "limit.key"],
    [{ concurrency: 1, key: "x".repeat(256) }, "limit.key"],
    [{}, "limit"],
    [{ key: () => "a" }, "limit"],
    [5, "limit"],
    [[], "limit"],
  ])("with the limit %j is refused by name", (limit, field) => {
    expect(refusal({ limit })).toContain(`method x.run: ${field}: `)
  })

  test("with a limit by a field that its input does not have is refused by name", () => {
    const input = Schema.Struct({ customer: Schema.String, text: Schema.String })
    const limit = { concurrency: 1, key: "custommer" }
    expect(refusal({ input, limit })).toMatch(
      /^method x\.run: limit\.key: "custommer" is not a field of the input.*customer/,
    )
    expect(refusal({ input, limit: { ...limit, key: "customer" } })).toBe("accepted")
    expect(refusal({ limit })).toBe("accepted")
  })

  test.each(["100/s", "10/m", "1/h", 5])("may say %j", (rate) => {
    expect(refusal({ rate, limit: { rate, concurrency: 3, key: () => "a" } })).toBe("accepted")
  })
})

describe("a worker's own rate", () => {
  test("spaces its starts, does not count what it hands back, and lets others run", async () => {
    const { runs, note, of } = counter()
    const rated = actor("rated", { methods: { slow: { rate: "10/s", run: note }, free: note } })
    const service = await start([rated], { concurrency: 1, prefetch: 1 })
    const began = performance.now()
    const slow = await service.client.submitMany(
      Array.from({ length: 8 }, () => ({ task: "rated.slow", input: { who: "slow" } })),
    )
    expect(slow).toHaveLength(8)
    const free = await service.client.submit("rated.free", { input: { who: "free" } })
    await free.result({ timeout: 60 })
    expect(of("slow")).toBeLessThan(8)
    await eventually(() => of("slow") === 8, { message: "all have run" })
    expect(performance.now() - began).toBeGreaterThan(690)
    const times = runs.filter(({ who }) => who === "slow").map(({ at }) => at)
    for (const [at, time] of times.entries()) if (at > 1) expect(time - (times[at - 2] ?? 0)).toBeGreaterThan(150)
    const done = () => service.client.jobs({ states: ["succeeded"], limit: 100 })
    await eventually(async () => (await done()).jobs.length === 9, { message: "all are recorded" })
    const { jobs } = await done()
    expect(jobs.every((job) => job.attempts <= 1 && job.retries === 0)).toBe(true)
  })

  test("keeps its slots where tasks expire that wait for it, while another one of them may start", async () => {
    const { note } = counter()
    const rated = actor("rated", { methods: { run: { rate: "2/s", run: note } } })
    const { client } = await start([rated], { concurrency: 2, prefetch: 1 })
    for (let round = 0; round < 2; round++) {
      await (await client.submit("rated")).result({ timeout: 60 })
      const late = await client.submitMany(Array.from({ length: 4 }, () => ({ task: "rated", ttl: 0.2 })))
      await eventually(async () => (await client.control("put-off"))[0]?.value)
      // When the thread goes on, the tasks have expired, and the rate lets one start.
      block(700)
      for (const each of late) if (!(each instanceof Error)) await client.job(each.id).outcome({ timeout: 60 })
    }
    const stats = async () => (await client.control("stats"))[0]?.value
    await eventually(async () => expect.objectContaining({ inFlight: 0, room: 2 }).asymmetricMatch(await stats()), {
      message: "the worker has room again",
    })
  })

  test("can be changed and taken away while it runs", async () => {
    const { note, of } = counter()
    const rated = actor("rated", { methods: { run: { rate: "1/h", run: note } } })
    const { client, worker } = await start([rated])
    await (await client.submit("rated")).result({ timeout: 60 })
    worker?.rateLimit("rated", null)
    await Promise.all(Array.from({ length: 5 }, async () => (await client.submit("rated")).result({ timeout: 60 })))
    expect(of("")).toBe(6)
    worker?.rateLimit("rated.run", "1/h")
    await (await client.submit("rated")).result({ timeout: 60 })
    const waits = await client.submit("rated")
    await expect(waits.result({ timeout: 0.3 })).rejects.toMatchObject({ _tag: "WaitTimeout" })
    expect(worker?.rateLimit("nobody", 1)).toBe(false)
    expect(() => worker?.rateLimit("rated", "10/x")).toThrow(expect.objectContaining({ code: "invalid-input" }))
  })

  test("and every limit is off without rate limits", async () => {
    const { note, of } = counter()
    const limit = { rate: "1/h", concurrency: 1 }
    const rated = actor("rated", { methods: { run: { rate: "1/h", limit, run: note } } })
    const { client } = await start([rated], { rateLimits: false })
    await client.submitMany(Array.from({ length: 20 }, () => ({ task: "rated" })))
    await eventually(() => of("") === 20, { message: "all have run" })
  })
})

describe("a key", () => {
  const failing: ReadonlyArray<readonly [string, () => unknown]> = [
    [
      "throws",
      () => {
        throw new Error("no tenant")
      },
    ],
    ["gives nothing", () => undefined],
    ["gives a number", () => 5],
    ["gives a promise", async () => "a"],
    ["gives no text", () => ""],
    ["gives too much", () => "é".repeat(128)],
    ["gives half a character", () => "\ud800"],
  ]
  test.each(failing)("that %s fails the job for good", async (_name, key) => {
    const keyed = actor("keyed", { methods: { run: { limit: { concurrency: 1, key }, run: () => 1 } } })
    const { client } = await start([keyed])
    const job = await client.submit("keyed", { input: {}, retry: { max: 3, interval: 0 } })
    expect(await job.outcome({ timeout: 60 })).toMatchObject({
      state: "failed",
      error: { name: "InvalidInput", reason: "invalid-input", field: "limit-key", message: /limit\.key/ },
    })
  })

  test("of any text fits into the store", () => {
    const long = limitKey(`${"a".repeat(128)}.${"m".repeat(128)}`, "é".repeat(127))
    expect(Buffer.byteLength(long)).toBeLessThanOrEqual(512)
    expect(limitKey("a.run", "tenant one")).toBe("limit/a.run/tenant one")
    expect(limitKey("a.run", "é".repeat(127))).not.toBe(limitKey("a.run", "é".repeat(126)))
  })
})

describe("a key that names a field", () => {
  const keyed = () => {
    const { note, of } = counter()
    const keyedBy = actor("field", { methods: { run: { limit: { concurrency: 1, key: "who" }, run: note } } })
    return { keyedBy, of }
  }

  test("is told to submitters, who say it in a header, and the input decides", async () => {
    const { keyedBy, of } = keyed()
    const { client } = await start([keyedBy])
    const directory = await eventually(async () => (await client.actors()).find(({ name }) => name === "field"))
    expect(directory.methods[0]?.limitKey).toBe("who")
    const job = await client.submit("field", { input: { who: "acme" } })
    await job.result({ timeout: 60 })
    expect(of("acme")).toBe(1)
  })

  test("fails a job for good whose input has no such text", async () => {
    const { keyedBy } = keyed()
    const { client } = await start([keyedBy])
    for (const input of [{}, { who: 5 }, { who: "" }, 7]) {
      const job = await client.submit("field", { input })
      expect(await job.outcome({ timeout: 60 })).toMatchObject({
        state: "failed",
        error: { name: "InvalidInput", field: "limit-key", message: /the field who must be text/ },
      })
    }
  })
})

describe("the input of a task with a limit", () => {
  /** An actor whose schema takes until `go` is called, for each validation. */
  const gated = () => {
    const { note, of } = counter()
    const waiting: Array<() => void> = []
    let keys = 0
    let isOpen = false
    const validate = async (value: unknown) => {
      if (!isOpen) await new Promise<void>((resolve) => waiting.push(resolve))
      return { value }
    }
    const key = () => {
      keys++
      return "tenant"
    }
    const input = { "~standard": { version: 1 as const, vendor: "test", validate } }
    const limit = { concurrency: 1, key }
    const open = () => {
      isOpen = true
      for (const go of waiting) go()
    }
    const actors = [actor("gated", { methods: { run: { input, limit, run: note } } })]
    return { actors, open, of, waiting, keys: () => keys }
  }

  test("is read once, although the task waits for its permit", async () => {
    const { actors, open, of, waiting, keys } = gated()
    const { client } = await start(actors, { concurrency: 4 })
    const jobs = await client.submitMany(Array.from({ length: 4 }, () => ({ task: "gated", input: {} })))
    await eventually(() => waiting.length === 4)
    open()
    for (const each of jobs) if (!(each instanceof Error)) await client.job(each.id).result({ timeout: 60 })
    expect([waiting.length, keys(), of("")]).toEqual([4, 4, 4])
  })

  test("is read in a slot, which the job leaves if it is cancelled meanwhile", async () => {
    const { actors, open, of, waiting } = gated()
    const { client } = await start(actors, { concurrency: 1 })
    const job = await client.submit("gated", { input: {} })
    await eventually(() => waiting.length === 1)
    await job.cancel()
    open()
    expect(await job.outcome({ timeout: 60 })).toMatchObject({ state: "cancelled" })
    await (await client.submit("gated", { input: {} })).result({ timeout: 60 })
    expect(of("")).toBe(1)
  })

  test("that its schema refuses fails the job at once, and takes no permit", async () => {
    const { note, of } = counter()
    const input = Schema.Struct({ who: Schema.String })
    const limit = { concurrency: 1, rate: "1/h" }
    const { client } = await start([actor("strict", { methods: { run: { input, limit, run: note } } })])
    const failed = await client.submit("strict", { input: { who: 5 } })
    expect(await failed.outcome({ timeout: 60 })).toMatchObject({ state: "failed", error: { reason: "invalid-input" } })
    await (await client.submit("strict", { input: { who: "acme" } })).result({ timeout: 60 })
    expect(of("acme")).toBe(1)
  })
})

test("the state of a limit is read as it was written, and what is none counts as nothing", () => {
  const state = { tat: 5.5, held: new Map([["w", 2]]), asking: new Map([["v", { since: 9, wanted: 3 }]]) }
  expect(decodeState(encodeState(state))).toEqual(state)
  const nothing = { tat: undefined, held: new Map(), asking: new Map() }
  expect(decodeState(encodeState(nothing))).toEqual(nothing)
  expect(decodeState(new TextEncoder().encode('{"held":7}'))).toEqual(nothing)
})

test("a task waits for the permit of a handler that goes on after its job was decided, and starts once that stops", async () => {
  using clock = virtualClock()
  const gate = Promise.withResolvers<void>()
  const began: Array<string> = []
  const run = async ({ who }: { who: string }) => {
    began.push(who)
    if (who === "stuck") await gate.promise
  }
  const limited = actor("limited", { methods: { run: { limit: { concurrency: 1 }, timeLimit: { hard: 1 }, run } } })
  await using worker = await runActor(limited, { clock })
  const stuck = await worker.submit.run({ who: "stuck" })
  await worker.submit.run({ who: "next" })
  await clock.advance(2.5)
  expect(await stuck.find()).toMatchObject({ state: "failed", error: { reason: "timeout" } })
  expect(began).toEqual(["stuck"])
  gate.resolve()
  await clock.advance(0.01)
  expect(began).toEqual(["stuck", "next"])
})

describe("tasks that waited for their limit, and now wait for a handler", () => {
  test.each([
    ["of a method", "hasLimit"],
    ["of a queue", "run"],
  ])("are left to a worker with a free handler: the limit %s", async (_, method) => {
    const transport = `memory://${generateId()}`
    let running = 0
    let max = 0
    const run = async () => {
      max = Math.max(max, ++running)
      await new Promise((resolve) => setTimeout(resolve, 200))
      running--
    }
    const work = actor("work", { methods: { run, hasLimit: { limit: { concurrency: 10 }, run } } })
    const options = { transport, concurrency: 1, prefetch: 1 }
    const { client, worker } = await start([work], options)
    if (method === "run") await client.limitQueue("default", { maxInFlight: 10 })
    await client.submitMany(Array.from({ length: 30 }, () => ({ task: `work.${method}` })))
    await eventually(() => running === 1, { message: "the first worker runs one" })
    await start([work], options)
    await eventually(() => max === 2, { deadline: 2_000, message: "the second worker runs another one" })
    await eventually(() => (worker?.load.inFlight ?? 0) <= 2, { message: "the first one keeps what it can run" })
  })
})
