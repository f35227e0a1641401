import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, onTestFinished, test, vi } from "vitest"
import { decodeBody, encodeValue } from "../../../../runtime/protocol/body.ts"
import { compress } from "../../../../runtime/protocol/codec/compression.ts"
import { parseTask } from "../../../../runtime/protocol/headers.ts"
import type { Headers, Message } from "../../../../runtime/protocol/message.ts"
import { toProtocol2 } from "../../../../runtime/protocol/protocol1.ts"
import type { JobDelivery } from "../../../../runtime/transport/job-store/transport.ts"
import { parseDelivery } from "../../../../runtime/worker/parsed-delivery.ts"

const message = (value: unknown, headers: Headers = {}, contentType = "application/json"): Message => ({
  headers,
  properties: { content_type: contentType, content_encoding: "utf-8", correlation_id: "1" },
  body: Result.getOrThrow(encodeValue(value, contentType)),
})

const task = (fields: Readonly<Record<string, unknown>>) =>
  Result.getOrThrow(parseTask(Result.getOrThrow(toProtocol2(message({ task: "t", id: "1", ...fields })))))

const delivery = (sent: Message): JobDelivery => ({
  token: "token",
  fence: "1",
  queue: "default",
  level: 4,
  fresh: true,
  sequence: 1,
  deliveries: 1,
  message: sent,
})

describe("protocol 1 to 2", () => {
  test("taskset wins over group", () => {
    expect(task({ taskset: "a", group: "b" }).group).toBe("a")
    expect(task({ taskset: null, group: "b" }).group).toBe("b")
  })

  test("times without a zone are UTC, whatever the message says about it and wherever its worker is", () => {
    const zone = vi.spyOn(Date.prototype, "getTimezoneOffset").mockReturnValue(-330)
    onTestFinished(() => zone.mockRestore())
    const eta = "2031-03-24T04:26:05.716551"
    const due = Date.UTC(2031, 2, 24, 4, 26, 5, 716)
    for (const utc of [undefined, true, null, false]) {
      const sent = message({ task: "t", id: "1", eta, expires: eta, utc })
      expect(Result.getOrThrow(parseDelivery(delivery(sent))).task).toMatchObject({ eta: due, expires: due })
    }
    expect(task({ eta: `${eta}+05:30`, utc: false }).eta).toBe(due - 5.5 * 3_600_000)
    const { headers } = Result.getOrThrow(toProtocol2(message({ task: "t", id: "1", eta })))
    expect(headers.eta).toBe("2031-03-24T04:26:05.716551+00:00")
  })

  test("what is wrong in its fields is named as in protocol 2", () => {
    for (const [fields, field] of [
      [{ id: null }, "id"],
      [{ eta: "soon" }, "eta"],
      [{ timelimit: [1] }, "timelimit"],
      [{ retries: "1" }, "retries"],
    ] as const) {
      const converted = Result.getOrThrow(toProtocol2(message({ task: "t", id: "1", ...fields })))
      expect(Result.flip(parseTask(converted))).toMatchObject({ success: { field } })
    }
  })

  test.each([
    ["args that are no list", { args: {} }],
    ["kwargs that are no map", { kwargs: [] }],
    ["a callback that is none", { callbacks: [1] }],
  ])("%s: undecodable", (_name, fields) => {
    expect(Result.flip(toProtocol2(message({ task: "t", id: "1", ...fields })))).toMatchObject({
      success: { _tag: "UndecodableBody", reason: "malformed" },
    })
  })

  test.each([[{ id: "1" }], [["bravo", 215]], [7], [null], ["text"], [{ task: 7 }]])("%j is no task", (value) => {
    expect(Result.flip(toProtocol2(message(value)))).toMatchObject({ success: { _tag: "UnknownMessage" } })
  })

  test.each(["application/json", "application/x-msgpack", "application/x-yaml"])(
    "%s, also compressed",
    (contentType) => {
      const plain = message({ task: "t", id: "1", args: [1], kwargs: { a: 2 } }, {}, contentType)
      const body = Result.getOrThrow(compress(plain.body, "application/x-gzip"))
      const packed: Message = { ...plain, headers: { compression: "application/x-gzip", "x-a": 1 }, body }
      for (const each of [plain, packed]) {
        const converted = Result.getOrThrow(toProtocol2(each))
        expect(Result.getOrThrow(decodeBody(converted))).toMatchObject({ args: [1], kwargs: { a: 2 } })
        expect(converted.headers).not.toHaveProperty("compression")
      }
      expect(Result.getOrThrow(toProtocol2(packed)).headers["x-a"]).toBe(1)
    },
  )

  test("headers of the hybrid form override its body, callbacks stay, the chain goes", () => {
    const hybrid = message(
      {
        task: "old",
        id: "0",
        args: [1],
        retries: 0,
        callbacks: [{ task: "c" }],
        chain: [{ task: "d" }],
        eta: "2026-01-01",
      },
      { task: "new", id: "1", retries: 1, eta: null, meth: "m" },
    )
    const converted = Result.getOrThrow(toProtocol2(hybrid))
    expect(Result.getOrThrow(parseTask(converted))).toMatchObject({
      task: "new",
      id: "1",
      retries: 1,
      meth: "m",
      eta: Date.UTC(2026, 0, 1),
    })
    expect(Result.getOrThrow(decodeBody(converted)).embed).toMatchObject({ callbacks: [{ task: "c" }], chain: null })
  })

  test("a body of args and kwargs below the headers of protocol 2 is a task", () => {
    const converted = Result.getOrThrow(
      toProtocol2(message({ args: [1], kwargs: { a: 2 } }, { task: "new", id: "1", lang: "py" })),
    )
    expect(Result.getOrThrow(parseTask(converted))).toMatchObject({ task: "new", id: "1" })
    expect(Result.getOrThrow(decodeBody(converted))).toMatchObject({ args: [1], kwargs: { a: 2 } })
  })

  test("what the body of the hybrid form says beside its arguments is kept", () => {
    const said = {
      ...{ lang: "py", shadow: "nightly", root_id: "r", parent_id: "p", group: "g", meth: "m" },
      ...{ argsrepr: "(1,)", kwargsrepr: "{}", origin: "gen1@host" },
    }
    const converted = Result.getOrThrow(toProtocol2(message({ ...said, args: [1] }, { task: "t", id: "1" })))
    expect(converted.headers).toMatchObject(said)
    const overridden = toProtocol2(message({ ...said, args: [1] }, { task: "t", id: "1", shadow: "other" }))
    expect(Result.getOrThrow(overridden).headers).toMatchObject({ ...said, shadow: "other" })
  })

  test("a message of protocol 2 is passed on unopened, even one that cannot be opened", () => {
    const bodies = ["[[],{},null]", "[broken", "{broken", "", '  {"no":"args"}']
    for (const text of bodies) {
      const body = new TextEncoder().encode(text)
      for (const contentType of ["application/json", "application/x-msgpack", "image/png"]) {
        const sent: Message = {
          headers: { task: "t", id: "1" },
          properties: { content_type: contentType, content_encoding: "" },
          body,
        }
        expect(Result.getOrThrow(toProtocol2(sent))).toBe(sent)
      }
    }
  })

  test("random bytes never throw", () => {
    const types = fc.constantFrom("application/json", "application/x-msgpack", "application/x-yaml", "application/data")
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          fc.json().map((text) => new TextEncoder().encode(text)),
        ),
        types,
        (body, type) => {
          void toProtocol2({ headers: {}, properties: { content_type: type, content_encoding: "" }, body })
        },
      ),
    )
  })
})
