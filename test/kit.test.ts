/** The kit itself: each case passes on transports of several kinds, and fails on one that breaks the promise it is about. */
import { describe, expect, test, vi } from "vitest"
import { memoryBoardOf } from "../plugins/memory/mod.ts"
import { spared, titleOf } from "./kit/case.ts"
import { cases } from "./kit/cases.ts"
import { BrokenPromise, isTransportError } from "./kit/check.ts"
import { register, registerPlugin } from "./kit/conformance.ts"
import { type Context, sleep } from "./kit/context.ts"
import { lineHarness } from "./kit/driver/bases.ts"
import type { Harness } from "./kit/harness.ts"
import { Line } from "./kit/line.ts"
import { type Mutant, mutants } from "./kit/mutants.ts"
import { runCase, runLiftedConformance } from "./kit/run.ts"
import { capabilities, memory } from "./support/memory.ts"
import { outcomesOf } from "./support/outcomes.ts"

const full = (url: URL): Harness => ({
  name: "memory",
  capabilities,
  connect: (options) => memory.connect(url, options),
  corrupt: async (queue, bytes, namespace) => memoryBoardOf(url, namespace).jobs.inject(queue, bytes),
})

/** Memory behind a line that can be cut: it loses nothing by that, as a server would not. */
const cuttable = (url: URL): Harness => {
  const line = new Line()
  const durable = { ...capabilities, durability: "server", reach: "network" } as const
  const cutFor = async (ms: number): Promise<void> => {
    line.cut()
    await sleep(ms)
    line.heal()
  }
  return {
    ...full(url),
    name: "line",
    capabilities: durable,
    connect: line.over((options) => memory.connect(url, options), durable),
    restart: () => cutFor(200),
    kill: () => cutFor(50),
    cut: async () => line.cut(),
    heal: async () => line.heal(),
  }
}

// Most of the time of a case is waiting.
vi.setConfig({ maxConcurrency: 24 })

const bases = { full, line: cuttable }

/** Many cases run at the same time, perhaps beside other work. */
const slack = 2_500

describe("a transport that is cut off and restarted passes", () => {
  const harness = { ...cuttable(new URL("memory://line")), slack }
  for (const each of cases.filter(({ group }) => group === "recovery")) {
    expect(spared(each, harness)).toBeUndefined()
    test(titleOf(each), () => runCase(each, harness), 90_000)
  }
})

describe("mutants", () => {
  test("each case has one, and each has a case", () => {
    const titles = cases.map(titleOf)
    expect(new Set(titles).size).toBe(titles.length)
    expect(titles.filter((title) => !mutants.some(({ breaks }) => breaks === title))).toEqual([])
    expect(mutants.map(({ breaks }) => breaks).filter((breaks) => !titles.includes(breaks))).toEqual([])
  })

  const outcomes = outcomesOf(mutants, failureOf, 24)
  test.each(mutants.map((mutant) => [mutant.breaks, mutant] as const))(
    "%s: fails for its mutant",
    async (_, mutant) => {
      const found = await outcomes().get(mutant)
      // Anything else would be a fault of the kit, or of the mutant.
      if (!(found instanceof BrokenPromise || isTransportError(found))) {
        expect.fail(found === undefined ? "the case passed" : `the case broke: ${String(found)}`)
      }
    },
    120_000,
  )
})

test("no deadline counts how long a broker takes to start again, and a case that fails waits for it", async () => {
  const harness = full(new URL("memory://restarted"))
  let isUp = true
  const restart = async () => {
    isUp = false
    await sleep(1_200)
    isUp = true
  }
  const bounds = { group: "restarts", name: "a restart", timeout: 600 }
  await runCase(
    {
      ...bounds,
      run: async ({ restarted, until }) => {
        await Promise.all([restarted("the restart", restart), until("an answer", async () => isUp, 300)])
      },
    },
    harness,
  )
  const failing = {
    ...bounds,
    run: async ({ restarted }: Context) => {
      void restarted("the restart", restart)
      throw new Error("a fault")
    },
  }
  await expect(runCase(failing, harness)).rejects.toThrow("a fault")
  expect(isUp).toBe(true)
})

test("over a driver there are rules of every group", () => {
  const groupsOf = (registering: typeof register): ReadonlyArray<string> => {
    const titles: Array<string> = []
    registering((title) => titles.push(title), lineHarness())
    const rules = titles.filter((title) => title.startsWith("with the runtime, "))
    return [...new Set(rules.map((title) => title.replace(/^with the runtime, |: .*$/g, "")))].sort()
  }
  const all = ["claim", "fence", "hostile", "next run", "query", "records", "recovery", "report", "settle", "watch"]
  expect(groupsOf(register)).toEqual(all)
  expect(groupsOf(registerPlugin)).toEqual(all)
})

test("without a runner there is a report", async () => {
  const report = await runLiftedConformance(full(new URL("memory://report")), { only: "delay: " })
  expect(report).toMatchObject({ name: "memory", total: 2, passed: 2, failed: 0, skipped: 0 })
  const without = { ...full(new URL("memory://report")), canList: false }
  const skipping = await runLiftedConformance(without, { only: "query: a cursor" })
  expect(skipping.results[0]).toMatchObject({ outcome: "skipped", reason: "it cannot list jobs" })
  const [mutant] = mutants.filter(({ breaks }) => breaks === "publish: no tasks: no receipts")
  const wrong = full(new URL("memory://report"))
  const connect = mutant?.breaker()((options) => wrong.connect(options)) ?? wrong.connect
  const failing = await runLiftedConformance({ ...wrong, connect }, { only: "publish: no tasks" })
  expect(failing.results[0]).toMatchObject({ outcome: "failed", reason: expect.stringContaining("receipts") })
})

/** How the case of a mutant fails; `undefined` when it passes. */
async function failureOf(mutant: Mutant): Promise<unknown> {
  const harness = bases[mutant.on ?? "full"](new URL("memory://mutants"))
  const each = cases.find((one) => titleOf(one) === mutant.breaks)
  if (each === undefined || spared(each, harness) !== undefined) return undefined
  const connect = mutant.breaker()((options) => harness.connect(options))
  try {
    // Some break a promise by never answering: no need to wait for that as long as for a busy machine.
    await runCase({ timeout: 20_000, ...each }, { ...harness, connect })
    return undefined
  } catch (error) {
    return error
  }
}
