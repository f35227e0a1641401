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

test("a list of nodes stays one although it names none", () =>
  expect(isAsked(Result.getOrThrow(parseControl(message('{"method":"ping","destination":[7]}'))), "w1")).toBe(false))

test("how a pattern is meant may be unknown", () =>
  expect(Result.getOrThrow(parseControl(message('{"method":"ping","pattern":"w","matcher":"regex"}')))).toMatchObject({
    pattern: "w",
    matcher: "regex",
  }))

test("an answer is a map", () => expect(Result.isFailure(parseReply(message("[]")))).toBe(true))

describe("a node is asked", () => {
  const all = { destination: null, pattern: null, matcher: null } as const
  test.each([
    [all, true],
    [{ ...all, destination: ["w2", "w1@lab"] }, true],
    [{ ...all, destination: ["w1"] }, false],
    // An empty list names no nodes, as in kombu.
    [{ ...all, destination: [] }, true],
    [{ ...all, destination: [], pattern: "w2@lab", matcher: "glob" }, false],
    [{ ...all, destination: ["w2"], pattern: "w1@lab", matcher: "glob" }, false],
    [{ ...all, pattern: "w?@*" }, true],
    [{ ...all, pattern: "w?@*", matcher: "glob" as const }, true],
    [{ ...all, pattern: "w[!1]@*", matcher: "glob" as const }, false],
    [{ ...all, pattern: "w1.lab", matcher: "glob" as const }, false],
    [{ ...all, pattern: "w[0-9]@l[!b-z]b", matcher: "glob" as const }, true],
    [{ ...all, pattern: "a".repeat(257), matcher: "glob" as const }, false],
    [{ ...all, pattern: "w\\d", matcher: "pcre" as const }, "unsupported"],
    [{ ...all, pattern: "w1@lab", matcher: "pcre" as const }, "unsupported"],
    [{ ...all, pattern: "w1@lab", matcher: "regex" }, "unsupported"],
  ])("%o: %s", (request, wanted) => expect(isAsked(request, "w1@lab")).toBe(wanted))
})

test.each(["(?:(?:.{0,9}){0,9}){0,9}!", "(?:(?:(?:.{1,9}){1,9}){1,9}){1,9}!", "(?:(?:\\w|\\w\\w){1,40}){1,40}!"])(
  "the expression %s of a stranger is not tried",
  (pattern) => {
    const began = performance.now()
    expect(isAsked({ destination: null, pattern, matcher: "pcre" }, "worker1@host-name-o")).toBe("unsupported")
    expect(performance.now() - began).toBeLessThan(100)
  },
)
