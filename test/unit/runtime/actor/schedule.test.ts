/** The schedule that a method declares: checked when the actor is defined. */
import { actor, InvalidActor } from "callboard"
import { expect, test } from "vitest"

/** What is no schedule cannot be written in TypeScript; JavaScript may say it. */
const declare = (value: unknown) => {
  const schedule: string = JSON.parse(JSON.stringify(value))
  return actor("clock", { methods: { tick: { schedule, run: () => 1 } } })
}

test.each([
  ["0 7 * * mon", { cron: "0 7 * * mon" }],
  [
    { every: "1 hour", input: { n: 1 }, overlap: "skip" },
    { every: "1 hour", input: { n: 1 }, overlap: "skip" },
  ],
])("%j", (schedule, declared) => {
  expect(declare(schedule).methods.get("tick")?.schedule).toEqual(declared)
})

test("a method without one has none", () => {
  expect(actor("clock", { methods: { tick: () => 1 } }).methods.get("tick")).not.toHaveProperty("schedule")
})

test.each([
  ["0 0 30 2 *", 'method clock.tick: schedule.cron: "0 0 30 2 *" is never due'],
  [{ cron: "* * * * *", timeZone: "Mars" }, 'schedule.timeZone: "Mars" is not a time zone'],
  [{ every: 0 }, "schedule.every: must be at least 1 second"],
  [{}, "schedule.cron: set exactly one"],
  [{ at: "2099-01-01" }, "schedule.at: cannot be declared: it would be due once, whenever a worker starts"],
  [{ every: 60, task: "other" }, "schedule.task"],
  [7, "schedule"],
])("%j is refused", (schedule, message) => {
  expect(() => declare(schedule)).toThrow(InvalidActor)
  expect(() => declare(schedule)).toThrow(message)
})

test("a name that is too long for ids of jobs is refused", () => {
  const long = "x".repeat(100)
  expect(() => actor(`a${long}`, { methods: { [long]: { schedule: "@daily", run: () => 1 } } })).toThrow(
    "schedule.name",
  )
})

test("an input that is too large, or cannot be kept as JSON, is refused when the actor is defined, not when its worker makes the schedule", () => {
  const declaring = (input: unknown) => () =>
    actor("clock", { methods: { tick: { schedule: { every: 60, input }, run: () => 1 } } })
  for (const input of [{ since: new Date() }, 7n, { run: () => 1 }, Number.NaN])
    expect(declaring(input)).toThrow("schedule.input: contains a value")
  expect(declaring("x".repeat(300_000))).toThrow("schedule: the schedule has 300")
})
