import { Result } from "effect"
import { describe, expect, test } from "vitest"
import {
  applySignature,
  parseSignature,
  parseSignatures,
  type Signature,
  taskOfSignature,
} from "../../../../../runtime/protocol/celery/signature.ts"
import { vectors } from "../vectors.ts"

const parsed = (value: unknown): Signature => Result.getOrThrow(parseSignature(value))
const now = Date.UTC(2026, 10, 20)
const given = { id: "new", now, rootId: "root", parentId: "parent" }

describe("parseSignature", () => {
  test("fills in what may be left out", () => {
    expect(parsed({ task: "t" })).toEqual({
      task: "t",
      args: [],
      kwargs: {},
      options: {},
      subtask_type: null,
      immutable: false,
    })
  })

  test("keeps what it does not know", () => {
    const signature = {
      task: "t",
      args: [1],
      kwargs: {},
      options: { x: 1 },
      subtask_type: "chord",
      immutable: true,
      chord_size: 3,
    }
    expect(parsed(signature)).toEqual(signature)
  })

  test.each([
    [null, "signature"],
    [[], "signature"],
    ["t", "signature"],
    [new Map(), "signature"],
    [{}, "signature.task"],
    [{ task: "" }, "signature.task"],
    [{ task: 7 }, "signature.task"],
    [{ task: "t", args: {} }, "signature.args"],
    [{ task: "t", kwargs: [] }, "signature.kwargs"],
    [{ task: "t", options: "x" }, "signature.options"],
    [{ task: "t", subtask_type: 1 }, "signature.subtask_type"],
    [{ task: "t", immutable: 1 }, "signature.immutable"],
  ])("%j: names %s", (value, field) => {
    expect(Result.flip(parseSignature(value))).toMatchObject({ success: { _tag: "InvalidSignature", field } })
  })

  test("lists name the place", () => {
    expect(Result.getOrThrow(parseSignatures(null, "link"))).toBeNull()
    expect(Result.getOrThrow(parseSignatures({ task: "t" }, "link"))).toHaveLength(1)
    expect(Result.flip(parseSignatures([{ task: "t" }, {}], "link"))).toMatchObject({
      success: { field: "link[1].task" },
    })
  })

  test("every signature of the captured messages parses and keeps its form", () => {
    const all = vectors.flatMap(({ expect: wanted }) =>
      [wanted.callbacks, wanted.errbacks, wanted.chain_wire_order, wanted.chord]
        .flat()
        .filter((each) => each !== null && each !== undefined),
    )
    expect(all.length).toBeGreaterThan(50)
    for (const value of all) expect(parsed(value)).toEqual(value)
  })
})

describe("applySignature", () => {
  const base = parsed({
    task: "t",
    args: [9],
    kwargs: { a: 1, b: 1 },
    options: { queue: "q", group_id: "g", stamped_headers: ["s"], s: 1 },
  })

  test("puts arguments before its own and merges the rest", () => {
    expect(
      applySignature(base, { args: [1, 2], kwargs: { b: 2 }, options: { queue: "r", priority: 3 } }),
    ).toMatchObject({
      args: [1, 2, 9],
      kwargs: { a: 1, b: 2 },
      options: { queue: "r", priority: 3 },
    })
    expect(base.args).toEqual([9])
  })

  test("an immutable one takes options only", () => {
    const applied = applySignature(
      { ...base, immutable: true },
      { args: [1], kwargs: { c: 1 }, options: { priority: 3 } },
    )
    expect(applied).toMatchObject({ args: [9], kwargs: { a: 1, b: 1 }, options: { queue: "q", priority: 3 } })
    expect(applied.kwargs).not.toHaveProperty("c")
  })

  test("group and stamps that it has stay its own", () => {
    const options = { group_id: "other", stamped_headers: ["z"], s: 2, z: 2 }
    expect(applySignature(base, { options }).options).toEqual({
      queue: "q",
      group_id: "g",
      stamped_headers: ["s"],
      s: 1,
      z: 2,
    })
    expect(applySignature(parsed({ task: "t" }), { options }).options).toEqual(options)
  })
})

describe("taskOfSignature", () => {
  const sent = (options: Readonly<Record<string, unknown>>) =>
    Result.getOrThrow(taskOfSignature(parsed({ task: "t", options }), given))

  test("options become headers, address and what follows", () => {
    const link = { task: "l" }
    const found = sent({
      task_id: "fixed",
      group_id: "g",
      group_index: 1,
      queue: "q",
      priority: 5,
      reply_to: "r",
      shadow: "s",
      eta: "2026-11-21T00:00:00+00:00",
      expires: 60,
      time_limit: 30,
      soft_time_limit: 20,
      headers: { "x-a": 1 },
      ignore_result: true,
      stamped_headers: ["tenant"],
      tenant: "t1",
      link,
      link_error: [link],
      chain: [link, link],
      chord: link,
    })
    expect(found.task).toMatchObject({
      task: "t",
      id: "fixed",
      rootId: "root",
      parentId: "parent",
      group: "g",
      groupIndex: 1,
      shadow: "s",
      eta: Date.UTC(2026, 10, 21),
      expires: now + 60_000,
      timelimit: { hard: 30, soft: 20 },
      ignoreResult: true,
      stampedHeaders: ["tenant"],
      stamps: { tenant: "t1" },
      custom: { "x-a": 1 },
    })
    expect(found).toMatchObject({ queue: "q", priority: 5, replyTo: "r" })
    expect([found.callbacks?.length, found.errbacks?.length, found.chain?.length, found.chord?.task]).toEqual([
      1,
      1,
      2,
      "l",
    ])
  })

  test("without options it is a new task below the one that sends it", () => {
    expect(sent({})).toMatchObject({
      queue: null,
      priority: null,
      task: { id: "new", rootId: "root", parentId: "parent", eta: null, ignoreResult: false },
    })
    const alone = Result.getOrThrow(taskOfSignature(parsed({ task: "t" }), { id: "new", now }))
    expect(alone.task).toMatchObject({ rootId: "new", parentId: null })
  })

  test("countdown wins over eta", () => {
    expect(sent({ countdown: 1.5, eta: "2030-01-01" }).task.eta).toBe(now + 1500)
  })

  test.each([
    [{ eta: "soon" }, "options.eta"],
    [{ expires: {} }, "options.expires"],
    [{ link: [{}] }, "options.link[0].task"],
    [{ link_error: 7 }, "options.link_error"],
    [{ chain: [7] }, "options.chain[0]"],
    [{ chord: {} }, "options.chord.task"],
  ])("%j: names %s", (options, field) => {
    expect(Result.flip(taskOfSignature(parsed({ task: "t", options }), given))).toMatchObject({ success: { field } })
  })
})
