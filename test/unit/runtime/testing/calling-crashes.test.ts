/** A job that has called another one and is cancelled, whose worker dies at each of its writes, in virtual time. */
import { actor } from "callboard"
import { crashEverywhere } from "callboard/testing"
import { describe, expect, test } from "vitest"

/** Each test is up to a hundred runs in virtual time. */
const MANY = { timeout: 300_000 }

describe(
  "a worker that dies before and after every write of a caller, of its job, and of its cancellation",
  MANY,
  () => {
    test.each(["suspended", "running"])("%s: the called job ends with its caller", async (how) => {
      const called = new Set<string>()
      const scene = actor("scene", {
        methods: {
          run: async (_input: unknown, job) => {
            const caller = await job.step("begin", async () => {
              await job.submit("scene.calls", { id: "caller" }).catch(() => undefined)
              return "caller"
            })
            await job.sleep("let it call", "10 seconds")
            await job.step("cancel", () =>
              job
                .job(caller)
                .cancel()
                .catch(() => undefined),
            )
            // Each journal of an ended job is looked at meanwhile.
            await job.sleep("let it end", "4 minutes")
            const ends = [caller, ...called].map(async (id) => (await job.job(id).find()).state)
            return Promise.all(ends)
          },
          calls: async (_input: unknown, job) => {
            const calling = job.call("call", "scene.waits")
            if (how === "running") await new Promise((resolve) => job.signal.addEventListener("abort", resolve))
            return calling
          },
          waits: async (_input: unknown, job) => {
            called.add(job.id)
            await job.waitFor("never")
          },
        },
      })
      const ends = await crashEverywhere(scene, {
        method: "run",
        begin: () => called.clear(),
        look: () => undefined,
      })
      expect(ends.length).toBeGreaterThan(20)
      const faults = ends.flatMap(({ crash, job }) => {
        const result = JSON.stringify(job.result)
        return result === '["cancelled","cancelled"]' ? [] : [`${crash}: ${job.state} ${result}`]
      })
      expect(faults).toEqual([])
    })
  },
)
