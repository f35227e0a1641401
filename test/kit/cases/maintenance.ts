/** Nothing vanishes: what expired still comes, and those who clean up can ask what there is. */

import type { QueueStats } from "../../../runtime/transport/lift/transport.ts"
import { type Case, delay, part, records } from "../case.ts"
import { between, check, equal } from "../check.ts"
import { sleep } from "../context.ts"
import { cancelled, idOf } from "../task.ts"

export const maintenanceCases: ReadonlyArray<Case> = [
  {
    group: "expiry",
    name: "a task past its expires is still there, and still comes",
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const posting = task({ queue, expires: Date.now() + 300 })
      const past = task({ queue, expires: Date.now() - 60_000 })
      await peer.publish(posting, past)
      await sleep(1_500)
      if (harness.parts?.includes("records") !== false) {
        const { state, expiresAt } = await peer.find(posting.id)
        equal({ state, expiresAt }, { state: "queued", expiresAt: posting.expires }, "record")
      }
      equal((await peer.all(queue, 2)).map(idOf), [posting.id, past.id], "what comes")
    },
  },
  {
    group: "expiry",
    name: "what waits past its expires is listed as overdue, oldest first, until it is withdrawn",
    needs: [part("overdue"), records],
    async run({ peer, fresh, task, within, harness }) {
      const queue = fresh("queue")
      const now = Date.now()
      const inHand = task({ queue, expires: now - 9_000 })
      await peer.publish(inHand)
      await peer.one(queue)
      const scheduled = task({
        queue,
        expires: now - 500,
        ...(harness.capabilities.delay ? { due: now + 60_000 } : {}),
      })
      const [later, earlier] = [task({ queue, expires: now - 1_000 }), task({ queue, expires: now - 5_000 })]
      const others = [task({ queue }), task({ queue, expires: now + 60_000 })]
      await peer.publish(scheduled, later, ...others, earlier)
      const overdue = (at: number, max: number): Promise<ReadonlyArray<string>> =>
        within("what is overdue", peer.transport.queue.overdue?.(at, max) ?? Promise.resolve([]))
      equal(await overdue(now, 10), [earlier.id, later.id, scheduled.id], "overdue")
      equal(await overdue(now, 1), [earlier.id], "overdue, at most one")
      equal(await overdue(now - 2_000, 10), [earlier.id], "overdue two seconds ago")
      const { record, revision } = await peer.found(earlier.id)
      const expired = cancelled(record, { state: "expired" })
      await peer.changed({ id: earlier.id, expect: revision, record: expired, withdraw: true })
      equal(await overdue(now, 10), [later.id, scheduled.id], "overdue after one was withdrawn")
    },
  },
  {
    group: "stats",
    name: "depth, what is scheduled, what is in hand and the oldest age are told per queue",
    needs: [part("stats")],
    async run({ peer, fresh, tasks, harness, until, tolerance, slack }) {
      const [queue, other] = [fresh("queue"), fresh("other")]
      const before = Date.now()
      await peer.publish(...tasks(5, { queue }))
      await peer.publish(...tasks(2, { queue: other }))
      const scheduled = harness.capabilities.delay ? 3 : 0
      if (scheduled > 0) await peer.publish(...tasks(scheduled, { queue, due: Date.now() + 60_000 }))
      await peer.all(queue, 2)
      const of = async (name: string): Promise<QueueStats | undefined> =>
        (await peer.transport.queue.stats?.())?.find((each) => each.queue === name)
      const counts = (each: QueueStats | undefined): string =>
        each === undefined ? "absent" : `${each.ready} ready, ${each.scheduled} scheduled, ${each.inFlight} in hand`
      // A broker may count a moment later.
      await until(
        "the counts of a queue",
        async () => counts(await of(queue)) === `3 ready, ${scheduled} scheduled, 2 in hand`,
      )
      equal(counts(await of(other)), "2 ready, 0 scheduled, 0 in hand", "the other queue")
      const oldest = (await of(queue))?.oldest
      check(oldest !== undefined, "a queue with ready tasks must tell when the oldest was submitted")
      between(oldest, before - tolerance, before + slack, "when the oldest ready task was submitted")
    },
  },
  {
    group: "stats",
    name: "a queue that was emptied holds nothing",
    needs: [part("stats")],
    async run({ peer, fresh, tasks, until }) {
      const queue = fresh("queue")
      await peer.publish(...tasks(3, { queue }))
      for (const delivery of await peer.all(queue, 3)) await peer.end(delivery)
      await until("an empty queue", async () => {
        const found = (await peer.transport.queue.stats?.())?.find((each) => each.queue === queue)
        return found === undefined || found.ready + found.scheduled + found.inFlight === 0
      })
    },
  },
  {
    group: "stats",
    name: "what waits in a queue is listed as it would come, scheduled ones last, and not what is in hand",
    needs: [part("waiting"), delay],
    async run({ peer, fresh, task, tasks, within, harness }) {
      const queue = fresh("queue")
      const taken = task({ queue, priority: 9 })
      await peer.publish(taken)
      await peer.one(queue)
      const [low, scheduled, high] = [
        tasks(3, { queue, priority: 0 }),
        task({ queue, priority: 9, due: Date.now() + 60_000 }),
        tasks(2, { queue, priority: 9 }),
      ]
      await peer.publish(...low, scheduled, task({ queue: fresh("other") }))
      await peer.publish(...high)
      const waiting = (name: string, max: number): Promise<ReadonlyArray<string>> =>
        within("what waits", peer.transport.queue.waiting?.(name, max) ?? Promise.resolve([]))
      const ordered = harness.capabilities.priorityBands > 1 ? [...high, ...low] : [...low, ...high]
      equal(
        await waiting(queue, 10),
        [...ordered, scheduled].map(({ id }) => id),
        "waiting",
      )
      equal((await waiting(queue, 2)).length, 2, "number of those, at most two")
      equal(await waiting(fresh("nobody's"), 10), [], "waiting in a queue that nobody used")
    },
  },
]
