/** Publishing: each task succeeds or fails alone, and is stored once per publish key. */
import type { Case } from "../case.ts"
import { equal, sameSet } from "../check.ts"
import { encodedSize, idOf, retryOf } from "../task.ts"

const group = "publish"

export const publishCases: ReadonlyArray<Case> = [
  {
    group,
    name: "one byte more is too-large, and its neighbours are stored all the same",
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const empty = task({ queue, body: new Uint8Array(0) })
      const body = new Uint8Array(harness.capabilities.maxTask - encodedSize(empty) + 1)
      const [before, after] = [task({ queue }), task({ queue })]
      const receipts = await peer.receipts([before, { ...empty, message: { ...empty.message, body } }, after])
      const found = receipts.map((each) => (each.status === "failed" ? each.error.reason : each.status))
      equal(found, ["stored", "too-large", "stored"], "receipts")
      sameSet((await peer.all(queue, 2)).map(idOf), [before.id, after.id], "tasks that come")
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
    name: "the same id with more retries, a later run or more hops is not a duplicate",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const first = task({ queue })
      const { id } = first
      await peer.publish(first, retryOf(first), task({ queue, id, run: 2 }), task({ queue, id, hops: 1 }))
      equal((await peer.all(queue, 4)).map(idOf), [id, id, id, id], "what comes")
    },
  },
]
