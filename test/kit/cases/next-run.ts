/** A job that repeats: the record that ends one run begins the next. */

import type { JobPosting } from "../../../runtime/protocol/message.ts"
import type { JobDelivery } from "../../../runtime/transport/job-store/transport.ts"
import type { Case } from "../case.ts"
import { equal } from "../check.ts"
import { cancelled, recordOf, taskOf } from "../task.ts"

const group = "next run"

/** The end of a run of a job that repeats: the next run waits, and the record names it as successor. */
const goesOn = (posting: JobPosting, { fence }: Pick<JobDelivery, "fence">) => {
  const next = taskOf({ id: posting.id, queue: posting.queue, run: posting.run + 1 })
  const record = recordOf(posting, "queued", {
    fence,
    run: next.run,
    successor: `${next.id}/${next.run}/0`,
    followUps: [next],
  })
  return { next, ending: { record, followUps: [next] } }
}

export const nextRunCases: ReadonlyArray<Case> = [
  {
    group,
    name: "an attempt may end one run and begin the next",
    smoke: true,
    async run({ peer, fresh, task }) {
      const posting = task({ queue: fresh("queue") })
      await peer.publish(posting)
      const first = await peer.one(posting.queue)
      await peer.acked(first, goesOn(posting, first).ending)
      const second = await peer.one(posting.queue)
      const { next } = goesOn(posting, second)
      const before = await peer.begun(second, next)
      equal({ run: before?.run, state: before?.state }, { run: 2, state: "queued" }, "record before the next run")
      await peer.acked(second, { record: recordOf(next, "succeeded", { fence: second.fence, result: "twice" }) })
      const { run, state, result } = await peer.find(posting.id)
      equal({ run, state, result }, { run: 2, state: "succeeded", result: "twice" }, "record at the end")
      await peer.none(posting.queue, "both runs are over")
    },
  },
  {
    group,
    name: "a worker that was overtaken cannot begin the next run",
    lease: 1_000,
    async run({ peer, fresh, task, lease, tolerance, inTime }) {
      const posting = task({ queue: fresh("queue") })
      await peer.publish(posting)
      // The second lease begins no earlier than the first one ends.
      const end = Date.now() + 2 * (lease - tolerance)
      const first = await peer.one(posting.queue)
      const second = await peer.one(posting.queue, 8_000)
      await peer.begun(second, posting, "second")
      equal((await peer.ack(first, goesOn(posting, first).ending)).status, "superseded", "answer to the first worker")
      const { run, state, worker } = await peer.find(posting.id)
      equal({ run, state, worker }, { run: 1, state: "started", worker: "second" }, "record")
      await inTime(end, async () => {
        await peer.none(posting.queue, "the next run of an outcome that was refused", 200)
        await peer.acked(second, { record: recordOf(posting, "succeeded", { fence: second.fence }) })
      })
    },
  },
  {
    group,
    name: "a job that was cancelled while it ran does not begin its next run",
    async run({ peer, fresh, task }) {
      const posting = task({ queue: fresh("queue") })
      await peer.publish(posting)
      const delivery = await peer.one(posting.queue)
      const found = await peer.found(posting.id)
      await peer.decided({ id: posting.id, expect: found.revision, record: cancelled(found.record) })
      equal((await peer.ack(delivery, goesOn(posting, delivery).ending)).status, "superseded", "answer to the worker")
      equal((await peer.find(posting.id)).state, "cancelled", "state")
    },
  },
]
