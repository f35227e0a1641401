/** Jobs that sleep and wait for signals, whose worker dies at each of its writes, in virtual time. */
import { actor, type Job, type JobView } from "callboard"
import { type CrashSignal, crashEverywhere } from "callboard/testing"
import { describe, expect, test } from "vitest"
import { isTerminal } from "../../../../runtime/protocol/state.ts"

/** Each test is up to a hundred runs in virtual time. */
const MANY = { timeout: 300_000 }

const ran: Array<string> = []
const note = (what: string) => () => {
  ran.push(what)
  return what
}

const scenes: Readonly<
  Record<string, { readonly run: (job: Job) => Promise<unknown>; readonly signals?: ReadonlyArray<CrashSignal> }>
> = {
  sleeper: {
    run: async (job) => {
      await job.step("a", note("a"))
      await job.sleep("first", "5 seconds")
      await job.step("b", note("b"))
      await job.sleep("second", "5 seconds")
      await job.step("c", note("c"))
      return "rested"
    },
  },
  signalled: {
    run: async (job) => {
      const early = await job.waitFor("early")
      await job.step("a", note("a"))
      const late = await job.waitFor("late", { timeout: "2 minutes" })
      const none = await job.waitFor("none", { timeout: "2 minutes" })
      await job.step("b", note("b"))
      return [early, late, none ?? null]
    },
    signals: [
      { name: "early", value: 1 },
      { name: "late", value: 2, after: "a" },
    ],
  },
  raced: {
    run: async (job) => {
      const first = await Promise.race([
        job.waitFor("go").then(() => "signal"),
        job.sleep("patience", "1 minute").then(() => "time"),
      ])
      await job.step("a", note("a"))
      await job.sleep("more", "1 minute")
      return first
    },
    signals: [{ name: "go", after: "a" }],
  },
  caller: {
    run: async (job) => {
      await job.step("a", note("a"))
      const doubled = await job.call<number>("double", "waiting.double", { input: 2 })
      const failed = await job.call("fail", "waiting.fail").catch(({ name }: Error) => name)
      await job.step("b", note("b"))
      return [doubled, failed]
    },
  },
  saga: {
    run: async (job) => {
      await job.step("book", note("book"), { revert: () => void ran.push("-book") })
      await job.waitFor("paid", { timeout: "2 minutes" })
      throw new Error("not paid")
    },
  },
}

/** What is wrong with an end: a step whose outcome was stored may run no second time, except the one at which the worker died. */
const faultsOf = (
  ends: ReadonlyArray<{ crash: string; job: { state: string; result?: unknown }; seen: ReadonlyArray<string> }>,
) => {
  const [uncut, ...others] = ends
  return others.flatMap(({ crash, job, seen }) => {
    const isSame = job.state === uncut?.job.state && JSON.stringify(job.result) === JSON.stringify(uncut.job.result)
    const missed = new Set(uncut?.seen).difference(new Set(seen)).size
    const more = seen.length - (uncut?.seen.length ?? 0)
    return isSame && missed === 0 && more <= 1 ? [] : [`${crash}: ${job.state} ${JSON.stringify(job.result)} ${seen}`]
  })
}

const crash = (name: string, more: { readonly freeze?: boolean; readonly cancelAt?: number } = {}) => {
  const { run, signals = [] } = scenes[name] ?? {}
  const waiting = actor("waiting", {
    methods: {
      run: (_input: unknown, job) => run?.(job),
      double: (input: number) => [note("double")(), input * 2][1],
      fail: () => Promise.reject(new RangeError(note("fail")())),
    },
  })
  const look = () => [...ran]
  return crashEverywhere(waiting, {
    ...{ method: "run", begin: () => void ran.splice(0), look, within: "2 hours", signals },
    ...more,
  })
}

/** A lease of a second, and the time for which a worker that is missing may come back. */
const TAKEN_OVER_MS = 18_000

const tookMs = ({ times: { submitted, ended = "" } }: JobView): number => Date.parse(ended) - Date.parse(submitted)

describe("a worker that dies before and after every write", MANY, () => {
  test.each(Object.keys(scenes))("%s: ends as without", async (name) => {
    for (const freeze of [false, true]) {
      const ends = await crash(name, { freeze })
      expect(ends[0]?.job.state).toBe(name === "saga" ? "failed" : "succeeded")
      expect(ends.length).toBeGreaterThan(8)
      expect(faultsOf(ends)).toEqual([])
      for (const { job } of ends) expect([job.waits, job.signals, job.retries]).toEqual([undefined, undefined, 0])
      const [uncut = 0, ...took] = ends.map(({ job }) => tookMs(job))
      expect(Math.max(...took)).toBeLessThan(uncut + TAKEN_OVER_MS)
    }
  })

  test.each<[name: string, writes: ReadonlyArray<number>]>([
    ["sleeper", [2, 5]],
    ["caller", [2, 6, 9]],
    ["saga", [2, 5]],
  ])("%s: cancelled at a write, it stays cancelled and nothing is left", async (name, writes) => {
    for (const cancelAt of writes) {
      const ends = await crash(name, { cancelAt })
      expect(ends[0]?.job.state).toBe("cancelled")
      for (const { crash: at, job, seen } of ends) {
        // A worker that dies before that write has not cancelled the job.
        const isOpen =
          job.waits !== undefined || (job.state === "cancelled" && seen.includes("book") && !seen.includes("-book"))
        expect([cancelAt, at, isTerminal(job.state), isOpen]).toEqual([cancelAt, at, true, false])
      }
    }
  })
})
