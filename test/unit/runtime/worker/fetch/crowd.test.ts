import { describe, expect, test } from "vitest"
import type { JobDelivery } from "../../../../../runtime/transport/lift/transport.ts"
import { Hands } from "../../../../../runtime/worker/fetch/buffer.ts"
import { Crowd } from "../../../../../runtime/worker/fetch/crowd.ts"

const delivery = (sequence: number): JobDelivery => ({
  token: `${sequence}`,
  fence: `${sequence}`,
  queue: "low",
  level: 4,
  sequence,
  fresh: true,
  deliveries: 1,
  message: { undecodable: "made for this test", raw: new Uint8Array() },
})

/** A hundred places and a hundred slots, of which so many deliveries find their limit used up. */
const crowded = (waiting: number) => {
  const hands = new Hands({ queues: ["low"], concurrency: 100, prefetch: 1, rotate: false })
  const crowd = new Crowd(hands)
  // The first pull looks at everything.
  expect(crowd.portion).toBe(100)
  hands.add(Array.from({ length: waiting }, (_, at) => delivery(at)))
  for (let held = hands.next(); held !== undefined; held = hands.next()) hands.wait(held)
  return { hands, crowd }
}

const signal = new AbortController().signal

describe("pulls while tasks wait for their limits", () => {
  test("ask for no more than still finds a place, so that few go back", () => {
    expect(crowded(60).crowd.portion).toBe(40)
  })

  test("look behind a crowd, which may keep others from their turn", () => {
    const { hands, crowd } = crowded(80)
    expect(hands.fitting).toBe(20)
    expect(crowd.portion).toBe(100)
  })

  test("wait after a look in vain, until the crowd has become smaller", async () => {
    const { hands, crowd } = crowded(100)
    const before = performance.now()
    const pulled = crowd.pulled(100, 100, signal)
    const all = [...hands.held.values()]
    for (const held of all.slice(0, 30)) {
      hands.waited(held, "settling")
      hands.drop(held)
    }
    await pulled
    expect(performance.now() - before).toBeLessThan(400)
    expect(crowd.portion).toBe(30)
  })

  test("do not wait after one that has found something to start", async () => {
    const { hands, crowd } = crowded(80)
    expect(crowd.portion).toBe(100)
    hands.add([delivery(1_000)])
    const before = performance.now()
    await crowd.pulled(1, 1, signal)
    expect(performance.now() - before).toBeLessThan(20)
  })
})
