/** Taking tasks: waiting, limits, and one delivery at a time. */
import type { Case } from "../case.ts"
import { equal, sameSet } from "../check.ts"
import { abortedTakes, sleep } from "../context.ts"
import { idOf } from "../task.ts"

const group = "take"

export const takeCases: ReadonlyArray<Case> = [
  {
    group,
    name: "an empty queue is waited for about as long as asked, then there is nothing",
    async run({ peer, fresh, tolerance, slack, timed }) {
      const took = timed()
      equal(await peer.take(fresh("queue"), { wait: 400 }), [], "deliveries")
      took(400 - tolerance, 400 + slack, "milliseconds waited")
    },
  },
  {
    group,
    name: "without a wait there is an answer at once",
    async run({ peer, fresh, task, slack, timed }) {
      const queue = fresh("queue")
      await peer.take(queue)
      const took = timed()
      equal(await peer.take(queue), [], "deliveries")
      took(0, slack, "milliseconds waited")
      await peer.publish(task({ queue }))
      equal((await peer.take(queue)).length, 1, "deliveries once there is a task")
    },
  },
  {
    group,
    name: "tasks that are there come without waiting for max",
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
    name: "a waiting take is woken by a task from another connection",
    async run({ peer, fresh, task, elsewhere, slack, timed }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const posting = task({ queue })
      const waiting = peer.take(queue, { wait: 8_000 })
      await sleep(300)
      const took = timed()
      await other.publish(posting)
      equal((await waiting).map(idOf), [posting.id], "what comes")
      took(0, slack, "milliseconds from publishing to delivery")
    },
  },
  {
    group,
    name: "an aborted take ends soon and loses no task",
    async run({ peer, fresh, task, slack, within, timed }) {
      const queue = fresh("queue")
      const stop = new AbortController()
      const waiting = peer.take(queue, { wait: 20_000, signal: stop.signal })
      await sleep(100)
      const took = timed()
      stop.abort()
      equal(await within("the end of an aborted take", waiting, 2 * slack), [], "deliveries of an aborted take")
      took(0, slack, "milliseconds until an aborted take ended")
      const posting = task({ queue })
      await peer.publish(posting)
      equal(idOf(await peer.one(queue, 2 * slack)), posting.id, "what comes to the next take")
    },
  },
  {
    group,
    name: "a take that is aborted while tasks arrive loses none of them",
    async run({ peer, fresh, tasks, slack, elsewhere }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const postings = tasks(24, { queue })
      const found = await abortedTakes(
        postings,
        (posting) => other.publish(posting),
        (signal) => peer.take(queue, { wait: 20_000, max: 2, signal }),
      )
      const rest = await peer.all(queue, postings.length - found.length, 2 * slack)
      sameSet(
        [...found, ...rest].map(idOf),
        postings.map(({ id }) => id),
        "what comes",
      )
    },
  },
  {
    group,
    name: "a take whose signal has fired takes nothing",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      equal(await peer.take(queue, { wait: 1_000, signal: AbortSignal.abort() }), [], "deliveries")
      equal((await peer.one(queue)).queue, queue, "queue of what the next take brings")
    },
  },
]
