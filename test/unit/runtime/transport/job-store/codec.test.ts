import { describe, expect, test } from "vitest"
import {
  decodeContent,
  decodeStored,
  encodeStored,
  indexOf,
  keepOf,
  toCommitRecord,
  toPosting,
} from "../../../../../runtime/transport/job-store/codec.ts"
import { TOMBSTONE_MS } from "../../../../../runtime/transport/job-store/transport.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { message, posting, record } from "./samples.ts"

const bytes = (text: string) => new TextEncoder().encode(text)

test("a record is read as it was written", () => {
  const full = record({ followUps: [posting(1, 1)], message: message(), raw: Uint8Array.of(1, 2), result: { é: "✓" } })
  expect(decodeStored(encodeStored(full))).toEqual(full)
  expect(new TextDecoder().decode(encodeStored(record()))).toMatch(/^\{"v":2,"id":"j"/)
})

test.each([
  [
    '{"v":1,"id":"j"}',
    "unsupported",
    "a stored record has version 1, but this Callboard reads version 2: install a version that reads it, or use another namespace",
  ],
  ['{"v":3,"id":"j"}', "unsupported", "version 3"],
  ['{"id":"j","state":"queued","timeline":[]}', "internal", "has no version"],
  ['{"v":2,"id":"j"}', "internal", "cannot be read"],
  ['{"v":2,nonsense', "internal", "cannot be read"],
])("what cannot be read as a record is refused with the reason: %s", (text, reason, words) => {
  expect(() => decodeStored(bytes(text))).toThrow(
    expect.objectContaining({ reason, message: expect.stringContaining(words) }),
  )
})

test("a record that is no plain JSON is refused", () => {
  expect(() => encodeStored(record({ result: 1n }))).toThrow(TransportError)
})

const HOUR = TOMBSTONE_MS

describe("keep", () => {
  test.each([
    ["one that goes on", record(), undefined],
    ["one that is kept for ever", record({ state: "failed", endedAt: 100, keepMs: -1 }), undefined],
    ["one that ended now", record({ state: "failed", endedAt: 100, keepMs: 50 }), 50 + HOUR],
    ["one that ended a while ago", record({ state: "failed", endedAt: 60, keepMs: 50 }), 10 + HOUR],
    ["one that was kept long enough", record({ state: "failed", endedAt: 10, keepMs: 50 }), HOUR],
    ["a tombstone", record({ state: "failed", endedAt: 10, keepMs: 0, tombstone: true }), HOUR],
  ])("%s", (_, of, keep) => {
    expect(keepOf(of, 100)).toBe(keep)
    expect(toCommitRecord(of, "r", 100)).toEqual({
      expect: "r",
      bytes: encodeStored(of),
      index: indexOf(of),
      ...(keep === undefined ? {} : { keep }),
    })
  })
})

describe("index", () => {
  test("names what lists look for, and nothing else", () => {
    expect(indexOf(record())).toEqual({ state: "started", queue: "q", task: "text", at: 5 })
    const full = record({ meth: "count", rootId: "r", parentId: "p", group: "g", dead: "x", tombstone: true })
    expect(indexOf(full)).toEqual({
      state: "started",
      queue: "q",
      task: "text",
      at: 5,
      method: "count",
      root: "r",
      parent: "p",
      group: "g",
      dead: true,
      hidden: true,
    })
  })

  test("the cause of a failure is that of the record", () => {
    const error = { name: "E", message: "no user 17", reason: "handler" }
    expect(indexOf(record({ error, fingerprint: "f3a91c07" })).error).toBe("f3a91c07")
  })
})

describe("posting", () => {
  test("as a driver gets it", () => {
    const sent = { ...posting(2, 1, 3), due: 200, expires: 300, message: message({ meth: "m" }, { tenant: "t" }) }
    const made = toPosting(sent, 100)
    expect(made).toMatchObject({ id: "j", key: "j/2/1/3", queue: "q", level: 4, due: 200, expires: 300 })
    expect(made.index).toEqual({
      state: "scheduled",
      queue: "q",
      task: "text",
      method: "m",
      root: "j",
      tenant: "t",
      at: 5,
    })
    expect(decodeContent(made.frame)).toEqual(sent.message)
    expect(decodeContent(sent.message)).toBe(sent.message)
  })

  test("what no driver can store is refused", () => {
    expect(() => toPosting({ ...posting(), message: message({ big: 1n }) }, 0)).toThrow(
      expect.objectContaining({ reason: "invalid" }),
    )
  })
})
