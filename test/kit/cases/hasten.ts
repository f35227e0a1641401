/** Calling back what was put off: at once, and nothing but what this very delivery has put off. */
import { type Case, part } from "../case.ts"
import { between, check, equal, sameSet } from "../check.ts"
import { size } from "../context.ts"
import { idOf } from "../task.ts"

const group = "hasten"
const needs = [part("hasten")]
/** Longer than any case waits. */
const LONG = 15_000

export const hastenCases: ReadonlyArray<Case> = [
  {
    group,
    name: "a task that was put off comes at once, to a pull that waits, and no other does",
    needs,
    async run({ peer, elsewhere, fresh, tasks, slack }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const postings = tasks(2, { queue })
      await peer.publish(...postings)
      const [first, second] = await peer.all(queue, 2)
      check(first !== undefined && second !== undefined, "two tasks must come")
      for (const delivery of [first, second]) await peer.release(delivery, LONG)
      const waiting = peer.one(queue, 8_000)
      const start = performance.now()
      // A token is plain text: whoever has it may use it.
      await other.hasten(second.token)
      const again = await waiting
      between(Math.round(performance.now() - start), 0, slack, "milliseconds until it comes")
      equal(idOf(again), idOf(second), "what comes")
      check(again.fence > second.fence, `fences must rise: ${second.fence}, then ${again.fence}`)
      check(!again.fresh, "the second delivery is not fresh: the first may have written")
      await peer.none(queue, "the other one was not hastened")
    },
  },
  {
    group,
    name: "a task that was delivered again stays with whoever has it",
    needs,
    async run({ peer, elsewhere, fresh, task }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      await peer.publish(task({ queue }))
      const first = await peer.one(queue)
      await peer.release(first, 300)
      const second = await peer.one(queue, 8_000)
      await other.hasten(first.token, second.token)
      await peer.none(queue, "somebody has it")
      await peer.end(second)
    },
  },
  {
    group,
    name: "what a later delivery has put off waits for that delay",
    needs,
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const first = await peer.one(queue)
      await peer.release(first, 300)
      const second = await peer.one(queue, 8_000)
      await peer.release(second, LONG)
      await peer.hasten(first.token)
      await peer.none(queue, "a later delivery has put it off")
      await peer.hasten(second.token)
      await peer.one(queue)
    },
  },
  {
    group,
    name: "hastening twice is hastening once",
    needs,
    async run({ peer, elsewhere, fresh, task }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      await peer.publish(task({ queue }))
      const first = await peer.one(queue)
      await peer.release(first, LONG)
      await Promise.all([peer.hasten(first.token), other.hasten(first.token, first.token)])
      const second = await peer.one(queue)
      await peer.hasten(first.token)
      await peer.none(queue, "somebody has it")
      await peer.release(second)
      await peer.end(await peer.one(queue))
    },
  },
  {
    group,
    name: "tokens that mean nothing any more are ignored, and hold no other up",
    needs,
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      await peer.publish(...tasks(3, { queue }))
      const [ended, back, late] = await peer.all(queue, 3)
      check(ended !== undefined && back !== undefined && late !== undefined, "three tasks must come")
      await peer.end(ended)
      await peer.release(late, LONG)
      await peer.hasten("", "never a token", "9.9.9", ended.token, back.token, late.token)
      equal(idOf(await peer.one(queue)), idOf(late), "what comes")
      await peer.none(queue, "one has ended, and one is in hand")
      await peer.end(back)
    },
  },
  {
    group,
    name: "many tasks are hastened in one call",
    needs,
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const postings = tasks(size(60, 1_000), { queue })
      await peer.publish(...postings)
      const deliveries = await peer.all(queue, postings.length)
      await peer.settle(...deliveries.map(({ token }) => ({ token, then: { kind: "release", delay: LONG } }) as const))
      await peer.hasten(...deliveries.map(({ token }) => token))
      const found = await peer.all(queue, postings.length)
      sameSet(
        found.map(idOf),
        postings.map(({ id }) => id),
        "what comes",
      )
    },
  },
]
