/** Leases: a delivery has its task until the lease ends, or longer if extended; then another delivery gets it. */
import { type Case, freeLeases } from "../case.ts"
import { between, check, equal } from "../check.ts"
import { sleep } from "../context.ts"
import { idOf } from "../task.ts"

const group = "lease"
/** The shortest lease that the contract allows, in milliseconds. */
const lease = 1_000

export const leaseCases: ReadonlyArray<Case> = [
  {
    group,
    name: "a task whose attempt does not end comes again after its lease, not before, with a higher fence",
    lease,
    async run({ peer, fresh, task, elsewhere, harness, lease, tolerance, slack, timed }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const posting = task({ queue })
      await peer.publish(posting)
      const start = Date.now()
      const first = await peer.one(queue)
      const took = timed()
      const late = lease + harness.capabilities.leaseResolution + slack
      const second = await other.one(queue, late + 3_000)
      between(Date.now() - start, lease - tolerance, Infinity, "milliseconds from asking to the second delivery")
      took(0, late, "milliseconds from the first delivery to the second")
      equal(idOf(second), posting.id, "what comes")
      check(second.fence > first.fence, `fences must rise: ${first.fence}, then ${second.fence}`)
      check(second.token !== first.token, "tokens must differ")
      // On a transport whose deliveries belong to a connection, every delivery must be claimed.
      const isFresh = harness.capabilities.leases !== "connection"
      equal([first.fresh, second.fresh], [isFresh, false], "whether the first and the second delivery are fresh")
      check([1, 2].includes(second.deliveries), `deliveries must be counted, or 1: ${second.deliveries}`)
    },
  },
  {
    group,
    name: "extending says for each token whether it is still ours",
    lease,
    async run({ peer, fresh, task, lease, tolerance, inTime }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      // The second lease begins no earlier than the first one ends.
      const end = Date.now() + 2 * (lease - tolerance)
      const lost = await peer.one(queue)
      const ours = await peer.one(queue, 8_000)
      await inTime(end, async () => {
        equal(await peer.extend(lost.token, ours.token), [false, true], "extensions of the old and the new token")
        await peer.acked(ours)
      })
      equal(await peer.extend(ours.token), [false], "extension of a token that was ended")
    },
  },
  {
    group,
    name: "what was never a token is not ours, and harms no other",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const { token } = await peer.one(queue)
      equal(await peer.extend("", token, "no token", "9.9.9"), [false, true, false, false], "extensions")
    },
  },
  {
    group,
    name: "a token works on another connection",
    needs: [freeLeases],
    lease: 2 * lease,
    async run({ peer, fresh, task, elsewhere, lease, tolerance, inTime }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      await peer.publish(task({ queue }))
      const end = Date.now() + lease - tolerance
      const delivery = await peer.one(queue)
      await sleep(0.5 * lease)
      const extended = Date.now() + lease - tolerance
      await inTime(end, async () => {
        equal(await other.extend(delivery.token), [true], "extension from another connection")
      })
      await inTime(extended, async () => {
        await peer.none(queue, "its lease was extended", 0.7 * lease)
        await other.acked(delivery)
      })
      await peer.none(queue, "it was acked", 1.2 * lease)
    },
  },
  {
    group,
    name: "fences rise over many deliveries, compared as text",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      let last = ""
      for (let at = 0; at < 15; at++) {
        const delivery = await peer.one(queue)
        check(delivery.fence > last, `fence ${at + 1} must be above "${last}": "${delivery.fence}"`)
        last = delivery.fence
        await peer.release(delivery)
      }
    },
  },
]
