/** Due times: never early, not late by more than declared. */
import { type Case, delay, records } from "../case.ts"
import { between, equal, sameSet } from "../check.ts"
import { idOf } from "../task.ts"

const group = "delay"
const needs = [delay]

export const delayCases: ReadonlyArray<Case> = [
  {
    group,
    name: "a task is not early and not late, for a pull that waits",
    needs,
    async run({ peer, fresh, task, harness, tolerance, slack }) {
      const queue = fresh("queue")
      const due = Date.now() + 700
      await peer.publish(task({ queue, due }))
      await peer.one(queue, 8_000)
      between(Date.now() - due, -tolerance, harness.capabilities.dueResolution + slack, "milliseconds after its time")
    },
  },
  {
    group,
    name: "a task is not early for pulls that do not wait",
    needs,
    async run({ peer, fresh, task, tolerance, until }) {
      const queue = fresh("queue")
      const due = Date.now() + 500
      await peer.publish(task({ queue, due }))
      await until("the task that is due", async () => (await peer.pull(queue)).length > 0)
      between(Date.now() - due, -tolerance, Infinity, "milliseconds after its time")
    },
  },
  {
    group,
    name: "a due time in the past is no delay",
    needs,
    async run({ peer, fresh, task, harness, slack }) {
      const queue = fresh("queue")
      const start = performance.now()
      await peer.publish(task({ queue, due: Date.now() - 3_600_000 }))
      await peer.one(queue)
      const late = harness.capabilities.dueResolution + slack
      between(Math.round(performance.now() - start), 0, late, "milliseconds until it comes")
    },
  },
  {
    group,
    name: "a task that is due later holds nobody up",
    needs,
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const [later, now] = [task({ queue, due: Date.now() + 1_500, priority: 9 }), task({ queue, priority: 0 })]
      await peer.publish(later, now)
      equal(idOf(await peer.one(queue)), now.id, "what comes at once")
      equal(idOf(await peer.one(queue, 8_000)), later.id, "what comes later")
    },
  },
  {
    group,
    name: "a task that is due in a year waits, and is found as scheduled",
    needs: [delay, records],
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
  {
    group,
    name: "many tasks that are due at the same moment all come",
    needs,
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const postings = tasks(60, { queue, due: Date.now() + 600 })
      await peer.publish(...postings)
      const found = await peer.all(queue, 60, 8_000)
      sameSet(
        found.map(idOf),
        postings.map(({ id }) => id),
        "what comes",
      )
    },
  },
  {
    group,
    name: "the same publish key is a duplicate while the task is scheduled",
    needs: [delay, ({ capabilities }) => capabilities.dedupeWindow > 0 || "it does not recognise publish keys"],
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue, due: Date.now() + 500 })
      await peer.publish(posting)
      equal((await peer.receipts([posting]))[0]?.status, "duplicate", "receipt of the second")
      await peer.one(queue, 8_000)
      await peer.none(queue, "it was published under one key")
    },
  },
]
