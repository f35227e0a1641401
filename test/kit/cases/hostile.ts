/** Hostile input: any text is treated as text, and bytes that are not a message do no harm. */
import { Buffer } from "node:buffer"
import { publishKey } from "../../../runtime/protocol/message.ts"
import { type Case, hook, lists } from "../case.ts"
import { check, equal, sameSet } from "../check.ts"
import { TEXTS } from "../hostile-text.ts"
import { idOf, recordOf, retryOf } from "../task.ts"

const group = "hostile"

export const hostileCases: ReadonlyArray<Case> = [
  {
    group,
    name: "ids may be any text up to 255 bytes",
    smoke: true,
    needs: [lists],
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
      for (const id of ids) equal((await peer.find(id)).id, id, "id in the record of a job that waits")
      const found = await peer.all(queue, ids.length)
      equal(found.map(idOf), ids, "what comes")
      for (const [at, delivery] of found.entries()) {
        const posting = postings[at]
        check(posting !== undefined, "each delivery has its posting")
        await peer.begun(delivery, posting)
        await peer.succeed(delivery, posting, { result: posting.id })
      }
      for (const id of ids) equal((await peer.find(id)).result, id, "result in the record of a job that ended")
      const page = await peer.transport.jobs.list({ queue, limit: 100 })
      sameSet(
        page.records.map(({ id }) => id),
        ids,
        "ids listed",
      )
    },
  },
  {
    group,
    name: "filters are taken literally",
    needs: [lists],
    async run({ peer, task, fresh, within }) {
      const queue = fresh("queue")
      const names = ["*", ">", "a.*", "a.b", "%", "_", "' OR '1'='1", "[a]", "é"]
      const postings = names.map((name) =>
        task({ queue, task: name, headers: { root_id: name, parent_id: name, group: name } }),
      )
      await peer.publish(...postings)
      for (const [at, name] of names.entries()) {
        for (const filter of [{ task: name }, { rootId: name }, { parentId: name }, { group: name }]) {
          const page = await within("a page", peer.transport.jobs.list({ ...filter, limit: 10 }))
          equal(
            page.records.map(({ id }) => id),
            [postings[at]?.id],
            `records with ${JSON.stringify(filter)}`,
          )
        }
      }
    },
  },
  {
    group,
    name: "a successor is told from other postings, whatever the id holds",
    async run({ peer, task, fresh }) {
      const queue = fresh("queue")
      for (const id of [`${fresh("job")}/9/9`, `${fresh("job")}/`, `/${fresh("job")}`]) {
        const posting = task({ queue, id })
        await peer.publish(posting)
        const first = await peer.one(queue)
        const retry = retryOf(posting)
        const record = recordOf(posting, "queued", {
          fence: first.fence,
          successor: publishKey(retry),
          followUps: [retry],
        })
        await peer.acked(first, { record, followUps: [retry] })
        const second = await peer.one(queue)
        await peer.begun(second, retry)
        await peer.succeed(second, retry)
      }
    },
  },
  {
    group,
    name: "what is no message comes as undecodable with its bytes, and its neighbours come too",
    smoke: true,
    needs: [hook("corrupt")],
    async run({ peer, fresh, task, harness, namespace }) {
      const queue = fresh("queue")
      const frames = [Uint8Array.of(0xff, 0, 1, 2, 3), Buffer.from("{"), Buffer.from("gASVBQAAAAAAAAB9lC4=", "base64")]
      const [before, after] = [task({ queue }), task({ queue })]
      await peer.publish(before)
      for (const frame of frames) await harness.corrupt?.(queue, frame, namespace)
      await peer.publish(after)
      const found = await peer.all(queue, 2 + frames.length)
      sameSet(
        found.map(idOf).filter((id) => !id.startsWith("undecodable")),
        [before.id, after.id],
        "messages that come",
      )
      const raws = found.flatMap(({ message }) => ("undecodable" in message ? [message] : []))
      sameSet(
        raws.map(({ raw }) => hex(raw)),
        frames.map(hex),
        "bytes of what is no message",
      )
      for (const { undecodable } of raws) check(undecodable.length > 0, "what is no message must come with a reason")
      for (const delivery of found) await peer.acked(delivery)
      await peer.none(queue, "all was acked")
    },
  },
  {
    group,
    name: "what is no message can be kept as a dead letter, byte for byte",
    needs: [hook("corrupt")],
    async run({ peer, fresh, task, harness, namespace }) {
      const queue = fresh("queue")
      const raw = Uint8Array.from({ length: 256 }, (_, at) => 255 - at)
      await harness.corrupt?.(queue, raw, namespace)
      const delivery = await peer.one(queue)
      const placeholder = task({ queue })
      const record = recordOf(placeholder, "failed", { fence: delivery.fence, dead: "undecodable", raw })
      await peer.acked(delivery, { record })
      equal(await peer.find(placeholder.id), record, "record")
      const page = await peer.transport.jobs.list({ queue, dead: true, limit: 10 })
      equal(
        page.records.map(({ id }) => id),
        [placeholder.id],
        "dead letters",
      )
      await peer.none(queue, "it was acked")
    },
  },
]

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")
