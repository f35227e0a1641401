import { describe, expect, test } from "vitest"
import type { JobDelivery } from "../../../../../runtime/transport/lift/transport.ts"
import { Hands } from "../../../../../runtime/worker/fetch/buffer.ts"

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

const hands = (options: Partial<{ concurrency: number; prefetch: number; rotate: boolean }> = {}) =>
  new Hands({ queues: ["high", "low"], concurrency: 2, prefetch: 4, rotate: false, ...options })

const fail = (): never => {
  throw new Error("it is not held")
}

const drain = (held: Hands): Array<string> => {
  const order: Array<string> = []
  for (let next = held.next(); next !== undefined; next = held.next()) {
    order.push(next.delivery.token)
    held.handlerEnded(next)
    held.drop(next)
  }
  return order
}

describe("hands", () => {
  test("never start more handlers than the concurrency", () => {
    const held = hands()
    held.add([delivery("1"), delivery("2"), delivery("3")])
    expect(held.next()?.delivery.token).toBe("1")
    expect(held.next()?.delivery.token).toBe("2")
    expect(held.next()).toBeUndefined()
  })

  test("hold at most concurrency times prefetch deliveries", () => {
    const held = hands()
    expect(held.free).toBe(8)
    held.add([delivery("1"), delivery("2")])
    expect(held.free).toBe(6)
  })

  test("run by queue, then level, then sequence, whatever order they came in", () => {
    const held = hands()
    held.add([
      delivery("1"),
      delivery("2", { level: 9 }),
      delivery("3", { queue: "high", level: 0 }),
      delivery("4", { level: 10 }),
      delivery("0"),
    ])
    expect(drain(held)).toEqual(["3", "4", "2", "0", "1"])
  })

  test("with rotate the queues take turns, each in its own order, whatever order they came in", () => {
    const held = hands({ rotate: true, concurrency: 1 })
    const high = (token: string) => delivery(token, { queue: "high" })
    held.add([delivery("1"), delivery("2"), delivery("3", { level: 9 }), high("4"), high("5")])
    expect(held.next()?.delivery.token).toBe("4")
    held.add([high("6")])
    held.handlerEnded(held.held.get("4") ?? fail())
    expect(drain(held)).toEqual(["3", "5", "1", "6", "2"])
  })

  test("a handler that goes on after its job was decided keeps its slot until it stops", async () => {
    const held = hands({ concurrency: 1 })
    held.add([delivery("1"), delivery("2")])
    const first = held.next()
    if (first === undefined) throw new Error("nothing to run")
    const handler = Promise.withResolvers<void>()
    Object.assign(first, { run: { pending: handler.promise } })
    held.handlerEnded(first)
    held.drop(first)
    expect(held.next()).toBeUndefined()
    expect(held.stuck).toBe(1)
    handler.resolve()
    await handler.promise
    await Promise.resolve()
    expect(held.stuck).toBe(0)
    expect(held.next()?.delivery.token).toBe("2")
  })

  test("waiting for room ends when a quarter of the capacity is free", async () => {
    const held = hands()
    held.add(Array.from({ length: 8 }, (_, at) => delivery(`${at}`)))
    let room = false
    const waiting = held.waitForRoom(new AbortController().signal).then(() => {
      room = true
    })
    const first = held.next()
    if (first !== undefined) held.drop(first)
    await Promise.resolve()
    expect(room).toBe(false)
    const second = held.next()
    if (second !== undefined) held.drop(second)
    await waiting
    expect(held.free).toBe(2)
  })
})
