/** Signatures of Celery that stand for several tasks. Pure. */
import { Result } from "effect"
import { describe, expect, test } from "vitest"
import { type PlainFollowUps, plainFollowUps } from "../../../../../runtime/protocol/celery/canvas.ts"
import { parseSignature, type Signature } from "../../../../../runtime/protocol/celery/signature.ts"

const signature = (value: object): Signature => Result.getOrThrow(parseSignature(value))
const task = (name: string, options = {}) => signature({ task: name, options })
const group = (tasks: ReadonlyArray<unknown>, options = {}) =>
  signature({ task: "celery.group", subtask_type: "group", kwargs: { tasks }, options })
const chain = (...tasks: ReadonlyArray<unknown>) =>
  signature({ task: "celery.chain", subtask_type: "chain", kwargs: { tasks } })
const chord = signature({ task: "celery.chord", subtask_type: "chord", kwargs: {} })
const [a, b, c] = [task("a"), task("b"), task("c")]
const none = { callbacks: null, errbacks: null, chain: null }
const namesOf = (list: unknown): unknown =>
  Array.isArray(list)
    ? list.map((each: Signature) => {
        const { chain: rest, link } = each.options
        return rest === undefined && link === undefined ? each.task : [each.task, namesOf(rest ?? link)]
      })
    : list

describe("what a task carries", () => {
  test("stays as it is where all signatures are plain", () => {
    const given = { callbacks: [a], errbacks: null, chain: [b, c] }
    expect(Result.getOrThrow(plainFollowUps(given))).toBe(given)
  })

  test.each([
    ["a group of callbacks", { ...none, callbacks: [a, group([b, c])] }, [["a", "b", "c"], null, null]],
    ["a group of errbacks", { ...none, errbacks: [group([b, group([c])])] }, [null, ["b", "c"], null]],
    [
      "a chain as callback: the rest goes with its first task",
      { ...none, callbacks: [chain(a, b, c)] },
      [[["a", ["c", "b"]]], null, null],
    ],
    ["chains in a group", { ...none, callbacks: [group([chain(a, b), c])] }, [[["a", ["b"]], "c"], null, null]],
    [
      "a chain in a chain, in the order of the wire",
      { ...none, chain: [c, chain(a, b)] },
      [null, null, ["c", "b", "a"]],
    ],
    [
      "a chain that is only a group: its members follow at once",
      { ...none, chain: [group([b, c])] },
      [["b", "c"], null, []],
    ],
    ["a group of nothing", { ...none, callbacks: [a, group([])], chain: [group([group([])])] }, [["a"], null, []]],
    [
      "a group at the end of a chain: its members follow the last task",
      { ...none, chain: [group([b, c]), a] },
      [null, null, [["a", ["b", "c"]]]],
    ],
  ] as const)("%s", (_, given, [callbacks, errbacks, rest]) => {
    const plain = Result.getOrThrow(plainFollowUps(given))
    expect([plain.callbacks, plain.errbacks, plain.chain].map(namesOf)).toEqual([callbacks, errbacks, rest])
  })

  test("members of a group have its id and their places", () => {
    const plain = Result.getOrThrow(plainFollowUps({ ...none, callbacks: [group([a, b], { task_id: "g" })] }))
    expect(plain.callbacks?.map(({ options }) => options)).toEqual([
      { group_id: "g", group_index: 0 },
      { group_id: "g", group_index: 1 },
    ])
  })

  describe("where chords are counted", () => {
    const body = task("sum", { task_id: "s" })
    const chordOf = (header: unknown) =>
      signature({ task: "celery.chord", subtask_type: "chord", kwargs: { header, body } })
    const members = group([a, chain(b, c)], { task_id: "g" })
    const plain = (given: PlainFollowUps) => Result.getOrThrow(plainFollowUps(given, true))
    const place = (index: number, after: object = body) => ({
      group_id: "g",
      group_index: index,
      chord: { ...after, chord_size: 2 },
    })

    test("a chord is its members, of which the last task of each has its body", () => {
      const [first, second] = plain({ ...none, callbacks: [chordOf(members)] }).callbacks ?? []
      expect(first).toMatchObject({ task: "a", options: place(0) })
      expect(second).toMatchObject({ task: "b", options: { chain: [{ task: "c", options: place(1) }] } })
      expect(second?.options).not.toHaveProperty("chord")
    })

    test("a group before another link is a chord, whose body goes on with the rest", () => {
      const { callbacks, chain: rest } = plain({ ...none, chain: [c, body, members] })
      expect(callbacks?.[0]?.options.chord).toMatchObject({
        subtask_type: "chain",
        kwargs: { tasks: [{ task: "sum" }, { task: "c" }] },
        chord_size: 2,
      })
      expect(rest).toEqual([])
    })

    test("what comes later stays as it is, for whichever worker runs it", () => {
      const later = chordOf(members)
      expect(plain({ ...none, chain: [later, a] })).toEqual({ ...none, chain: [later, a] })
      expect(plain({ ...none, callbacks: [chain(a, later)] }).callbacks).toEqual([
        { ...a, options: { chain: [later] } },
      ])
    })

    test("a group may have as many members as programs make in one go", () => {
      const many = group(Array(5_000).fill(a), { task_id: "g" })
      expect(plain({ ...none, callbacks: [many] }).callbacks).toHaveLength(5_000)
      expect(plain({ ...none, chain: [body, many] }).callbacks).toHaveLength(5_000)
    })

    test("what both a callback and the chain name runs once", () => {
      const last = task("c", { task_id: "3" })
      const next = task("b", { task_id: "2", link: [last] })
      expect(plain({ ...none, callbacks: [a, next], chain: [last, next] })).toEqual({
        ...none,
        callbacks: [a],
        chain: [last, next],
      })
      const both = chordOf(group([next, { ...next, options: { task_id: "4" } }], { task_id: "g" }))
      const { callbacks, chain: rest } = plain({ ...none, callbacks: [both, a], chain: [both] })
      expect(callbacks?.map(({ options }) => options.task_id)).toEqual([undefined, "2", "4"])
      expect(rest).toEqual([])
    })

    test("a chord without members is its body, which gets an empty list", () => {
      const empty = { ...body, args: [[]], immutable: true }
      expect(plain({ ...none, callbacks: [chordOf([])] }).callbacks).toEqual([empty])
      expect(plain({ ...none, callbacks: [chordOf(group([], { task_id: "g" }))] }).callbacks).toEqual([empty])
      expect(plain({ ...none, chain: [c, body, group([group([])])] })).toEqual({
        ...none,
        callbacks: [{ ...empty, options: { ...body.options, chain: [c] } }],
        chain: [],
      })
      const two = group([
        { ...a, args: [1] },
        { ...b, args: [2], immutable: true },
      ])
      expect(plain({ ...none, chain: [two, group([])] }).callbacks).toEqual([
        { ...a, args: [[], 1], immutable: true },
        { ...b, args: [2], immutable: true },
      ])
    })

    test.each([
      ["without the id of its group", chordOf(group([a])), /the id of its group/],
      ["of too many", chordOf(group(Array(10_001).fill(a), { task_id: "g" })), /at most 10000 tasks, not 10001/],
    ])("a chord %s is refused", (_, given, why) => {
      const refused = plainFollowUps({ ...none, callbacks: [given] }, true)
      expect(Result.isFailure(refused) && refused.failure).toMatch(why)
    })
  })

  test("a chain of protocol 1, whose links are told twice, runs them once", () => {
    const next = task("b", { task_id: "2" })
    const first = task("a", { link: [next] })
    const given = { ...none, callbacks: [chain(first, next)] }
    expect(Result.getOrThrow(plainFollowUps(given)).callbacks).toEqual([first])
  })

  test.each([
    ["a chord", { ...none, callbacks: [chord] }, /callbacks\[0\]: a chord is not supported/],
    ["a chord in a group", { ...none, callbacks: [group([chord])] }, /chord is not supported/],
    ["a group before another link", { ...none, chain: [c, group([a, b])] }, /before another link is a chord/],
    [
      "a chain that begins with a group",
      { ...none, callbacks: [chain(group([a, b]), c)] },
      /starts with a group is a chord/,
    ],
    ["a chain with a group in it", { ...none, callbacks: [chain(a, group([b, c]))] }, /a group in it/],
    ["a group of too many", { ...none, callbacks: [group(Array(1_001).fill(a))] }, /at most 1000 tasks, not 1001/],
    ["a group of what is no signature", { ...none, callbacks: [group([1])] }, /kwargs\.tasks\[0\] is not a map/],
    [
      "another kind",
      { ...none, callbacks: [signature({ task: "x", subtask_type: "xmap" })] },
      /a xmap is not supported/,
    ],
  ] as const)("is refused with %s", (_, given, why) => {
    const plain = plainFollowUps(given)
    expect(Result.isFailure(plain) && plain.failure).toMatch(why)
  })
})
