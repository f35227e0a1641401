/**
 * One rule for the values that a job takes and the values that it gives: what the codec can carry arrives as the same
 * value, in code, over HTTP, in a process of its own and in the next link of a chain; what it cannot is refused by name.
 */
import { actor } from "callboard"
import { connectHttp } from "callboard/client"
import { Result } from "effect"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { generateId } from "../../../runtime/id.ts"
import { Exact } from "../../../runtime/protocol/exact.ts"
import { exact, exactDate } from "../../../runtime/protocol/value.ts"
import { type Running, start, stopAll } from "./http/harness.ts"

const WAIT = { timeout: 60 }

class Point {
  readonly #secret = 1
  readonly x: number
  constructor(x: number) {
    this.x = x
  }
  get hidden(): number {
    return this.#secret
  }
}

class Money {
  toJSON(): unknown {
    return { amount: 12n, at: new Date(0) }
  }
}

class Closed {
  readonly #content = 1
  get content(): number {
    return this.#content
  }
}

const cyclic: { self?: unknown } = {}
cyclic.self = cyclic

const zoned = Result.getOrThrow(exactDate("2031-09-06T20:57:24.052237+02:00"))
const decimal = exact("decimal", "10.50")
const bytes = new Uint8Array([0, 1, 254, 255])

/** What is given, what arrives, and how JSON over HTTP shows it where that is not the same. */
const CARRIED: ReadonlyArray<readonly [name: string, given: unknown, arrives: unknown, shown?: unknown]> = [
  ["text", "tea", "tea"],
  ["a lone surrogate", "a\ud800b", "a\ud800b"],
  ["a large number", 2 ** 60, 2 ** 60],
  ["a very large number", 1.7e308, 1.7e308],
  ["a number that no integer is", 0.1 + 0.2, 0.1 + 0.2],
  ["NaN", Number.NaN, Number.NaN, { __type__: "float", __value__: "NaN" }],
  ["Infinity", Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, { __type__: "float", __value__: "Infinity" }],
  ["-Infinity", Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY, { __type__: "float", __value__: "-Infinity" }],
  ["a bigint", 2n ** 70n, 2n ** 70n, { __type__: "int", __value__: "1180591620717411303424" }],
  ["a negative bigint", -(2n ** 53n), -(2n ** 53n), { __type__: "int", __value__: "-9007199254740992" }],
  ["a bigint that a number can hold", 5n, 5],
  ["bytes", bytes, bytes, { __type__: "base64", __value__: "AAH+/w==" }],
  [
    "a Date",
    new Date(1_700_000_000_123),
    new Date(1_700_000_000_123),
    { __type__: "datetime", __value__: "2023-11-14T22:13:20.123000+00:00" },
  ],
  ["a datetime with its zone", zoned, zoned, { __type__: "datetime", __value__: "2031-09-06T20:57:24.052237+02:00" }],
  ["a decimal", decimal, decimal, { __type__: "decimal", __value__: "10.50" }],
  [
    "a Map",
    new Map<unknown, unknown>([
      ["a", 1n],
      [2, "b"],
    ]),
    { a: 1, 2: "b" },
  ],
  ["a Set", new Set(["a", "b"]), ["a", "b"]],
  ["an instance of a class", new Point(3), { x: 3 }],
  [
    "an instance with toJSON",
    new Money(),
    { amount: 12, at: new Date(0) },
    { amount: 12, at: { __type__: "datetime", __value__: "1970-01-01T00:00:00+00:00" } },
  ],
  ["an object without a prototype", Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
  ["undefined in a list", [undefined, 1], [null, 1]],
  // biome-ignore lint/suspicious/noSparseArray: the point of the case
  ["a list with a hole", [1, , 2], [1, null, 2]],
  ["undefined in an object", { a: undefined, b: 1 }, { b: 1 }],
  [
    "a map with two words of ours and one more",
    { __type__: "x", __value__: 1, more: 2 },
    { __type__: "x", __value__: 1, more: 2 },
  ],
  ["a value in its typed form", { __type__: "int", __value__: "5" }, 5, 5],
  ["a constructor that is data", { constructor: { name: "Ferrari" } }, { constructor: { name: "Ferrari" } }],
  ["what lies deep", { a: [{ b: [{ c: 3n ** 40n }] }] }, { a: [{ b: [{ c: 3n ** 40n }] }] }, expect.anything()],
  ["large numbers beside a bigint", [2 ** 60, 2n ** 60n], [2 ** 60, 2n ** 60n], expect.anything()],
]

const REFUSED: ReadonlyArray<readonly [name: string, given: unknown, why: string]> = [
  ["a function", () => 1, "is a function"],
  ["a symbol", Symbol("x"), "is a symbol"],
  ["an Error", new TypeError("bad"), "is an Error"],
  ["an Error with fields", Object.assign(new Error("bad"), { code: 1 }), "is an Error"],
  ["an integer that no reader takes", 10n ** 4300n, "is an integer of more than 4300 digits"],
  ["an invalid date", new Date(Number.NaN), "is an invalid date"],
  ["a Promise that nothing awaits", [Promise.resolve(1)], "is a Promise"],
  ["a RegExp", /x/, "is a RegExp"],
  ["a WeakMap", new WeakMap(), "is a WeakMap"],
  ["an instance without anything of its own", new Closed(), "is a Closed"],
  ["text in an object", new String("ab"), "is a String"],
  ["what holds itself", cyclic, "are nested more than"],
  ["a key __proto__", JSON.parse('{"a":[{"__proto__":1}]}'), "the key __proto__ is refused"],
  ["a constructor with a prototype", { constructor: { prototype: 1 } }, "the key constructor is refused"],
  ["what only looks like a typed value", { __type__: "date", __value__: "tomorrow" }, "__value__"],
]

const values: { given?: unknown; taken?: unknown } = {}
const probe = actor("probe", {
  methods: {
    give: () => values.given,
    giveDeep: () => ({ items: [0, 1, 2, { at: values.given }] }),
    take: ({ value }: { value: unknown }) => {
      values.taken = value
    },
    took: (value: unknown) => {
      values.taken = value
    },
  },
})

let running: Running
beforeAll(async () => {
  running = await start({ actors: [probe] })
})
afterAll(stopAll)

describe("what is carried", () => {
  test.each(CARRIED)("%s as an argument, over a transport and over HTTP", async (_name, given, arrives) => {
    for (const client of [running.service.client, connectHttp(running.url)]) {
      values.taken = undefined
      await (await client.submit("probe.take", { input: { value: given } })).result(WAIT)
      expect(values.taken).toEqual(arrives)
    }
  })

  test.each(CARRIED)("%s as a result, in code and over HTTP", async (_name, given, arrives, shown = arrives) => {
    values.given = given
    const job = await running.service.client.submit("probe.give")
    expect(await job.result(WAIT)).toEqual(arrives)
    expect(await job.outcome(WAIT)).toEqual({ state: "succeeded", result: arrives })
    expect(await connectHttp(running.url).job(job.id).result(WAIT)).toEqual(arrives)
    const answer = await fetch(`${running.url}/v1/jobs/${job.id}/result`)
    expect(await answer.json()).toEqual({ id: job.id, state: "succeeded", result: shown })
    expect((await job.find()).result).toEqual(shown)
  })

  test.each(CARRIED)("%s as the argument of the next link of a chain", async (_name, given, arrives) => {
    values.given = given
    values.taken = undefined
    const id = `next-${generateId()}`
    await (await running.service.client.submit("probe.give", { chain: [{ task: "probe.took", id }] })).result(WAIT)
    await running.service.client.job(id).result(WAIT)
    expect(values.taken).toEqual(arrives)
  })

  test("datetimes keep microseconds and zone, decimals their digits", async () => {
    values.given = { at: zoned, price: decimal }
    const result = await (await running.service.client.submit("probe.give")).result(WAIT)
    expect(result).toMatchObject({ at: { text: "2031-09-06T20:57:24.052237+02:00" }, price: expect.any(Exact) })
  })

  test("nothing is null, and -0 is 0", async () => {
    values.given = undefined
    expect(await (await running.service.client.submit("probe.give")).result(WAIT)).toBe(null)
    values.given = { n: -0, deep: [-0, 2n ** 60n] }
    expect(await (await running.service.client.submit("probe.give")).result(WAIT)).toEqual({
      n: 0,
      deep: [0, 2n ** 60n],
    })
  })
})

describe("what is refused", () => {
  test.each(REFUSED)("%s as an argument", async (_name, given, why) => {
    for (const client of [running.service.client, connectHttp(running.url)]) {
      const refused = await client.submit("probe.take", { input: { value: given } }).catch((cause: unknown) => cause)
      expect(refused).toMatchObject({ code: "invalid-input", message: expect.stringContaining(why) })
    }
  })

  test.each(REFUSED)("%s as a result, with its place", async (_name, given, why) => {
    values.given = given
    const follow = { callbacks: [{ task: "probe.take" }] }
    const alone = await (await running.service.client.submit("probe.giveDeep")).outcome(WAIT)
    expect(alone).toEqual({ state: "succeeded", result: expect.stringContaining("result.items[3].at") })
    const top = await (await running.service.client.submit("probe.give", follow)).outcome(WAIT)
    const error = { name: "UnserialisableResult", reason: "result-unserialisable" }
    expect(top).toMatchObject({ state: "failed", error: { ...error, message: expect.stringContaining(why) } })
    const deep = await (await running.service.client.submit("probe.giveDeep", follow)).outcome(WAIT)
    const message = expect.stringContaining("result.items[3].at")
    expect(deep).toMatchObject({ state: "failed", error: { ...error, message } })
  })
})

describe("what is carried as plain JSON: details, meta data, headers, and the details of a board's job", () => {
  const clients = () => [running.service.client, connectHttp(running.url)] as const

  /** Gives a value to each of these; the results are what is stored, or the error. */
  const carried = async (given: Record<string, unknown>) => {
    const answers: Array<unknown> = []
    for (const client of clients()) {
      const { id } = await client.submit("probe.take", { input: {}, delay: 60 })
      for (const field of ["details", "meta", "headers"] as const)
        answers.push(
          await client.submit("probe.take", { [field]: given, delay: 60 }).then(
            async (job) => (await job.find())[field],
            (cause: unknown) => cause,
          ),
        )
      const changed = async () => (await client.job(id).patchMeta(given)).meta
      answers.push(await changed().catch((cause: unknown) => cause))
      const posted = client.board("values").post("a", { details: given })
      answers.push(
        await posted.then(
          ({ details }) => details,
          (cause: unknown) => cause,
        ),
      )
    }
    return answers
  }

  test.each<[string, unknown, string]>([
    ["a Map", new Map([["a", 1]]), "at is a Map"],
    ["a Set", new Set([1]), "at is a Set"],
    ["NaN", Number.NaN, "at is NaN"],
    ["a bigint", 1n, "at is a bigint"],
    ["bytes", new Uint8Array(2), "at holds bytes"],
    ["an invalid date", new Date(Number.NaN), "at is an invalid date"],
    ["a function", () => 1, "at is a function"],
    ["an Error", new Error("x"), "at is an Error"],
  ])("%s is refused by its place", async (_name, value, message) => {
    for (const answer of await carried({ items: [{ at: value }] }))
      expect(answer).toMatchObject({
        code: "invalid-input",
        message: expect.stringMatching(`^(details|meta|headers)\\.items\\[0\\]\\.${message}`),
      })
  })

  test("a Map in the place of the object is refused", async () => {
    const map = Object.assign(new Map([["a", 1]]))
    for (const answer of await carried(map)) expect(answer).toMatchObject({ code: "invalid-input" })
    await expect(
      running.service.client.board("values").registerEntity({ kind: "a", name: "b", metadata: map }),
    ).rejects.toMatchObject({ code: "invalid-input", message: expect.stringContaining("metadata is a Map") })
  })

  test("a date is its text, and the rest is itself", async () => {
    const given = { at: new Date(0), list: [1.5, null, true], none: undefined, deep: { text: "a" } }
    for (const answer of await carried(given))
      expect(answer).toEqual({ at: "1970-01-01T00:00:00.000Z", list: [1.5, null, true], deep: { text: "a" } })
  })
})
