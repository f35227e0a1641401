/**
 * The number of handlers follows the number of held tasks: up at once, down after the keepalive, within bounds that can
 * change.
 */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest"
import { makeLog } from "../../../../runtime/log/log.ts"
import type { JobDelivery } from "../../../../runtime/transport/job-store/transport.ts"
import { DeliveryBuffer } from "../../../../runtime/worker/fetch/delivery-buffer.ts"
import { PoolSize } from "../../../../runtime/worker/fetch/pool-size.ts"

/** How often the worker looks in any case, even if no task arrives. */
const KEEPALIVE_MS = 30_000

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] })
})
afterEach(() => {
  vi.useRealTimers()
})

const delivery = (at: number): JobDelivery => ({
  token: `${at}`,
  fence: `${at}`,
  queue: "default",
  level: 4,
  sequence: at,
  fresh: true,
  deliveries: 1,
  message: { undecodable: "made for this test", raw: new Uint8Array() },
})

const begin = () => {
  const buffer = new DeliveryBuffer({
    queues: ["default"],
    concurrency: 2,
    maxConcurrency: 16,
    prefetch: 4,
    rotate: false,
  })
  const size = new PoolSize({ buffer, prefetch: 4, autoscale: { min: 2, max: 16 }, log: makeLog({ level: "none" }) })
  let taken = 0
  return {
    buffer,
    size,
    /** Tasks arrive, after which a worker scales. */
    arrive: (count: number) => {
      buffer.add(Array.from({ length: count }, () => delivery(taken++)))
      size.follow()
    },
    /** All held tasks end. */
    finish: () => {
      for (const active of buffer.held.values()) buffer.drop(active)
    },
  }
}

describe("autoscale 2..16", () => {
  test("holds for the largest pool there will be, whatever its size is now", () => {
    const { buffer, arrive } = begin()
    expect([buffer.concurrency, buffer.capacity]).toEqual([2, 64])
    arrive(5)
    expect([buffer.concurrency, buffer.capacity]).toEqual([5, 64])
    arrive(40)
    expect([buffer.concurrency, buffer.capacity]).toEqual([16, 64])
  })

  test("goes down to what is held once that was less for 30 seconds, by itself, and not below its least", () => {
    const { buffer, arrive, finish } = begin()
    arrive(10)
    finish()
    vi.advanceTimersByTime(KEEPALIVE_MS - 1)
    expect(buffer.concurrency).toBe(10)
    vi.advanceTimersByTime(1)
    expect(buffer.concurrency).toBe(2)
  })

  test("stays up while there is work for all, and is counted from the last time there was", () => {
    const { buffer, size, arrive, finish } = begin()
    arrive(10)
    vi.advanceTimersByTime(KEEPALIVE_MS)
    expect(buffer.concurrency).toBe(10)
    finish()
    arrive(1)
    vi.advanceTimersByTime(KEEPALIVE_MS - 1)
    size.follow()
    expect(buffer.concurrency).toBe(10)
    vi.advanceTimersByTime(1)
    expect(buffer.concurrency).toBe(2)
  })

  test("a pool that is told to grow beyond its bounds moves them", () => {
    const { buffer, size, arrive } = begin()
    size.set(20)
    expect([buffer.concurrency, buffer.capacity]).toEqual([20, 80])
    size.follow()
    expect(buffer.concurrency).toBe(20)
    vi.advanceTimersByTime(KEEPALIVE_MS)
    expect(buffer.concurrency).toBe(2)
    arrive(30)
    expect(buffer.concurrency).toBe(20)
  })

  test("so does one that is told to shrink below them", () => {
    const { buffer, size } = begin()
    size.set(1)
    size.follow()
    vi.advanceTimersByTime(2 * KEEPALIVE_MS)
    expect([buffer.concurrency, buffer.capacity]).toEqual([1, 64])
  })

  test("new bounds hold at once; without any the size stays as it is", () => {
    const { buffer, size, arrive } = begin()
    arrive(10)
    size.autoscale({ min: 1, max: 4 })
    expect([buffer.concurrency, buffer.capacity]).toEqual([4, 16])
    size.autoscale(null)
    vi.advanceTimersByTime(2 * KEEPALIVE_MS)
    expect([buffer.concurrency, buffer.capacity]).toEqual([4, 16])
  })
})
