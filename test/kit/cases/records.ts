/** The record of a job in every state, and decisions that change it. */

import { publishKey } from "../../../runtime/protocol/message.ts"
import { step, tombstoneOf } from "../../../runtime/protocol/record.ts"
import { type Case, delay, freeLeases, lists } from "../case.ts"
import { between, check, equal, sameSet } from "../check.ts"
import { sleep, taken } from "../context.ts"
import { describe } from "../peer.ts"
import { cancelled, idOf, recordOf, retryOf } from "../task.ts"

const group = "records"

export const recordCases: ReadonlyArray<Case> = [
  {
    group,
    name: "a job that waits is found as queued, with its task",
    async run({ peer, fresh, task, elsewhere }) {
      const queue = fresh("queue")
      const body = Uint8Array.of(0xff, 0, 1)
      const posting = task({
        queue,
        task: "text.count",
        priority: 6,
        body,
        headers: { shadow: "a name", meth: "words" },
      })
      await peer.publish(posting)
      for (const each of [peer, await elsewhere()]) {
        const { record, revision } = await each.found(posting.id)
        const { id, task: name, meth, queue: place, priority, state, run, attempt, retries, fence, message } = record
        equal(
          { id, name, meth, shadow: record.name, place, priority, state, run, attempt, retries, fence },
          {
            id: posting.id,
            name: "text.count",
            meth: "words",
            shadow: "a name",
            place: queue,
            priority: 6,
            state: "queued",
            run: 1,
            attempt: 0,
            retries: 0,
            fence: "",
          },
          "record",
        )
        equal(message?.body, body, "body of the task in the record")
        equal(message?.headers["task"], "text.count", "header of the task in the record")
        equal(revision, "", "revision of a record that is derived from its task")
      }
    },
  },
  {
    group,
    name: "a job that is due later is found as scheduled, and as queued once it is due",
    needs: [delay],
    async run({ peer, fresh, task, until, harness, slack, tolerance, inTime, timed }) {
      const queue = fresh("queue")
      const due = Date.now() + 800
      const took = timed(due)
      const posting = task({ queue, due })
      await peer.publish(posting)
      const { state, dueAt, message } = await peer.find(posting.id)
      await inTime(due - tolerance, async () => equal({ state, dueAt }, { state: "scheduled", dueAt: due }, "record"))
      equal(message?.headers["id"], posting.id, "id in the task in the record")
      await until("the state queued", async () => (await peer.find(posting.id)).state === "queued")
      took(-20, harness.capabilities.dueResolution + slack, "milliseconds after its time")
    },
  },
  {
    group,
    name: "a job that is in hand is found, with its task",
    async run({ peer, fresh, task }) {
      const { posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      equal((await peer.find(posting.id)).message?.headers["id"], posting.id, "id in the task, before the claim")
      await peer.begun(delivery, posting)
      const { state, message } = await peer.find(posting.id)
      equal([state, message?.headers["id"]], ["started", posting.id], "state and id in the task, after the claim")
    },
  },
  {
    group,
    name: "an id that nobody used is found nowhere",
    async run({ peer, fresh }) {
      equal(await peer.lookup(fresh("nobody")), undefined, "record")
    },
  },
  {
    group,
    name: "a job in motion is never missing",
    smoke: true,
    timeout: 40_000,
    async run({ peer, fresh, task, elsewhere, harness }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const first = task({ queue })
      await peer.publish(first)
      const moving = async (): Promise<void> => {
        let posting = first
        for (let at = 0; at < 12; at++) {
          const delivery = await peer.one(queue)
          await sleep(5)
          if (at > 0) await peer.begun(delivery, posting)
          const due = harness.capabilities.delay && at % 3 === 1 ? { due: Date.now() + 250 } : {}
          const retry = retryOf(posting, due)
          const ending = { fence: delivery.fence, successor: publishKey(retry), followUps: [retry] }
          const record = recordOf(posting, "queued", ending)
          if (at < 11) await peer.acked(delivery, { record, followUps: [retry] })
          else await peer.succeed(delivery, posting)
          posting = retry
        }
      }
      let done = false
      let looks = 0
      const looking = async (): Promise<void> => {
        while (!done) {
          check(
            (await other.lookup(first.id)) !== undefined,
            `the job must be found at any time; look ${looks} missed it`,
          )
          looks++
          // A transport in this process may answer without a turn of the event loop, which the other calls need.
          await sleep(0)
        }
      }
      const looked = Promise.all([looking(), looking()])
      await Promise.race([moving(), looked])
      done = true
      await looked
      check(looks > 12, `the job must have been looked for many times: ${looks}`)
      equal((await peer.find(first.id)).state, "succeeded", "state at the end")
    },
  },
  {
    group,
    name: "a change with an outdated revision is a conflict and changes nothing",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      await peer.publish(posting)
      const stored = await peer.succeed(await peer.one(queue), posting)
      const { revision } = await peer.found(posting.id)
      await peer.decided({ id: posting.id, expect: revision, record: { ...stored, meta: { by: "first" } } })
      for (const expect of [revision, ""]) {
        const changed = await peer.decide({ id: posting.id, expect, record: { ...stored, meta: { by: "second" } } })
        equal(changed.status, "conflict", `answer to a change that expects "${expect}"`)
      }
      equal((await peer.find(posting.id)).meta, { by: "first" }, "meta")
    },
  },
  {
    group,
    name: "of two changes at the same time, one is a conflict",
    smoke: true,
    async run({ peer, fresh, task, elsewhere }) {
      const other = await elsewhere()
      for (let at = 0; at < 10; at++) {
        const queue = fresh("queue")
        const posting = task({ queue })
        await peer.publish(posting)
        const stored = await peer.succeed(await peer.one(queue), posting)
        const { revision: expect } = await peer.found(posting.id)
        const answers = await Promise.all(
          [peer, other].map((each, by) => each.decide({ id: posting.id, expect, record: { ...stored, meta: { by } } })),
        )
        sameSet(
          answers.map(({ status }) => status),
          ["decided", "conflict"],
          "answers",
        )
        const winner = answers.findIndex(({ status }) => status === "decided")
        equal((await peer.find(posting.id)).meta, { by: winner }, "meta")
      }
    },
  },
  {
    group,
    name: "changes of one batch stand alone, in order",
    async run({ peer, fresh, task, within }) {
      const queue = fresh("queue")
      const postings = [task({ queue }), task({ queue })]
      await peer.publish(...postings)
      const records = await Promise.all(postings.map(({ id }) => peer.find(id)))
      const changes = records.map((record, at) => ({
        id: record.id,
        expect: at === 0 ? "0" : "",
        record: cancelled(record),
        withdraw: true,
      }))
      const answers = await within("two changes", peer.transport.jobs.decide(changes))
      equal(
        answers.map(({ status }) => status),
        ["conflict", "decided"],
        "answers",
      )
      equal((await peer.all(queue, 1)).map(idOf), [postings[0]?.id], "what still comes")
    },
  },
  {
    group,
    name: "a job that is cancelled while it waits is withdrawn and never comes",
    smoke: true,
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const [before, posting, after] = tasks(3, { queue })
      check(before !== undefined && posting !== undefined && after !== undefined, "there are three tasks")
      await peer.publish(before, posting, after)
      const { record, revision } = await peer.found(posting.id)
      await peer.decided({ id: posting.id, expect: revision, record: cancelled(record), withdraw: true })
      equal((await peer.all(queue, 2)).map(idOf), [before.id, after.id], "what comes")
      await peer.none(queue, "the third one was withdrawn")
      const found = await peer.found(posting.id)
      equal(found.record.state, "cancelled", "state")
      equal(found.record.message, undefined, "task in the record: it is not in the queue any more")
      check(found.revision !== "", "a record that is stored must have a revision")
    },
  },
  {
    group,
    name: "an older run whose task comes again is finished, the newer run is not",
    needs: [freeLeases],
    lease: 1_000,
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      const { id } = posting
      await peer.publish(posting)
      await peer.one(queue)
      // The job is cancelled while it runs and run again at once; then the first worker dies.
      const running = await peer.found(id)
      const stopped = cancelled(running.record)
      await peer.decided({ id, expect: running.revision, record: stopped })
      const again = task({ queue, id, run: 2 })
      const { endedAt, keepMs, ...rest } = stopped
      const queued = step(rest, { at: Date.now(), state: "queued", run: 2, reason: "rerun" })
      await peer.decided({ id, expect: (await peer.found(id)).revision, record: queued, post: [again] })
      const statuses: Record<string, string> = {}
      for (let count = 0; count < 2; count++) {
        const delivery = await peer.one(queue, 8_000)
        const of = delivery.message
        const own: unknown = "headers" in of ? of.headers["callboard"] : undefined
        const isSecond = typeof own === "object" && own !== null && "run" in own && own.run === 2
        const { status } = await peer.begin(delivery, isSecond ? again : posting)
        statuses[isSecond ? "run 2" : "run 1"] = status
        if (isSecond)
          await peer.acked(delivery, { record: recordOf(again, "succeeded", { fence: delivery.fence, run: 2 }) })
      }
      equal(statuses, { "run 1": "finished", "run 2": "started" }, "claims")
      equal((await peer.find(id)).state, "succeeded", "state")
    },
  },
  {
    group,
    name: "a job that is run again begins its next run, and the run before is over",
    async run({ peer, fresh, task }) {
      const { queue, posting, delivery: first } = await taken(peer, task({ queue: fresh("queue") }))
      const { id } = posting
      await peer.succeed(first, posting, { result: "of run 1" })
      const { record, revision } = await peer.found(id)
      const again = task({ queue, id, run: 2 })
      const { endedAt, keepMs, result, ...rest } = record
      const queued = { ...step(rest, { at: Date.now(), state: "queued", run: 2, reason: "rerun" }), fence: "" }
      await peer.decided({ id, expect: revision, record: queued, post: [again] })
      const { state, run, message } = await peer.find(id)
      equal([state, run, message?.headers["id"]], ["queued", 2, id], "state, run and task")
      const second = await peer.one(queue)
      check(second.fence > first.fence, `fences must rise over runs: ${first.fence}, then ${second.fence}`)
      check(!second.fresh, "a delivery of a second run is not fresh")
      const late = await peer.ack(first, { record: recordOf(posting, "failed", { fence: first.fence }) })
      check(["superseded", "gone"].includes(late.status), `the first run is over, it was ${describe(late)}`)
      equal((await peer.find(id)).run, 2, "run, after the first one tried to write")
      await peer.begun(second, again)
      await peer.acked(second, {
        record: recordOf(again, "succeeded", { fence: second.fence, run: 2, result: "of run 2" }),
      })
      equal((await peer.find(id)).result, "of run 2", "result")
    },
  },
  {
    group,
    name: "a record can be there before its task",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      // A task that waited for other jobs says so in a header, so that its first delivery is not fresh.
      const callboard = { run: 1, submittedAt: Date.now(), after: { ids: [fresh("parent")] } }
      const posting = task({ queue, headers: { callboard } })
      const { id } = posting
      const record = { ...recordOf(posting, "deferred", { fence: "", attempt: 0 }), message: posting.message }
      await peer.decided({ id, expect: "", record })
      const found = await peer.found(id)
      equal([found.record.state, found.record.message?.headers["id"]], ["deferred", id], "state and id in the task")
      await peer.none(queue, "it waits for others")
      equal((await peer.decide({ id, expect: "", record })).status, "conflict", "answer to making it again")
      const released = step(record, { at: Date.now(), state: "queued" })
      await peer.decided({ id, expect: found.revision, record: released, post: [posting] })
      const delivery = await peer.one(queue)
      check(!delivery.fresh, "a delivery of a job that has a record is not fresh")
      equal((await peer.begun(delivery, posting))?.state, "queued", "state before the claim")
    },
  },
  {
    group,
    name: "a record that was deleted leaves a tombstone, which refuses late workers",
    needs: [lists],
    lease: 1_000,
    async run({ peer, fresh, task, lease, tolerance, inTime }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      const { id } = posting
      await peer.publish(posting)
      // The second lease begins no earlier than the first one ends.
      const end = Date.now() + 2 * (lease - tolerance)
      const first = await peer.one(queue)
      const second = await peer.one(queue, 8_000)
      await peer.begun(second, posting)
      await inTime(end, () => peer.succeed(second, posting))
      const { record, revision } = await peer.found(id)
      const { result, message, ...rest } = record
      await peer.decided({ id, expect: revision, record: { ...rest, tombstone: true } })
      const grave = await peer.find(id)
      const { tombstone, state, run } = grave
      equal({ tombstone, state, run }, { tombstone: true, state: "succeeded", run: 1 }, "tombstone")
      equal(grave.result, undefined, "result in the tombstone")
      const page = await peer.transport.jobs.list({ queue, limit: 10 })
      equal(
        page.records.map((each) => each.id),
        [],
        "records listed",
      )
      const late = await peer.ack(first, { record: recordOf(posting, "succeeded", { fence: first.fence }) })
      equal(late.status, "superseded", "answer to a late worker")
      equal((await peer.find(id)).tombstone, true, "tombstone, after a late worker tried to write")
    },
  },
  {
    group,
    name: "a record that was deleted still tells what follows, to the delivery that comes later",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const [posting, callback] = [task({ queue }), task({ queue: fresh("other") })]
      const { id } = posting
      await peer.publish(posting)
      const first = await peer.one(queue)
      // The record is that of a worker that died after it stored the outcome and before it published the follow-ups.
      const outcome = recordOf(posting, "succeeded", { fence: first.fence, followUps: [callback] })
      await peer.release(first, 0, { record: outcome })
      const { record, revision } = await peer.found(id)
      await peer.decided({ id, expect: revision, record: { ...tombstoneOf(record), fence: "", keepMs: 0 } })
      equal((await peer.find(id)).tombstone, true, "tombstone")
      const second = await peer.one(queue)
      const claimed = await peer.begin(second, posting)
      check(claimed.status === "finished", `the claim must say finished, it said ${describe(claimed)}`)
      const { followUps = [] } = claimed.record
      equal(followUps.map(publishKey), [publishKey(callback)], "follow-ups in the tombstone")
      await peer.acked(second, { followUps })
      equal(idOf(await peer.one(callback.queue)), callback.id, "the follow-up, published by the later delivery")
      await peer.none([queue, callback.queue], "it was acked")
    },
  },
  {
    group,
    name: "a record becomes a tombstone when it was kept long enough, and not before",
    smoke: true,
    needs: [lists],
    async run({ peer, fresh, task, until, tolerance, inTime }) {
      const queue = fresh("queue")
      const [brief, long, ever, never] = [task({ queue }), task({ queue }), task({ queue }), task({ queue })]
      await peer.publish(brief, long, ever, never)
      const keepMs = 2_500
      const { endedAt = 0 } = await peer.succeed(await peer.one(queue), brief, { keepMs, message: brief.message })
      await inTime(endedAt + keepMs - tolerance, async () => {
        equal((await peer.find(brief.id)).result, "done", "result at first")
      })
      await peer.succeed(await peer.one(queue), long, { keepMs: 60_000 })
      await peer.succeed(await peer.one(queue), ever, { keepMs: -1 })
      await peer.succeed(await peer.one(queue), never, { keepMs: 0 })
      await until(
        "the tombstone of a record that is not kept",
        async () => (await peer.find(never.id)).tombstone === true,
      )
      const grave = await until("a tombstone", async () => {
        const record = await peer.find(brief.id)
        return record.tombstone === true ? record : undefined
      })
      between(Date.now() - endedAt, keepMs - tolerance, Infinity, "milliseconds that the record was kept")
      const { id, state, run, result, message } = grave
      equal({ id, state, run }, { id: brief.id, state: "succeeded", run: 1 }, "tombstone")
      equal([result, message], [undefined, undefined], "result and message in the tombstone")
      for (const each of [long, ever])
        equal((await peer.find(each.id)).result, "done", "result of a record that is kept")
      const page = await peer.transport.jobs.list({ queue, limit: 10 })
      sameSet(
        page.records.map((each) => each.id),
        [long.id, ever.id],
        "records listed",
      )
    },
  },
  {
    group,
    name: "a change that is too large is refused and changes nothing",
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      await peer.publish(posting)
      const { record, revision } = await peer.found(posting.id)
      const description = "x".repeat(harness.capabilities.maxRecord)
      const big = { ...cancelled(record), description }
      const changed = await peer.decide({ id: posting.id, expect: revision, record: big, withdraw: true })
      check(changed.status === "failed", `a record that is too large must fail, it was ${describe(changed)}`)
      equal(changed.error.reason, "too-large", "reason")
      equal(idOf(await peer.one(queue)), posting.id, "what still comes")
    },
  },
]
