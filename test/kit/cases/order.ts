/** Which task comes next: queue, then level, then sequence. */
import { type Case, front, strictOrder } from "../case.ts"
import { between, check, equal } from "../check.ts"
import { type Context, size, sleep } from "../context.ts"
import { idOf } from "../task.ts"

const group = "order"

/** Resolves when a pull that begins must see this task of a queue without others. */
const seen = async ({ harness, peer, until }: Context, queue: string): Promise<void> => {
  const stats = async () => (await peer.transport.queue.stats?.())?.find((each) => each.queue === queue)
  if (harness.lanewise) await until("the broker to count the task", async () => (await stats())?.ready === 1)
}

export const orderCases: ReadonlyArray<Case> = [
  {
    group,
    name: "tasks of one level come in the order in which they were published",
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const postings = tasks(size(300, 5_000), { queue })
      for (let at = 0; at < postings.length; at += 25) await peer.publish(...postings.slice(at, at + 25))
      const found = await peer.all(queue, postings.length)
      equal(
        found.map(idOf),
        postings.map(({ id }) => id),
        "order",
      )
      check(
        found.every(({ sequence }, at) => at === 0 || sequence > (found[at - 1]?.sequence ?? 0)),
        "sequences must rise within a queue and level",
      )
    },
  },
  {
    group,
    name: "higher priorities come first, in as many bands as declared",
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const postings = Array.from({ length: 10 }, (_, priority) => task({ queue, priority }))
      await peer.publish(...postings)
      const found = (await peer.all(queue, 10)).map((each) => postings.findIndex(({ id }) => id === idOf(each)))
      // Within a band they come as published, which is upward; each lower band begins anew: as many climbs as bands.
      const bands: Array<Array<number>> = []
      for (const [at, each] of found.entries()) {
        if (at === 0 || each < (found[at - 1] ?? 0)) bands.push([])
        bands.at(-1)?.push(each)
      }
      equal(bands.length, harness.capabilities.priorityBands, `bands in the order ${found.join(" ")}`)
      equal([...bands].reverse().flat(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "bands from low to high")
    },
  },
  {
    group,
    name: "a task for the front comes before priority 9",
    needs: [front],
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const [ordinary, urgent, first] = [task({ queue }), task({ queue, priority: 9 }), task({ queue, front: true })]
      await peer.publish(ordinary, urgent, first)
      equal(idOf(await peer.one(queue)), first.id, "what comes first")
    },
  },
  {
    group,
    name: "priorities count across batches and connections",
    async run({ peer, fresh, task, elsewhere, harness }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const [low, high] = [task({ queue, priority: 0 }), task({ queue, priority: 9 })]
      await peer.publish(low)
      await other.publish(high)
      const expected = harness.capabilities.priorityBands > 1 ? [high.id, low.id] : [low.id, high.id]
      equal((await peer.all(queue, 2)).map(idOf), expected, "order")
    },
  },
  {
    group,
    name: "a pull that begins when a higher task has been accepted brings that one first",
    async run(context) {
      const { peer, fresh, task, elsewhere, harness } = context
      const [high, low] = [fresh("high"), fresh("low")]
      const other = await elsewhere()
      await peer.publish(task({ queue: low }))
      // Where the broker has to be asked first, nothing is left to chance.
      const rounds = harness.lanewise ? size(20, 200) : size(100, 1_000)
      for (let round = 0; round < rounds; round++) {
        const posting = task({ queue: high, front: harness.capabilities.front })
        await other.publish(posting)
        await seen(context, high)
        const found = await peer.pull([high, low], { max: 1 })
        equal(found.map(idOf), [posting.id], `what comes in round ${round}`)
        for (const delivery of found) await peer.succeed(delivery, posting)
      }
    },
  },
  {
    group,
    name: "what is accepted while a pull is under way comes after what that pull brings, at the latest",
    async run(context) {
      const { peer, fresh, task, tasks, elsewhere } = context
      const [high, low] = [fresh("high"), fresh("low")]
      const other = await elsewhere()
      const rounds = size(40, 400)
      const max = 3
      await peer.publish(...tasks(rounds * max + 1, { queue: low }))
      for (let round = 0; round < rounds; round++) {
        const posting = task({ queue: high })
        const [found] = await Promise.all([peer.pull([high, low], { max }), other.publish(posting)])
        const came = found.map(idOf)
        if (!came.includes(posting.id)) {
          await seen(context, high)
          came.push(...(await peer.pull([high, low], { max: 1 })).map(idOf))
        }
        between(came.indexOf(posting.id), 0, max, `lower tasks that came before the higher one of round ${round}`)
      }
    },
  },
  ...[0, 100].map((wait): Case => {
    const how = wait > 0 ? "that waits" : "that does not wait"
    return {
      group,
      name: `what was accepted before a lower task was published comes before it, by a pull ${how}`,
      needs: [strictOrder],
      async run({ peer, fresh, task, elsewhere, harness, within }) {
        const [high, low] = [fresh("high"), fresh("low")]
        const other = await elsewhere()
        // By turns two queues and two levels of one queue, where there are several.
        const pairs = Array.from({ length: size(60, 600) }, (_, at) =>
          at % 2 === 0 || harness.capabilities.priorityBands === 1
            ? ([task({ queue: high }), task({ queue: low })] as const)
            : ([task({ queue: high, priority: 9 }), task({ queue: high, priority: 0 })] as const),
        )
        const left = [...pairs]
        const publishing = async (): Promise<void> => {
          for (let pair = left.shift(); pair; pair = left.shift()) for (const each of pair) await other.publish(each)
        }
        // Looks again and again, so that the tasks come while it does.
        const pulling = async (): Promise<ReadonlyArray<string>> => {
          const found: Array<string> = []
          while (found.length < 2 * pairs.length) {
            const deliveries = await peer.pull([high, low], { max: 20, wait })
            if (deliveries.length === 0) await sleep(0)
            found.push(...deliveries.map(idOf))
          }
          return found
        }
        const [found] = await within(
          "all tasks",
          Promise.all([pulling(), publishing(), publishing(), publishing()]),
          15_000,
        )
        const overtaken = pairs.filter(([first, second]) => found.indexOf(first.id) > found.indexOf(second.id))
        equal(overtaken.length, 0, "tasks that came after a lower one that was published when they had been accepted")
      },
    }
  }),
]
