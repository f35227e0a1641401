import { Result } from "effect"
import { expect, test } from "vitest"
import { decodeBody, NO_EMBED } from "../../../../runtime/protocol/body.ts"
import { composeMessage } from "../../../../runtime/protocol/compose.ts"
import { newTask, parseTask, postingOf } from "../../../../runtime/protocol/headers.ts"

const task = newTask({ task: "text", meth: "count", id: "1", lang: "ts" })
const body = { args: [], kwargs: { path: "/x" }, embed: NO_EMBED }

test("headers, properties and body belong together", () => {
  const message = Result.getOrThrow(composeMessage(task, body, { priority: 9, replyTo: "r" }))
  expect(message.properties).toEqual({
    content_type: "application/json",
    content_encoding: "utf-8",
    correlation_id: "1",
    priority: 9,
    reply_to: "r",
  })
  expect(Result.getOrThrow(parseTask(message))).toEqual(task)
  expect(Result.getOrThrow(decodeBody(message))).toEqual(body)
  expect(Result.getOrThrow(postingOf(message, "q")).level).toBe(9)
})

test("what was not said is not there", () => {
  const { properties } = Result.getOrThrow(composeMessage(task, body))
  expect(Object.keys(properties)).toEqual(["content_type", "content_encoding", "correlation_id"])
})

test("the compression header says what was done to the body, whatever the task said", () => {
  const packed = Result.getOrThrow(
    composeMessage(task, body, { compression: "application/zstd", contentType: "application/x-msgpack" }),
  )
  expect(packed.headers.compression).toBe("application/zstd")
  expect(packed.properties).toMatchObject({ content_type: "application/x-msgpack", content_encoding: "binary" })
  expect(Result.getOrThrow(decodeBody(packed))).toEqual(body)
  const plain = Result.getOrThrow(composeMessage({ ...task, compression: "application/zstd" }, body))
  expect(plain.headers).not.toHaveProperty("compression")
})

test("arguments that cannot be written fail as a value", () => {
  const outcome = composeMessage(task, { ...body, kwargs: { f: () => 1 } })
  expect(Result.flip(outcome)).toMatchObject({ success: { _tag: "UnserialisableBody", reason: "unserialisable" } })
})
