/** A run has one outcome: of several deliveries and of decisions such as a cancel, only the newest may write. */

import type { JobPosting } from "../../../runtime/protocol/message.ts"
import { publishKey } from "../../../runtime/protocol/message.ts"
import type { JobRecord } from "../../../runtime/protocol/record.ts"
import type { JobDelivery } from "../../../runtime/transport/job-store/transport.ts"
import type { Case } from "../case.ts"
import { check, equal } from "../check.ts"
import { type Context, sleep, taken } from "../context.ts"
import { describe } from "../peer.ts"
import { cancelled, recordOf } from "../task.ts"

const group = "fence"
const lease = 1_000

interface Overtaken {
  readonly posting: JobPosting
  /** Delivery of the worker that froze until its lease had ended. */
  readonly first: JobDelivery
  /** Delivery of the worker that has claimed the job since. */
  readonly second: JobDelivery
  readonly outcome: (delivery: JobDelivery, result: string) => JobRecord
  /** Asks what holds while the second worker has the task. */
  readonly held: <T>(ask: () => Promise<T>) => Promise<T>
}

/** A job with two deliveries: the first worker froze, and the second one has begun. */
const overtaken = async ({ peer, fresh, task, lease, tolerance, inTime }: Context): Promise<Overtaken> => {
  const queue = fresh("queue")
  const posting = task({ queue })
  await peer.publish(posting)
  // The second lease begins no earlier than the first one ends.
  const end = Date.now() + 2 * (lease - tolerance)
  const first = await peer.one(queue)
  const second = await peer.one(queue, 8_000)
  await peer.begun(second, posting, "second")
  const outcome = (delivery: JobDelivery, result: string): JobRecord =>
    recordOf(posting, "succeeded", { fence: delivery.fence, result })
  return { posting, first, second, outcome, held: (ask) => inTime(end, ask) }
}

const refuse = async (
  { peer, fresh, task }: Context,
  { first, outcome }: Pick<Overtaken, "first" | "outcome">,
  why: string,
): Promise<void> => {
  const other = fresh("other")
  const ended = await peer.ack(first, {
    record: outcome(first, "from the first"),
    followUps: [task({ queue: other })],
  })
  equal(ended.status, "superseded", `answer to the first worker, although ${why}`)
  await peer.none(other, "it follows from an outcome that was refused")
}

export const fenceCases: ReadonlyArray<Case> = [
  {
    group,
    name: "a worker that wakes after another has begun is refused, also when it finishes first",
    smoke: true,
    lease,
    async run(context) {
      const { peer } = context
      const { posting, first, second, outcome, held } = await overtaken(context)
      await refuse(context, { first, outcome }, "the second has begun")
      equal((await peer.find(posting.id)).state, "started", "state after the first was refused")
      await held(() => peer.acked(second, { record: outcome(second, "from the second") }))
      equal((await peer.find(posting.id)).result, "from the second", "result")
    },
  },
  {
    group,
    name: "a worker that wakes after another has finished is refused",
    lease,
    async run(context) {
      const { peer } = context
      const { posting, first, second, outcome, held } = await overtaken(context)
      await held(() => peer.acked(second, { record: outcome(second, "from the second") }))
      await refuse(context, { first, outcome }, "the second has finished")
      equal((await peer.find(posting.id)).result, "from the second", "result")
    },
  },
  {
    group,
    name: "a refused outcome takes nothing out of the other worker's hands",
    smoke: true,
    lease,
    async run(context) {
      const { peer } = context
      const { posting, first, second, outcome, held } = await overtaken(context)
      await refuse(context, { first, outcome }, "the second has begun")
      await held(async () => equal(await peer.extend(second.token), [true], "extension of the second delivery"))
      // The second worker dies too, and the task must still be in the queue.
      const third = await peer.one(posting.queue, 8_000)
      check(third.fence > second.fence, "a third delivery must come, with a higher fence")
      const before = await peer.begun(third, posting)
      equal(before?.claims, 1, "claims before the third")
    },
  },
  {
    group,
    name: "a hand-back by a worker that was overtaken is refused",
    smoke: true,
    lease,
    async run(context) {
      const { peer } = context
      const { posting, first, second, outcome, held } = await overtaken(context)
      const record = recordOf(posting, "queued", { fence: first.fence })
      const [ended] = await peer.endAll({ token: first.token, record, then: { kind: "hand-back", delay: 0 } })
      equal(ended?.status, "superseded", "answer to the first worker")
      await held(async () => {
        await peer.none(posting.queue, "the second worker has it", 200)
        await peer.acked(second, { record: outcome(second, "from the second") })
      })
    },
  },
  {
    group,
    name: "a claim by a worker that was overtaken is refused",
    lease,
    async run(context) {
      const { peer } = context
      const { posting, first, second } = await overtaken(context)
      equal((await peer.begin(first, posting, "first")).status, "superseded", "answer to the first worker")
      const { fence, worker, claims } = await peer.find(posting.id)
      equal({ fence, worker, claims }, { fence: second.fence, worker: "second", claims: 1 }, "record")
    },
  },
  {
    group,
    name: "a claim by a worker that wakes after another has finished is told so, and what follows",
    lease,
    async run(context) {
      const { peer, fresh, task } = context
      const { posting, first, second, outcome, held } = await overtaken(context)
      const callback = task({ queue: fresh("other") })
      const record = { ...outcome(second, "from the second"), followUps: [callback] }
      await held(() => peer.acked(second, { record }))
      const claimed = await peer.begin(first, posting, "first")
      // Its fence is lower, but it may be the only worker left that can publish the follow-ups.
      check(claimed.status === "finished", `the claim must say finished, it said ${describe(claimed)}`)
      equal(claimed.record.followUps?.map(publishKey), [publishKey(callback)], "follow-ups in the record")
      equal((await peer.find(posting.id)).result, "from the second", "result")
    },
  },
  {
    group,
    name: "a report by a worker that was overtaken changes nothing and fails nothing",
    lease,
    async run(context) {
      const { peer, within } = context
      const { posting, first } = await overtaken(context)
      const record = recordOf(posting, "started", { fence: first.fence, worker: "first" })
      await within("a report", peer.transport.jobs.report([{ token: first.token, record }]))
      equal((await peer.find(posting.id)).worker, "second", "worker in the record")
    },
  },
  {
    group,
    name: "a job that was cancelled while it ran refuses the worker's outcome",
    async run(context) {
      const { peer, fresh, task } = context
      const { posting, delivery: first } = await taken(peer, task({ queue: fresh("queue") }))
      const { record, revision } = await peer.found(posting.id)
      await peer.decided({ id: posting.id, expect: revision, record: cancelled(record) })
      const outcome = (): JobRecord => recordOf(posting, "succeeded", { fence: first.fence })
      await refuse(context, { first, outcome }, "the job was cancelled")
      equal((await peer.find(posting.id)).state, "cancelled", "state")
    },
  },
  {
    group,
    name: "a job that was cancelled while a claimed delivery ran refuses its outcome",
    async run(context) {
      const { peer, fresh, task } = context
      const { posting, delivery: first } = await taken(peer, task({ queue: fresh("queue") }))
      await peer.begun(first, posting)
      const { record, revision } = await peer.found(posting.id)
      await peer.decided({ id: posting.id, expect: revision, record: cancelled(record), withdraw: true })
      const outcome = (): JobRecord => recordOf(posting, "succeeded", { fence: first.fence })
      await refuse(context, { first, outcome }, "the job was cancelled")
      const again = await peer.begin(first, posting)
      equal(again.status, "finished", `a claim of a cancelled job (${describe(again)})`)
      equal((await peer.find(posting.id)).state, "cancelled", "state")
    },
  },
  {
    group,
    name: "a worker whose lease lapsed may still finish while nobody else has begun",
    lease,
    async run({ peer, fresh, task, lease, harness, until }) {
      const { queue, posting, delivery: first } = await taken(peer, task({ queue: fresh("queue") }))
      await sleep(lease + harness.capabilities.leaseResolution + 100)
      const record = recordOf(posting, "succeeded", { fence: first.fence, result: "late" })
      const ended = await peer.ack(first, { record })
      check(["ended", "gone"].includes(ended.status), `its outcome must be stored, it was ${describe(ended)}`)
      equal((await peer.find(posting.id)).result, "late", "result")
      // Where the ack came too late, the next delivery finds that the job has ended.
      await until("an empty queue", async () => {
        const [again] = await peer.take(queue, { wait: 300 })
        if (again === undefined) return true
        equal((await peer.begin(again, posting)).status, "finished", "claim of a later delivery")
        await peer.acked(again)
        return false
      })
      equal((await peer.find(posting.id)).result, "late", "result at the end")
    },
  },
]
