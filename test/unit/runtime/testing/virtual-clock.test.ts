import { actor } from "callboard"
import { runActor, StillWaiting, virtualClock } from "callboard/testing"
import { Effect } from "effect"
import { describe, expect, test } from "vitest"
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
