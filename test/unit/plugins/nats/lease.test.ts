import { expect, test } from "vitest"
import type { Token } from "../../../../plugins/nats/queue/delivery.ts"
import { DeliveryTracker, keptOf } from "../../../../plugins/nats/queue/lease.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"

const LEASE = 1_000
const NONCE = "nonce0"

const arrived = (number: number, seq: number, receivedAt: number): Token => ({
  nonce: NONCE,
  number,
  ack: `$JS.ACK.queue.lane.1.${seq}.${number}.1.0`,
  consumer: "lane",
  seq,
  receivedAt,
  until: 0,
})

/** A token as text. */
const textOf = ({ nonce, number, receivedAt, ack }: Token): string =>
  `${nonce}.${number}.${receivedAt.toString(36)}.${ack.slice("$JS.ACK.".length)}`

test("a task that is delivered anew has ended its earlier delivery here, however late that one was read", () => {
  const tracker = new DeliveryTracker(NONCE, LEASE)
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
  // Nothing of it is kept: what is read of its token is a new object.
  expect(tracker.read(textOf(first))).not.toBe(first)
  expect(tracker.read(textOf(first))?.until).toBe(0)
  expect(tracker.read(textOf(other))).toBe(other)
})

test("however many deliveries there are, in whatever order they end, those that are left are extended, and no others", () => {
  const tracker = new DeliveryTracker(NONCE, LEASE)
  const now = Date.now()
  const all = Array.from({ length: 1_000 }, (_, at) => arrived(at + 1, at + 1, now))
  for (const token of all) tracker.add(token, false)
  const isLeft = ({ number }: Token): boolean => number % 300 === 7
  for (const token of all.toReversed()) if (!isLeft(token)) tracker.end(token)
  const later = arrived(1_001, 1_001, now)
  tracker.add(later, false)
  for (const { number } of [...all, later]) tracker.extendOwn(number, now + LEASE)
  const extended = [...all, later].filter(({ until }) => until === now + 2 * LEASE)
  expect(extended.map(({ number }) => number)).toEqual([7, 307, 607, 907, 1_001])
})

test("a consumer that does not answer costs no delivery of another one its lease", () => {
  const now = Date.now()
  const [silent, deleted, other] = [
    arrived(1, 1, now),
    { ...arrived(2, 2, now), consumer: "deleted" },
    arrived(3, 3, now),
  ]
  const answers = { ...other, consumer: "answers" }
  const extended: Array<Token> = []
  const unanswered = new Map([
    ["lane", new TransportError("unavailable", "no answer", { outcome: "unknown" })],
    ["deleted", new TransportError("unavailable", "there is no such consumer")],
  ])
  const keep = (tokens: ReadonlyArray<Token | undefined>) =>
    keptOf(tokens, unanswered, true, (token) => extended.push(token))
  expect(() => keep([silent, deleted, answers])).toThrow("no answer")
  expect(extended).toEqual([answers])
  expect(keep([deleted, undefined, answers])).toEqual([false, false, true])
})
