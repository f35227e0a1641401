/** Due times: a task is never early, and not later than the declared resolution. */
import { delay } from "../../case.ts"
import { between, equal, sameSet } from "../../check.ts"
import { type DriverCase, dedupe } from "../case.ts"
import { idOf, idsOf } from "../task.ts"

const group = "delay"
const needs = [delay]
const YEAR = 365 * 86_400_000

export const delayCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "a task is not early and not late",
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
    name: "a task is not early for takes that do not wait",
    needs,
    async run({ peer, fresh, task, tolerance, until }) {
      const queue = fresh("queue")
      const due = Date.now() + 500
      await peer.publish(task({ queue, due }))
      await until("the task that is due", async () => (await peer.ask(queue)).deliveries.length > 0)
      between(Date.now() - due, -tolerance, Infinity, "milliseconds after its time")
    },
  },
  {
    group,
    name: "a due time in the past is no delay",
    needs,
    async run({ peer, fresh, task, harness, slack, timed }) {
      const queue = fresh("queue")
      const took = timed()
      await peer.publish(task({ queue, due: Date.now() - 3_600_000 }))
      await peer.one(queue)
      const late = harness.capabilities.dueResolution + slack
      took(0, late, "milliseconds until it comes")
    },
  },
  {
    group,
    name: "a task that is due later holds nobody up",
    needs,
    async run({ peer, fresh, task, inTime }) {
      const queue = fresh("queue")
      const due = Date.now() + 1_500
      const [later, now] = [task({ queue, due, priority: 9 }), task({ queue, priority: 0 })]
      await peer.publish(later, now)
      const asked = Date.now()
      const first = await peer.one(queue)
      // If the take began well before the other task was due, a late answer is a fault of the driver.
      await inTime(asked < due - 1_000 ? Infinity : asked, async () => equal(idOf(first), now.id, "what comes at once"))
      equal(idOf(await peer.one(queue, 8_000)), later.id, "what comes later")
    },
  },
  {
    group,
    name: "a task that is due as late as it may be waits, and its due time is read",
    needs,
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const due = Date.now() + Math.min(YEAR, harness.capabilities.delay)
      const posting = task({ queue, due })
      await peer.publish(posting)
      await peer.none(queue, "it is due much later")
      equal((await peer.known(posting.id)).task?.due, due, "due time of its task")
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
      sameSet(
        idsOf(await peer.all(queue, 60, 8_000)),
        postings.map(({ id }) => id),
        "what comes",
      )
    },
  },
  {
    group,
    name: "the same publish key is a duplicate while the task is scheduled",
    needs: [delay, dedupe],
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
