import { Result } from "effect"
import { describe, expect, test } from "vitest"
import {
  chordResults,
  decodeMeta,
  encodeMember,
  encodeMeta,
  errorOfMeta,
  exceptionOf,
  failureMeta,
  metaOfRecord,
  type OfTask,
  progressMeta,
  pythonException,
} from "../../../../runtime/protocol/celery-result.ts"
import type { JobError, JobRecord } from "../../../../runtime/protocol/record.ts"

const of: OfTask = { id: "1", task: "shop.buy" }
const AT = Date.UTC(2026, 10, 20, 17, 44, 40, 370)
const DONE = "2026-11-20T17:44:40.370000+00:00"
const TEXT = new TextDecoder()

type Ended = Parameters<typeof metaOfRecord>[0]
const record = (state: JobRecord["state"], fields: Partial<Ended> = {}, reason?: string): Ended => ({
  state,
  timeline: [{ n: 1, run: 1, at: AT, state, ...(reason === undefined ? {} : { reason }) }],
  ...fields,
})
const error = (name: string, reason = "handler"): JobError => ({ name, message: "no", reason })

describe("the result of a job", () => {
  test("is Celery's word for its state, with all fields in Celery's order", () => {
    const meta = metaOfRecord(record("succeeded", { result: 5 }), { ...of, group: "g", parentId: "0" }, AT, [
      [["2", null], null],
    ])
    expect(meta && TEXT.decode(Result.getOrThrow(encodeMeta(meta)))).toBe(
      `{"status":"SUCCESS","result":5,"traceback":null,"children":[[["2",null],null]],"date_done":"${DONE}",` +
        `"group_id":"g","parent_id":"0","task_id":"1"}`,
    )
  })

  test("keeps what strict JSON lacks", () => {
    const result = {
      big: { __type__: "int", __value__: "1152921504606846977" },
      bytes: { __type__: "base64", __value__: "AP8=" },
    }
    const meta = metaOfRecord(record("succeeded", { result }), of, AT)
    expect(meta && TEXT.decode(Result.getOrThrow(encodeMeta(meta)))).toContain(
      `"result":{"big":1152921504606846977,"bytes":{"__type__":"base64","__value__":"AP8="}}`,
    )
  })

  const revoked = (why: string) => ({
    status: "REVOKED",
    date_done: DONE,
    result: { exc_type: "TaskRevokedError", exc_message: [why], exc_module: "celery.exceptions" },
  })
  test.each([
    ["nothing", record("succeeded"), { status: "SUCCESS", result: null }],
    ["a failure", record("failed", { error: error("ValueError") }), { status: "FAILURE", date_done: DONE }],
    ["cancelled", record("cancelled"), revoked("revoked")],
    ["stopped", record("cancelled", {}, "stopped"), revoked("terminated")],
    ["expired", record("expired"), revoked("expired")],
    [
      "a retry",
      record("scheduled", { error: error("Retry") }, "retry"),
      { status: "RETRY", result: null, date_done: null },
    ],
    [
      "a retry with its cause",
      record("scheduled", { error: error("Lost") }, "retry"),
      { status: "RETRY", result: { exc_type: "Lost" } },
    ],
  ])("%s", (_name, given, wanted) => expect(metaOfRecord(given, of, AT)).toMatchObject(wanted))

  test.each([record("queued"), record("queued", {}, "repeat"), record("started")])("none while it goes on", (given) =>
    expect(metaOfRecord(given, of, AT)).toBeUndefined(),
  )

  test.each([
    [
      { fraction: 0.5, detail: { current: 1, total: 2 } },
      { current: 1, total: 2 },
    ],
    [{ fraction: 0.5 }, { fraction: 0.5 }],
  ])("progress is a state of its own, whose result is the detail", (progress, result) =>
    expect(progressMeta(of, progress)).toMatchObject({ status: "PROGRESS", result, date_done: null }),
  )
})

describe("exceptions", () => {
  test.each([
    [error("ValueError"), "builtins", "ValueError", ["no"]],
    [error("OutOfStock"), "callboard", "OutOfStock", ["no"]],
    [error("shop.errors.OutOfStock"), "shop.errors", "OutOfStock", ["no"]],
    [error("odd."), "callboard", "odd.", ["no"]],
    [error("NotRegistered", "unknown-actor"), "celery.exceptions", "NotRegistered", ["shop.buy"]],
    [error("TimeLimitExceeded", "timeout"), "billiard.exceptions", "TimeLimitExceeded", [4]],
    [error("SoftTimeLimitExceeded", "timeout"), "billiard.exceptions", "SoftTimeLimitExceeded", ["no"]],
    [error("WorkerLost", "worker-lost"), "billiard.exceptions", "WorkerLostError", ["no"]],
    [error("UnserialisableResult", "result-unserialisable"), "kombu.exceptions", "EncodeError", ["no"]],
    [error("Retry"), "celery.exceptions", "MaxRetriesExceededError", ["Can't retry shop.buy[1]"]],
  ])("%o", (given, exc_module, exc_type, exc_message) =>
    expect(exceptionOf(given, { ...of, timelimit: { hard: 4, soft: null } })).toEqual({
      exc_module,
      exc_type,
      exc_message,
    }),
  )

  test.each(["ValueError", "OutOfStock", "shop.errors.OutOfStock"])("%s comes back by its name", (name) =>
    expect(errorOfMeta(failureMeta({ ...error(name), traceback: "here" }, of, AT))).toEqual({
      ...error(name),
      traceback: "here",
    }),
  )

  test("of a worker of Celery is read with all its arguments", () =>
    expect(
      errorOfMeta({
        ...failureMeta(error("x"), of, AT),
        result: { exc_type: "LabError", exc_message: ["boom", 7], exc_module: "tasks" },
      }),
    ).toEqual({ name: "tasks.LabError", message: "boom, 7", reason: "handler" }))

  test("may hold what strict JSON lacks", () =>
    expect(
      errorOfMeta({
        ...failureMeta(error("x"), of, AT),
        result: { exc_type: "KeyError", exc_message: [2n ** 70n, Number.NaN, { at: [null] }], exc_module: "builtins" },
      }),
    ).toMatchObject({ name: "KeyError", message: '1180591620717411303424, NaN, {"at":[null]}' }))
})

test.each(["", "7", "[]", "{}", '{"status":"SUCCESS"}', '{"task_id":"1"}', "nonsense"])("%s is no result", (text) =>
  expect(Result.flip(decodeMeta(new TextEncoder().encode(text)))).toMatchObject({ success: { _tag: "InvalidMeta" } }),
)

describe("a chord", () => {
  const member = (id: string, fields: Partial<Ended>, state: JobRecord["state"] = "succeeded") => {
    const meta = metaOfRecord(record(state, fields), { ...of, id }, AT)
    if (meta === undefined) throw new Error("no result")
    return Result.getOrThrow(encodeMember(meta))
  }

  test("hands its body the results in order", () =>
    expect(Result.getOrThrow(chordResults([member("a", { result: 1 }), member("b", { result: [2] })]))).toEqual([
      1,
      [2],
    ]))

  test("fails for the first member that has failed, in Celery's words", () => {
    const failed = member("b", { error: { ...error("ValueError"), message: "it's" } }, "failed")
    expect(Result.flip(chordResults([member("a", { result: 1 }), failed]))).toMatchObject({
      success: { name: "celery.exceptions.ChordError", message: 'Dependency b raised ValueError("it\'s")' },
    })
    expect(Result.isFailure(chordResults([member("c", {}, "cancelled")]))).toBe(true)
    expect(Result.isFailure(chordResults([new Uint8Array([1])]))).toBe(true)
  })

  test.each([
    ["[]", ""],
    ["[null, true, 7, 1.5]", "None, True, 7, 1.5"],
    ["[1180591620717411303424, NaN, -Infinity]", "1180591620717411303424, nan, -inf"],
    [String.raw`["a\"b", "it's", "\"it's\"", "a\nb\\"]`, String.raw`'a"b', "it's", '"it\'s"', 'a\nb\\'`],
    ['[["a", []], {"at": {"x": false}}]', "['a', []], {'at': {'x': False}}"],
    ['[{"__type__": "decimal", "__value__": "1.10"}]', "Decimal('1.10')"],
    ['"plain"', "'plain'"],
  ])("the arguments %s of its exception are shown as Python shows them", (args, shown) => {
    const text = `[1, "b", "FAILURE", {"exc_type": "KeyError", "exc_message": ${args}, "exc_module": "builtins"}]`
    expect(Result.flip(chordResults([new TextEncoder().encode(text)]))).toMatchObject({
      success: { message: `Dependency b raised KeyError(${shown})` },
    })
  })
})

test.each([
  ["ValueError", "no", "ValueError('no')"],
  ["shop.errors.OutOfStock", "it's \n gone", 'OutOfStock("it\'s \\n gone")'],
])("an error %s of %j is shown as Python shows it", (name, message, shown) =>
  expect(pythonException(name, message)).toBe(shown),
)
