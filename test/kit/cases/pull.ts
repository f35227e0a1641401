/** Taking tasks: waiting, limits, and never twice at the same time. */
import type { Delivery } from "../../../runtime/transport/lift/transport.ts"
import type { Case } from "../case.ts"
import { between, check, equal, sameSet } from "../check.ts"
import { size, sleep } from "../context.ts"
import { idOf } from "../task.ts"

const group = "pull"

export const pullCases: ReadonlyArray<Case> = [
  {
    group,
    name: "an empty queue is waited for about as long as asked, then there is nothing",
    async run({ peer, fresh, tolerance, slack }) {
      const start = performance.now()
      equal(await peer.pull(fresh("queue"), { wait: 400 }), [], "deliveries")
      between(Math.round(performance.now() - start), 400 - tolerance, 400 + slack, "milliseconds waited")
    },
  },
  {
    group,
    name: "without a wait there is an answer at once",
    async run({ peer, fresh, task, slack }) {
      const queue = fresh("queue")
      await peer.pull(queue)
      const start = performance.now()
      equal(await peer.pull(queue), [], "deliveries")
      between(Math.round(performance.now() - start), 0, slack, "milliseconds waited")
      await peer.publish(task({ queue }))
      equal((await peer.pull(queue)).length, 1, "deliveries once there is a task")
    },
  },
  {
    group,
    name: "what was accepted is there for the next pull, also for one that does not wait",
    async run({ peer, fresh, task, elsewhere }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      for (let round = 0; round < size(100, 1_000); round++) {
        const posting = task({ queue })
        await other.publish(posting)
        const found = await peer.pull(queue)
        equal(found.map(idOf), [posting.id], `what comes in round ${round}`)
        for (const delivery of found) await peer.succeed(delivery, posting)
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
      const first = await peer.pull(queue, { max: 3, wait: 2_000 })
      between(first.length, 1, 3, "deliveries of the first pull")
      const rest = await peer.all(queue, 7 - first.length)
      sameSet(
        [...first, ...rest].map(idOf),
        postings.map(({ id }) => id),
        "what comes",
      )
    },
  },
  {
    group,
    name: "what is there comes without waiting for max",
    async run({ peer, fresh, task, slack }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const start = performance.now()
      equal((await peer.pull(queue, { max: 50, wait: 5_000 })).length, 1, "deliveries")
      between(Math.round(performance.now() - start), 0, slack, "milliseconds waited")
    },
  },
  {
    group,
    name: "a waiting pull is woken by a task from another connection",
    async run({ peer, fresh, task, elsewhere, slack }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const posting = task({ queue })
      const waiting = peer.pull(queue, { wait: 8_000 })
      await sleep(300)
      const start = performance.now()
      await other.publish(posting)
      equal((await waiting).map(idOf), [posting.id], "what comes")
      between(Math.round(performance.now() - start), 0, slack, "milliseconds from publishing to delivery")
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
    name: "pulls at the same time never share a task, and all tasks come",
    async run({ peer, fresh, tasks, elsewhere, quiet }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const postings = tasks(size(120, 3_000), { queue })
      const found: Array<Delivery> = []
      const pullers = Array.from({ length: 8 }, async (_, at) => {
        const each = at % 2 === 0 ? peer : other
        for (let empty = 0; empty < 2; ) {
          const deliveries = await each.pull(queue, { max: 7, wait: 2 * quiet })
          found.push(...deliveries)
          empty = deliveries.length > 0 || found.length === 0 ? 0 : empty + 1
        }
      })
      await peer.publish(...postings)
      await Promise.all(pullers)
      sameSet(
        found.map(idOf),
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
        found.map(idOf),
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
      const found = await peer.pull(queues, { max: 4, wait: 2_000, rotate: true })
      for (const queue of queues) {
        equal(found.filter((each) => each.queue === queue).length, 2, `tasks of ${queue} among four`)
      }
    },
  },
  {
    group,
    name: "with rotate the turns go on from one pull to the next",
    async run({ peer, fresh, tasks }) {
      const queues = [fresh("queue"), fresh("queue"), fresh("queue")]
      for (const queue of queues) await peer.publish(...tasks(2, { queue }))
      const turns: Array<string | undefined> = []
      for (let turn = 0; turn < 6; turn++) {
        const [found] = await peer.pull(queues, { max: 1, wait: 2_000, rotate: true })
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
      equal((await peer.pull([empty, full], { max: 4, wait: 2_000, rotate: true })).length, 4, "deliveries")
    },
  },
  {
    group,
    name: "an aborted pull ends soon and strands nothing",
    async run({ peer, fresh, task, slack, within }) {
      const queue = fresh("queue")
      const stop = new AbortController()
      const waiting = peer.pull(queue, { wait: 20_000, signal: stop.signal })
      await sleep(100)
      stop.abort()
      equal(await within("the end of an aborted pull", waiting, slack), [], "deliveries of an aborted pull")
      const posting = task({ queue })
      await peer.publish(posting)
      equal(idOf(await peer.one(queue, 2 * slack)), posting.id, "what comes to the next pull")
    },
  },
  {
    group,
    name: "a pull that is aborted while tasks arrive strands none of them",
    async run({ peer, fresh, tasks, slack, elsewhere }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const postings = tasks(24, { queue })
      const found: Array<Delivery> = []
      for (const [at, posting] of postings.entries()) {
        const stop = new AbortController()
        const waiting = peer.pull(queue, { wait: 20_000, max: 2, signal: stop.signal })
        const publishing = other.publish(posting)
        if (at % 3 > 0) await sleep(at % 3)
        stop.abort()
        found.push(...(await waiting))
        await publishing
      }
      const rest = postings.length - found.length
      found.push(...(await peer.all(queue, rest, 2 * slack)))
      sameSet(
        found.map(idOf),
        postings.map(({ id }) => id),
        "what comes",
      )
    },
  },
  {
    group,
    name: "a pull whose signal has fired takes nothing",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      equal(await peer.pull(queue, { wait: 1_000, signal: AbortSignal.abort() }), [], "deliveries")
      equal((await peer.one(queue)).queue, queue, "queue of what the next pull brings")
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
      if (harness.parts?.includes("records") !== false) {
        check((await other.lookup(posting.id)) === undefined, "its record must not be seen from another namespace")
      }
      await other.publish(posting)
      equal(idOf(await other.one(queue)), posting.id, "what comes in the other namespace")
      equal(idOf(await peer.one(queue)), posting.id, "what comes in its own")
      await harness.clean?.(`${namespace}-2`)
    },
  },
]
