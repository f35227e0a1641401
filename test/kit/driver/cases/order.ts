/** The order of taking: by queue, then level, then sequence. */
import { delay } from "../../case.ts"
import { between, check, equal } from "../../check.ts"
import { type DriverCase, front, keepsPlaces, manyBands, strictOrder } from "../case.ts"
import { type DriverContext, patience, size, sleep } from "../context.ts"
import { idOf, idsOf } from "../task.ts"

const group = "order"

/** Resolves once any take that begins afterwards must see this task, the only one of its queue. */
const seen = async ({ harness, peer, until }: DriverContext, queue: string): Promise<void> => {
  if (harness.lanewise) await until("the broker to count the task", async () => (await peer.depth(queue))?.ready === 1)
}

export const orderCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "tasks of one level come in the order in which they were published",
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const postings = tasks(size(150, 5_000), { queue })
      for (let at = 0; at < postings.length; at += 25) await peer.publish(...postings.slice(at, at + 25))
      const found = await peer.all(queue, postings.length, patience(5_000))
      equal(
        idsOf(found),
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
    name: "a task keeps its sequence and its place when it comes again",
    needs: [keepsPlaces],
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const postings = tasks(3, { queue })
      await peer.publish(...postings)
      const first = await peer.one(queue)
      await peer.release(first)
      const again = await peer.all(queue, 3)
      equal(
        idsOf(again),
        postings.map(({ id }) => id),
        "order",
      )
      equal(again[0]?.sequence, first.sequence, "sequence of the task that was given back")
    },
  },
  {
    group,
    name: "a task that has fallen due comes before lower ones",
    needs: [delay, manyBands],
    async run({ peer, fresh, task, tasks, harness, slack }) {
      const queue = fresh("queue")
      const high = task({ queue, priority: 9, due: Date.now() + 300 })
      await peer.publish(high)
      await sleep(300 + harness.capabilities.dueResolution + slack / 5)
      const low = tasks(3, { queue, priority: 1 })
      await peer.publish(...low)
      equal(
        idsOf(await peer.all(queue, 4)),
        [high, ...low].map(({ id }) => id),
        "order",
      )
    },
  },
  ...(["was given back with a delay", "has lost its lease"] as const).map(
    (how): DriverCase => ({
      group,
      name: `a task that ${how} comes before later ones of its level`,
      needs: how === "has lost its lease" ? [keepsPlaces] : [delay, keepsPlaces],
      ...(how === "has lost its lease" ? { lease: 1_000 } : {}),
      async run({ peer, fresh, tasks, harness, lease, slack }) {
        const { leaseResolution, dueResolution } = harness.capabilities
        const queue = fresh("queue")
        const postings = tasks(3, { queue })
        await peer.publish(...postings)
        const first = await peer.one(queue)
        if (how === "was given back with a delay") {
          await peer.release(first, 200)
          await sleep(200 + dueResolution + slack / 5)
        } else await sleep(lease + leaseResolution + slack / 5)
        const again = await peer.all(queue, 3)
        equal(
          idsOf(again),
          postings.map(({ id }) => id),
          "order",
        )
      },
    }),
  ),
  {
    group,
    name: "tasks come in the order in which they were published, over whichever connections",
    async run({ peer, fresh, tasks, elsewhere }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const postings = tasks(15, { queue })
      for (const [at, posting] of postings.entries()) await (at % 5 < 3 ? peer : other).publish(posting)
      equal(
        idsOf(await peer.all(queue, postings.length)),
        postings.map(({ id }) => id),
        "order",
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
      const found = idsOf(await peer.all(queue, 10)).map((id) => postings.findIndex((each) => each.id === id))
      // Tasks were published with rising levels. Within a band they come in that order, and each lower band begins
      // again
      // with its lowest level, so that the levels rise as many times as there are bands.
      const bands: Array<Array<number>> = []
      for (const [at, each] of found.entries()) {
        if (at === 0 || each < (found[at - 1] ?? 0)) bands.push([])
        bands.at(-1)?.push(each)
      }
      equal(bands.length, harness.capabilities.bands, `bands in the order ${found.join(" ")}`)
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
      const expected = harness.capabilities.bands > 1 ? [high.id, low.id] : [low.id, high.id]
      equal(idsOf(await peer.all(queue, 2)), expected, "order")
    },
  },
  {
    group,
    name: "a take that begins when a higher task has been accepted brings that one first",
    async run(context) {
      const { peer, fresh, task, elsewhere, harness } = context
      const [high, low] = [fresh("high"), fresh("low")]
      const other = await elsewhere()
      await peer.publish(task({ queue: low }))
      // Over a lanewise broker each round waits until the broker counts the task: then fewer rounds are enough.
      const rounds = harness.lanewise ? size(20, 200) : size(60, 1_000)
      for (let round = 0; round < rounds; round++) {
        const posting = task({ queue: high, front: harness.capabilities.front })
        await other.publish(posting)
        await seen(context, high)
        const { deliveries } = await peer.ask([high, low])
        equal(idsOf(deliveries), [posting.id], `what comes in round ${round}`)
        for (const delivery of deliveries) await peer.end(delivery)
      }
    },
  },
  {
    group,
    name: "what is accepted while a take is under way comes after what that take brings, at the latest",
    async run(context) {
      const { peer, fresh, task, tasks, elsewhere } = context
      const [high, low] = [fresh("high"), fresh("low")]
      const other = await elsewhere()
      const rounds = size(30, 400)
      const max = 3
      await peer.publish(...tasks(rounds * max + 1, { queue: low }))
      for (let round = 0; round < rounds; round++) {
        const posting = task({ queue: high })
        const [found] = await Promise.all([peer.ask([high, low], { max }), other.publish(posting)])
        const came = [...idsOf(found.deliveries)]
        if (!came.includes(posting.id)) {
          await seen(context, high)
          came.push(...idsOf((await peer.ask([high, low])).deliveries))
        }
        between(came.indexOf(posting.id), 0, max, `lower tasks that came before the higher one of round ${round}`)
      }
    },
  },
  {
    group,
    name: "what was accepted before a lower task was published comes before it",
    needs: [strictOrder],
    async run({ peer, fresh, task, elsewhere, harness, within }) {
      const [high, low] = [fresh("high"), fresh("low")]
      const other = await elsewhere()
      // Alternates between two queues and, where there are several bands, two levels of one queue.
      const pairs = Array.from({ length: size(60, 600) }, (_, at) =>
        at % 2 === 0 || harness.capabilities.bands === 1
          ? ([task({ queue: high }), task({ queue: low })] as const)
          : ([task({ queue: high, priority: 9 }), task({ queue: high, priority: 0 })] as const),
      )
      const left = [...pairs]
      const publishing = async (): Promise<void> => {
        for (let pair = left.shift(); pair; pair = left.shift()) for (const each of pair) await other.publish(each)
      }
      // Takes repeatedly, so that tasks arrive during a take. Every second take waits, where the driver can wait.
      const taking = async (): Promise<ReadonlyArray<string>> => {
        const found: Array<string> = []
        for (let round = 0; found.length < 2 * pairs.length; round++) {
          const { deliveries } = await peer.ask([high, low], { max: 20, wait: round % 2 === 0 ? 0 : 100 })
          if (deliveries.length === 0) await sleep(0)
          found.push(...idsOf(deliveries))
        }
        return found
      }
      const all = Promise.all([taking(), publishing(), publishing(), publishing()])
      const [found] = await within("all tasks", all, patience(15_000))
      const overtaken = pairs.filter(([first, second]) => found.indexOf(first.id) > found.indexOf(second.id))
      equal(overtaken.length, 0, "tasks that came after a lower one that was published when they had been accepted")
    },
  },
]
