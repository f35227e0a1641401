/** Due times: a task is never early, and not later than the declared resolution. */
import { type Case, delay } from "../case.ts"
import { equal } from "../check.ts"

const group = "delay"
const needs = [delay]

export const delayCases: ReadonlyArray<Case> = [
  {
    group,
    name: "a task is not early and not late, for a take that waits",
    needs,
    async run({ peer, fresh, task, harness, tolerance, slack, timed }) {
      const queue = fresh("queue")
      const due = Date.now() + 700
      const took = timed(due)
      await peer.publish(task({ queue, due }))
      await peer.one(queue, 8_000)
      took(-tolerance, harness.capabilities.dueResolution + slack, "milliseconds after its time")
    },
  },
  {
    group,
    name: "a task that is due in a year waits, and is found as scheduled",
    needs: [delay],
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const due = Date.now() + 365 * 86_400_000
      const posting = task({ queue, due })
      await peer.publish(posting)
      await peer.none(queue, "it is due in a year")
      const { state, dueAt } = await peer.find(posting.id)
      equal({ state, dueAt }, { state: "scheduled", dueAt: due }, "its record")
    },
  },
]
