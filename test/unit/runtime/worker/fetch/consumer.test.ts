import { describe, expect, test } from "vitest"
import type { JobDelivery } from "../../../../../runtime/transport/lift/transport.ts"
import { PullSizer } from "../../../../../runtime/worker/fetch/consumer.ts"
import { DeliveryBuffer } from "../../../../../runtime/worker/fetch/delivery-buffer.ts"

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

/** A buffer with a hundred slots and room for a hundred tasks that wait for limits, of which this many do. */
const crowded = (waiting: number) => {
  const buffer = new DeliveryBuffer({ queues: ["low"], concurrency: 100, prefetch: 1, rotate: false })
  const pullSizer = new PullSizer(buffer)
  // The first pull looks behind the waiting tasks.
  expect(pullSizer.nextSize).toBe(100)
  buffer.add(Array.from({ length: waiting }, (_, at) => delivery(at)))
  for (let inFlight = buffer.next(); inFlight !== undefined; inFlight = buffer.next()) buffer.waitForLimit(inFlight)
  return { buffer, pullSizer }
}

const signal = new AbortController().signal

describe("pulls while tasks wait for their limits", () => {
  test("ask for no more than still finds a place, so that few go back", () => {
    expect(crowded(60).pullSizer.nextSize).toBe(40)
  })

  test("look behind a crowd, which may keep others from their turn", () => {
    const { buffer, pullSizer } = crowded(80)
    expect(buffer.freeIfLimited).toBe(20)
    expect(pullSizer.nextSize).toBe(100)
  })

  test("wait after a look in vain, until the crowd has become smaller", async () => {
    const { buffer, pullSizer } = crowded(100)
    const before = performance.now()
    const pulled = pullSizer.pulled(100, 100, signal)
    const all = [...buffer.inFlight.values()]
    for (const inFlight of all.slice(0, 30)) {
      buffer.stopWaiting(inFlight, "settling")
      buffer.drop(inFlight)
    }
    await pulled
    expect(performance.now() - before).toBeLessThan(400)
    expect(pullSizer.nextSize).toBe(30)
  })

  test("do not wait after one that has found something to start", async () => {
    const { buffer, pullSizer } = crowded(80)
    expect(pullSizer.nextSize).toBe(100)
    buffer.add([delivery(1_000)])
    const before = performance.now()
    await pullSizer.pulled(1, 1, signal)
    expect(performance.now() - before).toBeLessThan(20)
  })
})
