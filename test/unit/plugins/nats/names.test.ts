/** Parts of the nats transport that need no server: names, URLs, versions, fences. */
import { Result } from "effect"
import fc from "fast-check"
import { expect, test } from "vitest"
import { readConfig } from "../../../../plugins/nats/connection/config.ts"
import { checkVersion } from "../../../../plugins/nats/connection/connect.ts"
import { DeliveryFactory, numberIn, readToken } from "../../../../plugins/nats/queue/delivery.ts"
import { Bands, escapeToken, Names, unescapeToken } from "../../../../plugins/nats/streams/names.ts"
import { encodeEnvelope } from "../../../../runtime/protocol/envelope.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"

const names = new Names("board")
const text = fc.string({ unit: "grapheme", maxLength: 60 }).filter((each) => each.isWellFormed())

const reasonOf = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    if (error instanceof TransportError) return error.reason
    throw error
  }
  return "none"
}

test("any text is one token of a subject, and comes back from it", () => {
  fc.assert(
    fc.property(text, (each) => {
      const token = escapeToken(each)
      expect(token).toMatch(/^[A-Za-z0-9_%-]+$/)
      expect(unescapeToken(token)).toBe(each)
    }),
  )
})

test("different texts have different tokens, also where one is the escaped other", () => {
  fc.assert(
    fc.property(text, text, (one, other) => {
      expect(escapeToken(one) === escapeToken(other)).toBe(one === other)
      expect(escapeToken(escapeToken(one)) === escapeToken(one)).toBe(/^[A-Za-z0-9_-]+$/.test(one))
    }),
  )
})

test("a task's subject tells its queue, band and id again", () => {
  fc.assert(
    fc.property(text, text, fc.boolean(), (queue, id, scheduled) => {
      const address = names.parseTask(names.task(scheduled ? "s" : "j", queue, 7, id, { task: queue, method: id }))
      expect(address).toEqual({ scheduled, queue, band: 7, id })
    }),
  )
})

test("a key of the store comes back from its subject, and lies under each of its prefixes", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom("a", "/", ":", ".", "*", ">", "é", " "), minLength: 1 }), (key) => {
      const subject = names.value(key)
      expect(names.key(subject)).toBe(key)
      for (let end = 0; end <= key.length; end++) {
        const prefix = key.slice(0, end)
        const filter = names.values(prefix)
        expect(subject.startsWith(filter.slice(0, -1))).toBe(true)
        expect(subject.length).toBeGreaterThan(filter.length - 1)
        expect(`board.ev${subject.slice("board".length)}`.startsWith(names.eventsOf(prefix))).toBe(true)
      }
    }),
  )
})

test("no changes of other keys are told under a prefix", () => {
  const key = fc.string({ unit: fc.constantFrom("a", "/", ":", ".", "é", "%", " "), minLength: 1, maxLength: 12 })
  fc.assert(
    fc.property(key, key, (one, prefix) => {
      const event = `board.ev${names.value(one).slice("board".length)}`
      expect(event.startsWith(names.eventsOf(prefix))).toBe(one.startsWith(prefix))
    }),
  )
})

test("consumers of different queues have different names that the server accepts", () => {
  const queues = ["a", "A", "a.b", "a b", "*", "é", "長".repeat(85), `${"長".repeat(84)}x`, "%41", ""]
  const consumers = queues.map((queue) => names.consumer(queue, 4))
  expect(new Set(consumers).size).toBe(queues.length)
  for (const each of consumers) expect(each).toMatch(/^[A-Za-z0-9_%=-]{1,255}$/)
})

test.each([
  [3, [10, 7, 4, 0]],
  [1, [10, 0]],
  [2, [10, 5, 0]],
  [10, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]],
])("%i bands begin at the levels %j", (count, levels) => {
  const bands = new Bands(count)
  expect(bands.levels).toEqual(levels)
  for (let level = 0; level <= 10; level++) {
    expect(bands.of(level)).toBe(Math.max(...levels.filter((low) => low <= level)))
    expect(bands.levels[bands.place(level)]).toBe(bands.of(level))
  }
})

const lane = {
  queue: "q",
  band: 4,
  consumer: "q-4",
  next: "",
  acks: "$JS.ACK.board_queue.q-4.",
  made: true,
  leased: true,
  highest: 0,
  quiet: false,
}

test("the content of a delivery is a copy: the client reads into one buffer for many messages", () => {
  const properties = { content_type: "application/json", content_encoding: "utf-8" }
  const sent = { headers: {}, properties, body: new Uint8Array([1]) }
  const bytes = Buffer.from(Result.getOrThrow(encodeEnvelope(sent)))
  const message = Object.assign(Object.create(null), { subject: "board.j.q.4.id", data: bytes })
  const reply = "$JS.ACK.board_queue.q-4.1.1.1.1795202926817735997.0"
  const made = new DeliveryFactory(1024).create(message, reply, lane, 1)
  bytes.fill(0)
  expect(made?.delivery.content).toEqual(sent)
})

test("fences rise with the sequence, then with the count, then with time, compared as text", () => {
  const deliveryFactory = new DeliveryFactory(1024)
  const at = (seq: number, count: number, time: number): string => {
    const reply = `$JS.ACK.board_queue.q-4.${count}.${seq}.1.1795202926817735997.0`
    const message = { subject: "board.j.q.4.id", data: new Uint8Array(0) }
    return deliveryFactory.create(Object.assign(Object.create(null), message), reply, lane, time)?.delivery.fence ?? ""
  }
  const order = fc.tuple(fc.nat(2 ** 40), fc.integer({ min: 1, max: 10 ** 6 }), fc.integer({ min: 1e12, max: 4e12 }))
  fc.assert(
    fc.property(order, order, (one, other) => {
      const [first, second] = [one, other].map(([seq, count, time]) => at(seq + 1, count, time))
      const differs = [0, 1, 2].find((index) => one[index] !== other[index])
      if (differs === undefined || first === undefined || second === undefined) return
      expect(first < second).toBe(Number(one[differs]) < Number(other[differs]))
    }),
  )
})

test("tokens are read in both forms of acknowledgement subjects, and nothing else is a token", () => {
  const deliveryFactory = new DeliveryFactory(1024)
  const lane = {
    queue: "q",
    band: 4,
    consumer: "q-4",
    next: "",
    acks: "$JS.ACK.b_queue.q-4.",
    made: true,
    leased: true,
    highest: 0,
    quiet: false,
  }
  const replies = [
    "$JS.ACK.b_queue.q-4.2.77.5.1795202926817735997.0",
    "$JS.ACK._.e0MRL1CI.b_queue.q-4.2.77.5.1795202926817735997.0",
    "$JS.ACK._.e0MRL1CI.b_queue.q-4.2.77.5.1795202926817735997.0.random",
  ]
  for (const reply of replies) {
    const message = Object.assign(Object.create(null), { subject: "b.j.q.4.id%20x", data: new Uint8Array(0) })
    const arrived = deliveryFactory.create(message, reply, lane, 1_700_000_000_000)
    expect(arrived?.token).toMatchObject({ consumer: "q-4", seq: 77, ack: reply })
    expect(readToken(arrived?.delivery.token ?? "")).toEqual(arrived?.token)
    expect(numberIn(arrived?.delivery.token ?? "", deliveryFactory.nonce)).toBe(arrived?.token.number)
    expect(numberIn(arrived?.delivery.token ?? "", "another")).toBeUndefined()
  }
  for (const other of ["", "no token", "9.9.9", `${replies[0]}`]) expect(readToken(other)).toBeUndefined()
})

test("a URL names servers, credentials and options", () => {
  const { servers, authenticators, tls, ...board } = readConfig(
    new URL(
      "nats://user:p%40ss@one,two:5222/?servers=three:1,four&replicas=3&storage=memory&bands=10&allowOldServer&ns=x",
    ),
  )
  expect(servers).toEqual(["one:5222", "two:5222", "three:1", "four:4222"])
  expect(board).toEqual({ replicas: 3, storage: "memory", bands: 10, allowOldServer: true })
  expect(authenticators.map((each) => (typeof each === "function" ? each() : undefined))).toEqual([
    { user: "user", pass: "p@ss" },
  ])
  expect(tls).toBeUndefined()
  expect(readConfig(new URL("nats://secret@one")).authenticators.map((each) => each())).toEqual([
    { auth_token: "secret" },
  ])
  expect(readConfig(new URL("tls://[::1]:5000")).servers).toEqual(["[::1]:5000"])
  expect(readConfig(new URL("tls://one")).tls).toEqual({})
})

test.each([
  "nats://one?replica=3",
  "nats://one?replicas=0",
  "nats://one?replicas=x",
  "nats://one?bands=11",
  "nats://one?maxBacklog=7",
  "nats://one?maxBacklog=1GiB",
  "nats://one?maxBacklog=7",
  "nats://one?maxBacklog=1GiB",
  "nats://one?storage=tape",
  "nats://one?creds=/does/not/exist",
  "nats://one?tlsCert=/does/not/exist",
  "nats://one?servers=a%20b",
  "nats://one?domain=a.b",
  "nats://one?allowOldServer=perhaps",
])("%s is refused as invalid", (url) => {
  expect(reasonOf(() => readConfig(new URL(url)))).toBe("invalid")
})

test.each([
  ["2.15.0", false, true],
  ["2.15.1-beta", false, true],
  ["3.0.0", false, true],
  ["2.14.5", false, true],
  ["2.14.4", false, false],
  ["2.14.4", true, true],
  ["2.13.9", false, false],
  ["2.13.9", true, true],
  ["2.12.15", false, true],
  ["2.12.14", false, false],
  ["2.12.0", true, true],
  ["2.11.99", true, false],
  ["2.9.10", true, false],
  ["", true, false],
])("version %s (old ones allowed: %s) is accepted: %s", (version, allowOld, accepted) => {
  expect(reasonOf(() => checkVersion(version, allowOld))).toBe(accepted ? "none" : "unsupported")
})
