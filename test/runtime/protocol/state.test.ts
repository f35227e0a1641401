import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import {
  celeryState,
  type Happening,
  isState,
  isTerminal,
  STATES,
  type State,
  transition,
} from "../../../runtime/protocol/state.ts"

const HAPPENINGS: ReadonlyArray<Happening> = [
  "release",
  "due",
  "start",
  "hand-back",
  "retry",
  "succeed",
  "fail",
  "cancel",
  "expire",
  "rerun",
]

/** Every move that may be made, written down a second time. */
const ALLOWED = `
  deferred release queued      deferred cancel cancelled    deferred expire expired     deferred fail failed
  scheduled due queued         scheduled start started      scheduled cancel cancelled  scheduled expire expired
  scheduled fail failed        queued start started         queued cancel cancelled     queued expire expired
  queued fail failed           started start started        started hand-back queued    started retry scheduled
  started succeed succeeded    started fail failed          started cancel cancelled    started expire expired
  succeeded rerun queued       failed rerun queued          cancelled rerun queued      expired rerun queued
`
  .trim()
  .split(/\s{2,}/)

const moves = STATES.flatMap((from) =>
  HAPPENINGS.flatMap((happening) => {
    const to = transition(from, happening)
    return Result.isSuccess(to) ? [`${from} ${happening} ${to.success}`] : []
  }),
)

describe("transition", () => {
  test("allows exactly the moves of the table", () => {
    expect([...moves].sort()).toEqual([...ALLOWED].sort())
  })

  test("a refused move says what was tried", () => {
    expect(Result.flip(transition("succeeded", "fail"))).toMatchObject({
      success: {
        _tag: "IllegalTransition",
        from: "succeeded",
        happening: "fail",
        message: "A job that is succeeded cannot fail.",
      },
    })
  })

  test("over any life a run that is over stays so until the job is run again", () => {
    fc.assert(
      fc.property(fc.constantFrom(...STATES), fc.array(fc.constantFrom(...HAPPENINGS)), (first, happenings) => {
        let state: State = first
        for (const happening of happenings) {
          const next = transition(state, happening)
          if (Result.isFailure(next)) continue
          expect(ALLOWED).toContain(`${state} ${happening} ${next.success}`)
          if (isTerminal(state)) expect([happening, next.success]).toEqual(["rerun", "queued"])
          state = next.success
        }
      }),
    )
  })

  test("every state can end", () => {
    for (const state of STATES) {
      if (isTerminal(state)) continue
      for (const end of ["cancel", "expire", "fail"] as const) {
        const next = transition(state, end)
        expect(Result.isSuccess(next) && isTerminal(next.success), `${state} ${end}`).toBe(true)
      }
    }
  })
})

test("succeeded, failed, cancelled and expired are terminal", () => {
  expect(STATES.filter(isTerminal)).toEqual(["succeeded", "failed", "cancelled", "expired"])
})

test("only the names of states are states", () => {
  expect(STATES.every(isState)).toBe(true)
  for (const other of ["", "running", "QUEUED", "toString", 1, null, undefined]) expect(isState(other)).toBe(false)
})

test("Celery's words", () => {
  expect(STATES.map((state) => celeryState(state))).toEqual(
    "PENDING PENDING PENDING STARTED SUCCESS FAILURE REVOKED REVOKED".split(" "),
  )
  expect(celeryState("scheduled", 1)).toBe("RETRY")
})
