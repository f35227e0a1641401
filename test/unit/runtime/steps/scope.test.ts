/** Scopes whose tries fail, with a worker that dies, or stands still, at each of its writes, in virtual time. */
import {
  actor,
  alwaysRevert,
  alwaysRevertAll,
  forEach,
  type Job,
  parameterizedForEach,
  Reject,
  type RetryController,
  StepError,
  times,
} from "callboard"
import { type CrashOptions, crashEverywhere } from "callboard/testing"
import { describe, expect, test } from "vitest"
import { overriding } from "../../../../runtime/testing/observed-transport.ts"
import type { Driver } from "../../../../runtime/transport/driver.ts"
import { sleep } from "../../../../runtime/transport/timers.ts"

/** Each test is up to hundreds of runs in virtual time. */
const MANY = { timeout: 300_000 }

type Steps = Pick<Job, "step" | "sleep" | "waitFor" | "scope">

const log: Array<string> = []
/** A step that notes that it ran, and that it was reverted. */
const act = (steps: Steps, name: string, fails = false) =>
  steps.step(
    name,
    () => {
      log.push(name)
      if (fails) throw new RangeError(`${name} fails`)
      return name
    },
    { revert: ({ result, error }) => void log.push(`-${result ?? error?.message.replace(" fails", "")}`) },
  )

interface Scene {
  readonly run: (job: Job) => Promise<unknown>
  readonly state?: "failed"
  readonly dead?: string
  /** Its result, or the message of its error. */
  readonly end: unknown
  /** What runs, in order. */
  readonly log: string
  /** The same where two steps were under way when the first worker died. */
  readonly both?: string
  readonly more?: Omit<CrashOptions<unknown>, "method" | "look">
}

const tries =
  (controller: RetryController<number>, until: number) =>
  (job: Job): Promise<unknown> =>
    job.scope(
      "scope",
      async (inner, x) => {
        await act(inner, "a")
        await act(inner, "f", x < until)
        return x
      },
      { retry: controller },
    )

const scenes: Readonly<Record<string, Scene>> = {
  "B1: times(3), the third succeeds (S089)": {
    run: tries(times(3), 3),
    end: 3,
    log: "a f -f -a a f -f -a a f",
  },
  "B1: times(2) used up (S090)": {
    run: tries(times(2), 3),
    state: "failed",
    end: "f fails",
    log: "a f -f -a a f -f -a",
  },
  "B1: times(3) for another error": {
    run: tries(times(3, { on: ["ConnectionLost"] }), 3),
    state: "failed",
    end: "f fails",
    log: "a f -f -a",
  },
  "B1: forEach": {
    run: (job) =>
      job.scope(
        "scope",
        async (inner, region) => {
          await act(inner, region)
          await act(inner, "f", region !== "us")
          return region
        },
        { retry: forEach(["eu", "eu", "us", "ap"]) },
      ),
    end: "us",
    log: "eu f -f -eu us f",
  },
  "B1: parameterizedForEach with the result of a step": {
    run: async (job) => {
      const regions = await job.step("regions", () => ["eu", "us"])
      const retry = parameterizedForEach(() => regions)
      return job.scope("scope", (inner, region) => act(inner, region, region === "eu"), { retry })
    },
    end: "us",
    log: "eu -eu us",
  },
  "B1: nested, the inner one gives up, the outer one decides (S099)": {
    run: (job) =>
      job.scope(
        "outer",
        async (outer, x) => {
          await act(outer, "a")
          await outer.scope(
            "inner",
            async (inner) => {
              await act(inner, "b")
              await act(inner, "f", x < 2)
            },
            { retry: alwaysRevert() },
          )
          await act(outer, "c", x < 3)
          return x
        },
        { retry: times(3) },
      ),
    end: 3,
    log: "a b f -f -b -a a b f c -c -f -b -a a b f c",
  },
  "B1: revert-all of an inner scope": {
    run: async (job) => {
      await act(job, "a")
      const body = (outer: Steps) =>
        outer.scope("inner", (inner) => act(inner, "f", true), { retry: alwaysRevertAll() })
      return job.scope("outer", body, { retry: times(3) })
    },
    state: "failed",
    end: "f fails",
    dead: "rejected",
    log: "a f -f -a",
  },
  "B1: a step that rejects the job": {
    run: async (job) => {
      await act(job, "a")
      const body = (inner: Steps) =>
        inner.step("no", () => {
          log.push("no")
          throw new Reject("no")
        })
      return job.scope("scope", body, { retry: times(3) })
    },
    state: "failed",
    end: "no",
    dead: "rejected",
    log: "a no -a",
  },
  "B1: a revert that fails (S094)": {
    run: (job) =>
      job.scope(
        "outer",
        (outer) =>
          outer.scope(
            "inner",
            async (inner) => {
              await inner.step("a", () => void log.push("a"), {
                revert: () => {
                  log.push("-a")
                  throw new Reject("stays")
                },
              })
              await act(inner, "b", true)
            },
            { retry: times(3) },
          ),
        { retry: times(3) },
      ),
    state: "failed",
    end: "b fails (and the revert of outer#1/inner#1/a failed: stays; retry the job to continue reverting)",
    dead: "revert-failed",
    log: "a b -b -a",
  },
  "B1: a sleep in a scope": {
    run: (job) =>
      job.scope(
        "scope",
        async (inner, x) => {
          await act(inner, "a")
          await inner.sleep("nap", 30)
          await act(inner, "f", x < 2)
          return x
        },
        { retry: times(2) },
      ),
    end: 2,
    log: "a f -f -a a f",
  },
  "B1: an error of the body itself": {
    run: (job) =>
      job.scope(
        "scope",
        async (inner, x) => {
          await act(inner, "a")
          if (x < 2) throw new TypeError("the body")
          return x
        },
        { retry: times(2) },
      ),
    end: 2,
    log: "a -a a",
  },
  "B1: a scope whose failure is caught, and a job that fails later": {
    run: async (job) => {
      const body = (inner: Steps) => act(inner, "f", true)
      await job.scope("scope", body, { retry: times(2) }).catch((error: unknown) => {
        if (!(error instanceof StepError) || !error.is("RangeError")) throw new Error("another error")
      })
      await act(job, "instead")
      await act(job, "g", true)
    },
    state: "failed",
    end: "g fails",
    log: "f -f f -f instead g -g -instead",
  },
  "B1: a job that is tried again keeps a scope that has succeeded, and begins again one that gave up": {
    run: async (job) => {
      const first = await job.scope("first", (inner, x) => act(inner, "a", x < 2), { retry: times(2) })
      const body = (inner: Steps, region: string) => act(inner, region, job.retries === 0 || region === "eu")
      return [first, await job.scope("second", body, { retry: forEach(["eu", "us"]) })]
    },
    end: ["a", "us"],
    log: "a -a a eu -eu us -us eu -eu us",
  },
  "a scope that has succeeded is reverted with its job": {
    run: async (job) => {
      await job.scope("scope", (inner, x) => act(inner, "a", x < 2), { retry: times(2) })
      await act(job, "g", true)
    },
    state: "failed",
    end: "g fails",
    log: "a -a a g -g -a",
  },
  "a try ends before its steps are reverted, and begins none after its failure": {
    run: (job) =>
      job.scope(
        "scope",
        async (inner, x) => {
          if (x === 2) return x
          const slow = async () => {
            await inner.step("slow", () => sleep(1_000).then(() => void log.push("slow")), {
              revert: () => void log.push("-slow"),
            })
            await act(inner, "late")
          }
          return Promise.all([slow(), act(inner, "f", true)])
        },
        { retry: times(2) },
      ),
    end: 2,
    log: "f slow -slow -f",
    both: "f slow f slow -slow -f",
  },
  "a race of a scope ends as before": {
    run: async (job) => {
      const lost = job
        .scope(
          "scope",
          (inner) => inner.step("f", () => Promise.reject(new Error("f")), { revert: () => sleep(20_000) }),
          { retry: alwaysRevert() },
        )
        .catch(() => "scope")
      const first = await Promise.race([lost, job.step("s", () => sleep(10_000).then(() => "step"))])
      await lost
      await job.sleep("nap", 5)
      await act(job, first)
      return first
    },
    end: "step",
    log: "step",
  },
  "a signal that a failed try waited for is left to the next one": {
    run: (job) =>
      job.scope(
        "scope",
        async (inner, x) => {
          if (x === 1) await Promise.all([inner.waitFor("go"), act(inner, "f", true)])
          await act(inner, "a")
          return inner.waitFor("go")
        },
        { retry: times(2) },
      ),
    end: 7,
    log: "f -f a",
    more: { signals: [{ name: "go", value: 7, after: "scope#2/a" }] },
  },
}

const run = (scene: Scene, more: object = {}) =>
  crashEverywhere(
    actor("scene", {
      methods: {
        run: { run: (_input: unknown, job) => scene.run(job), ...(scene === RETRIED ? { retry: RETRY_ONCE } : {}) },
      },
    }),
    { method: "run", begin: () => log.splice(0), look: () => [...log], ...scene.more, ...more },
  )

const RETRY_ONCE = { max: 1, interval: 0 }
const RETRIED =
  scenes["B1: a job that is tried again keeps a scope that has succeeded, and begins again one that gave up"]

/** What ran, without the second time of what was under way when the first worker died, or stood still. */
const once = (seen: ReadonlyArray<string>, freeze: boolean) => {
  const ran = seen.filter((each, at) => each !== seen[at - 1])
  const left = freeze && seen.length === ran.length ? ran.slice(0, -1).join(" ") : ""
  return { log: ran.join(" "), orLog: left, twice: seen.length - ran.length }
}

/** Scenes in which the first worker also stands still. */
const FROZEN = /S089|S094/

describe("a worker that dies before and after every write", MANY, () => {
  test.each(Object.entries(scenes))("%s", async (name, scene) => {
    for (const freeze of FROZEN.test(name) ? [false, true] : [false]) {
      const [uncut, ...ends] = await run(scene, { freeze })
      expect(uncut?.seen.join(" ")).toBe(scene.log)
      expect(ends.length).toBeGreaterThan(8)
      for (const { crash, job, seen } of [uncut, ...ends].filter((each) => each !== undefined)) {
        const { log, orLog, twice } = once(seen, freeze)
        expect({ crash, state: job.state, dead: job.dead, end: job.result ?? job.error?.message }).toEqual({
          crash,
          state: scene.state ?? "succeeded",
          dead: scene.dead,
          end: scene.end,
        })
        const ran = log === scene.both || orLog === scene.log ? scene.log : log
        expect([crash, ran]).toEqual([crash, scene.log])
        expect([crash, twice]).toEqual([crash, twice > 0 ? 1 : 0])
      }
    }
  })
})

describe("a try that fails while other steps of it are about to begin", MANY, () => {
  test.each([
    ["step", (inner: Steps & Pick<Job, "each">) => act(inner, "a")],
    [
      "each",
      (inner: Steps & Pick<Job, "each">) => {
        const options = { key: String, parallel: 1, revert: () => undefined }
        return inner.each("each", [1, 2, 3], () => undefined, options)
      },
    ],
  ])("%s", async (_name, begin) => {
    const scene = actor("scene", {
      methods: {
        run: (_input: unknown, job) => {
          const body = async (inner: Steps & Pick<Job, "each">, n: number) => {
            // The first step with a revert is begun once that is noted, and the other one has failed by then.
            if (n < 3) await Promise.all([begin(inner), inner.step("f", () => Promise.reject(new Error("f")))])
            return n
          }
          return job.scope("outer", (outer) => outer.scope("inner", body, { retry: times(3) }), { retry: times(2) })
        },
      },
    })
    const ends = await crashEverywhere(scene, { method: "run", begin: () => log.splice(0), look: () => [...log] })
    for (const { crash, job } of ends) expect([crash, job.state, job.result]).toEqual([crash, "succeeded", 3])
  })
})

/** Each read of the store takes a second. */
const slowReads = (driver: Driver): Driver =>
  overriding(driver, {
    store: overriding(driver.store, { get: (keys) => sleep(1_000).then(() => driver.store.get(keys)) }),
  })

describe("a later run of the handler", MANY, () => {
  test("gets what an earlier one has stored before what ends in it", async () => {
    let failed = false
    const chain = actor("chain", {
      methods: {
        run: (_input: unknown, job) =>
          job.scope(
            "scope",
            async (inner, n) => {
              if (n === 2) return n
              const several = async () => {
                for (const name of ["a", "b", "c", "d", "e", "f"]) await act(inner, name)
              }
              // Its worker dies in it, and its second call fails at once.
              const slow = async () => {
                if (!failed) {
                  failed = true
                  await sleep(20_000)
                }
                throw new Error("no")
              }
              return Promise.all([several(), inner.step("slow", slow)])
            },
            { retry: times(2) },
          ),
      },
    })
    const begin = () => {
      log.splice(0)
      failed = false
    }
    const ends = await crashEverywhere(chain, { method: "run", begin, look: () => [...log] })
    expect(ends.length).toBeGreaterThan(20)
    for (const { crash, job, seen } of ends) {
      const left = seen.filter((each) => !each.startsWith("-") && !seen.includes(`-${each}`))
      expect([crash, job.result, left]).toEqual([crash, 2, []])
    }
  })

  test("gets a large result, which is loaded, in the same order as before", async () => {
    const race = actor("race", {
      methods: {
        run: async (_input: unknown, job) => {
          const large = job.step("large", () => "x".repeat(10_000)).then(() => "large")
          const small = job.step("small", () => sleep(2_000)).then(() => "small")
          const first = await Promise.race([large, small])
          await small
          await act(job, `after ${first}`)
          await act(job, "end")
          return first
        },
      },
    })
    const more = { wrap: slowReads, begin: () => log.splice(0), look: () => new Set(log) }
    const ends = await crashEverywhere(race, { method: "run", ...more })
    for (const { crash, job, seen } of ends)
      expect([crash, job.result, seen]).toEqual([crash, "large", new Set(["after large", "end"])])
  })
})
