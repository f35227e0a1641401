import { expect, test } from "vitest"
import { readLongs } from "../../../../plugins/amqp/longs.ts"

const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)])
const sized = (value: Buffer): Buffer => {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(value.length)
  return Buffer.concat([length, value])
}
const item = (letter: string, value: Buffer): Buffer => Buffer.concat([Buffer.from(letter), value])
const eight = Buffer.from([0, 0, 1, 0, 0x4c, 0x4c, 0, 0])

/** A frame with the properties of a message that Celery has sent, whose large integers have this letter. */
const frame = (letter: string): Buffer => {
  const list = Buffer.concat([item(letter, eight), item("V", Buffer.alloc(0)), item("I", Buffer.from("LLLL"))])
  const table = Buffer.concat([text("L"), item(letter, eight), text("L"), item("t", Buffer.from([1]))])
  const headers = Buffer.concat([
    ...[text("LL"), item("S", sized(Buffer.from("LL")))],
    ...[text("list"), item("A", sized(list))],
    ...[text("table"), item("F", sized(table))],
    ...[text("at"), item(letter, eight)],
    ...[text("ratio"), item("d", eight)],
  ])
  const flags = Buffer.from([0xf0, 0])
  const properties = [flags, text("application/json"), text("utf-8"), sized(headers), Buffer.from([2])]
  const payload = Buffer.concat([Buffer.from([0, 60, 0, 0]), Buffer.alloc(8), ...properties])
  return Buffer.concat([Buffer.from([2, 0, 1]), sized(payload), Buffer.from([0xce])])
}

test("integers of 64 bits get the type that the library knows, wherever they are", () => {
  const bytes = frame("L")
  readLongs(bytes)
  expect(bytes).toEqual(frame("l"))
})

test.each([
  ["a part of a frame", frame("L").subarray(0, -8)],
  ["the beginning of one", frame("L").subarray(0, 5)],
  ["a frame with a body", Buffer.concat([Buffer.from([3]), frame("L").subarray(1)])],
])("%s stays as it is", (_, bytes) => {
  const before = Buffer.from(bytes)
  readLongs(bytes)
  expect(bytes).toEqual(before)
})
