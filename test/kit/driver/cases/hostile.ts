/** Hostile input: any text is treated as text, and bytes that are not a message do no harm. */
import { Buffer } from "node:buffer"
import { isUndecodable } from "../../../../runtime/protocol/message.ts"
import type { Delivery } from "../../../../runtime/transport/driver.ts"
import { hook } from "../../case.ts"
import { check, equal, sameSet } from "../../check.ts"
import { TEXTS } from "../../hostile-text.ts"
import { type DriverCase, part } from "../case.ts"
import { idOf, idsOf, messageOf, recordOf } from "../task.ts"

const group = "hostile"
const rawOf = (content: Delivery["content"]): Uint8Array =>
  content instanceof Uint8Array ? content : isUndecodable(content) ? content.raw : new Uint8Array(0)
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")

export const hostileCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "ids may be any text up to 255 bytes",
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const ids = [...TEXTS, "x".repeat(255), "é".repeat(127), "*".repeat(255), "日".repeat(85)]
      const postings = ids.map((id) => task({ queue, id }))
      await peer.publish(...postings)
      if (harness.capabilities.dedupeWindow > 0) {
        const again = await peer.receipts(postings)
        equal(
          again.map(({ status }) => status),
          ids.map(() => "duplicate"),
          "receipts of the second time",
        )
      }
      const tasks = await peer.reads(ids)
      equal(
        tasks.map((known) => known?.task && idOf(known.task)),
        ids,
        "ids of the tasks that wait",
      )
      const found = await peer.all(queue, ids.length)
      equal(idsOf(found), ids, "what comes")
      for (const [at, delivery] of found.entries()) {
        const posting = postings[at]
        check(posting !== undefined, "each delivery has its posting")
        await peer.end(delivery, { record: recordOf(posting, "succeeded", { says: posting.id }) })
      }
      for (const id of ids) equal(await peer.says(id), id, "record of a job that ended")
    },
  },
  {
    group,
    name: "names of queues are apart, whatever they hold",
    async run({ peer, task, fresh }) {
      const queues = [...TEXTS, "q", "q.", "q.1", "q1", "Q", `${"長".repeat(60)}`, fresh("queue")]
      const postings = queues.map((queue) => task({ queue }))
      await peer.publish(...postings)
      // Names that look like patterns come first: taking from such a queue must not bring tasks of other queues.
      for (const [at, queue] of queues.entries()) {
        const deliveries = await peer.take(queue, { max: 10, wait: 2_000 })
        equal(idsOf(deliveries), [postings[at]?.id], `what comes from ${JSON.stringify(queue)}`)
        equal(
          deliveries.map((each) => each.queue),
          [queue],
          "name of the queue in the delivery",
        )
        for (const delivery of deliveries) await peer.end(delivery)
      }
    },
  },
  {
    group,
    name: "queues of any name are counted and listed apart",
    needs: [part("browse")],
    async run({ peer, task, until }) {
      const queues = ["*", ">", "a.b", "a.*", "a b", "%", "é", "__proto__"]
      const postings = queues.map((queue) => task({ queue }))
      await peer.publish(...postings)
      await until("all queues counted", async () => {
        const depths = await Promise.all(queues.map((queue) => peer.depth(queue)))
        return depths.every((depth) => depth?.ready === 1)
      })
      for (const [at, queue] of queues.entries()) {
        equal(await peer.waiting({ queue }), [postings[at]?.id], `what waits in ${JSON.stringify(queue)}`)
      }
    },
  },
  {
    group,
    name: "filters find what holds any text",
    needs: [part("query")],
    async run({ peer, task, fresh }) {
      const names = ["*", ">", "a.*", "a.b", "%", "_", "' OR '1'='1", "[a]", "é", "__proto__"]
      const postings = names.map((name) =>
        task({ queue: name, task: name, headers: { root_id: name, parent_id: name, group: name } }),
      )
      await peer.publish(...postings)
      const stored = task({ queue: fresh("queue") })
      for (const [at, name] of names.entries()) {
        const index = { ...stored.index, root: name }
        await peer.put(`record ${at}`, { ...recordOf(stored, "failed"), index })
        const filters = [{ task: name }, { root: name }, { parent: name }, { group: name }, { queue: name }]
        for (const filter of filters) {
          const { jobs } = await peer.query({ ...filter, limit: 100 })
          const found = jobs.some(({ id }) => id === postings[at]?.id)
          check(found, `the job of ${JSON.stringify(filter)} must be found`)
        }
        const { jobs } = await peer.query({ root: name, limit: 100 })
        check(
          jobs.some(({ id }) => id === `record ${at}`),
          `the record of root ${JSON.stringify(name)} must be found`,
        )
      }
    },
  },
  {
    group,
    name: "a publish key is not mistaken for that of another job",
    async run({ peer, task, fresh }) {
      const queue = fresh("queue")
      const id = fresh("job")
      const postings = [
        task({ queue, id }),
        task({ queue, id: `${id}/1` }),
        task({ queue, id: `${id}/1/0` }),
        task({ queue, id, run: 11 }),
        task({ queue, id, hops: 1 }),
        task({ queue, id: `${id}/1`, retries: 1 }),
      ]
      await peer.publish(...postings)
      sameSet(
        idsOf(await peer.all(queue, postings.length)),
        postings.map((each) => each.id),
        "what comes",
      )
    },
  },
  {
    group,
    name: "a job is not mistaken for another one whose id begins or ends like its own",
    async run({ peer, task, fresh }) {
      const queue = fresh("queue")
      const id = fresh("job")
      const ids = [id, `${id}.`, `${id}/1`, `.${id}`, `${id} `, id.toUpperCase(), `${id}*`]
      const postings = ids.map((each) => task({ queue, id: each }))
      await peer.publish(...postings)
      for (const each of ids.slice(1)) await peer.committed({ id: each, task: { kind: "withdraw" } })
      const known = await peer.reads(ids)
      equal(
        known.map((each) => each !== undefined),
        ids.map((each) => each === id),
        "which of them are known",
      )
      equal(idsOf(await peer.all(queue, 1)), [id], "what comes")
    },
  },
  {
    group,
    name: "what is no message comes with its bytes, can be ended under another id, and its neighbours come too",
    needs: [hook("corrupt")],
    async run({ peer, fresh, task, harness, namespace }) {
      const queue = fresh("queue")
      const frames = [Uint8Array.of(0xff, 0, 1, 2, 3), Buffer.from("{"), Buffer.from("gASVBQAAAAAAAAB9lC4=", "base64")]
      const [before, after, kept] = [task({ queue }), task({ queue }), task({ queue })]
      await peer.publish(before)
      for (const frame of frames) await harness.corrupt?.(queue, frame, namespace)
      await peer.publish(after)
      const found = await peer.all(queue, 2 + frames.length)
      const bad = found.filter((each) => idOf(each).startsWith("undecodable"))
      sameSet(
        found.filter((each) => !bad.includes(each)).map((each) => String(messageOf(each).headers["id"])),
        [before.id, after.id],
        "messages that come",
      )
      sameSet(
        bad.map(({ content }) => hex(rawOf(content))),
        frames.map(hex),
        "bytes of what is no message",
      )
      for (const [at, { token, content }] of bad.entries()) {
        const bytes = rawOf(content)
        const record = {
          ...recordOf(kept, "failed", { bytes }),
          index: { ...kept.index, state: "failed", dead: true },
        } as const
        await peer.committed({ id: `${kept.id}-${at}`, record, task: { kind: "ack", token } })
        equal((await peer.known(`${kept.id}-${at}`)).record, bytes, "record that keeps it")
      }
      for (const delivery of found) if (!bad.includes(delivery)) await peer.end(delivery)
      await peer.none(queue, "all was acked")
    },
  },
]
