import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { decodeEvents, encodeEvents, type KnownEvent } from "../../../../../runtime/protocol/celery/event.ts"

const started: KnownEvent = {
  type: "task-started",
  uuid: "1",
  hostname: "w1@lab",
  timestamp: 1795196680.5,
  utcoffset: 0,
  pid: 7,
  clock: 3,
}

describe("events", () => {
  test("one is a map, several are a list", () => {
    expect(new TextDecoder().decode(Result.getOrThrow(encodeEvents(started)))[0]).toBe("{")
    expect(Result.getOrThrow(decodeEvents(Result.getOrThrow(encodeEvents(started))))).toEqual([started])
    expect(Result.getOrThrow(decodeEvents(Result.getOrThrow(encodeEvents([started, started]))))).toEqual([
      started,
      started,
    ])
    expect(Result.getOrThrow(decodeEvents(Result.getOrThrow(encodeEvents([]))))).toEqual([])
  })

  test.each(["7", '"task-sent"', "[7]", '{"type":7}', '[{"type":"a"},{}]', "nonsense", ""])(
    "%s is no event",
    (text) => {
      expect(Result.flip(decodeEvents(new TextEncoder().encode(text)))).toMatchObject({
        success: { _tag: "InvalidEvent" },
      })
    },
  )

  test("random bytes never throw", () => {
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void decodeEvents(bytes)))
  })
})
