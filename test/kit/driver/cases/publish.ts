/** Publishing: a task is stored exactly as given, once per publish key, and succeeds or fails alone. */
import { Buffer } from "node:buffer"
import type { Receipt } from "../../../../runtime/transport/driver.ts"
import { check, equal, sameSet } from "../../check.ts"
import { describe } from "../../peer.ts"
import { boundedDelay, type DriverCase, dedupe, noFront } from "../case.ts"
import { patience, size, sleep, taken } from "../context.ts"
import { frameOf, idOf, idsOf, messageOf, recordOf, sized } from "../task.ts"

const group = "publish"

/** Absent and `null` mean the same in headers. */
const withoutNulls = (headers: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== null && value !== undefined))

export const refusedAs = (receipt: Receipt | undefined, reason: string, what: string): void => {
  check(receipt?.status === "failed", `${what} must be refused, it was ${describe(receipt)}`)
  equal(receipt.error.reason, reason, `reason why ${what} was refused`)
}

export const publishCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "the bytes of a body come back as they were, UTF-8 or not",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const bodies = [Uint8Array.from({ length: 512 }, (_, at) => at), Uint8Array.of(0xff, 0xfe, 0, 0xc3, 0x28, 13, 10)]
      for (const body of bodies) {
        const properties = { content_type: "application/octet-stream", content_encoding: "binary" }
        const posting = task({ queue, body, properties })
        await peer.publish(posting)
        const delivery = await peer.one(queue)
        equal(messageOf(delivery).body, body, "body")
        if (delivery.content instanceof Uint8Array) equal(delivery.content, posting.frame, "frame")
        await peer.end(delivery)
      }
    },
  },
  {
    group,
    name: "an empty body stays empty",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue, body: new Uint8Array(0) }))
      equal(messageOf(await peer.one(queue)).body, new Uint8Array(0), "body")
    },
  },
  {
    group,
    name: "headers come back with their types, whatever text they hold",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const headers = {
        greeting: "größer 日本語 😀",
        nothing: null,
        empty: "",
        lines: "one\r\ntwo\r\n\r\nNats-Msg-Id: three\u0000",
        fraction: 0.1,
        whole: -12345678901,
        yes: true,
        nested: { list: [1, "two", null, { "k.e y": [] }], map: {} },
        "X-Odd: name": "v",
        ключ: "значение",
      }
      await peer.publish(task({ queue, headers }))
      const found = messageOf(await peer.one(queue)).headers
      for (const [name, value] of Object.entries(withoutNulls(headers))) equal(found[name], value, `header ${name}`)
      equal(found["nothing"] ?? null, null, "a header that is null")
    },
  },
  {
    group,
    name: "properties come back, also those that nobody knows",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const properties = {
        reply_to: fresh("reply"),
        delivery_mode: 2,
        delivery_info: { exchange: "", routing_key: queue },
        "x-unheard-of": ["of", 1],
      }
      const posting = task({ queue, properties })
      await peer.publish(posting)
      const found = messageOf(await peer.one(queue)).properties
      for (const [name, value] of Object.entries(posting.message.properties))
        equal(found[name], value, `property ${name}`)
    },
  },
  {
    group,
    name: "the property expiration is carried, not obeyed",
    async run({ peer, fresh, task, quiet }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue, properties: { expiration: "1" } }))
      await peer.none(fresh("queue"), "nothing was published there", quiet)
      equal(messageOf(await peer.one(queue)).properties["expiration"], "1", "expiration")
    },
  },
  {
    group,
    name: "a header named __proto__ is inert",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const headers: Record<string, unknown> = JSON.parse(
        '{"__proto__":{"polluted":true},"constructor":"text","after":1}',
      )
      await peer.publish(task({ queue, headers }))
      const found = messageOf(await peer.one(queue)).headers
      const prototype: unknown = Object.getPrototypeOf(found)
      check(prototype === Object.prototype || prototype === null, "headers must keep an ordinary prototype")
      check(!("polluted" in found) && !("polluted" in {}), "what is below __proto__ must not become a header")
      equal(found["after"], 1, "the header beside it")
    },
  },
  {
    group,
    name: "the largest task that is allowed is stored and comes back",
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const posting = sized(task({ queue }), harness.capabilities.maxTask)
      await peer.publish(posting)
      const { body } = messageOf(await peer.one(queue))
      equal(body.length, posting.message.body.length, "length of the body")
      check(Buffer.compare(body, posting.message.body) === 0, "the body must come back as it was")
    },
  },
  {
    group,
    name: "one byte more is too-large, and its neighbours are stored all the same",
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const [before, after] = [task({ queue }), task({ queue })]
      const receipts = await peer.receipts([before, sized(task({ queue }), harness.capabilities.maxTask + 1), after])
      const found = receipts.map((each) => (each.status === "failed" ? each.error.reason : each.status))
      equal(found, ["stored", "too-large", "stored"], "receipts")
      sameSet(idsOf(await peer.all(queue, 2)), [before.id, after.id], "tasks that come")
      await peer.none(queue, "the third one was refused")
    },
  },
  {
    group,
    name: "no tasks: no receipts",
    async run({ peer }) {
      equal(await peer.receipts([]), [], "receipts")
    },
  },
  {
    group,
    name: "the same publish key again is a duplicate and stores nothing",
    needs: [dedupe],
    async run({ peer, fresh, task, elsewhere }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const posting = task({ queue })
      await peer.publish(posting)
      for (const each of [peer, other]) {
        equal((await each.receipts([posting])).map(describe), ["duplicate"], "receipt of the second time")
      }
      await peer.one(queue)
      await peer.none(queue, "it was published under one key")
    },
  },
  {
    group,
    name: "the same publish key twice in one batch is stored once",
    needs: [dedupe],
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      sameSet((await peer.receipts([posting, posting])).map(describe), ["stored", "duplicate"], "receipts")
      await peer.one(queue)
      await peer.none(queue, "it was published under one key")
    },
  },
  {
    group,
    name: "the same publish key is a duplicate while the task is in hand and after it ended",
    needs: [dedupe],
    async run({ peer, fresh, task }) {
      const { queue, posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      equal((await peer.receipts([posting])).map(describe), ["duplicate"], "receipt while it is in hand")
      await peer.end(delivery, { record: recordOf(posting, "succeeded") })
      equal((await peer.receipts([posting])).map(describe), ["duplicate"], "receipt after its end")
      await peer.none(queue, "it is a duplicate")
    },
  },
  {
    group,
    name: "a publish key is remembered after its task has ended, for as long as the caller tries again",
    needs: [dedupe],
    async run({ peer, fresh, task, harness }) {
      const { queue, posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      await peer.end(delivery, { record: recordOf(posting, "succeeded") })
      await sleep(Math.min(size(4_000, 30_000), harness.capabilities.dedupeWindow / 2))
      equal((await peer.receipts([posting])).map(describe), ["duplicate"], "receipt of the second time")
      await peer.none(queue, "it is a duplicate")
    },
  },
  {
    group,
    name: "the same id with more retries, a later run or more hops is not a duplicate",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const first = task({ queue })
      const { id } = first
      const more = [task({ queue, id, retries: 1 }), task({ queue, id, run: 2 }), task({ queue, id, hops: 1 })]
      await peer.publish(first, ...more)
      equal(idsOf(await peer.all(queue, 4)), [id, id, id, id], "what comes")
    },
  },
  {
    group,
    name: "of publishes of one key at the same time, one is stored",
    needs: [dedupe],
    async run({ peer, fresh, tasks, elsewhere }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const postings = tasks(10, { queue })
      const batches = await Promise.all(
        [peer, other, peer, other].map((each) => Promise.all(postings.map((posting) => each.receipts([posting])))),
      )
      for (let at = 0; at < postings.length; at++) {
        const found = batches.flatMap((batch) => batch[at] ?? []).map(describe)
        sameSet(found, ["duplicate", "duplicate", "duplicate", "stored"], `receipts of task ${at}`)
      }
      sameSet(
        idsOf(await peer.all(queue, 10)),
        postings.map(({ id }) => id),
        "what comes",
      )
      await peer.none(queue, "each was published under one key")
    },
  },
  {
    group,
    name: "what the caller changes afterwards does not reach the task, nor the next delivery",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const body = Uint8Array.of(1, 2, 3)
      const posting = task({ queue, body })
      await peer.publish(posting)
      body.fill(9)
      posting.frame.fill(9)
      const first = await peer.one(queue)
      equal(messageOf(first).body, Uint8Array.of(1, 2, 3), "body")
      if (first.content instanceof Uint8Array) first.content.fill(8)
      else {
        const message = messageOf(first)
        message.body.fill(8)
        try {
          // A driver may also return frozen objects, which refuse the change.
          Object.assign(message.headers, { id: "changed" })
        } catch {}
      }
      await peer.release({ ...first, content: frameOf(posting.message) })
      const second = await peer.one(queue)
      equal(messageOf(second).body, Uint8Array.of(1, 2, 3), "body of the next delivery")
      equal(idOf(second), posting.id, "id of the next delivery")
    },
  },
  {
    group,
    name: "many tasks from several publishers all come, each once",
    async run({ peer, fresh, tasks, elsewhere }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const count = size(100, 5_000)
      const batches = [peer, other, peer, other].map((each) => ({ each, postings: tasks(count, { queue }) }))
      await Promise.all(batches.map(({ each, postings }) => each.publish(...postings)))
      const found = await peer.all(queue, 4 * count, patience(10_000))
      sameSet(
        idsOf(found),
        batches.flatMap(({ postings }) => postings.map(({ id }) => id)),
        "what comes",
      )
      await peer.none(queue, "all have come")
    },
  },
  {
    group,
    name: "a due time beyond what it keeps is refused as unsupported, and its neighbours are stored",
    needs: [boundedDelay],
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const due = Date.now() + harness.capabilities.delay + 60_000
      const neighbour = task({ queue })
      const [far, near] = await peer.receipts([task({ queue, due }), neighbour])
      refusedAs(far, "unsupported", "a task that is due too late")
      equal(near?.status, "stored", "receipt of its neighbour")
      equal(idsOf(await peer.all(queue, 1)), [neighbour.id], "what comes")
      await peer.none(queue, "it was refused")
    },
  },
  {
    group,
    name: "a task for the front is refused as unsupported where there is none",
    needs: [noFront],
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const [receipt] = await peer.receipts([task({ queue, front: true })])
      refusedAs(receipt, "unsupported", "a task for the front")
      await peer.none(queue, "it was refused")
    },
  },
]
