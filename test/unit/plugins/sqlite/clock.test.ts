/** What the clock of a file makes of a machine that sleeps, and of a time of day that is set. */
import { expect, test } from "vitest"
import { MachineClock } from "../../../../plugins/sqlite/clock.ts"

const HOUR = 3_600_000
const LEASE = 30_000

const machine = () => {
  const time = { wall: 1_700_000_000_000, monotonic: 77 }
  const clock = new MachineClock(LEASE, { wall: () => time.wall, monotonic: () => time.monotonic })
  const pass = (ms: number) => {
    time.wall += ms
    time.monotonic += ms
  }
  return { time, clock, pass }
}

test("while nobody sets it, what ends now has ended; small corrections are no move", () => {
  const { time, clock, pass } = machine()
  for (let each = 0; each < 100; each++) {
    pass(1_000)
    time.wall += each % 2 === 0 ? 40 : -10
    expect(clock.read()).toEqual({ now: time.wall, ended: time.wall })
  }
  expect(clock.setBack).toBeUndefined()
})

test("after a move forward things end as before for the time of one lease, and then by the new time", () => {
  const { time, clock, pass } = machine()
  const before = time.wall
  time.wall += HOUR
  expect(clock.read()).toEqual({ now: before + HOUR, ended: before })
  pass(LEASE - 1)
  expect(clock.read().ended).toBe(before + LEASE - 1)
  pass(1)
  expect(clock.read()).toEqual({ now: time.wall, ended: time.wall })
  expect(clock.setBack).toBeUndefined()
})

test("a move forward that is taken back at once leaves nothing to mend", () => {
  const { time, clock, pass } = machine()
  time.wall += HOUR
  clock.read()
  pass(1_000)
  time.wall -= HOUR
  expect(clock.read()).toEqual({ now: time.wall, ended: time.wall })
  expect(clock.setBack).toBeUndefined()
})

test("moves back add up until the file is mended", () => {
  const { time, clock, pass } = machine()
  pass(5_000)
  clock.read()
  const from = time.wall
  time.wall -= HOUR
  expect(clock.read()).toEqual({ now: time.wall, ended: time.wall })
  pass(1_000)
  time.wall -= HOUR
  const back = clock.setBack
  expect(back).toEqual({ by: 2 * HOUR, from })
  if (back !== undefined) clock.mended(back)
  expect(clock.setBack).toBeUndefined()
})
