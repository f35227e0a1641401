/** Options of a method, its actor, the service and the configuration: which of them holds, and what is said of it. */
import { actor } from "callboard"
import { describe, expect, test } from "vitest"
import { actorsWithDefaults, describeOptions } from "../../../../runtime/actor/defaults.ts"
import type { MethodDefaults } from "../../../../runtime/actor/definition.ts"
import { INHERITED_NAMES, type InheritedOption } from "../../../../runtime/options/inherited.ts"

const LEVELS = ["method", "actor", "service", "callboard.config.ts"] as const

/** A value of an option for each level, and what is shown of it. */
const VALUES: { readonly [Name in InheritedOption]: ReadonlyArray<readonly [given: unknown, shown: unknown]> } = {
  timeLimit: [
    ["10 seconds", { hard: 10 }],
    [{ soft: 1 }, { hard: 1_800, soft: 1 }],
    [-1, { hard: null }],
    [
      { soft: "1 minute", hard: "1 hour" },
      { hard: 3_600, soft: 60 },
    ],
  ],
  retry: [
    [false, { max: 0 }],
    [
      { max: 1, interval: [1, 2] },
      { max: 1, interval: [1, 2] },
    ],
    [
      { max: 2, backoff: { base: 5, jitter: false }, front: true },
      { max: 2, backoff: { base: 5, factor: 2, max: 600, jitter: false }, front: true },
    ],
    [
      { max: 3, on: ["Busy"], except: ["Gone"] },
      { max: 3, backoff: { base: 1, factor: 2, max: 600, jitter: true }, on: ["Busy"], except: ["Gone"] },
    ],
  ],
  resultTtl: [
    [0, 0],
    [-5, -1],
    ["2 hours", 7_200],
    [60, 60],
  ],
  failureTtl: [
    [1.5, 1.5],
    ["1 day", 86_400],
    [-1, -1],
    [7, 7],
  ],
  onLost: [
    ["redeliver", "redeliver"],
    ["fail", "fail"],
    ["redeliver", "redeliver"],
    ["fail", "fail"],
  ],
}

const DEFAULT = {
  timeLimit: { hard: 1_800 },
  retry: { max: 0 },
  resultTtl: 86_400,
  failureTtl: 604_800,
  onLost: "redeliver",
}

const GIVEN = ["present", "absent", "undefined"] as const
const combinations = GIVEN.flatMap((a) => GIVEN.flatMap((b) => GIVEN.flatMap((c) => GIVEN.map((d) => [a, b, c, d]))))

/** The options of a method with these options at the levels. */
const held = ([method, ofActor, service, configuration]: ReadonlyArray<MethodDefaults>) => {
  const defined = actor("mail", { ...ofActor, methods: { send: { ...method, run: () => 1 }, plain: () => 1 } })
  const served = actorsWithDefaults([defined], service ?? {}, () => "service")
  const [all] = actorsWithDefaults(served, configuration ?? {}, () => "callboard.config.ts")
  const [send, plain] = [all?.methods.get("send"), all?.methods.get("plain")]
  if (send === undefined || plain === undefined) throw new Error("a method is missing")
  return { send: describeOptions(send), plain: describeOptions(plain) }
}

describe.each(INHERITED_NAMES)("%s: the nearest level that sets it sets all of it", (name) => {
  test.each(combinations.map((each) => [each.join(", "), each] as const))("%s", (_, each) => {
    const levels = each.map((how, at) => {
      if (how === "absent") return {}
      return { [name]: how === "undefined" ? undefined : VALUES[name][at]?.[0] }
    })
    const expected = (from: number) => {
      const nearest = each.findIndex((how, at) => how === "present" && at >= from)
      return nearest < 0
        ? { value: DEFAULT[name], from: "default" }
        : { value: VALUES[name][nearest]?.[1], from: LEVELS[nearest] }
    }
    const { send, plain } = held(levels)
    expect(send[name]).toEqual(expected(0))
    // A method without options has those of the levels above it.
    expect(plain[name]).toEqual(expected(1))
    for (const other of INHERITED_NAMES)
      if (other !== name) expect(send[other]).toEqual({ value: DEFAULT[other], from: "default" })
  })
})

test("each option comes from its own level, and an actor is not changed by a service", () => {
  const defined = actor("mail", {
    timeLimit: "1 minute",
    retry: { max: 4 },
    methods: { send: { retry: false, run: () => 1 } },
  })
  const [served] = actorsWithDefaults([defined], { resultTtl: 5, timeLimit: 1 }, (option) => `flag --${option}`)
  const [before, after] = [defined, served].map((each) => each?.methods.get("send"))
  if (before === undefined || after === undefined) throw new Error("a method is missing")
  expect(describeOptions(after)).toEqual({
    timeLimit: { value: { hard: 60 }, from: "actor" },
    retry: { value: { max: 0 }, from: "method" },
    resultTtl: { value: 5, from: "flag --resultTtl" },
    failureTtl: { value: 604_800, from: "default" },
    onLost: { value: "redeliver", from: "default" },
  })
  expect(describeOptions(before).resultTtl.from).toBe("default")
})

test("an actor may have its methods redelivered whose tasks are acked early", () => {
  const early = { acks: { when: "early" }, run: () => 1 } as const
  expect(() => actor("mail", { onLost: "redeliver", methods: { early } })).not.toThrow()
})
