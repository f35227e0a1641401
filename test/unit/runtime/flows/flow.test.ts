/** Declared flows: what is refused, which tasks are ignored, and flows whose worker dies at each of its writes, in virtual time. */
import {
  actor,
  alwaysRevert,
  CallboardError,
  type Flow,
  type FlowTask,
  flow,
  forEach,
  handlerOf,
  type IgnoreDepth,
  InvalidFlow,
  type Job,
  Reject,
  type Step,
  StepError,
  task,
  times,
} from "callboard"
import { crashEverywhere, runActor } from "callboard/testing"
import { Effect } from "effect"
import { describe, expect, test } from "vitest"
import { sleep } from "../../../../runtime/transport/timers.ts"

/** Each test is up to hundreds of runs in virtual time. */
const MANY = { timeout: 300_000 }

const log: Array<string> = []

type Values = Readonly<Record<string, unknown>>

/** A task that notes that it ran, and that it was reverted, and gives each value its own name. */
const act = (
  name: string,
  requires: ReadonlyArray<string> = [],
  provides: ReadonlyArray<string> = [],
  { fails = () => undefined, ...options }: ActOptions = {},
): FlowTask =>
  task({ requires, provides, revert: () => void log.push(`-${name}`), ...options }, (input: Values, step: Step) => {
    log.push(name)
    const failure = fails(input, step)
    if (failure !== undefined) throw failure
    return Object.fromEntries(provides.map((value) => [value, value]))
  })

interface ActOptions {
  readonly after?: ReadonlyArray<string>
  readonly when?: (input: Values) => boolean
  readonly depth?: IgnoreDepth
  readonly fails?: (input: Values, step: Step) => Error | undefined
}

const failing = (name: string) => act(name, [], [], { fails: () => new RangeError(`${name} fails`) })
const never = (depth?: IgnoreDepth, provides: ReadonlyArray<string> = []) =>
  act("never", [], provides, { when: () => false, ...(depth === undefined ? {} : { depth }) })

describe("refused where the flow is defined", () => {
  const cases: ReadonlyArray<readonly [message: string, make: () => Flow]> = [
    [
      "flow f: each of these tasks waits for the next one, in a circle: c, b, a",
      () =>
        flow("f", {
          tasks: {
            d: act("d", ["z"]),
            a: act("a", ["z"], ["x"]),
            b: act("b", ["x"], ["y"]),
            c: act("c", ["y"], ["z"]),
          },
        }),
    ],
    [
      "flow f: each of these tasks waits for the next one, in a circle: a",
      () => flow("f", { tasks: { a: act("a", ["x"], ["x"]) } }),
    ],
    [
      "flow f: each of these tasks waits for the next one, in a circle: a, b",
      () => flow("f", { tasks: { a: act("a", [], [], { after: ["b"] }), b: act("b", [], [], { after: ["a"] }) } }),
    ],
    [
      'flow f: b provides "x", and so does a: rename one of the values',
      () => flow("f", { tasks: { a: act("a", [], ["x"]), b: act("b", [], ["x"]) } }),
    ],
    [
      'flow f: a provides "x", and so does the retry of the flow: rename one of the values',
      () => flow("f", { retry: times(2), as: "x", tasks: { a: act("a", [], ["x"]) } }),
    ],
    [
      "flow f: a comes after b, which is not one of its tasks",
      () => flow("f", { tasks: { a: act("a", [], [], { after: ["b"] }) } }),
    ],
    [
      'flow f: a requires "y" of b, which is not before it: move it',
      () => flow("f", { pattern: "linear", tasks: { a: act("a", ["y"]), b: act("b", [], ["y"]) } }),
    ],
    [
      "flow f: a comes after b, which is not before it: move it",
      () => flow("f", { pattern: "linear", tasks: { a: act("a", [], [], { after: ["b"] }), b: act("b") } }),
    ],
    [
      'flow f: b requires "x" of a, but the flow is unordered: make it a graph',
      () => flow("f", { pattern: "unordered", tasks: { a: act("a", [], ["x"]), b: act("b", ["x"]) } }),
    ],
    [
      "flow f: b comes after a, but the flow is unordered: make it a graph",
      () => flow("f", { pattern: "unordered", tasks: { a: act("a"), b: act("b", [], [], { after: ["a"] }) } }),
    ],
    [
      'flow f: b requires "x", which is missing if never is ignored: give never a larger depth than "atom"',
      () => flow("f", { tasks: { never: never("atom", ["x"]), b: act("b", ["x"]) } }),
    ],
    [
      'flow f: c requires "y", which is missing if never is ignored: give never a larger depth than "neighbors"',
      () =>
        flow("f", {
          tasks: { never: never("neighbors", ["x"]), b: act("b", ["x"], ["y"]), c: act("c", ["y"]) },
        }),
    ],
    [
      'flow f: b requires "x", which is missing if a task within inner is ignored: give that task the depth "all"',
      () =>
        flow("f", {
          tasks: {
            inner: flow("inner", { tasks: { middle: flow("middle", { tasks: { never: never("flow", ["x"]) } }) } }),
            b: act("b", ["x"]),
          },
        }),
    ],
    ["flow f: tasks is empty; a flow needs at least one", () => flow("f", { tasks: {} })],
    [
      "flow f: 1 is a number, which JavaScript lists first: give the task another name",
      () => flow("f", { pattern: "linear", tasks: { b: act("b"), 1: act("a") } }),
    ],
  ]
  test.each(cases)("%s", (message, make) => {
    expect(make).toThrow(new InvalidFlow(message))
    expect(make).toThrow(InvalidFlow)
  })

  const wrong: ReadonlyArray<readonly [message: string, make: () => unknown]> = [
    [
      "tries is not an option of task()",
      () => task(Object.assign({ requires: [], provides: [] }, { tries: 1 }), () => ({})),
    ],
    [
      "retry.maxx is not an option of task() (did you mean retry.max?)",
      () => task({ requires: [], provides: [], retry: Object.assign({ max: 1 }, { maxx: 1 }) }, () => ({})),
    ],
    ["name: must be text", () => flow("", { tasks: { a: act("a") } })],
    ["tasks: must have at most 128 bytes", () => flow("f", { tasks: { ["a".repeat(129)]: act("a") } })],
    ["parallel: must be a whole number, 1 or more", () => flow("f", { parallel: 0, tasks: { a: act("a") } })],
    ["as: names the value of `retry`, which is missing", () => flow("f", { as: "x", tasks: { a: act("a") } })],
    ["tasks.a: must be made by task() or flow()", () => flow("f", { tasks: JSON.parse('{"a":1}') })],
  ]
  test.each(wrong)("%s", (message, make) => {
    expect(make).toThrow(CallboardError)
    expect(make).toThrow(message)
  })
})

test("what a flow requires and provides follows from its tasks", () => {
  const inner = flow("inner", { retry: forEach(["eu"]), as: "region", tasks: { a: act("a", ["region", "x"], ["y"]) } })
  const outer = flow("outer", { tasks: { inner, b: act("b", ["y", "z"], ["w"]) } })
  expect(inner).toMatchObject({ name: "inner", requires: ["x"], provides: ["y", "region"] })
  expect(outer).toMatchObject({ requires: ["x", "z"], provides: ["y", "region", "w"] })
})

/** Runs a flow once, without crashes. */
const run = async (flow: Flow, input: Values = {}, retry: { max: number } | false = false) => {
  log.splice(0)
  await using ran = await runActor(
    actor("scene", { methods: { run: { run: handlerOf(flow), ...(retry === false ? {} : { retry }) } } }),
  )
  const job = await ran.submit.run(input)
  await job.outcome()
  const { state, dead, reverted, result, error, attempts } = await job.find()
  return { state, dead, reverted, result, error, attempts, log: log.join(" ") }
}

describe("what is ignored with a task", () => {
  const around = (depth?: IgnoreDepth) =>
    flow("outer", {
      pattern: "linear",
      tasks: {
        flow: flow("flow", {
          pattern: "linear",
          tasks: {
            first: act("first"),
            never: never(depth),
            next: act("next"),
            later: act("later"),
            inner: flow("inner", { tasks: { leaf: act("leaf") } }),
          },
        }),
        last: act("last"),
        ends: flow("ends", { tasks: { end: act("end") } }),
      },
    })
  test.each([
    ["atom", "first next later leaf last end"],
    ["neighbors", "first later leaf last end"],
    ["flow", "first leaf last end"],
    ["all", "first"],
    [undefined, "first"],
  ] as const)("with the depth %s", async (depth, ran) => {
    expect(await run(around(depth))).toMatchObject({ state: "succeeded", log: ran, result: {} })
  })

  test("other branches run", async () => {
    const branches = flow("branches", {
      tasks: { never: never("all", ["x"]), b: act("b", ["x"], ["y"]), c: act("c", [], ["z"]), d: act("d", ["z"]) },
    })
    expect(await run(branches)).toMatchObject({ state: "succeeded", log: "c d", result: { z: "z" } })
  })

  test("when sees the values that the task requires", async () => {
    const seen: Array<Values> = []
    const asks = act("asks", ["x"], [], {
      when: (input) => {
        seen.push(input)
        return input["x"] === "x"
      },
    })
    const decides = flow("decides", { tasks: { asks, a: act("a", ["w"], ["x"]), b: act("b", [], ["y"]) } })
    expect(await run(decides, { w: 1, v: 2 })).toMatchObject({ log: "a b asks", result: { x: "x", y: "y" } })
    expect(seen).toEqual([{ x: "x" }])
  })
})

describe("a flow", () => {
  test("that lacks input runs nothing, and is not tried again", async () => {
    const needs = flow("needs", { tasks: { a: act("a", [], ["x"]), b: act("b", ["x", "y", "z"]) } })
    expect(await run(needs, { y: 1 }, { max: 3 })).toMatchObject({
      state: "failed",
      log: "",
      attempts: 1,
      error: {
        name: "MissingDependencies",
        message: 'flow needs requires "z": add them to the input',
        reason: "invalid-input",
        field: "z",
      },
    })
  })

  test("begins nothing after a failure, lets end what runs, and has one error for several", async () => {
    const slow = (name: string, ms: number, fails: boolean) =>
      task({ requires: [], provides: [], revert: () => void log.push(`-${name}`) }, async () => {
        await sleep(ms)
        log.push(name)
        if (fails) throw new RangeError(`${name} fails`)
      })
    const parallel = flow("parallel", {
      tasks: {
        a: slow("a", 5, true),
        b: slow("b", 40, true),
        c: slow("c", 80, false),
        afterC: act("afterC", [], [], { after: ["c"] }),
      },
    })
    expect(await run(parallel)).toMatchObject({
      state: "failed",
      reverted: true,
      log: "a b c -c -b -a",
      error: {
        name: "AggregateError",
        message: "2 tasks failed: a fails; b fails",
        errors: [
          { name: "RangeError", message: "a fails" },
          { name: "RangeError", message: "b fails" },
        ],
      },
    })
  })

  test("is rejected if one of its tasks rejects the job", async () => {
    const rejects = act("no", [], [], { fails: () => new Reject("no") })
    const both = flow("both", { tasks: { a: failing("a"), no: rejects } })
    expect(await run(both, {}, { max: 3 })).toMatchObject({
      state: "failed",
      dead: "rejected",
      attempts: 1,
      error: { message: "no" },
    })
  })

  test("is tried again as its method says, and keeps the tasks that have succeeded", async () => {
    let tries = 0
    const flaky = act("flaky", [], [], { fails: () => (++tries < 3 ? new Error("not yet") : undefined) })
    const again = flow("again", { pattern: "linear", tasks: { a: act("a"), flaky, c: act("c") } })
    expect(await run(again, {}, { max: 3 })).toMatchObject({
      state: "succeeded",
      attempts: 3,
      log: "a flaky flaky flaky c",
    })
  })

  test("runs as many tasks at a time as it may", async () => {
    let now = 0
    let most = 0
    const one = task({ requires: [], provides: [] }, async () => {
      most = Math.max(most, ++now)
      await sleep(5)
      now--
    })
    const tasks = { a: one, b: one, c: one, d: one, e: one }
    await run(flow("bounded", { parallel: 2, tasks }))
    expect(most).toBe(2)
    most = 0
    await run(flow("free", { tasks }))
    expect(most).toBe(5)
  })

  test("has tasks that return Effects, and refuses a result without what it provides", async () => {
    const effect = task({ requires: ["n"], provides: ["m"] }, ({ n }: { n: number }) =>
      Effect.succeed({ m: n + 1, k: 0 }),
    )
    expect(await run(flow("effect", { tasks: { effect } }), { n: 1 })).toMatchObject({ result: { m: 2 } })
    const forgets = task({ requires: [], provides: ["m"] }, (): { m: number } => JSON.parse("{}"))
    expect(await run(flow("forgets", { tasks: { forgets } }), {}, { max: 3 })).toMatchObject({
      state: "failed",
      attempts: 1,
      error: { message: 'task forgets has not returned "m", which it provides: return an object that has it' },
    })
  })

  test("gives a revert the values that its task had", async () => {
    const undone: Array<unknown> = []
    const first = task(
      { requires: ["n"], provides: ["m"], revert: ({ input, result, why }) => void undone.push([input, result, why]) },
      ({ n }: { n: number }) => ({ m: n + 1 }),
    )
    await run(flow("undone", { pattern: "linear", tasks: { first, b: failing("b") } }), { n: 1 })
    expect(undone).toEqual([[{ n: 1 }, { m: 2 }, "failed"]])
  })
})

class NetworkError extends Error {}
class ConnectionLost extends NetworkError {
  readonly host = "db"
}

interface Scene {
  readonly run: Flow | ((job: Job) => Flow)
  readonly input?: Values
  readonly state?: "failed"
  /** Its result, or the message of its error. */
  readonly end: unknown
  /** What runs, in order. */
  readonly log: string
  readonly retried?: true
}

const scenes: Readonly<Record<string, Scene>> = {
  "a graph, by what its tasks require and provide (D1)": {
    run: flow("order", {
      parallel: 1,
      tasks: {
        ship: task(
          { requires: ["payment", "address"], provides: ["parcel"] },
          (of: { payment: string; address: string }) => {
            log.push("ship")
            return { parcel: `${of.payment} to ${of.address}` }
          },
        ),
        charge: task({ requires: ["total", "card"], provides: ["payment"] }, (of: { total: number; card: string }) => {
          log.push("charge")
          return { payment: `${of.card} ${of.total}` }
        }),
        quote: task({ requires: ["items"], provides: ["total"] }, ({ items }: { items: ReadonlyArray<string> }) => {
          log.push("quote")
          return { total: items.length }
        }),
        thank: act("thank", [], [], { after: ["ship"] }),
      },
    }),
    input: { items: ["tea", "milk"], card: "visa", address: "Rome" },
    end: { total: 2, payment: "visa 2", parcel: "visa 2 to Rome" },
    log: "quote charge ship thank",
  },
  "D1: a branch that is ignored": {
    run: flow("ignored", {
      tasks: {
        a: act("a", [], ["x"]),
        gate: act("gate", ["x"], ["y"], { when: ({ x }) => x !== "x" }),
        b: act("b", ["y"], ["z"]),
        c: act("c", ["x"], ["w"]),
      },
    }),
    end: { x: "x", w: "w" },
    log: "a c",
  },
  "a linear flow that continues after the task that ran (S081)": {
    run: flow("linear", { pattern: "linear", tasks: { a: act("a", [], ["x"]), b: act("b", ["x"]), c: act("c") } }),
    end: { x: "x" },
    log: "a b c",
  },
  "a task that was removed, and one that was added (S087)": {
    run: ({ retries }) =>
      retries === 0
        ? flow("changed", { pattern: "linear", tasks: { a: act("a", [], ["x"]), gone: act("gone"), f: failing("f") } })
        : flow("changed", { pattern: "linear", tasks: { a: act("a", [], ["x"]), added: act("added") } }),
    retried: true,
    end: { x: "x" },
    log: "a gone f added",
  },
  "a failure that keeps its classes, fields and cause (S093)": {
    run: flow("stored", {
      pattern: "linear",
      // The value of the second try is the error of the first one.
      retry: {
        next: (history) => {
          const error = history.at(-1)?.error
          const cause = error?.cause instanceof StepError ? [error.cause.name, error.cause.message] : null
          return error === undefined ? null : { names: error.names, message: error.message, ...error.fields, cause }
        },
        onFailure: (history) => (history.length < 2 && history[0]?.error.is("NetworkError") ? "retry" : "revert"),
      },
      as: "n",
      tasks: {
        a: act("a"),
        f: act("f", ["n"], [], {
          fails: ({ n }) => (n === null ? new ConnectionLost("lost", { cause: new TypeError("reset") }) : undefined),
        }),
      },
    }),
    end: {
      n: {
        names: ["ConnectionLost", "NetworkError", "Error"],
        message: "lost",
        host: "db",
        cause: ["TypeError", "reset"],
      },
    },
    log: "a f -f -a a f",
  },
  "a task that fails: what has run is reverted, the last one first (S094)": {
    run: flow("reverts", { pattern: "linear", tasks: { a: act("a"), b: failing("b"), c: act("c") } }),
    state: "failed",
    end: "b fails",
    log: "a b -b -a",
  },
  "times(3), the third succeeds (S089)": {
    run: flow("times", {
      pattern: "linear",
      retry: times(3),
      as: "x",
      tasks: { a: act("a"), f: act("f", ["x"], [], { fails: ({ x }) => (x === 3 ? undefined : new Error("no")) }) },
    }),
    end: { x: 3 },
    log: "a f -f -a a f -f -a a f",
  },
  "a flow within a flow gives up, and the outer one is tried again (S099)": {
    run: flow("outer", {
      pattern: "linear",
      retry: times(2),
      as: "x",
      tasks: {
        a: act("a"),
        inner: flow("inner", {
          pattern: "linear",
          retry: alwaysRevert(),
          tasks: {
            b: act("b", [], ["y"]),
            f: act("f", ["x"], [], { fails: ({ x }) => (x === 2 ? undefined : new Error("no")) }),
          },
        }),
        c: act("c", ["y"]),
      },
    }),
    end: { x: 2, y: "y" },
    log: "a b f -f -b -a a b f c",
  },
}

const crash = (scene: Scene) =>
  crashEverywhere(
    actor("scene", {
      methods: {
        run: {
          run: (input: Values, job) =>
            handlerOf(typeof scene.run === "function" ? scene.run(job) : scene.run)(input, job),
          ...(scene.retried ? { retry: { max: 1, interval: 0 } } : {}),
        },
      },
    }),
    { method: "run", input: scene.input, begin: () => log.splice(0), look: () => [...log] },
  )

describe("a worker that dies before and after every write", MANY, () => {
  test.each(Object.entries(scenes))("%s", async (_name, scene) => {
    const ends = await crash(scene)
    expect(ends.length).toBeGreaterThan(4)
    for (const { crash, job, seen } of ends) {
      expect({ crash, state: job.state, end: job.result ?? job.error?.message }).toEqual({
        crash,
        state: scene.state ?? "succeeded",
        end: scene.end,
      })
      // The task that was under way when the worker died runs twice, and no other.
      const ran = seen.filter((each, at) => each !== seen[at - 1])
      expect([crash, ran.join(" ")]).toEqual([crash, scene.log])
      expect([crash, seen.length - ran.length]).toEqual([crash, seen.length > ran.length ? 1 : 0])
    }
  })

  test("tasks that fail at the same time: what ran is reverted, and nothing follows", async () => {
    const fails = (name: string) => act(name, ["x"], [name], { fails: () => new Error(`${name} fails`) })
    const scene: Scene = {
      run: flow("diamond", {
        tasks: {
          root: act("root", [], ["x"]),
          left: fails("left"),
          right: fails("right"),
          join: act("join", ["left"]),
        },
      }),
      end: undefined,
      log: "",
    }
    for (const { crash: at, job, seen } of await crash(scene)) {
      expect([at, job.state, job.reverted, job.error?.name]).toEqual([at, "failed", true, "AggregateError"])
      expect([at, ...(job.error?.message ?? "").split(/: |; /).toSorted()]).toEqual([
        at,
        ...["2 tasks failed", "left fails", "right fails"],
      ])
      expect([at, [...new Set(seen)].toSorted()]).toEqual([at, ["-left", "-right", "-root", "left", "right", "root"]])
      // The revert that was under way when the worker died is called again.
      const reverts = seen.filter((each, i) => each.startsWith("-") && each !== seen[i - 1])
      expect([at, reverts.at(-1), reverts.length]).toEqual([at, "-root", 3])
    }
  })
})
