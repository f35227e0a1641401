import { expect, test } from "vitest"
import { withTransportTime } from "../../../../runtime/async/clock.ts"

const HOUR = 3_600_000

/** A machine whose clock is `off` ms ahead of the transport's, and which reads an answer `late` ms after it was given. */
const machine = (off: number, late: number) => {
  const state = { at: 1_000_000, late }
  const times = withTransportTime(
    { now: () => state.at + off, monotonic: () => state.at, transportNow: () => state.at + off },
    {
      now: () => {
        const now = state.at
        state.at += state.late
        return Promise.resolve(now)
      },
    },
  )
  return { state, error: () => times.clock.transportNow() - state.at, ask: times.ask }
}

test.each([HOUR, -HOUR])("the transport's time is known on a machine whose clock is %s ms off", async (off) => {
  const { ask, error } = machine(off, 10)
  await ask()
  expect(Math.abs(error())).toBeLessThanOrEqual(10)
})

test.each([0, HOUR])(
  "an answer that a blocked thread reads late moves no clock that is right, %s ms off",
  async (off) => {
    const { state, ask, error } = machine(off, 10)
    await ask()
    state.late = 20_000
    await ask()
    expect(Math.abs(error())).toBeLessThanOrEqual(10)
  },
)

test("a store of this machine goes by its clock, also in the moment in which that is set", async () => {
  const state = { at: 1_000_000, off: 0 }
  const wall = () => state.at + state.off
  const own = { now: wall, monotonic: () => state.at, transportNow: wall }
  const { clock, ask } = withTransportTime(own, { now: () => Promise.resolve(wall()) }, true)
  await ask()
  state.off = -HOUR
  expect(clock.transportNow()).toBe(1_000_000 - HOUR)
})

test("a server is asked again as soon as the clock of this machine was set", async () => {
  const state = { at: 1_000_000, off: 0, asked: 0 }
  const wall = () => state.at + state.off
  const now = () => {
    state.asked++
    return Promise.resolve(wall())
  }
  const { clock, ask } = withTransportTime({ now: wall, monotonic: () => state.at, transportNow: wall }, { now })
  await ask()
  state.off = -HOUR
  // Until it has answered, its clock may be another one.
  expect(clock.transportNow()).toBe(1_000_000)
  await Promise.resolve()
  expect(clock.transportNow()).toBe(1_000_000 - HOUR)
  expect(state.asked).toBe(2)
})
