import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { EARLIEST_MS, LATEST_MS } from "../../../../runtime/protocol/exact.ts"
import {
  isReservedHeader,
  newTask,
  parseTask,
  postingOf,
  renderCompact,
  type Task,
} from "../../../../runtime/protocol/headers.ts"
import { DEFAULT_PRIORITY, FRONT_LEVEL, type Headers, type Message } from "../../../../runtime/protocol/message.ts"

const parsed = (headers: Headers): Task => Result.getOrThrow(parseTask({ headers }))

const field = (headers: Headers): string => Result.getOrThrow(Result.flip(parseTask({ headers }))).field

/** A message whose body throws when it is read. */
const closed = (headers: Headers, properties: Readonly<Record<string, unknown>> = {}): Message => ({
  headers,
  properties: { content_type: "application/x-python-serialize", content_encoding: "binary", ...properties },
  get body(): Uint8Array {
    throw new Error("the body was read")
  },
})

describe("parseTask", () => {
  test("needs a name and an id only", () => {
    expect(parsed({ task: "lab.add", id: "1" })).toEqual(newTask({ task: "lab.add", id: "1" }))
  })

  test("takes null for absent everywhere", () => {
    const names =
      "lang shadow eta expires group group_index retries timelimit root_id parent_id argsrepr kwargsrepr origin"
    const more =
      "ignore_result replaced_task_nesting stamped_headers stamps meth traceparent tracestate compression callboard bodyRef"
    const nulls = Object.fromEntries(`${names} ${more}`.split(" ").map((name) => [name, null]))
    expect(parsed({ ...nulls, task: "t", id: "1" })).toEqual(newTask({ task: "t", id: "1" }))
  })

  test.each<readonly [string, Headers]>([
    ["task", {}],
    ["task", { task: null }],
    ["task", { task: "" }],
    ["task", { task: 7 }],
    ["id", { id: undefined }],
    ["id", { id: null }],
    ["id", { id: "" }],
    ["id", { id: 7 }],
    ["id", { id: "x".repeat(256) }],
    ["id", { id: "é".repeat(128) }],
    ["id", { id: "\ud83d" }],
    ["meth", { meth: 1 }],
    ["lang", { lang: {} }],
    ["eta", { eta: "tomorrow" }],
    ["eta", { eta: 1795195158 }],
    ["expires", { expires: 60 }],
    ["expires", { expires: "2026-13-01T00:00:00" }],
    ["retries", { retries: "1" }],
    ["retries", { retries: -1 }],
    ["retries", { retries: 1.5 }],
    ["timelimit", { timelimit: [1] }],
    ["timelimit", { timelimit: [1, 2, 3] }],
    ["timelimit", { timelimit: 30 }],
    ["timelimit", { timelimit: ["30", null] }],
    ["timelimit", { timelimit: [-1, null] }],
    ["timelimit", { timelimit: [Number.POSITIVE_INFINITY, null] }],
    ["root_id", { root_id: 1 }],
    ["parent_id", { parent_id: [] }],
    ["group", { group: {} }],
    ["group_index", { group_index: "0" }],
    ["shadow", { shadow: 1 }],
    ["argsrepr", { argsrepr: [] }],
    ["kwargsrepr", { kwargsrepr: {} }],
    ["origin", { origin: 1 }],
    ["ignore_result", { ignore_result: "yes" }],
    ["stamped_headers", { stamped_headers: "a" }],
    ["stamped_headers", { stamped_headers: [1] }],
    ["stamps", { stamps: [] }],
    ["stamps", { stamps: "a" }],
    ["replaced_task_nesting", { replaced_task_nesting: -1 }],
    ["retries", { replaced_task_nesting: null, compression: 1, retries: -2 }],
    ["traceparent", { traceparent: 1 }],
    ["compression", { compression: {} }],
    ["bodyRef", { bodyRef: "s3://bucket/key" }],
    ["callboard", { callboard: [] }],
    ["callboard", { callboard: "{}" }],
    ["callboard.run", { callboard: { run: 0 } }],
    ["callboard.run", { callboard: { run: "1" } }],
    ["callboard.front", { callboard: { front: 1 } }],
    ["callboard.key", { callboard: { key: "" } }],
    ["callboard.key", { callboard: { key: "k".repeat(256) } }],
    ["callboard.peek", { callboard: { peek: 1 } }],
    ["callboard.must", { callboard: { must: "key" } }],
    ["callboard.submittedAt", { callboard: { submittedAt: -1 } }],
    ["callboard.submittedAt", { callboard: { submittedAt: "2026-01-01" } }],
    ["callboard.resultTtlMs", { callboard: { resultTtlMs: "1 h" } }],
    ["callboard.failureTtlMs", { callboard: { failureTtlMs: Number.NaN } }],
    ["callboard.retry", { callboard: { retry: 3 } }],
    ["callboard.hops", { callboard: { hops: -1 } }],
    ["callboard.hops", { callboard: { hops: 1.5 } }],
    ["callboard.retry.max", { callboard: { retry: { max: -1 } } }],
    ["callboard.retry.max", { callboard: { retry: { max: 10_001 } } }],
    ["callboard.retry.intervalsMs", { callboard: { retry: { intervalsMs: [] } } }],
    ["callboard.retry.intervalsMs", { callboard: { retry: { intervalsMs: [1, -1] } } }],
    ["callboard.retry.front", { callboard: { retry: { front: 1 } } }],
    ["callboard.repeat", { callboard: { repeat: 1 } }],
    ["callboard.repeat.times", { callboard: { repeat: { times: 0, done: 0, intervalsMs: [0] } } }],
    ["callboard.repeat.times", { callboard: { repeat: { times: 10_001, done: 0, intervalsMs: [0] } } }],
    ["callboard.repeat.done", { callboard: { repeat: { times: 1, done: -1, intervalsMs: [0] } } }],
    ["callboard.repeat.intervalsMs", { callboard: { repeat: { times: 1, done: 0, intervalsMs: [] } } }],
    ["callboard.retry.baseMs", { callboard: { retry: { max: 1, baseMs: -1 } } }],
    ["callboard.retry.factor", { callboard: { retry: { max: 1, factor: 0.5 } } }],
    ["callboard.retry.maxMs", { callboard: { retry: { max: 1, maxMs: "1" } } }],
    ["callboard.retry.jitter", { callboard: { retry: { max: 1, jitter: 1 } } }],
    ["callboard.retry.on", { callboard: { retry: { max: 1, on: "E" } } }],
    ["callboard.retry.except", { callboard: { retry: { max: 1, except: [1] } } }],
    ["callboard.meta", { callboard: { meta: [] } }],
    ["callboard.description", { callboard: { description: 1 } }],
  ])("names %s when it is wrong", (name, headers) => {
    expect(field("task" in headers || name === "task" ? headers : { task: "t", id: "1", ...headers })).toBe(name)
  })

  test("a wrong header is told in words", () => {
    const failure = Result.getOrThrow(Result.flip(parseTask({ headers: { task: "t", id: "1", retries: "two" } })))
    expect(failure).toEqual({
      _tag: "InvalidTask",
      field: "retries",
      message: 'Header "retries" must be a whole number, 0 or more, not a string.',
    })
  })

  test("ids may be any text of 255 bytes", () => {
    for (const id of ["x".repeat(255), "é".repeat(127), "日".repeat(85), "🚀".repeat(63), "a b/c\n", "ø"]) {
      expect(parsed({ task: "t", id }).id).toBe(id)
    }
    expect(field({ task: "t", id: "日".repeat(86) })).toBe("id")
    expect(field({ task: "t", id: "🚀".repeat(64) })).toBe("id")
  })

  test("a time limit of 0, and an empty list, are none", () => {
    expect(parsed({ task: "t", id: "1", timelimit: [0, 5] }).timelimit).toEqual({ hard: null, soft: 5 })
    expect(parsed({ task: "t", id: "1", timelimit: [] }).timelimit).toEqual({ hard: null, soft: null })
  })

  test("brokers that turn booleans into numbers are understood", () => {
    expect(parsed({ task: "t", id: "1", ignore_result: 1 }).ignoreResult).toBe(true)
    expect(parsed({ task: "t", id: "1", ignore_result: 0 }).ignoreResult).toBe(false)
  })

  test("unknown headers are custom, unless they would reach into prototypes", () => {
    const headers: Headers = JSON.parse(
      '{"task":"t","id":"1","x-a":1,"constructor":2,"__proto__":{"x":1},"redelivered":true}',
    )
    expect(parsed(headers).custom).toEqual({ "x-a": 1, constructor: 2 })
    expect(Object.getPrototypeOf(parsed(headers).custom)).toBe(Object.prototype)
  })

  test("any headers make a task or a failure", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...HEADER_NAMES), fc.jsonValue()), (headers) => {
        Result.isSuccess(parseTask({ headers }))
        Result.isSuccess(postingOf(closed(headers, { priority: headers.x }), "q"))
      }),
    )
  })
})

const HEADER_NAMES = [
  ..."task id meth lang eta expires retries timelimit root_id stamps stamped_headers ignore_result callboard x".split(
    " ",
  ),
]

const ids = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }).filter((text) => text.isWellFormed())
const texts = fc.option(fc.string({ minLength: 1 }))
const moments = fc.option(fc.integer({ min: EARLIEST_MS, max: LATEST_MS }))
const limits = fc.option(fc.integer({ min: 1, max: 100_000 }))
const plain = fc.dictionary(
  fc.string().filter((name) => name !== "__proto__" && !isReservedHeader(name)),
  fc.jsonValue().map((value): unknown => JSON.parse(JSON.stringify(value))),
  { noNullPrototype: true },
)
const tasks: fc.Arbitrary<Task> = fc.record({
  task: fc.string({ minLength: 1 }),
  meth: texts,
  id: ids,
  lang: fc.string(),
  rootId: fc.option(ids),
  parentId: fc.option(ids),
  group: fc.option(ids),
  groupIndex: fc.option(fc.nat()),
  shadow: texts,
  eta: moments,
  expires: moments,
  retries: fc.nat(),
  timelimit: fc.record({ hard: limits, soft: limits }),
  argsrepr: texts,
  kwargsrepr: texts,
  origin: texts,
  ignoreResult: fc.boolean(),
  stampedHeaders: fc.option(fc.array(fc.string())),
  stamps: plain,
  replacedTaskNesting: fc.nat(),
  traceparent: texts,
  // Beside a trace only: see trace-context.test.ts.
  tracestate: fc.constant(null),
  compression: texts,
  own: fc.record(
    {
      run: fc.integer({ min: 1, max: 1000 }),
      hops: fc.nat(),
      front: fc.boolean(),
      key: ids,
      submittedAt: fc.nat(),
      resultTtlMs: fc.integer(),
      failureTtlMs: fc.integer(),
      retry: fc.record(
        {
          max: fc.nat(10_000),
          baseMs: fc.nat(),
          factor: fc.integer({ min: 1, max: 9 }),
          maxMs: fc.nat(),
          jitter: fc.boolean(),
          intervalsMs: fc.array(fc.nat(), { minLength: 1 }),
          front: fc.boolean(),
          on: fc.array(fc.string()),
          except: fc.array(fc.string()),
        },
        { requiredKeys: [], noNullPrototype: true },
      ),
      repeat: fc.record(
        {
          times: fc.integer({ min: 1, max: 10_000 }),
          done: fc.nat(10_000),
          intervalsMs: fc.array(fc.nat(), { minLength: 1 }),
        },
        { noNullPrototype: true },
      ),
      meta: plain,
      description: fc.string(),
    },
    { requiredKeys: [], noNullPrototype: true },
  ),
  custom: plain,
})

describe("rendering", () => {
  test("a task reads back from its headers, also through JSON", () => {
    fc.assert(
      fc.property(tasks, (task) => {
        const headers = renderCompact(task)
        expect(parsed(headers)).toEqual(task)
        const sent: Headers = JSON.parse(JSON.stringify(headers))
        expect(parsed(sent)).toEqual(task)
      }),
    )
  })

  test("compact headers hold only what says something", () => {
    expect(renderCompact(newTask({ task: "t", id: "1" }))).toEqual({ lang: "ts", task: "t", id: "1" })
  })

  test("the hard limit comes first", () => {
    const task = newTask({ task: "t", id: "1", timelimit: { hard: 30, soft: 20 } })
    expect(renderCompact(task).timelimit).toEqual([30, 20])
  })

  test("custom headers do not replace those of the protocol", () => {
    const task = newTask({ task: "t", id: "1", custom: { id: "2", lang: "py", "x-a": 1 } })
    expect(renderCompact(task)).toMatchObject({ id: "1", lang: "ts", "x-a": 1 })
  })
})

describe("postingOf", () => {
  const posting = (headers: Headers, properties = {}) =>
    Result.getOrThrow(postingOf(closed({ task: "t", id: "1", ...headers }, properties), "q"))

  test("takes address, order and times from headers and properties, and never opens the body", () => {
    const found = posting(
      { eta: "2026-11-20T00:00:00+00:00", expires: "2026-11-21", retries: 2, callboard: { run: 3, hops: 1 } },
      { priority: 7 },
    )
    expect(found).toMatchObject({
      id: "1",
      queue: "q",
      run: 3,
      hops: 1,
      retries: 2,
      level: 7,
      due: Date.UTC(2026, 10, 20),
      expires: Date.UTC(2026, 10, 21),
    })
  })

  test("says nothing where the task says nothing", () => {
    const { message: _, ...rest } = posting({})
    expect(rest).toEqual({ id: "1", run: 1, retries: 0, queue: "q", level: DEFAULT_PRIORITY })
  })

  test.each([
    [undefined, DEFAULT_PRIORITY],
    [null, DEFAULT_PRIORITY],
    [0, 0],
    [9, 9],
    [10, 9],
    [255, 9],
    [-3, 0],
    [4.9, 4],
  ])("priority %s is level %d", (priority, level) => {
    expect(posting({}, { priority }).level).toBe(level)
  })

  test("the front is above every priority", () => {
    expect(posting({ callboard: { front: true } }, { priority: 9 }).level).toBe(FRONT_LEVEL)
    expect(posting({ callboard: { front: false } }, { priority: 9 }).level).toBe(9)
  })

  test.each(["9", Number.NaN, {}])("priority %s is refused by name", (priority) => {
    const failure = Result.flip(postingOf(closed({ task: "t", id: "1" }, { priority }), "q"))
    expect(failure).toMatchObject({ success: { field: "priority" } })
  })
})

test("names of the protocol and of ours are reserved", () => {
  for (const name of ["task", "id", "callboard", "bodyRef", "__proto__", "meth", "redelivered", "tracestate"]) {
    expect(isReservedHeader(name), name).toBe(true)
  }
  for (const name of ["x-tenant", "constructor", "toString"]) expect(isReservedHeader(name), name).toBe(false)
})
