/** The end of attempts: record, follow-ups and ack, in this order or as one transaction. */

import { publishKey } from "../../../runtime/protocol/message.ts"
import { type Case, delay } from "../case.ts"
import { between, check, equal, sameSet } from "../check.ts"
import { size, taken } from "../context.ts"
import { describe } from "../peer.ts"
import { cancelled, idOf, messageOf, recordOf, retryOf } from "../task.ts"

const group = "settle"

export const settleCases: ReadonlyArray<Case> = [
  {
    group,
    name: "a task that is handed back with a delay waits so long",
    async run({ peer, fresh, task, harness, tolerance, slack, timed }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const first = await peer.one(queue)
      const took = timed()
      await peer.release(first, 700)
      await peer.one(queue, 8_000)
      const late = 700 + harness.capabilities.dueResolution + slack
      took(700 - tolerance, late, "milliseconds until it comes again")
    },
  },
  {
    group,
    name: "attempts of one batch end alone, in order",
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const postings = tasks(3, { queue })
      await peer.publish(...postings)
      const [one, two, three] = await peer.all(queue, 3)
      const then = { kind: "ack" } as const
      const ended = await peer.endAll(
        { token: one?.token ?? "", then },
        { token: "never a token", then },
        { token: two?.token ?? "", then: { kind: "hand-back", delay: 0 } },
        { token: three?.token ?? "", then },
      )
      equal([ended[0]?.status, ended[2]?.status, ended[3]?.status], ["ended", "ended", "ended"], "answers")
      check(ended[1]?.status === "gone" || ended[1]?.status === "failed", "what was never a token is gone, or failed")
      equal((await peer.all(queue, 1)).map(idOf), [postings[1]?.id], "what comes again")
      await peer.none(queue, "the others were acked")
    },
  },
  {
    group,
    name: "an outcome that comes after an early ack is stored",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const [noted, silent] = [task({ queue }), task({ queue })]
      await peer.publish(noted, silent)
      for (const posting of [noted, silent]) {
        const delivery = await peer.one(queue)
        const { fence } = delivery
        await peer.acked(delivery, posting === noted ? { record: recordOf(posting, "started", { fence }) } : {})
        if (posting === noted) equal((await peer.find(posting.id)).state, "started", "state after the ack")
        const ended = await peer.ack(delivery, { record: recordOf(posting, "succeeded", { fence, result: 7 }) })
        check(["gone", "ended"].includes(ended.status), `it must be gone or ended, it was ${describe(ended)}`)
        equal((await peer.find(posting.id)).result, 7, "result")
      }
      await peer.none(queue, "both were acked")
    },
  },
  {
    group,
    name: "an outcome that comes after an early ack publishes what follows",
    smoke: true,
    async run({ peer, fresh, task }) {
      const [queue, next] = [fresh("queue"), fresh("next")]
      const [ends, again] = [task({ queue }), task({ queue })]
      const errback = task({ queue: next })
      await peer.publish(ends, again)
      for (const posting of [ends, again]) {
        const delivery = await peer.one(queue)
        const { fence } = delivery
        const message = messageOf(delivery)
        await peer.acked(delivery, { record: recordOf(posting, "started", { fence, acked: true, message }) })
        equal((await peer.find(posting.id)).message?.headers["id"], posting.id, "the task that its record keeps")
        const retry = { ...retryOf(posting), queue: next }
        const followUps = posting === ends ? [errback] : [retry]
        const record =
          posting === ends
            ? recordOf(posting, "failed", { fence, followUps })
            : recordOf(posting, "queued", { fence, followUps, successor: publishKey(retry), retries: 1 })
        const ended = await peer.ack(delivery, { record, followUps })
        check(["gone", "ended"].includes(ended.status), `it must be gone or ended, it was ${describe(ended)}`)
      }
      const followed = await peer.all(next, 2)
      sameSet(followed.map(idOf), [errback.id, again.id], "what follows")
      await peer.none(queue, "both were acked")
    },
  },
  {
    group,
    name: "an outcome that comes after an early ack is refused where the job was cancelled meanwhile",
    async run({ peer, fresh, task }) {
      const [queue, next] = [fresh("queue"), fresh("next")]
      const posting = task({ queue })
      await peer.publish(posting)
      const delivery = await peer.one(queue)
      const { fence } = delivery
      await peer.acked(delivery, { record: recordOf(posting, "started", { fence, acked: true }) })
      const { record, revision } = await peer.found(posting.id)
      await peer.decided({ id: posting.id, expect: revision, record: cancelled(record), withdraw: true })
      const followUps = [task({ queue: next })]
      const ended = await peer.ack(delivery, {
        record: recordOf(posting, "succeeded", { fence, followUps }),
        followUps,
      })
      equal(ended.status, "superseded", "answer")
      equal((await peer.find(posting.id)).state, "cancelled", "state")
      await peer.none(next, "what would follow was refused too")
    },
  },
  {
    group,
    name: "many attempts that end in one batch are all stored",
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const postings = tasks(size(400, 1_000), { queue })
      await peer.publish(...postings)
      const byId = new Map(postings.map((posting) => [posting.id, posting]))
      const ends = (await peer.all(queue, postings.length)).map((delivery, at) => {
        const posting = byId.get(idOf(delivery))
        check(posting !== undefined, "what comes must have been published")
        const record = recordOf(posting, "succeeded", { fence: delivery.fence, result: at })
        return { token: delivery.token, record, then: { kind: "ack" } as const }
      })
      const ended = await peer.endAll(...ends)
      equal(ended.filter(({ status }) => status !== "ended").length, 0, "ends that failed")
      for (const { record } of ends) equal((await peer.find(record.id)).result, record.result, "result")
      await peer.none(queue, "all were acked")
    },
  },
  {
    group,
    name: "a record is read as it was stored",
    async run({ peer, fresh, task, elsewhere }) {
      const { posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      const bytes = Uint8Array.from({ length: 256 }, (_, at) => at)
      const record = await peer.succeed(delivery, posting, {
        result: { text: "größer 😀\u0000\n", list: [1, null, { a: 0.5 }], nothing: null },
        meta: { "k.e y": true },
        progress: { fraction: 0.5, detail: ["x"], at: 1 },
        message: { ...posting.message, body: bytes },
        raw: bytes,
      })
      equal(await peer.find(posting.id), record, "record")
      equal(await (await elsewhere()).find(posting.id), record, "record on another connection")
    },
  },
  {
    group,
    name: "follow-ups are published",
    async run({ peer, fresh, task }) {
      const [queue, other] = [fresh("queue"), fresh("other")]
      const posting = task({ queue })
      await peer.publish(posting)
      const [retry, callback] = [retryOf(posting), task({ queue: other })]
      const delivery = await peer.one(queue)
      const record = recordOf(posting, "queued", { fence: delivery.fence, successor: publishKey(retry) })
      await peer.acked(delivery, { record, followUps: [retry, callback] })
      equal((await peer.all([queue, other], 2)).map(idOf), [posting.id, callback.id], "what comes")
      await peer.none([queue, other], "each follow-up is published once")
    },
  },
  {
    group,
    name: "a follow-up keeps its due time",
    needs: [delay],
    async run({ peer, fresh, task, tolerance }) {
      const queue = fresh("queue")
      const [posting, due] = [task({ queue }), Date.now() + 900]
      await peer.publish(posting)
      await peer.acked(await peer.one(queue), { followUps: [task({ queue, due })] })
      await peer.one(queue, 8_000)
      between(Date.now() - due, -tolerance, Infinity, "milliseconds after its time")
    },
  },
  {
    group,
    name: "an end that is sent again after a lost acknowledgement succeeds, and doubles no follow-up",
    smoke: true,
    needs: [({ capabilities }) => capabilities.dedupeWindow > 0 || "it does not recognise publish keys"],
    async run({ peer, fresh, task }) {
      const [queue, other] = [fresh("queue"), fresh("other")]
      const posting = task({ queue })
      await peer.publish(posting)
      const delivery = await peer.one(queue)
      const followUps = [task({ queue: other }), task({ queue: other })]
      const record = recordOf(posting, "succeeded", { fence: delivery.fence, result: 7, followUps })
      await peer.acked(delivery, { record, followUps })
      const [ended, waiting] = followUps
      check(ended !== undefined && waiting !== undefined, "there are two follow-ups")
      await peer.succeed(await peer.one(other), ended)
      const again = await peer.ack(delivery, { record, followUps })
      check(["ended", "gone"].includes(again.status), `ended again must be ended or gone, it was ${describe(again)}`)
      equal(idOf(await peer.one(other)), waiting.id, "the follow-up that is left")
      await peer.none([queue, other], "they were published before")
      equal((await peer.find(posting.id)).result, 7, "result")
    },
  },
  {
    group,
    name: "a record over maxRecord is refused as too-large, and a smaller one is stored",
    async run({ peer, fresh, task, harness }) {
      const { queue, posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      const { fence } = delivery
      const big = recordOf(posting, "succeeded", { fence, result: "x".repeat(harness.capabilities.maxRecord) })
      const refused = await peer.ack(delivery, { record: big, followUps: [task({ queue })] })
      check(refused.status === "failed", `a record that is too large must fail, it was ${describe(refused)}`)
      equal(refused.error.reason, "too-large", "reason")
      const error = { name: "ResultTooLarge", message: "too large", reason: "result-too-large" }
      const small = recordOf(posting, "failed", { fence, error })
      await peer.acked(delivery, { record: small })
      equal(await peer.find(posting.id), small, "record")
      await peer.none(queue, "nothing else was published")
    },
  },
  {
    group,
    name: "a record that is not JSON is refused as invalid, and another one is stored",
    async run({ peer, fresh, task }) {
      const { posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      const { fence } = delivery
      const refused = await peer.ack(delivery, { record: recordOf(posting, "succeeded", { fence, result: 1n }) })
      check(refused.status === "failed", `a record with a BigInt must fail, it was ${describe(refused)}`)
      equal(refused.error.reason, "invalid", "reason")
      await peer.acked(delivery, { record: recordOf(posting, "failed", { fence }) })
      equal((await peer.find(posting.id)).state, "failed", "state")
    },
  },
  {
    group,
    name: "a follow-up that is too large fails the end of its attempt, which ends without it",
    async run({ peer, fresh, task, harness }) {
      const { queue, posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      const { fence } = delivery
      const big = task({ queue, body: new Uint8Array(harness.capabilities.maxTask + 1) })
      const refused = await peer.ack(delivery, { record: recordOf(posting, "succeeded", { fence }), followUps: [big] })
      check(refused.status === "failed", `a follow-up that is too large must fail, it was ${describe(refused)}`)
      equal(refused.error.reason, "too-large", "reason")
      await peer.acked(delivery, { record: recordOf(posting, "failed", { fence }) })
      equal((await peer.find(posting.id)).state, "failed", "state")
    },
  },
  {
    group,
    name: "a terminal record ends the job for deliveries that come later",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const [posting, callback] = [task({ queue }), task({ queue: fresh("other") })]
      await peer.publish(posting)
      const first = await peer.one(queue)
      // As if the worker had died between storing the outcome and taking the task off the queue.
      const record = recordOf(posting, "succeeded", { fence: first.fence, result: 7, followUps: [callback] })
      await peer.release(first, 0, { record })
      const second = await peer.one(queue)
      const claimed = await peer.begin(second, posting)
      check(claimed.status === "finished", `the claim must say finished, it said ${describe(claimed)}`)
      equal(claimed.record.result, 7, "result in the record")
      equal(claimed.record.followUps?.map(publishKey), [publishKey(callback)], "follow-ups in the record")
      await peer.acked(second, { followUps: [callback] })
      equal((await peer.find(posting.id)).result, 7, "result, still")
      equal(idOf(await peer.one(callback.queue)), callback.id, "the follow-up, published by the later delivery")
      await peer.none([queue, callback.queue], "it was acked")
    },
  },
  {
    group,
    name: "what follows a job is not lost with its record, as long as its task may come again",
    async run({ peer, fresh, task, until }) {
      const queue = fresh("queue")
      const [posting, callback] = [task({ queue }), task({ queue: fresh("other") })]
      await peer.publish(posting)
      const first = await peer.one(queue)
      // As if the worker had died after storing the outcome and before publishing the follow-ups. Results are not kept.
      const fields = { fence: first.fence, result: 7, followUps: [callback], keepMs: 0 }
      const record = recordOf(posting, "succeeded", fields)
      await peer.release(first, 0, { record })
      await until("a tombstone", async () => {
        const { tombstone, result, message } = await peer.find(posting.id)
        if (tombstone) equal([result, message], [undefined, undefined], "result and message in the tombstone")
        return tombstone
      })
      const second = await peer.one(queue)
      const claimed = await peer.begin(second, posting)
      check(claimed.status === "finished", `the claim must say finished, it said ${describe(claimed)}`)
      const { followUps = [] } = claimed.record
      equal(followUps.map(publishKey), [publishKey(callback)], "follow-ups in the record")
      await peer.acked(second, { followUps })
      const next = await peer.one(callback.queue)
      equal(idOf(next), callback.id, "the follow-up, published by the later delivery")
      equal(messageOf(next).body, callback.message.body, "its body")
      await peer.none([queue, callback.queue], "it was acked")
    },
  },
  {
    group,
    name: "a record that names a successor ends older postings, not the successor",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue, priority: 9 })
      await peer.publish(posting)
      const first = await peer.one(queue)
      const retry = retryOf(posting, { level: 0 })
      const ending = { successor: publishKey(retry), followUps: [retry], fence: first.fence }
      await peer.release(first, 0, { record: recordOf(posting, "queued", ending), followUps: [retry] })
      const deliveries = await peer.all(queue, 2)
      const retries = (at: number): unknown => {
        const message = deliveries[at]?.message
        return message !== undefined && "headers" in message ? message.headers["retries"] : undefined
      }
      sameSet([String(retries(0)), String(retries(1))], ["0", "1"], "retries of what comes")
      const [older, newer] = retries(0) === 0 ? deliveries : [...deliveries].reverse()
      check(older !== undefined && newer !== undefined, "two deliveries must come")
      equal((await peer.begin(older, posting)).status, "finished", "claim of the older posting")
      equal((await peer.begin(newer, retry)).status, "started", "claim of the successor")
      await peer.succeed(newer, retry)
      await peer.ack(older)
      equal((await peer.find(posting.id)).state, "succeeded", "state")
    },
  },
]
