import { actor } from "callboard"
import { runActor, virtualClock } from "callboard/testing"
import { expect, test } from "vitest"

test("the list of workers says how many deliveries a worker settles per minute, over the last minute", async () => {
  using clock = virtualClock()
  await using run = await runActor(actor("counted", { methods: { run: () => null } }), { clock })
  const rate = async () => (await run.client.workers()).map(({ perMinute }) => perMinute)
  const settle = async (seconds: number, every: number) => {
    for (let passed = 0; passed < seconds; passed += every) {
      await run.submit.run(undefined)
      await clock.advance(every)
    }
  }
  await clock.advance(6)
  expect(await rate()).toEqual([0])
  await settle(30, 2)
  expect(await rate()).toEqual([expect.closeTo(25, -1)])
  await settle(90, 1)
  expect(await rate()).toEqual([expect.closeTo(60, -1)])
})
