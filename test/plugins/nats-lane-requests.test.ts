/** What is known of a lane by what its consumer was asked and has said. */
import { beforeEach, describe, expect, test } from "vitest"
import { LaneRequests } from "../../plugins/nats/lane-requests.ts"

let requests: LaneRequests
let last: number

beforeEach(() => {
  const lane = { queue: "q", band: 4, consumer: "q-4", next: "", acks: "", made: true, highest: 0, quiet: false }
  const send = (_: Uint8Array, number: number) => {
    last = number
  }
  requests = new LaneRequests({ lane, beat: 1_000, replicated: false, send, onLost: () => undefined })
})

const empty = () => requests.told(last, 100, "Idle Heartbeat")
const late = () => requests.told(last, 408, "Request Timeout")

describe("a lane that was seen empty", () => {
  beforeEach(() => {
    expect(requests.seen).toBeUndefined()
    requests.look(5, 7, 0)
    empty()
    expect(requests.seen).toBe(7)
  })

  test("is still known to be when it is found empty again", () => {
    requests.look(5, 9, 0)
    empty()
    expect(requests.seen).toBe(9)
  })

  test("is so no more when a look brings all that it asked for", () => {
    requests.look(1, 9, 0)
    expect(requests.arrived()).toBe(true)
    expect([requests.isAsked, requests.seen]).toEqual([false, 0])
  })

  test.each([0, 1])("is so no more when a look comes too late, after %i tasks", (tasks) => {
    // A lane that had tasks is asked for as many as are wanted.
    requests.hadTasks()
    requests.look(5, 9, 0)
    for (let count = 0; count < tasks; count++) requests.arrived()
    late()
    expect([requests.isLate, requests.seen]).toEqual([true, 0])
  })

  test("is so no more for the next who takes", () => {
    requests.unsee()
    expect(requests.seen).toBe(0)
  })
})
