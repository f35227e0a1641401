/** Begin and report: which worker runs a job, how many claims had no outcome, and the progress of an attempt. */

import type { JobRecord } from "../../../runtime/protocol/record.ts"
import { claimed } from "../../../runtime/protocol/record.ts"
import { type Case, freeLeases } from "../case.ts"
import { check, equal } from "../check.ts"
import { taken } from "../context.ts"
import { describe } from "../peer.ts"
import { idOf, recordOf } from "../task.ts"

const group = "claim"

export const claimCases: ReadonlyArray<Case> = [
  {
    group,
    name: "a claim makes the record of a job that has none",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue, task: "text.count", priority: 7 })
      await peer.publish(posting)
      const delivery = await peer.one(queue)
      equal(await peer.begun(delivery, posting, "worker 1"), undefined, "record before the first claim")
      const { record, revision } = await peer.found(posting.id)
      const { id, task: name, priority, state, fence, worker, claims, run, retries } = record
      equal(
        { id, name, priority, queue: record.queue, state, fence, worker, claims, run, retries },
        {
          id: posting.id,
          name: "text.count",
          priority: 7,
          queue,
          state: "started",
          fence: delivery.fence,
          worker: "worker 1",
          claims: 1,
          run: 1,
          retries: 0,
        },
        "record",
      )
      check(revision !== "", "a record that is stored must have a revision")
      await peer.succeed(delivery, posting)
    },
  },
  {
    group,
    name: "claims without an outcome are counted, and the next claim gets their number",
    smoke: true,
    lease: 1_000,
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      await peer.publish(posting)
      for (let before = 0; before < 3; before++) {
        const delivery = await peer.one(queue, 8_000)
        const record = await peer.begun(delivery, posting)
        equal(record?.claims ?? 0, before, "claims in the record as it was before")
        equal((await peer.find(posting.id)).claims, before + 1, "claims in the record now")
      }
    },
  },
  {
    group,
    name: "a task that was delivered beside another and never claimed has no claims",
    lease: 1_000,
    async run({ peer, fresh, tasks, lease, tolerance, inTime }) {
      const queue = fresh("queue")
      const postings = tasks(2, { queue })
      await peer.publish(...postings)
      // The leases of the second deliveries begin no earlier than those of the first ones end.
      const end = Date.now() + 2 * (lease - tolerance)
      const [killer] = await peer.all(queue, 2)
      check(killer !== undefined, "a delivery must come")
      const claimed = postings.find(({ id }) => id === idOf(killer))
      check(claimed !== undefined, "what comes must be one of the two")
      await peer.begun(killer, claimed)
      // The worker dies, and both tasks are delivered again.
      const again = await peer.all(queue, 2, 8_000)
      await inTime(end, async () => equal(new Set(again.map(idOf)).size, 2, "tasks that come again"))
      for (const delivery of again) {
        const posting = postings.find(({ id }) => id === idOf(delivery))
        check(posting !== undefined, "what comes must be one of the two")
        const before = await peer.begun(delivery, posting)
        equal(
          before?.claims ?? 0,
          posting === claimed ? 1 : 0,
          posting === claimed ? "claims" : "claims of the neighbour",
        )
      }
    },
  },
  {
    group,
    name: "a release that takes its claim back leaves none",
    async run({ peer, fresh, task }) {
      const { queue, posting, delivery: first } = await taken(peer, task({ queue: fresh("queue") }))
      await peer.begun(first, posting)
      const record = recordOf(posting, "queued", { fence: first.fence, claims: 0, attempt: 0 })
      await peer.release(first, 0, { record })
      const second = await peer.one(queue)
      equal((await peer.begun(second, posting))?.claims ?? 0, 0, "claims before the next one")
      await peer.succeed(second, posting)
      equal((await peer.find(posting.id)).state, "succeeded", "state")
    },
  },
  {
    group,
    name: "a task that left its queue before it started, and comes again all the same, is finished",
    async run({ peer, fresh, task }) {
      const { queue, posting, delivery: first } = await taken(peer, task({ queue: fresh("queue") }))
      // The task is given back after the record was stored, as if its acknowledgement had been lost.
      await peer.release(first, 0, { record: recordOf(posting, "started", { fence: first.fence, acked: true }) })
      const second = await peer.one(queue)
      equal((await peer.begin(second, posting)).status, "finished", "answer to a claim")
      await peer.acked(second)
      equal((await peer.find(posting.id)).fence, first.fence, "fence of the attempt that runs it")
      const ended = await peer.ack(first, { record: recordOf(posting, "succeeded", { fence: first.fence }) })
      check(["gone", "ended"].includes(ended.status), `it must be gone or ended, it was ${describe(ended)}`)
    },
  },
  {
    group,
    name: "claims of one batch stand alone, in order",
    async run({ peer, fresh, tasks, within }) {
      const queue = fresh("queue")
      const postings = tasks(2, { queue })
      await peer.publish(...postings)
      const [first, second] = await peer.all(queue, 2)
      check(first !== undefined && second !== undefined, "two deliveries must come")
      const [one, two] = postings
      check(one !== undefined && two !== undefined && idOf(first) === one.id, "they come in order")
      await peer.release(first, 0, { record: recordOf(one, "succeeded", { fence: first.fence }) })
      const again = await peer.one(queue)
      const at = Date.now()
      const claims = [
        { token: again.token, id: one.id, run: 1, retries: 0, worker: "w", at, posting: one },
        { token: second.token, id: two.id, run: 1, retries: 0, worker: "w", at, posting: two },
      ]
      const answers = await within("two claims", peer.transport.jobs.claim(claims))
      equal(
        answers.map(({ status }) => status),
        ["finished", "started"],
        "answers",
      )
    },
  },
  {
    group,
    name: "a first delivery needs no claim",
    needs: [freeLeases],
    async run({ peer, fresh, task }) {
      const { posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      check(delivery.fresh, "the first delivery of a job without a record must be fresh")
      const record = await peer.succeed(delivery, posting)
      equal(await peer.find(posting.id), record, "record")
    },
  },
  {
    group,
    name: "a first delivery may be claimed all the same",
    needs: [freeLeases],
    lease: 1_000,
    async run({ peer, fresh, task, lease, tolerance, inTime }) {
      const queue = fresh("queue")
      const [posting, lost] = [task({ queue }), task({ queue })]
      await peer.publish(posting, lost)
      const end = Date.now() + lease - tolerance
      const [delivery, abandoned] = await peer.all(queue, 2)
      check(delivery?.fresh === true && abandoned?.fresh === true, "first deliveries must be fresh")
      equal(await peer.begun(delivery, posting, "worker 1"), undefined, "record before the claim")
      equal(await peer.begun(abandoned, lost, "worker 1"), undefined, "record before the claim")
      const { state, fence, worker, claims, attempt, timeline } = await peer.find(posting.id)
      equal(
        { state, fence, worker, claims, attempt, steps: timeline.map((each) => each.state) },
        {
          state: "started",
          fence: delivery.fence,
          worker: "worker 1",
          claims: 1,
          attempt: 1,
          steps: ["queued", "started"],
        },
        "record",
      )
      const record = await inTime(end, () => peer.succeed(delivery, posting))
      equal(await peer.find(posting.id), record, "record of the outcome")
      const next = await peer.one(queue, 8_000)
      equal(idOf(next), lost.id, "what comes again")
      equal((await peer.begun(next, lost))?.claims, 1, "claims before the second delivery")
    },
  },
  {
    group,
    name: "a claim that is sent again counts once, and gets the record before the first one",
    async run(context) {
      const { peer, fresh, task } = context
      const queue = fresh("queue")
      const posting = task({ queue })
      const { id, run, retries } = posting
      await peer.publish(posting)
      for (let before = 0; before < 2; before++) {
        const delivery = await peer.one(queue)
        const { token, fence } = delivery
        const at = Date.now()
        const claim = { token, id, run, retries, worker: "w", at, posting }
        const ask = async (): Promise<JobRecord | undefined> => {
          const [answer] = await context.within("a claim", peer.transport.jobs.claim([claim]))
          check(answer?.status === "started", `a claim that is sent again must succeed, it was ${describe(answer)}`)
          return answer.record
        }
        const first = await ask()
        equal([first?.claims ?? 0, first?.attempt ?? 0], [before, before], "claims and attempt before the first claim")
        const { message, ...stored } = await peer.find(id)
        equal([stored.claims, stored.attempt], [before + 1, before + 1], "claims and attempt in the record")
        for (let again = 0; again < 2; again++) {
          const record = await ask()
          check(record !== undefined, "a claim that is sent again must tell of the record")
          equal([record.claims ?? 0, record.attempt], [before, before], "claims and attempt, told once more")
          // The worker continues with the stored record.
          const { message: _message, ...begun } = claimed(record, { fence, worker: "w", at })
          equal(begun, stored, "the record that the answer leads to")
          const { message: task, ...now } = await peer.find(id)
          equal(now, stored, "record, after the same claim once more")
        }
        await peer.release(delivery)
      }
    },
  },
  {
    group: "report",
    name: "a report is seen by others, and the last one wins",
    smoke: true,
    async run({ peer, fresh, task, elsewhere, until, within }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const posting = task({ queue })
      await peer.publish(posting)
      const delivery = await peer.one(queue)
      const { token, fence } = delivery
      for (const fraction of [0.25, 0.5, 0.75]) {
        const progress = { fraction, detail: `at ${fraction}`, at: Date.now() }
        const record = recordOf(posting, "started", { fence, worker: "worker 1", progress })
        await within("a report", peer.transport.jobs.report([{ token, record }]))
      }
      await until("the last report, in the record", async () => {
        const { state, worker, progress } = await other.find(posting.id)
        return state === "started" && worker === "worker 1" && progress?.fraction === 0.75
      })
      await peer.succeed(delivery, posting)
      equal((await other.find(posting.id)).state, "succeeded", "state after the end")
    },
  },
  {
    group: "report",
    name: "a report after a claim is seen, and leaves the claim alone",
    async run({ peer, fresh, task, until, within }) {
      const { queue, posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      const { token, fence } = delivery
      await peer.begun(delivery, posting)
      const progress = { fraction: 0.5, at: Date.now() }
      const record = recordOf(posting, "started", { fence, worker: "w", progress, claims: 1 })
      await within("a report", peer.transport.jobs.report([{ token, record }]))
      await until("the report, in the record", async () => (await peer.find(posting.id)).progress?.fraction === 0.5)
      await peer.release(delivery)
      const again = await peer.one(queue)
      equal((await peer.begun(again, posting))?.claims, 1, "claims before the next one")
    },
  },
  {
    group: "report",
    name: "a report that comes late does not bring an ended job back",
    async run({ peer, fresh, task, within, quiet, until }) {
      const { posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      const record = recordOf(posting, "started", { fence: delivery.fence })
      await peer.succeed(delivery, posting)
      await within("a report", peer.transport.jobs.report([{ token: delivery.token, record }]))
      const end = Date.now() + quiet
      await until("the end of a quiet time", async () => {
        equal((await peer.find(posting.id)).state, "succeeded", "state after a report that came late")
        return Date.now() > end
      })
    },
  },
]
