/** What the clock makes of a machine that sleeps, and of one whose wall clock is set. */
import { expect, test } from "vitest"
import { ServerClock } from "../../../../../plugins/nats/connection/server-clock.ts"

const HOUR = 3_600_000
const START = 1_700_000_000_000

/** A server whose time is right, and a machine whose wall clock is two hours slow. */
const machine = () => {
  const time = { real: START, monotonic: 500, wall: START - 2 * HOUR }
  const asked: Array<number> = []
  /** How long each answer takes; the server gives it when a part of that time is over. */
  const answers: Array<{ readonly ms: number; readonly part: number }> = []
  const pass = (ms: number) => {
    time.real += ms
    time.monotonic += ms
    time.wall += ms
  }
  const clock = new ServerClock(
    async () => {
      const { ms, part } = answers.shift() ?? { ms: 2, part: 0.5 }
      asked.push(time.real)
      pass(ms * part)
      const { real } = time
      pass(ms * (1 - part))
      return real
    },
    { wall: () => time.wall, monotonic: () => time.monotonic },
  )
  return { clock, time, asked, answers, pass }
}

test("the server's time goes on while nothing is asked", async () => {
  const { clock, time, asked, pass } = machine()
  await clock.measure()
  pass(20_000)
  await clock.certain()
  expect(clock.now()).toBe(time.real)
  expect(asked.length).toBe(1)
})

test.each([HOUR, -HOUR])("a wall clock that is set by %i ms changes nothing, and is looked into once", async (ms) => {
  const { clock, time, asked, pass } = machine()
  await clock.measure()
  time.wall += ms
  expect(clock.now()).toBe(time.real)
  expect(clock.isInDoubt).toBe(true)
  await clock.certain()
  pass(10_000)
  await clock.certain()
  expect(clock.now()).toBe(time.real)
  expect(asked.length).toBe(2)
})

test("after the machine has slept, the time that the server counted meanwhile is known before anything is decided", async () => {
  const { clock, time, asked } = machine()
  await clock.measure()
  time.real += HOUR
  time.wall += HOUR
  await clock.certain()
  expect(clock.now()).toBe(time.real)
  expect(asked.length).toBe(2)
})

test("an old answer is renewed behind the call, or before it where it matters", async () => {
  const { clock, asked, pass } = machine()
  await clock.measure()
  pass(31_000)
  await clock.certain()
  expect(asked.length).toBe(2)
  await clock.measure()
  pass(31_000)
  await clock.fresh()
  await clock.fresh()
  expect(asked.length).toBe(3)
})

test("of slow answers the quickest counts", async () => {
  const { clock, time, answers, asked } = machine()
  answers.push({ ms: 2_000, part: 0.9 }, { ms: 1_000, part: 0.9 }, { ms: 30, part: 0.9 })
  await clock.measure()
  expect(Math.abs(clock.now() - time.real)).toBeLessThanOrEqual(15)
  expect(asked.length).toBe(3)
})

test("answers that a blocked thread reads late move no clock that is right", async () => {
  const { clock, time, answers, pass } = machine()
  await clock.measure()
  pass(31_000)
  answers.push(...Array.from({ length: 3 }, () => ({ ms: 3_000, part: 0 })))
  await clock.fresh()
  expect(Math.abs(clock.now() - time.real)).toBeLessThanOrEqual(2)
})

test("a server that does not answer fails what has to be certain, and the next call asks again", async () => {
  let answers = true
  const time = { wall: 0 }
  const clock = new ServerClock(
    async () => {
      if (!answers) throw new Error("no answer")
      return START
    },
    { wall: () => time.wall, monotonic: () => 0 },
  )
  await clock.measure()
  answers = false
  time.wall += HOUR
  await expect(clock.certain()).rejects.toThrow("no answer")
  answers = true
  await clock.certain()
  expect(clock.now()).toBe(START)
})

test("a slow answer to the only question is enough to begin with, and is asked for again behind the next call", async () => {
  const { clock, time, asked, answers } = machine()
  answers.push({ ms: 2_000, part: 1 })
  await clock.measure(1)
  expect(asked.length).toBe(1)
  expect(Math.abs(clock.now() - time.real)).toBeLessThanOrEqual(1_000)
  await clock.certain()
  await expect.poll(() => clock.now()).toBe(time.real)
  expect(asked.length).toBe(2)
  await clock.certain()
  expect(asked.length).toBe(2)
})
