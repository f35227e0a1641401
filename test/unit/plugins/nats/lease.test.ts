import { expect, test } from "vitest"
import type { Token } from "../../../../plugins/nats/queue/delivery.ts"
import { DeliveryTracker } from "../../../../plugins/nats/queue/lease.ts"

const LEASE = 1_000

const arrived = (number: number, seq: number, receivedAt: number): Token => ({
  nonce: "nonce",
  number,
  ack: `ack.${seq}.${number}`,
  consumer: "lane",
  seq,
  receivedAt,
  until: 0,
})

test("a task that is delivered anew has ended its earlier delivery here, however late that one was read", () => {
  const tracker = new DeliveryTracker("nonce", LEASE)
  const now = Date.now()
  const first = arrived(1, 7, now)
  const other = arrived(2, 8, now)
  tracker.add(first, false)
  tracker.add(other, false)
  expect([first, other].map(({ until }) => until > now)).toEqual([true, true])

  const again = arrived(3, 7, now)
  tracker.add(again, true)
  expect([first, other, again].map(({ until }) => until > now)).toEqual([false, true, true])
  expect(again.until > now + LEASE).toBe(false)
})
