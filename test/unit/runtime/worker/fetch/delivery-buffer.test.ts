import { describe, expect, test } from "vitest"
import type { JobDelivery } from "../../../../../runtime/transport/job-store/transport.ts"
import type { ActiveDelivery } from "../../../../../runtime/worker/active-delivery.ts"
import { DeliveryBuffer } from "../../../../../runtime/worker/fetch/delivery-buffer.ts"

const delivery = (token: string, fields: Partial<JobDelivery> = {}): JobDelivery => ({
  token,
  fence: token,
  queue: "low",
  level: 4,
  sequence: Number(token),
  fresh: true,
  deliveries: 1,
  message: { undecodable: "made for this test", raw: new Uint8Array() },
  ...fields,
})

const buffer = (options: Partial<{ concurrency: number; prefetch: number; rotate: boolean }> = {}) =>
  new DeliveryBuffer({ queues: ["high", "low"], concurrency: 2, prefetch: 4, rotate: false, ...options })

const fail = (): never => {
  throw new Error("it is not held")
}

const drain = (inFlight: DeliveryBuffer): Array<string> => {
  const order: Array<string> = []
  for (let next = inFlight.next(); next !== undefined; next = inFlight.next()) {
    order.push(next.delivery.token)
    inFlight.handlerEnded(next)
    inFlight.drop(next)
  }
  return order
}

describe("delivery buffers", () => {
  test("never start more handlers than the concurrency", () => {
    const inFlight = buffer()
    inFlight.add([delivery("1"), delivery("2"), delivery("3")])
    expect(inFlight.next()?.delivery.token).toBe("1")
    expect(inFlight.next()?.delivery.token).toBe("2")
    expect(inFlight.next()).toBeUndefined()
  })

  test("hold at most concurrency times prefetch deliveries", () => {
    const inFlight = buffer()
    expect(inFlight.free).toBe(8)
    inFlight.add([delivery("1"), delivery("2")])
    expect(inFlight.free).toBe(6)
  })

  test("run by queue, then level, then sequence, whatever order they came in", () => {
    const inFlight = buffer()
    inFlight.add([
      delivery("1"),
      delivery("2", { level: 9 }),
      delivery("3", { queue: "high", level: 0 }),
      delivery("4", { level: 10 }),
      delivery("0"),
    ])
    expect(drain(inFlight)).toEqual(["3", "4", "2", "0", "1"])
  })

  test("with rotate the queues take turns, each in its own order, whatever order they came in", () => {
    const inFlight = buffer({ rotate: true, concurrency: 1 })
    const high = (token: string) => delivery(token, { queue: "high" })
    inFlight.add([delivery("1"), delivery("2"), delivery("3", { level: 9 }), high("4"), high("5")])
    const first = inFlight.next() ?? fail()
    expect(first.delivery.token).toBe("4")
    inFlight.add([high("6")])
    inFlight.handlerEnded(first)
    expect(drain(inFlight)).toEqual(["3", "5", "1", "6", "2"])
  })

  test("a handler that goes on after its job was decided keeps its slot until it stops", async () => {
    const inFlight = buffer({ concurrency: 1 })
    inFlight.add([delivery("1"), delivery("2")])
    const first = inFlight.next()
    if (first === undefined) throw new Error("nothing to run")
    const handler = Promise.withResolvers<void>()
    Object.assign(first, { run: { pending: handler.promise } })
    inFlight.handlerEnded(first)
    inFlight.drop(first)
    expect(inFlight.next()).toBeUndefined()
    expect(inFlight.stuck).toBe(1)
    handler.resolve()
    await handler.promise
    await Promise.resolve()
    expect(inFlight.stuck).toBe(0)
    expect(inFlight.next()?.delivery.token).toBe("2")
  })

  test("nothing is fetched ahead for slots of long runs, until shorter ones have followed", () => {
    const inFlight = buffer()
    const start = (token: string) => {
      inFlight.add([delivery(token)])
      const next = inFlight.next() ?? fail()
      return next
    }
    const end = (ended: ActiveDelivery) => {
      Object.assign(ended, { run: { isLong: ended.isLong } })
      inFlight.handlerEnded(ended)
      inFlight.drop(ended)
    }
    const [first, second] = [start("1"), start("2")]
    expect(inFlight.free).toBe(6)
    inFlight.runsLong(first)
    inFlight.runsLong(first)
    expect(inFlight.free).toBe(3)
    inFlight.runsLong(second)
    expect([inFlight.free, inFlight.room]).toEqual([0, 0])
    end(first)
    expect([inFlight.free, inFlight.room]).toEqual([1, 1])
    end(start("3"))
    expect(inFlight.free).toBe(4)
    end(start("4"))
    expect(inFlight.free).toBe(4)
    end(second)
    // The buffer is empty, so no task would wait behind a long run.
    expect(inFlight.free).toBe(8)
    const third = start("5")
    expect(inFlight.free).toBe(4)
    end(third)
    expect(inFlight.free).toBe(8)
  })

  test("waiting for room ends when a quarter of the capacity is free", async () => {
    const inFlight = buffer()
    inFlight.add(Array.from({ length: 8 }, (_, at) => delivery(`${at}`)))
    let room = false
    const waiting = inFlight.waitForRoom(new AbortController().signal).then(() => {
      room = true
    })
    const first = inFlight.next()
    if (first !== undefined) inFlight.drop(first)
    await Promise.resolve()
    expect(room).toBe(false)
    const second = inFlight.next()
    if (second !== undefined) inFlight.drop(second)
    await waiting
    expect(inFlight.free).toBe(2)
  })
})
