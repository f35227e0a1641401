import { Result } from "effect"
import { describe, expect, test } from "vitest"
import { isAsked, parseControl, parseReply } from "../../../../runtime/protocol/celery-control.ts"
import type { Message } from "../../../../runtime/protocol/message.ts"

const message = (body: string): Message => ({
  headers: {},
  properties: { content_type: "application/json", content_encoding: "utf-8" },
  body: new TextEncoder().encode(body),
})

test.each(["", "7", "[]", "{}", '{"method":7}'])("%s is no command", (body) =>
  expect(Result.flip(parseControl(message(body)))).toMatchObject({ success: { _tag: "InvalidControl" } }),
)

test("a command of another library may lack what it does not need", () =>
  expect(Result.getOrThrow(parseControl(message('{"method":"ping","destination":"w1","reply_to":7}')))).toEqual({
    method: "ping",
    arguments: {},
    destination: ["w1"],
    pattern: null,
    matcher: null,
    reply: null,
    clock: 0,
  }))

test("an answer is a map", () => expect(Result.isFailure(parseReply(message("[]")))).toBe(true))

describe("a node is asked", () => {
  const all = { destination: null, pattern: null, matcher: null } as const
  test.each([
    [all, true],
    [{ ...all, destination: ["w2", "w1@lab"] }, true],
    [{ ...all, destination: ["w1"] }, false],
    [{ ...all, destination: [], pattern: "w1@lab", matcher: "glob" as const }, false],
    [{ ...all, pattern: "w?@*" }, true],
    [{ ...all, pattern: "w?@*", matcher: "glob" as const }, true],
    [{ ...all, pattern: "w[!1]@*", matcher: "glob" as const }, false],
    [{ ...all, pattern: "w1.lab", matcher: "glob" as const }, false],
    [{ ...all, pattern: "w\\d", matcher: "pcre" as const }, true],
    [{ ...all, pattern: "lab", matcher: "pcre" as const }, false],
    [{ ...all, pattern: "(", matcher: "pcre" as const }, false],
    [{ ...all, pattern: "(a*)*(a*)*(a*)*(a*)*b", matcher: "pcre" as const }, false],
  ])("%o: %s", (request, wanted) => expect(isAsked(request, "w1@lab")).toBe(wanted))
})
