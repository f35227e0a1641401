/** A job that is run again from a step, whose worker dies at each of its writes, in virtual time. */
import { actor } from "callboard"
import { crashEverywhere } from "callboard/testing"
import { expect, test } from "vitest"

test("a run from a step keeps the steps before it, wherever the worker dies", { timeout: 300_000 }, async () => {
  const ran: Array<string> = []
  const scene = actor("scene", {
    methods: {
      run: async (_input: unknown, job) => {
        const flow = job.job("flow")
        await job.step("begin", () => job.submit("scene.flow", { id: "flow" }).then(() => null, String))
        await job.sleep("let it fail", "10 seconds")
        await job.step("retry", () => flow.retry({ fromStep: "b" }).then(() => null, String))
        await job.sleep("let it end", "10 seconds")
        const { state, run } = await flow.find()
        return { state, run }
      },
      flow: async (_input: unknown, job) => {
        for (const name of ["a", "b", "c"]) await job.step(name, () => void ran.push(`${name}${job.run}`))
        if (job.run === 1) throw new Error("broken")
      },
    },
  })
  const ends = await crashEverywhere(scene, {
    method: "run",
    begin: () => void ran.splice(0),
    look: () => new Set(ran),
  })
  expect(ends.length).toBeGreaterThan(20)
  for (const { crash, job, seen } of ends)
    expect([crash, job.result, [...seen]]).toEqual([
      crash,
      { state: "succeeded", run: 2 },
      ["a1", "b1", "c1", "b2", "c2"],
    ])
})
