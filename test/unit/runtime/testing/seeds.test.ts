import { actor, connect } from "callboard"
import { forEachSeed, runActor, SeedFailed, virtualClock } from "callboard/testing"
import { describe, expect, test } from "vitest"
import { connectTransport } from "../../../../runtime/connection/connect.ts"

/** What the steps of two jobs did, in order. */
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
    for (let seed = 1; seed <= 8; seed++) first.set(seed, await walk(seed))
    for (const [seed, what] of first) expect(await walk(seed)).toBe(what)
    const orders = new Set([...first.values()].map((what) => what.replace(/ [0-9a-f]{8}-.*/, "")))
    expect(orders.size).toBeGreaterThan(3)
  })

  test("under which a test fails is named, and fails alone as well", async () => {
    // Holds in the order in which jobs are submitted, and not if one overtakes the other.
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
