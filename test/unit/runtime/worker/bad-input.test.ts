/** Invalid messages: they end among the dead letters with their reason, and the worker lives on. */
import { actor, type Service } from "callboard"
import { describe, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { encodeBody, NO_EMBED } from "../../../../runtime/protocol/body.ts"
import type { Headers, Message } from "../../../../runtime/protocol/message.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"

const seen: Array<unknown> = []
const echo = actor("echo", {
  methods: {
    run: (input: unknown) => {
      seen.push(input)
      return "ran"
    },
    bytes: {
      accepts: ["application/x-protobuf"],
      run: (input: unknown) => (input instanceof Uint8Array ? [...input] : "no bytes"),
    },
  },
})

const text = (value: string) => new TextEncoder().encode(value)

const message = (
  headers: Headers,
  body: Uint8Array,
  type = "application/json",
  extra: Partial<Message["properties"]> = {},
): Message => ({
  headers,
  properties: { content_type: type, content_encoding: "utf-8", ...extra },
  body,
})

/** Puts a message into the default queue as a foreign client would, without Callboard's checks. */
const post = async (service: Service, id: string, wire: Message): Promise<void> => {
  const [receipt] = await service.client.connection.jobs.publish([
    { id, run: 1, retries: 0, queue: "default", level: 4, message: wire },
  ])
  expect(receipt).toEqual({ status: "stored" })
}

/** A body with follow-ups. */
const followed = (embed: object): Uint8Array => text(JSON.stringify([[], {}, embed]))

const BODY = '[[],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'

describe("a message that is no good", () => {
  test.each<[string, (id: string) => Message, string]>([
    ["without an id", () => message({ task: "echo" }, text(BODY)), "invalid-task"],
    ["without task and arguments", () => message({}, text("{}")), "invalid-task"],
    [
      "with a time limit of one item",
      (id) => message({ task: "echo", id, timelimit: [1] }, text(BODY)),
      "invalid-task",
    ],
    ["with an eta that is no time", (id) => message({ task: "echo", id, eta: "soon" }, text(BODY)), "invalid-task"],
    ["with limits below 0", (id) => message({ task: "echo", id, timelimit: [-5, "x"] }, text(BODY)), "invalid-task"],
    [
      "with a limit that never comes",
      (id) => message({ task: "echo", id, timelimit: [1e308, null] }, text(BODY)),
      "invalid-task",
    ],
    ...Object.entries({
      "a retry policy that is none": { retry: "often" },
      "retries without end": { retry: { max: 1e9 } },
      "a wait for longer than anybody lives": { retry: { max: 1, intervalsMs: [1e308] } },
      "a repetition without end": { repeat: { times: 1e9, done: 0, intervalsMs: [0] } },
      "a run that cannot be counted on from": { run: 2 ** 53 - 1 },
      "no run left to repeat in": { run: 2 ** 31, repeat: { times: 1, done: 0, intervalsMs: [0] } },
      "a time to live without end": { resultTtlMs: 1e308 },
    }).map(([what, callboard]): [string, (id: string) => Message, string] => [
      `with ${what}`,
      (id) => message({ task: "echo", id, callboard }, text(BODY)),
      "invalid-task",
    ]),
    [
      "with a pickle body",
      (id) => message({ task: "echo", id }, text("cos\nsystem\n."), "application/x-python-serialize"),
      "refused-content-type",
    ],
    [
      "with a body of an unknown type",
      (id) => message({ task: "echo", id }, text("?"), "application/x-thrift"),
      "unsupported-content-type",
    ],
    ["with JSON that is cut", (id) => message({ task: "echo", id }, text("[[1,")), "malformed"],
    ["with two items", (id) => message({ task: "echo", id }, text("[[],{}]")), "malformed"],
    ["with kwargs that are a list", (id) => message({ task: "echo", id }, text("[[],[],{}]")), "malformed"],
    [
      "nested too deep",
      (id) => message({ task: "echo", id }, text(`[[${"[".repeat(5_000)}${"]".repeat(5_000)}],{},null]`)),
      "too-deep",
    ],
    [
      "larger than a body may be",
      (id) => message({ task: "echo", id }, text(`[["${"x".repeat(2 * 1024 * 1024)}"],{},null]`)),
      "too-large",
    ],
    [
      "that is part of a chord",
      (id) => message({ task: "echo", id }, text('[[],{},{"chord":{"task":"echo"}}]')),
      "unsupported",
    ],
  ])("%s becomes a dead letter that says why, and the next task runs", async (_name, make, reason) => {
    const service = await start([echo])
    const id = generateId()
    await post(service, id, make(id))
    const neighbour = await service.client.submit("echo")
    expect(await neighbour.result({ timeout: 60 })).toBe("ran")
    const dead = await eventually(async () => (await service.client.jobs({ dead: true })).jobs[0], {
      message: "the dead letter",
    })
    expect(dead).toMatchObject({ state: "failed", dead: reason })
    expect(dead.error?.message).not.toBe("")
    // Only for a first delivery it is certain that nothing else is stored under its id.
    const { id: said, callboard } = make(id).headers
    if (said !== undefined && !JSON.stringify(callboard ?? {}).includes('"run":')) expect(dead.id).toBe(id)
  })

  const signature = { task: "echo", immutable: true }
  test.each<[string, (id: string) => object, string]>([
    ["is empty", () => ({ callbacks: [{}] }), "callbacks[0].task"],
    ["is nothing", () => ({ callbacks: [null] }), "callbacks[0]"],
    ["has no name", () => ({ errbacks: [{ task: "" }] }), "errbacks[0].task"],
    [
      "has the id of its own job",
      (id) => ({ callbacks: [{ ...signature, options: { task_id: id } }] }),
      "callbacks[0]: options.task_id",
    ],
    [
      "has the id of its own job, further down the chain",
      (id) => ({ chain: [{ ...signature, options: { task_id: id } }, signature] }),
      "chain[0]: options.task_id",
    ],
    [
      "has the id of its neighbour",
      () => ({
        callbacks: [signature, { ...signature, options: { task_id: "one" } }],
        chain: [{ ...signature, options: { task_id: "one" } }],
      }),
      "chain[0]: options.task_id",
    ],
    ...Object.entries({
      task_id: "x".repeat(300),
      root_id: "x".repeat(300),
      queue: "no queue",
      time_limit: -5,
      soft_time_limit: 1e308,
      countdown: 1e308,
      expires: 1e308,
      eta: "yesterday",
      group_index: -1,
    }).map(([option, value]): [string, () => object, string] => [
      `has ${option} ${String(value).slice(0, 10)}`,
      () => ({ errbacks: [{ ...signature, options: { [option]: value } }] }),
      `options.${option}`,
    ]),
  ])("with a follow-up that %s never runs: it is a dead letter that names the field", async (_name, embed, field) => {
    const service = await start([echo])
    const id = generateId()
    seen.length = 0
    await post(service, id, message({ task: "echo", id }, followed(embed(id))))
    const neighbour = await service.client.submit("echo", { input: "neighbour" })
    expect(await neighbour.result({ timeout: 60 })).toBe("ran")
    expect(await service.client.job(id).find()).toMatchObject({
      state: "failed",
      dead: expect.stringMatching(/^(unsupported|malformed)$/),
      error: { message: expect.stringContaining(field) },
    })
    expect(seen).toEqual(["neighbour"])
  })

  test("of another type reaches a method that accepts it, as bytes", async () => {
    const service = await start([echo])
    const id = generateId()
    await post(service, id, message({ task: "echo.bytes", id }, new Uint8Array([0, 255, 1]), "application/x-protobuf"))
    expect(await service.client.job(id).result({ timeout: 60 })).toEqual([0, 255, 1])
  })

  test("with __proto__ in its arguments is a dead letter that names the key", async () => {
    const service = await start([echo])
    const id = generateId()
    seen.length = 0
    await post(service, id, message({ task: "echo", id }, text('[[],{"__proto__":{"polluted":true},"a":1},null]')))
    expect(await service.client.job(id).outcome({ timeout: 60 })).toMatchObject({
      state: "failed",
      error: { reason: "malformed", message: expect.stringContaining("the key __proto__ is refused") },
    })
    expect(seen).toEqual([])
  })

  test("of protocol 1 is read and run", async () => {
    const service = await start([echo])
    const id = generateId()
    await post(service, id, message({}, text(JSON.stringify({ task: "echo", id, args: [1], kwargs: {} }))))
    await eventually(() => seen.includes(1), { message: "the task of protocol 1 runs" })
  })
})

test("routing, expiry and lists need no body: a task whose body cannot be read is listed, expires and is cancelled", async () => {
  const service = await start([])
  const { client } = service
  const body = encodeBody({ args: [], kwargs: {}, embed: NO_EMBED })
  expect(body._tag).toBe("Success")
  const [listed, expiring] = [generateId(), generateId()]
  await post(service, listed, message({ task: "far.away", id: listed }, text("\u0000not a body")))
  const expires = Date.now() + 100
  const wire = message(
    { task: "far.away", id: expiring, expires: new Date(expires).toISOString() },
    text("\u0000not a body"),
  )
  await client.connection.jobs.publish([
    { id: expiring, run: 1, retries: 0, queue: "default", level: 4, expires, message: wire },
  ])
  expect((await client.jobs({ task: "far.away" })).jobs).toHaveLength(2)
  await eventually(async () => (await client.job(expiring).find()).state === "expired", { message: "it expires" })
  expect(await client.job(listed).cancel()).toMatchObject({ state: "cancelled" })
})
