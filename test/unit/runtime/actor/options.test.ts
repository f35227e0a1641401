/** Options of actors and methods that are misspelt, mistyped or `undefined`: one table for all of them. */
import { actor, InvalidActor } from "callboard"
import { describe, expect, test } from "vitest"
import { ACTOR_OPTIONS, METHOD_OPTIONS } from "../../../../runtime/actor/options.ts"

const run = () => 1
/** Defines an actor as JavaScript does. */
const define = (options: object) => Reflect.apply(actor, undefined, ["x", { methods: { run }, ...options }])
const method = (options: object) => () => define({ methods: { run: { run, ...options } } })
const whole = (options: object) => () => define(options)

const invalid = (code: string, message: string, field: string) =>
  expect.objectContaining({ _tag: "InvalidActor", code, message, details: expect.objectContaining({ field }) })

describe("a misspelt option is refused with its path, and the right one is named", () => {
  test.each<readonly [options: object, field: string, instead: string]>([
    [{ retyr: {} }, "retyr", " (did you mean retry?)"],
    [{ zebra: 1 }, "zebra", ""],
    [{ timeLimit: { sfot: 1, hard: 2 } }, "timeLimit.sfot", " (did you mean timeLimit.soft?)"],
    [{ timeLimit: { soft: 1, harrd: 2 } }, "timeLimit.harrd", " (did you mean timeLimit.hard?)"],
    [{ retry: { backof: {} } }, "retry.backof", " (did you mean retry.backoff?)"],
    [{ retry: { max: 3, backoff: { bse: 1 } } }, "retry.backoff.bse", " (did you mean retry.backoff.base?)"],
    [{ limit: { rate: 1, concurency: 1 } }, "limit.concurency", " (did you mean limit.concurrency?)"],
    [{ limit: { rate: 1, x: 1 } }, "limit.x", "; it has limit.rate, limit.concurrency, limit.key"],
    [{ schedule: { crno: "* * * * *" } }, "schedule.crno", " (did you mean schedule.cron?)"],
    [{ schedule: { every: 60, task: "other" } }, "schedule.task", ""],
    [{ acks: { wen: "early" } }, "acks.wen", " (did you mean acks.when?)"],
    [{ acks: { onLost: "fail" } }, "acks.onLost", "; it has acks.when, acks.onFailure, acks.onTimeout"],
  ])("of a method: %j", (options, field, instead) => {
    const message = `method x.run: ${field} is not an option of a method${instead}`
    expect(method(options)).toThrow(invalid("unknown-field", message, field))
  })

  test.each<readonly [options: object, field: string, instead: string]>([
    [{ isolaton: "process" }, "isolaton", " (did you mean isolation?)"],
    [{ restart: { mx: 1 } }, "restart.mx", " (did you mean restart.max?)"],
    [{ restart: { backof: {} } }, "restart.backof", " (did you mean restart.backoff?)"],
    [{ restart: { backoff: { bse: 1 } } }, "restart.backoff.bse", " (did you mean restart.backoff.base?)"],
    [{ timeLimti: 1 }, "timeLimti", " (did you mean timeLimit?)"],
    [{ timeLimit: { sfot: 1, hard: 2 } }, "timeLimit.sfot", " (did you mean timeLimit.soft?)"],
    [{ retry: { backof: {} } }, "retry.backof", " (did you mean retry.backoff?)"],
    [{ retry: { max: 3, backoff: { bse: 1 } } }, "retry.backoff.bse", " (did you mean retry.backoff.base?)"],
    [{ onLots: "fail" }, "onLots", " (did you mean onLost?)"],
  ])("of an actor: %j", (options, field, instead) => {
    const message = `actor x: ${field} is not an option of an actor${instead}`
    expect(whole(options)).toThrow(invalid("unknown-field", message, field))
  })
})

const DURATION = "must be a duration: seconds as a number, or text such as 30s"

const WRITE = 'Use a number of seconds, or text such as "10s", "5 minutes" or "500 ms".'

/** Options of methods that actors may set as well. */
const INHERITED: ReadonlyArray<readonly [options: object, field: string, why: string]> = [
  [{ failureTtl: true }, "failureTtl", DURATION],
  [{ onLost: "maybe" }, "onLost", 'must be "redeliver" or "fail"'],
  [{ resultTtl: {} }, "resultTtl", DURATION],
  [{ resultTtl: "soon" }, "resultTtl", `"soon" is not a duration: it is not a number with a unit. ${WRITE}`],
  [{ retry: true }, "retry", "must be false or an object, such as { max: 3 }"],
  [{ retry: { max: 10_001 } }, "retry.max", "must be a whole number from 1 to 10000"],
  [{ retry: { front: "yes" } }, "retry.front", "must be true or false"],
  [{ retry: { backoff: { jitter: 1 } } }, "retry.backoff.jitter", "must be true or false"],
  [{ retry: { backoff: { base: {} } } }, "retry.backoff.base", DURATION],
  [{ retry: { interval: [1, -1] } }, "retry.interval[1]", `-1 is not a duration: it is negative. ${WRITE}`],
  [{ retry: { interval: 1, backoff: {} } }, "retry.interval", "use either `interval` or `backoff`, not both"],
  [{ timeLimit: true }, "timeLimit", "must be a duration, or an object with soft and hard"],
  [{ timeLimit: null }, "timeLimit", "must be a duration, or an object with soft and hard"],
  [{ timeLimit: 0 }, "timeLimit.hard", "must be more than 0"],
  [{ timeLimit: { hard: {} } }, "timeLimit.hard", DURATION],
  [{ timeLimit: { soft: 2, hard: 1 } }, "timeLimit.soft", "must be shorter than timeLimit.hard"],
]

describe("an option of the wrong kind is refused with its path, and what it must be", () => {
  test.each<readonly [options: object, field: string, why: string]>([
    [{ accepts: "image/*" }, "accepts", "must be a list of names"],
    [{ acks: "early" }, "acks", 'must be an object, such as { when: "early" }'],
    [{ acks: { when: "now" } }, "acks.when", 'must be "late" or "early"'],
    [{ acks: { onFailure: true } }, "acks.onFailure", 'must be "ack" or "reject"'],
    [{ acks: { onTimeout: "drop" } }, "acks.onTimeout", 'must be "ack" or "reject"'],
    [{ description: 5 }, "description", "must be text"],
    [{ input: { path: "string" } }, "input", "must be a Standard Schema (Zod, Valibot …) or an Effect Schema"],
    [{ isolation: "thread" }, "isolation", 'must be "inline" or "process"'],
    [{ limit: 5 }, "limit", "must be an object with rate, concurrency or both, and optionally key"],
    [{ limit: { concurrency: 0 } }, "limit.concurrency", "must be a whole number from 1 to 100000"],
    [{ limit: { concurrency: "2" } }, "limit.concurrency", "must be a whole number from 1 to 100000"],
    [{ limit: { rate: {} } }, "limit.rate", 'must be a rate, such as "10/m", "100/s" or 5 per second'],
    [
      { limit: { rate: 1, key: 5 } },
      "limit.key",
      "must be the name of a field of the input, of 1 to 255 bytes, or a function",
    ],
    [{ onFailure: "log" }, "onFailure", "must be a function"],
    [{ onStopped: {} }, "onStopped", "must be a function"],
    [{ onSuccess: 1 }, "onSuccess", "must be a function"],
    [{ output: true }, "output", "must be a Standard Schema (Zod, Valibot …) or an Effect Schema"],
    [{ params: "ab" }, "params", "must be a list of names"],
    [{ params: [1] }, "params", "must be a list of names"],
    [{ params: ["a", "a"] }, "params", "a is named twice"],
    [{ priority: 10 }, "priority", "must be a whole number from 0 to 9"],
    [{ priority: "4" }, "priority", "must be a whole number from 0 to 9"],
    [{ queue: 5 }, "queue", "must be text"],
    [{ rate: {} }, "rate", 'must be a rate, such as "10/m", "100/s" or 5 per second'],
    [{ redact: "password" }, "redact", "must be true, false or a list of names"],
    [{ redact: [1] }, "redact", "must be true, false or a list of names"],
    [{ schedule: 7 }, "schedule", 'must be a cron expression, or an object, such as { every: "1 hour" }'],
    [{ schedule: { every: 60, overlap: "kill" } }, "schedule.overlap", 'must be "allow" or "skip" or "queue"'],
    [{ schedule: { every: 60, most: 0 } }, "schedule.most", "must be a whole number from 1 to 1000"],
    ...INHERITED,
  ])("of a method: %j", (options, field, why) => {
    expect(method(options)).toThrow(invalid("invalid-input", `method x.run: ${field}: ${why}`, field))
  })

  test.each<readonly [options: object, field: string, why: string]>([
    [{ description: 5 }, "description", "must be text"],
    [{ isolation: "thread" }, "isolation", 'must be "inline" or "process"'],
    [{ methods: [run] }, "methods", "must be an object with a function for each method"],
    [{ module: "no url" }, "module", "must be the URL of the file that exports it: import.meta.url"],
    [{ module: 5 }, "module", "must be the URL of the file that exports it: import.meta.url"],
    [{ queue: 5 }, "queue", "must be text"],
    [{ restart: 5 }, "restart", "must be an object"],
    [{ restart: { max: -1 } }, "restart.max", "must be a whole number from 0 to 1000"],
    [{ restart: { within: {} } }, "restart.within", DURATION],
    [{ start: 5 }, "start", "must be a function"],
    [{ stop: {} }, "stop", "must be a function"],
    ...INHERITED,
  ])("of an actor: %j", (options, field, why) => {
    expect(whole(options)).toThrow(invalid("invalid-input", `actor x: ${field}: ${why}`, field))
  })
})

describe("an option that is undefined is as if absent", () => {
  const plain = actor("x", { methods: { run: { run } } })

  test.each(Object.keys(METHOD_OPTIONS).filter((option) => option !== "run"))("%s of a method", (option) => {
    expect(method({ [option]: undefined })().methods.get("run")).toEqual({
      ...plain.methods.get("run"),
      run: expect.any(Function),
    })
  })

  test.each(Object.keys(ACTOR_OPTIONS).filter((option) => option !== "methods"))("%s of an actor", (option) => {
    expect(whole({ [option]: undefined })()).toMatchObject({ name: "x", queue: undefined, restart: undefined })
  })

  test("one that does not exist, too", () => {
    expect(method({ retyr: undefined })).not.toThrow(InvalidActor)
    expect(whole({ isolaton: undefined, restart: { mx: undefined } })).not.toThrow(InvalidActor)
  })

  test("within an option, and without changing what is declared", () => {
    const defined = method({
      timeLimit: { soft: undefined, hard: 5 },
      retry: { max: 1, on: undefined, backoff: { base: 1, factor: undefined } },
      limit: { rate: 1, concurrency: undefined, key: undefined },
      schedule: { every: 60, cron: undefined, input: { kept: undefined } },
      acks: { when: undefined, onFailure: "reject" },
    })().methods.get("run")
    expect(defined).toStrictEqual({
      actor: "x",
      name: "run",
      isolation: "inline",
      input: undefined,
      output: undefined,
      run: expect.any(Function),
      timeLimit: { hard: 5 },
      retry: { max: 1, baseMs: 1_000 },
      limit: { rate: { intervalMs: 1_000 } },
      schedule: { every: 60, input: { kept: undefined } },
      acks: { onFailure: "reject" },
    })
  })
})

test("the handler of a method has its definition as this", () => {
  const definition = {
    words: 3,
    run() {
      return this.words
    },
  }
  expect(() => Reflect.apply(actor, undefined, ["x", { methods: { run: definition } }])).toThrow(
    "method x.run: words is not an option of a method",
  )
  class Method {
    description = "counts"
    run() {
      return this.description
    }
  }
  const defined = actor("x", { methods: { run: new Method() } }).methods.get("run")
  expect(Reflect.apply(defined?.run ?? run, undefined, [])).toBe("counts")
})
