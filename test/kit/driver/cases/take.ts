/** Taking tasks: waiting, limits, turns of queues, and one delivery of a task at a time. */

import type { Delivery } from "../../../../runtime/transport/driver.ts"
import { delay } from "../../case.ts"
import { between, check, equal, sameSet } from "../../check.ts"
import { type DriverCase, uncountedAborts, waits } from "../case.ts"
import { abortedTakes, type DriverContext, size, sleep } from "../context.ts"
import { idOf, idsOf } from "../task.ts"

const group = "take"

/** Aborts takes while tasks arrive; returns the ids of all and the deliveries that came in spite of that. */
const disturbed = async ({ peer, tasks, elsewhere }: DriverContext, queue: string) => {
  const other = await elsewhere()
  const postings = tasks(24, { queue })
  const found = await abortedTakes(
    postings,
    (posting) => other.publish(posting),
    async (signal) => (await peer.ask(queue, { wait: 20_000, max: 2, signal })).deliveries,
  )
  return { ids: postings.map(({ id }) => id), found }
}

export const takeCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "an empty queue is waited for about as long as asked, then there is nothing",
    needs: [waits],
    async run({ peer, fresh, tolerance, slack, timed }) {
      const took = timed()
      equal((await peer.ask(fresh("queue"), { wait: 400 })).deliveries, [], "deliveries")
      took(400 - tolerance, 400 + slack, "milliseconds waited")
    },
  },
  {
    group,
    name: "without a wait there is an answer at once",
    async run({ peer, fresh, task, slack, timed }) {
      const queue = fresh("queue")
      await peer.ask(queue)
      const took = timed()
      equal((await peer.ask(queue)).deliveries, [], "deliveries")
      took(0, slack, "milliseconds waited")
      await peer.publish(task({ queue }))
      equal((await peer.ask(queue)).deliveries.length, 1, "deliveries once there is a task")
    },
  },
  {
    group,
    name: "what was accepted is there for the next take, also for one that does not wait",
    async run({ peer, fresh, task, elsewhere, repeats }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      for (const round of repeats(size(60, 1_000))) {
        const posting = task({ queue })
        await other.publish(posting)
        const { deliveries } = await peer.ask(queue)
        equal(idsOf(deliveries), [posting.id], `what comes in round ${round}`)
        for (const delivery of deliveries) await peer.end(delivery)
      }
    },
  },
  {
    group,
    name: "never more than max come, and the rest stays",
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const postings = tasks(7, { queue })
      await peer.publish(...postings)
      const first = await peer.take(queue, { max: 3, wait: 2_000 })
      between(first.length, 1, 3, "deliveries of the first take")
      const rest = await peer.all(queue, 7 - first.length)
      sameSet(
        idsOf([...first, ...rest]),
        postings.map(({ id }) => id),
        "what comes",
      )
    },
  },
  {
    group,
    name: "what is there comes without waiting for max",
    async run({ peer, fresh, task, slack, timed }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const took = timed()
      equal((await peer.take(queue, { max: 50, wait: 5_000 })).length, 1, "deliveries")
      took(0, slack, "milliseconds waited")
    },
  },
  {
    group,
    name: "a take that waits is woken by a task from another connection",
    needs: [waits],
    async run({ peer, fresh, task, elsewhere, slack, timed }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const posting = task({ queue })
      const waiting = peer.ask(queue, { wait: 8_000 })
      await sleep(300)
      const took = timed()
      await other.publish(posting)
      equal(idsOf((await waiting).deliveries), [posting.id], "what comes")
      took(0, slack, "milliseconds from publishing to delivery")
    },
  },
  {
    group,
    name: "a task in hand is given to nobody else",
    async run({ peer, fresh, task, elsewhere }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      await peer.publish(task({ queue }))
      await peer.one(queue)
      await Promise.all([peer, other].map((each) => each.none(queue, "it is in hand")))
    },
  },
  {
    group,
    name: "takes at the same time never share a task, and all tasks come",
    async run({ peer, fresh, tasks, elsewhere, quiet }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const postings = tasks(size(120, 3_000), { queue })
      const found: Array<Delivery> = []
      const takers = Array.from({ length: 8 }, async (_, at) => {
        const each = at % 2 === 0 ? peer : other
        for (let empty = 0; empty < 2; ) {
          const deliveries = await each.take(queue, { max: 7, wait: 2 * quiet })
          found.push(...deliveries)
          empty = deliveries.length > 0 || found.length === 0 ? 0 : empty + 1
        }
      })
      await peer.publish(...postings)
      await Promise.all(takers)
      sameSet(
        idsOf(found),
        postings.map(({ id }) => id),
        "what comes to all of them together",
      )
    },
  },
  {
    group,
    name: "several queues: the first listed is emptied first",
    async run({ peer, fresh, tasks }) {
      const [high, low] = [fresh("high"), fresh("low")]
      const last = tasks(3, { queue: low, priority: 9 })
      const first = tasks(3, { queue: high, priority: 0 })
      await peer.publish(...last)
      await peer.publish(...first)
      const found = await peer.all([high, low], 6)
      equal(
        idsOf(found),
        [...first, ...last].map(({ id }) => id),
        "order",
      )
      equal(
        found.map(({ queue }) => queue),
        [high, high, high, low, low, low],
        "queues of the deliveries",
      )
    },
  },
  {
    group,
    name: "with rotate the queues take turns",
    async run({ peer, fresh, tasks }) {
      const queues = [fresh("queue"), fresh("queue")]
      for (const queue of queues) await peer.publish(...tasks(6, { queue }))
      const found = await peer.take(queues, { max: 4, wait: 2_000, rotate: true })
      for (const queue of queues) {
        equal(found.filter((each) => each.queue === queue).length, 2, `tasks of ${queue} among four`)
      }
    },
  },
  {
    group,
    name: "with rotate the turns go on from one take to the next",
    async run({ peer, fresh, tasks }) {
      const queues = [fresh("queue"), fresh("queue"), fresh("queue")]
      for (const queue of queues) await peer.publish(...tasks(2, { queue }))
      const turns: Array<string | undefined> = []
      for (let turn = 0; turn < 6; turn++) {
        const [found] = await peer.take(queues, { max: 1, wait: 2_000, rotate: true })
        turns.push(found?.queue)
      }
      equal(new Set(turns.slice(0, 3)).size, 3, "queues in the first round")
      equal(turns.slice(3), turns.slice(0, 3), "the second round")
    },
  },
  {
    group,
    name: "with rotate an empty queue costs no turn",
    async run({ peer, fresh, tasks }) {
      const [empty, full] = [fresh("queue"), fresh("queue")]
      await peer.publish(...tasks(4, { queue: full }))
      equal((await peer.take([empty, full], { max: 4, wait: 2_000, rotate: true })).length, 4, "deliveries")
    },
  },
  {
    group,
    name: "an aborted take ends soon and strands nothing",
    needs: [waits],
    async run({ peer, fresh, task, slack, within, timed }) {
      const queue = fresh("queue")
      const stop = new AbortController()
      const waiting = peer.ask(queue, { wait: 20_000, signal: stop.signal })
      await sleep(100)
      const took = timed()
      stop.abort()
      const { deliveries } = await within("the end of an aborted take", waiting, 2 * slack)
      took(0, slack, "milliseconds until an aborted take ended")
      equal(idsOf(deliveries), [], "deliveries of an aborted take")
      const posting = task({ queue })
      await peer.publish(posting)
      equal(idOf(await peer.one(queue, 2 * slack)), posting.id, "what comes to the next take")
    },
  },
  {
    group,
    name: "a take that is aborted while tasks arrive strands none of them",
    async run(context) {
      const { peer, fresh, slack } = context
      const queue = fresh("queue")
      const { ids, found } = await disturbed(context, queue)
      const rest = await peer.all(queue, ids.length - found.length, 2 * slack)
      sameSet(idsOf([...found, ...rest]), ids, "what comes")
    },
  },
  {
    group,
    name: "what an aborted take gives back does not count as delivered",
    needs: [waits, uncountedAborts],
    async run(context) {
      const { peer, fresh, slack } = context
      const queue = fresh("queue")
      const { ids, found } = await disturbed(context, queue)
      const rest = await peer.all(queue, ids.length - found.length, 2 * slack)
      for (const delivery of [...found, ...rest]) {
        equal(delivery.deliveries, 1, `deliveries of ${idOf(delivery)}, which no take has answered before`)
      }
    },
  },
  {
    group,
    name: "what a take gives back whose signal fires on its way comes again at once, and does not count as delivered",
    needs: [uncountedAborts],
    async run({ peer, fresh, tasks, slack, timed }) {
      const queue = fresh("queue")
      const postings = tasks(6, { queue })
      await peer.publish(...postings)
      const found: Array<Delivery> = []
      for (const _ of postings) {
        const stop = new AbortController()
        const taking = peer.ask(queue, { signal: stop.signal })
        stop.abort()
        found.push(...(await taking).deliveries)
      }
      const took = timed()
      const rest = await peer.all(queue, postings.length - found.length, 2 * slack)
      took(0, slack, "milliseconds until all have come")
      equal(
        idsOf([...found, ...rest]),
        postings.map(({ id }) => id),
        "what comes",
      )
      for (const delivery of rest) {
        equal([delivery.first, delivery.deliveries], [true, 1], `first and deliveries of ${idOf(delivery)}`)
      }
    },
  },
  {
    group,
    name: "a take whose signal has fired takes nothing",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      equal((await peer.ask(queue, { wait: 1_000, signal: AbortSignal.abort() })).deliveries, [], "deliveries")
      equal((await peer.one(queue)).queue, queue, "queue of what the next take brings")
    },
  },
  {
    group,
    name: "an empty take says when something falls due or loses its lease, or nothing, and never too late a time",
    needs: [delay],
    lease: 2_000,
    async run({ peer, fresh, task, harness, tolerance, lease, inTime }) {
      const [later, held] = [fresh("later"), fresh("held")]
      const { dueResolution, leaseResolution } = harness.capabilities
      const due = Date.now() + 1_500
      await peer.publish(task({ queue: later, due }), task({ queue: held }))
      const end = Date.now() + lease - tolerance
      await peer.one(held)
      const left = Math.max(due - Date.now(), 0)
      const { deliveries, next = 0 } = await peer.ask(later)
      await inTime(due - tolerance, async () => equal(idsOf(deliveries), [], "what comes before it is due"))
      between(next, 0, left + dueResolution + tolerance, "milliseconds that an empty take says until it is due")
      const again = await peer.ask(held)
      await inTime(end, async () => equal(idsOf(again.deliveries), [], "what comes while it is in hand"))
      const max = lease + leaseResolution + tolerance
      between(again.next ?? 0, 0, max, "milliseconds that an empty take says until a lease ends")
    },
  },
  {
    group,
    name: "queues are apart",
    async run({ peer, fresh, task }) {
      const [one, two] = [fresh("queue"), fresh("queue")]
      const posting = task({ queue: one })
      await peer.publish(posting)
      await peer.none(two, "it went to another queue")
      equal(idOf(await peer.one(one)), posting.id, "what comes from its own")
    },
  },
  {
    group,
    name: "namespaces are apart, down to publish keys",
    async run({ peer, fresh, task, another, namespace, harness }) {
      const queue = fresh("queue")
      const other = await another(`${namespace}-2`)
      const posting = task({ queue })
      await peer.publish(posting)
      await other.none(queue, "it went to another namespace")
      check((await other.read(posting.id)) === undefined, "its job must not be seen from another namespace")
      await other.publish(posting)
      equal(idOf(await other.one(queue)), posting.id, "what comes in the other namespace")
      equal(idOf(await peer.one(queue)), posting.id, "what comes in its own")
      await harness.clean?.(`${namespace}-2`)
    },
  },
]
