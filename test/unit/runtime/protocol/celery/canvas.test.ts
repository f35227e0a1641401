/** Signatures of Celery that stand for several tasks. Pure. */
import { Result } from "effect"
import { describe, expect, test } from "vitest"
import { plainFollowUps } from "../../../../../runtime/protocol/celery/canvas.ts"
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

  test.each([
    ["a chord", { ...none, callbacks: [chord] }, /callbacks\[0\]: a chord is not supported/],
    ["a chord in a group", { ...none, callbacks: [group([chord])] }, /chord is not supported/],
    ["a group before another link", { ...none, chain: [c, group([a, b])] }, /before another link is a chord/],
    [
      "a chain that begins with a group",
      { ...none, callbacks: [chain(group([a, b]), c)] },
      /begins with a group is a chord/,
    ],
    ["a chain with a group in it", { ...none, callbacks: [chain(a, group([b, c]))] }, /a group in it/],
    ["a group without tasks", { ...none, callbacks: [group([])] }, /1 to 1000 tasks, not 0/],
    ["a group of too many", { ...none, callbacks: [group(Array(1_001).fill(a))] }, /1 to 1000 tasks, not 1001/],
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
