import { actor, connect } from "callboard"
import { forEachSeed, runActor, SeedFailed, StillWaiting, virtualClock } from "callboard/testing"
import { Effect } from "effect"
import { describe, expect, test } from "vitest"
import { connectTransport } from "../../../../runtime/connection/connect.ts"
import { generateId } from "../../../../runtime/id.ts"

const START = new Date("2031-05-01T12:00:00Z")
const inTime = (ms: number, run: () => void) => setTimeout(run, ms)

describe("a virtual clock", () => {
  test("stands until it is turned, and then runs what falls due in order, with the time at which it does", async () => {
    using clock = virtualClock({ start: START })
    const steps: Array<string> = []
    const note = (what: string) => steps.push(`${what} at ${Date.now() - START.getTime()}`)
    inTime(60_000, () => note("minute"))
    const every = setInterval(() => note("second"), 20_000)
    inTime(1_000, () => inTime(500, () => note("nested")))
    const cancelled = inTime(5, () => note("cancelled"))
    clearTimeout(cancelled)
    void Effect.runPromise(Effect.sleep("3 seconds")).then(() => note("effect"))
    await clock.advance(0.5)
    expect(steps).toEqual([])
    await clock.advance("1 minute")
    clearInterval(every)
    expect(steps).toEqual([
      "nested at 1500",
      "effect at 3000",
      "second at 20000",
      "second at 40000",
      "minute at 60000",
      "second at 60000",
    ])
    expect(clock.now).toBe(START.getTime() + 60_500)
    expect(performance.now()).toBe(60_500)
    expect(new Date().toISOString()).toBe("2031-05-01T12:01:00.500Z")
    expect(new Date(0).getTime()).toBe(0)
    expect(new Date()).toBeInstanceOf(Date)
  })

  test("skips time at once: what falls due meanwhile runs at its end, in order, and an interval once", async () => {
    using clock = virtualClock({ start: START })
    const steps: Array<string> = []
    const note = (what: string) => steps.push(`${what} at ${Date.now() - START.getTime()}`)
    const every = setInterval(() => note("second"), 1_000)
    inTime(5_000, () => inTime(1_000, () => note("nested")))
    inTime(3_000, () => note("later"))
    await clock.skip("3 days")
    const days = 3 * 86_400_000
    expect(steps).toEqual([`second at ${days}`, `later at ${days}`])
    await clock.advance("1 second")
    clearInterval(every)
    expect(steps.slice(2)).toEqual([`second at ${days + 1_000}`, `nested at ${days + 1_000}`])
  })

  test("goes as far as a promise needs, and says so when that is too far", async () => {
    using clock = virtualClock({ start: START })
    const later = new Promise<string>((resolve) => inTime(120_000, () => resolve("done")))
    expect(await clock.until(later)).toBe("done")
    expect(clock.now).toBe(START.getTime() + 120_000)
    const beat = setInterval(() => undefined, 1_000)
    const never = new Promise<never>(() => undefined)
    await expect(clock.until(never, { within: "5 minutes" })).rejects.toThrow(StillWaiting)
    clearInterval(beat)
    await expect(clock.until(Promise.reject(new Error("no")))).rejects.toThrow("no")
  })

  test("lets go on what takes no time", async () => {
    using _clock = virtualClock({ start: START })
    expect(await new Promise((resolve) => setImmediate(() => setImmediate(() => resolve("soon"))))).toBe("soon")
  })

  test("gives the time back, ids included, and is there once", () => {
    const { setTimeout: real, Date: RealDate } = globalThis
    {
      using _clock = virtualClock({ start: START })
      expect(() => virtualClock()).toThrow("dispose of it first")
      expect(setTimeout).not.toBe(real)
      expect(generateId() > "01c2").toBe(true)
    }
    expect(setTimeout).toBe(real)
    expect(Date).toBe(RealDate)
    expect(Math.abs(Number.parseInt(generateId().slice(0, 13).replace("-", ""), 16) - Date.now())).toBeLessThan(60_000)
  })
})

const reminders = actor("reminders", {
  methods: {
    send: {
      retry: { max: 2, backoff: { base: "10 minutes", jitter: false } },
      run: async ({ failures = 0 }: { failures?: number }, job) => {
        await new Promise((resolve) => inTime(2_000, () => resolve(undefined)))
        if (job.retries < failures) throw new Error("not yet")
        return job.attempt
      },
    },
  },
})

describe("an actor under a virtual clock", () => {
  test("is turned for as long as the timeout of a call or of a drain says", async () => {
    using clock = virtualClock({ start: START })
    await using run = await runActor(reminders, { clock, backoff: "real", timeout: "1 day" })
    expect(await run.call.send({}, { delay: "30 minutes" })).toBe(1)
    const job = await run.submit.send({}, { delay: "30 minutes" })
    await run.drain({ timeout: "40 minutes" })
    expect((await job.find()).state).toBe("succeeded")
    await run.submit.send({}, { delay: "30 minutes" })
    await expect(run.drain({ timeout: "20 minutes" })).rejects.toThrow("1 jobs have not ended")
  })

  test("waits for its delay and its back-off without the test waiting", async () => {
    using clock = virtualClock({ start: START })
    await using run = await runActor(reminders, { clock, backoff: "real", timeout: "1 day" })
    const job = await run.submit.send({ failures: 1 }, { delay: "1 hour" })
    await clock.advance("59 minutes")
    expect((await job.find()).state).toBe("scheduled")
    await clock.advance("1.1 minutes")
    expect(await job.find()).toMatchObject({ state: "scheduled", retries: 1 })
    await clock.advance("11 minutes")
    expect(await job.find()).toMatchObject({ state: "succeeded", result: 2 })
    expect(await run.call.send({ failures: 2 })).toBe(3)
    await run.submit.send({})
    await run.drain()
    expect(run.logs.filter(({ level }) => level === "error")).toEqual([])
  })
})

/** The steps of two jobs in the order in which they ran. */
const steps: Array<string> = []

const walker = actor("walker", {
  methods: {
    walk: async ({ name }: { name: string }, job) => {
      for (let step = 1; step <= 3; step++) {
        steps.push(`${name}${step}`)
        await job.submit("walker.rest", { input: {} })
      }
    },
    rest: () => null,
  },
})

const walk = async (seed: number): Promise<string> => {
  using clock = virtualClock({ seed })
  await using run = await runActor(walker, { clock, timeout: "1 hour" })
  steps.length = 0
  await run.submit.walk({ name: "a" })
  await run.submit.walk({ name: "b" })
  await run.drain()
  const ids = run.submitted.map(({ id }) => id)
  return `${steps.join(" ")} ${ids[0]} ${ids.length} ${clock.now}`
}

describe("a seed", () => {
  test("decides the order of events, ids and times, and again the same way", async () => {
    const first = new Map<number, string>()
    for (let seed = 1; seed <= 16; seed++) first.set(seed, await walk(seed))
    for (const [seed, what] of first) expect(await walk(seed)).toBe(what)
    const orders = new Set([...first.values()].map((what) => what.replace(/ [0-9a-f]{8}-.*/, "")))
    expect(orders.size).toBeGreaterThan(4)
  })

  test("under which a test fails is named, and fails alone as well", async () => {
    // This passes if jobs run in the order of their submission, and fails if one overtakes another.
    const inOrder = async (clock: ReturnType<typeof virtualClock>): Promise<void> => {
      await using run = await runActor(walker, { clock })
      steps.length = 0
      await Promise.all([run.submit.walk({ name: "a" }), run.submit.walk({ name: "b" })])
      await run.drain()
      expect(steps.indexOf("a2")).toBeLessThan(steps.indexOf("b2"))
    }
    const alone = (from: number): Promise<unknown> =>
      forEachSeed({ from, seeds: 1 }, inOrder).catch((cause: unknown) => cause)
    const holds: Array<number> = []
    const fails: Array<number> = []
    for (let seed = 1; seed <= 12; seed++) ((await alone(seed)) === undefined ? holds : fails).push(seed)
    expect(Math.min(holds.length, fails.length)).toBeGreaterThan(0)
    const [first = 0] = fails
    const failure = await forEachSeed({ seeds: 12 }, inOrder).catch((cause: unknown) => cause)
    expect(failure).toBeInstanceOf(SeedFailed)
    expect(failure).toMatchObject({
      seed: first,
      message: expect.stringContaining(`forEachSeed({ from: ${first}, seeds: 1 }, …)`),
    })
  })

  test("cannot be a number of seeds under which a test would never run", async () => {
    let ran = 0
    for (const seeds of [0, -1, 1.5, Number.NaN])
      await expect(forEachSeed({ seeds }, async () => void ran++)).rejects.toMatchObject({
        code: "invalid-input",
        message: "seeds: must be a whole number, 1 or more",
      })
    for (const from of [Number.NaN, 0.5])
      await expect(forEachSeed({ from }, async () => void ran++)).rejects.toMatchObject({ details: { field: "from" } })
    expect(ran).toBe(0)
  })

  test("decides what a handler asks of crypto", () => {
    const drawn = (seed: number) => {
      using clock = virtualClock({ seed })
      return [clock.seed, crypto.randomUUID(), crypto.getRandomValues(new Uint8Array(8)).join()]
    }
    const { randomUUID } = crypto
    const [, uuid] = drawn(3)
    expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(drawn(3)).toEqual(drawn(3))
    expect(drawn(4)[1]).not.toBe(uuid)
    expect(crypto.randomUUID).toBe(randomUUID)
  })

  test.each<[field: string, why: string, options: unknown, code?: string]>([
    ["start", "text", { start: "2030-01-01" }],
    ["start", "no moment", { start: new Date("soon") }],
    ["begin", "unknown", { begin: new Date(0) }, "unknown-field"],
    ["seed", "no whole number", { seed: 0.5 }],
  ])(
    "an option that is wrong is refused, and no clock is held: %s, %s",
    (field, _why, options, code = "invalid-input") => {
      expect(() => virtualClock(Object.assign({}, options))).toThrow(
        expect.objectContaining({ code, details: expect.objectContaining({ field }) }),
      )
      virtualClock()[Symbol.dispose]()
    },
  )

  test("is a whole number, and randomness is given back", () => {
    expect(() => virtualClock({ seed: 0.5 })).toThrow("seed: a whole number, not 0.5")
    const { random } = Math
    {
      using clock = virtualClock({ seed: 3 })
      expect(clock.seed).toBe(3)
      expect(new Date().toISOString()).toBe("2030-01-01T00:00:00.000Z")
      expect(Math.random).not.toBe(random)
    }
    expect(Math.random).toBe(random)
  })
})

test("a lease obeys the virtual clock", async () => {
  const url = `memory://${crypto.randomUUID()}?lease=30`
  const { jobs, close } = await connectTransport(url)
  const client = await connect(url)
  using clock = virtualClock()
  try {
    await clock.until(client.submit("walker.rest", { id: "leased" }))
    const take = async (): Promise<number> => {
      const request = { queues: ["default"], max: 1, wait: 0, rotate: false }
      return (await clock.until(jobs.take(request, new AbortController().signal))).length
    }
    expect(await take()).toBe(1)
    await clock.advance("29 seconds")
    expect(await take()).toBe(0)
    await clock.advance("2 seconds")
    expect(await take()).toBe(1)
  } finally {
    await client.close()
    await close()
  }
})
