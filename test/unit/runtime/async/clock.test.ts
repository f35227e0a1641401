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
