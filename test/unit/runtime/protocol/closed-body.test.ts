/** Routing, expiring, listing and dead-lettering a task read its headers and properties, never its body. */
import { Result } from "effect"
import { expect, test } from "vitest"
import { decodeBody } from "../../../../runtime/protocol/body.ts"
import { parseTask, postingOfTask } from "../../../../runtime/protocol/headers.ts"
import { type Message, publishKey } from "../../../../runtime/protocol/message.ts"
import { resolveName } from "../../../../runtime/protocol/name.ts"
import { toProtocol2 } from "../../../../runtime/protocol/protocol1.ts"
import { recordOfPosting, recordToJson, step } from "../../../../runtime/protocol/record.ts"
import { isExpired } from "../../../../runtime/protocol/time.ts"

const headers = {
  lang: "py",
  task: "lab.add",
  id: "1",
  eta: "2026-11-20T00:00:00+00:00",
  expires: "2026-11-21T00:00:00+00:00",
  stamped_headers: ["tenant"],
  stamps: { tenant: "a" },
}
const expires = Date.UTC(2026, 10, 21)

const properties = { content_type: "application/x-python-serialize", content_encoding: "binary", priority: 7 }

/** A body that fails the test when it is read. */
const closed: Message = {
  headers,
  properties,
  get body(): Uint8Array {
    throw new Error("the body was read")
  },
}

/** Bodies that cannot be decoded, one for each reason. */
const broken: ReadonlyArray<readonly [string, Message]> = [
  ["pickle", { headers, properties, body: new Uint8Array([0x80, 4]) }],
  [
    "cut JSON",
    { headers, properties: { ...properties, content_type: "application/json" }, body: new Uint8Array([0x5b]) },
  ],
  [
    "unknown compression",
    { properties, headers: { ...headers, compression: "application/x-lzma" }, body: new Uint8Array([1]) },
  ],
  ["unknown type", { headers, properties: { ...properties, content_type: "image/png" }, body: new Uint8Array([1]) }],
]

test.each<readonly [string, Message]>([["a body that must not be read", closed], ...broken])("%s", (name, message) => {
  const task = Result.getOrThrow(parseTask(message))
  expect(resolveName(task.task, task.meth, () => false)).toEqual({ actor: "lab", meth: "add" })
  expect(task.lang).toBe("py")
  expect([isExpired(task.expires, expires - 1), isExpired(task.expires, expires)]).toEqual([false, true])
  expect(task).toMatchObject({ expires, stamps: { tenant: "a" } })
  const posting = Result.getOrThrow(postingOfTask(task, message, "q"))
  expect(posting).toMatchObject({ level: 7, queue: "q", expires })
  expect(publishKey(posting)).toBe("1/1/0")
  const dead = step(Result.getOrThrow(recordOfPosting(posting, 0)), { at: 1, state: "failed", reason: "malformed" })
  expect(dead).toMatchObject({ id: "1", name: "lab.add", state: "failed" })
  expect(recordToJson(dead).length).toBeGreaterThan(0)
  if (name.startsWith("a body")) return
  expect(Result.isFailure(decodeBody(message))).toBe(true)
  expect(Result.getOrThrow(toProtocol2(message))).toBe(message)
})
