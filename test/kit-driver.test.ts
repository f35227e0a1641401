/** The kit for drivers: each case passes on drivers of several kinds, and fails on a driver that breaks the promise of the case. */
import { describe, expect, test, vi } from "vitest"
import { spared, titleOf } from "./kit/case.ts"
import { BrokenPromise, isTransportError, TooBusy } from "./kit/check.ts"
import { leastHarness, lineHarness, poorHarness, stepwiseHarness, wholeHarness } from "./kit/driver/bases.ts"
import type { DriverCase } from "./kit/driver/case.ts"
import { driverCases } from "./kit/driver/cases.ts"
import { type DriverContext, sleep } from "./kit/driver/context.ts"
import type { DriverHarness } from "./kit/driver/harness.ts"
import { type DriverMutant, driverMutants } from "./kit/driver/mutants.ts"
import { registerDriver, runDriverCase, runDriverConformance } from "./kit/driver/run.ts"
import { block } from "./support/block.ts"
import { outcomesOf } from "./support/outcomes.ts"

// A case spends most of its time waiting, so many run at once.
vi.setConfig({ maxConcurrency: 32 })
const slack = 2_500

describe.concurrent.each([leastHarness(), stepwiseHarness(), poorHarness(), wholeHarness()])(
  "the driver $name passes",
  (harness) => registerDriver(test, { ...harness, slack }, { spared: "omit" }),
)

describe.concurrent("a driver that is cut off and restarted passes", () => {
  for (const each of driverCases.filter(({ group }) => group === "recovery")) {
    // Each harness has a connection of its own to cut, so that no case cuts that of another.
    const harness = { ...lineHarness(), slack }
    expect(spared(each, harness)).toBeUndefined()
    test(titleOf(each), () => runDriverCase(each, harness), 100_000)
  }
})

describe("mutants", () => {
  test("each case has one, and each has a case", () => {
    const titles = driverCases.map(titleOf)
    expect(new Set(titles).size).toBe(titles.length)
    expect(titles.filter((title) => !driverMutants.some(({ breaks }) => breaks === title))).toEqual([])
    expect(driverMutants.map(({ breaks }) => breaks).filter((breaks) => !titles.includes(breaks))).toEqual([])
  })

  const outcomes = outcomesOf(driverMutants, failureOf, 40)
  test.each(driverMutants.map((mutant, at) => [mutant.breaks, at, mutant] as const))(
    "%s: fails for mutant %i",
    async (_, __, mutant) => {
      const found = await outcomes().get(mutant)
      // Any other error would be a fault of the kit, or of the mutant.
      if (!(found instanceof BrokenPromise || isTransportError(found))) {
        expect.fail(found === undefined ? "the case passed" : `the case broke: ${String(found)}`)
      }
    },
    120_000,
  )
})

test("without a runner there is a report, which names what was declared and is not there", async () => {
  const report = await runDriverConformance(wholeHarness(), { only: "declared: " })
  expect(report).toMatchObject({ name: "whole", total: 6, passed: 6, failed: 0, skipped: 0 })
  const skipping = await runDriverConformance(leastHarness(), { only: "query: the newest" })
  expect(skipping.results[0]).toMatchObject({ outcome: "skipped", reason: "it has no query" })
  const failures = async (harness: DriverHarness, only: string) => {
    const { results } = await runDriverConformance(harness, { only })
    return results.flatMap(({ outcome, reason }) => (outcome === "failed" ? [reason] : []))
  }
  const missing = { ...leastHarness(), parts: ["query"] } as const
  expect(await failures(missing, "optional members")).toEqual([expect.stringContaining("'query'")])
  const stepwise = stepwiseHarness()
  const capabilities = { ...stepwise.capabilities, atomic: true }
  const connect: DriverHarness["connect"] = async (options) => ({ ...(await stepwise.connect(options)), capabilities })
  const lying = { ...stepwise, capabilities, connect }
  expect(await failures(lying, "says it is atomic")).toEqual([
    expect.stringContaining("the record of an atomic commit was seen"),
  ])
})

describe("a case whose process was too late for a verdict", () => {
  /** Runs a case that checks something which holds until a time. Resolves with how it ended, and the namespaces of its rounds. */
  const run = async (round: (count: number, context: DriverContext) => Promise<void>) => {
    const namespaces = new Set<string>()
    const each: DriverCase = {
      group: "lateness",
      name: "of the process",
      run: async (context) => {
        namespaces.add(context.namespace)
        await round(namespaces.size, context)
      },
    }
    const error: unknown = await runDriverCase(each, leastHarness()).then(
      () => undefined,
      (reason: unknown) => reason,
    )
    return { error, rounds: namespaces.size }
  }
  const broken = async (): Promise<never> => {
    throw new BrokenPromise("the lease was lost")
  }

  test("begins again with everything fresh, and what a round in time says counts", async () => {
    const passing = (count: number, { inTime }: DriverContext) =>
      count < 3 ? inTime(Date.now() - 5, broken) : Promise.resolve()
    expect(await run(passing)).toEqual({ error: undefined, rounds: 3 })
    const failing = (count: number, { inTime }: DriverContext) =>
      inTime(() => Date.now() + (count < 3 ? -5 : 60_000), broken)
    expect(await run(failing)).toEqual({ error: expect.any(BrokenPromise), rounds: 3 })
  })

  test("is neither a pass nor a broken promise when no round was in time", async () => {
    const { error, rounds } = await run((_, { inTime }) => inTime(Date.now() - 5, broken))
    expect(error).toBeInstanceOf(TooBusy)
    expect(String(error)).toMatch(/this machine was too busy: \d rounds .* \d+ ms too late, the lease was lost/)
    expect(rounds).toBeGreaterThan(2)
  })

  test("begins again when it was held up itself for longer than was allowed", async () => {
    const held = async (count: number, { timed }: DriverContext) => {
      const took = timed()
      await sleep(30)
      const end = performance.now() + 400
      while (count === 1 && performance.now() < end);
      took(20, 350, "milliseconds")
    }
    const { error, rounds } = await run(held)
    expect(error).toBeUndefined()
    expect(rounds).toBeGreaterThan(1)
    const late = async (_: number, { timed }: DriverContext) => {
      const took = timed()
      await sleep(2_000)
      took(0, 100, "milliseconds")
    }
    expect(await run(late)).toEqual({ error: expect.any(BrokenPromise), rounds: 1 })
  })

  test("has its deadlines without the time for which it was held up", async () => {
    const held = async (_: number, { within }: DriverContext) => {
      const answer = new Promise((resolve) => setTimeout(resolve, 110, "answer"))
      const waiting = within("an answer", answer, 100)
      // Some event loops look at timers before anything else that is due, and the deadline is due first.
      block(500)
      expect(await waiting).toBe("answer")
    }
    expect(await run(held)).toEqual({ error: undefined, rounds: 1 })
  })

  test("repeats a step as often as there is time for, and at least once", async () => {
    const now = performance.now.bind(performance)
    const repeating = async (_: number, { repeats }: DriverContext) => {
      expect([...repeats(3)]).toEqual([0, 1, 2])
      let late = 0
      vi.spyOn(performance, "now").mockImplementation(() => now() + late)
      try {
        const rounds = []
        for (const round of repeats(100)) {
          rounds.push(round)
          late += 20_000
        }
        expect(rounds).toEqual([0, 1])
      } finally {
        vi.restoreAllMocks()
      }
    }
    expect(await run(repeating)).toEqual({ error: undefined, rounds: 1 })
  })

  test("blames the driver all the same for an answer that never comes", async () => {
    const silent = (_: number, { inTime, within }: DriverContext) =>
      inTime(Date.now(), () => within("an extension", new Promise<void>(() => undefined), 20))
    expect(await run(silent)).toEqual({ error: expect.any(BrokenPromise), rounds: 1 })
  })
})

const bases = {
  whole: wholeHarness,
  least: leastHarness,
  stepwise: stepwiseHarness,
  poor: poorHarness,
  line: lineHarness,
}

/** How the case of a mutant fails; `undefined` when it passes. */
async function failureOf(mutant: DriverMutant): Promise<unknown> {
  const harness = { ...bases[mutant.on ?? "whole"](), bound: 2_000 }
  const each = driverCases.find((one) => titleOf(one) === mutant.breaks)
  if (each === undefined || spared(each, harness) !== undefined) return undefined
  const connect = mutant.breaker()((options) => harness.connect(options))
  try {
    // Some mutants never answer. The limit is shorter than for real drivers, which may be slow on a busy machine.
    await runDriverCase({ ...each, timeout: 20_000 }, { ...harness, ...mutant.harness?.(harness), connect })
    return undefined
  } catch (error) {
    return error
  }
}
