/** Mutants of how tasks are taken: waiting, order, due times and leases. */

import type { Posting } from "../../../runtime/protocol/message.ts"
import type { Delivery, PullRequest, Queue } from "../../../runtime/transport/lift/transport.ts"
import { sleep } from "../context.ts"
import { type Mutant, namespacesMixed, queueBroken } from "./mutant.ts"
import { forgetful } from "./publish.ts"

const never = new AbortController().signal

/** Every request is changed before it is pulled. */
const requests = (change: (request: PullRequest) => PullRequest): Mutant["breaker"] =>
  queueBroken(() => (queue) => ({ pull: (request, signal) => queue.pull(change(request), signal) }))

const deliveries = (change: (delivery: Delivery) => Delivery): Mutant["breaker"] =>
  queueBroken(() => (queue) => ({
    pull: async (request, signal) => (await queue.pull(request, signal)).map(change),
  }))

const batches = (change: (postings: ReadonlyArray<Posting>) => ReadonlyArray<Posting>): Mutant["breaker"] =>
  queueBroken(() => (queue) => ({
    publish: async (postings) => {
      await queue.publish(change(postings))
      return postings.map(() => ({ status: "stored" }))
    },
  }))

/** Tasks that went out come once more with the next pull of their queue. */
const doubling = queueBroken(() => {
  const last = new Map<string, Delivery>()
  return (queue) => ({
    pull: async (request, signal) => {
      const again = request.queues.flatMap((name) => last.get(name) ?? [])
      for (const name of request.queues) last.delete(name)
      if (again.length > 0) return again.slice(0, request.max)
      const found = await queue.pull(request, signal)
      for (const delivery of found) last.set(delivery.queue, delivery)
      return found
    },
  })
})

/** Leases are extended behind the back of who pulled. */
const clinging = queueBroken(() => (queue) => ({
  pull: async (request, signal) => {
    const found = await queue.pull(request, signal)
    for (const { token } of found) void cling(queue, token)
    return found
  },
}))

const cling = async (queue: Queue, token: string): Promise<void> => {
  for (let at = 0; at < 4; at++) {
    await sleep(800)
    await queue.extend([token]).catch(() => [])
  }
}

const extending = (answer: (queue: Queue, tokens: ReadonlyArray<string>) => Promise<ReadonlyArray<boolean>>) =>
  queueBroken(() => (queue) => ({ extend: (tokens) => answer(queue, tokens) }))

/** Looks queue by queue, and believes a moment later what it saw of the one above. */
const believing = queueBroken(() => (queue) => ({
  pull: async (request, signal) => {
    const found: Array<Delivery> = []
    for (const name of request.queues) {
      const max = request.max - found.length
      if (max > 0) found.push(...(await queue.pull({ ...request, queues: [name], max, wait: 0 }, signal)))
      await sleep(1)
    }
    return found
  },
}))

/** Takes a queue that was empty for empty in the next pull as well. */
const remembering = queueBroken(() => {
  let empty = new Set<string>()
  return (queue) => ({
    pull: async (request, signal) => {
      const queues = request.queues.filter((name) => !empty.has(name))
      const found = await queue.pull({ ...request, queues }, signal)
      const came = new Set(found.map((delivery) => delivery.queue))
      empty = new Set(queues.filter((name) => !came.has(name)))
      return found
    },
  })
})

/** Acknowledges a moment before a pull can see it. */
const hasty = queueBroken(() => (queue) => ({
  publish: async (postings) => {
    void sleep(2).then(() => queue.publish(postings).catch(() => undefined))
    return postings.map(() => ({ status: "stored" }))
  },
}))

const dueEarlier = batches((postings) =>
  postings.map((posting) => (posting.due === undefined ? posting : { ...posting, due: posting.due - 250 })),
)

export const pullMutants: ReadonlyArray<Mutant> = [
  {
    breaks: "pull: an empty queue is waited for about as long as asked, then there is nothing",
    breaker: requests((request) => ({ ...request, wait: 0 })),
  },
  {
    breaks: "pull: without a wait there is an answer at once",
    breaker: requests((request) => ({ ...request, wait: Math.max(request.wait, 1_500) })),
  },
  {
    breaks: "pull: never more than max come, and the rest stays",
    breaker: requests((request) => ({ ...request, max: request.max + 1 })),
  },
  { breaks: "pull: what was accepted is there for the next pull, also for one that does not wait", breaker: hasty },
  {
    breaks: "pull: what is there comes without waiting for max",
    breaker: queueBroken(() => (queue) => ({
      pull: async (request, signal) => {
        const found = await queue.pull(request, signal)
        if (found.length < request.max) await sleep(request.wait / 2)
        return found
      },
    })),
  },
  {
    breaks: "pull: a waiting pull is woken by a task from another connection",
    breaker: queueBroken(() => (queue) => ({
      pull: async (request, signal) => {
        const found = await queue.pull({ ...request, wait: 0 }, signal)
        if (found.length > 0 || request.wait === 0) return found
        await sleep(Math.min(request.wait, 2_500))
        return queue.pull({ ...request, wait: 0 }, signal)
      },
    })),
  },
  { breaks: "pull: a task in hand is given to nobody else", breaker: doubling },
  { breaks: "pull: pulls at the same time never share a task, and all tasks come", breaker: doubling },
  {
    breaks: "pull: several queues: the first listed is emptied first",
    breaker: requests((request) => ({ ...request, queues: [...request.queues].reverse() })),
  },
  {
    breaks: "pull: with rotate the queues take turns",
    breaker: requests((request) => ({ ...request, rotate: false })),
  },
  {
    breaks: "pull: with rotate the turns go on from one pull to the next",
    breaker: requests((request) => ({ ...request, rotate: request.max > 1 })),
  },
  {
    breaks: "pull: with rotate an empty queue costs no turn",
    breaker: requests((request) => ({ ...request, max: Math.ceil(request.max / request.queues.length) })),
  },
  {
    breaks: "pull: an aborted pull ends soon and strands nothing",
    breaker: queueBroken(() => (queue) => ({
      pull: (request, signal) =>
        queue.pull({ ...request, wait: Math.min(request.wait, 4_000) }, signal.aborted ? signal : never),
    })),
  },
  {
    breaks: "pull: a pull that is aborted while tasks arrive strands none of them",
    breaker: queueBroken(() => (queue) => ({
      pull: (request, signal) =>
        Promise.race([
          queue.pull({ ...request, wait: Math.min(request.wait, 4_000) }, never),
          new Promise<ReadonlyArray<Delivery>>((resolve) => signal.addEventListener("abort", () => resolve([]))),
        ]),
    })),
  },
  {
    breaks: "pull: a pull whose signal has fired takes nothing",
    breaker: queueBroken(() => (queue) => ({
      pull: (request, signal) => queue.pull(request, signal.aborted ? never : signal),
    })),
  },
  {
    breaks: "pull: queues are apart",
    breaker: queueBroken(() => {
      const names = new Set<string>()
      return (queue) => ({
        publish: (postings) => {
          for (const posting of postings) names.add(posting.queue)
          return queue.publish(postings)
        },
        pull: (request, signal) => queue.pull({ ...request, queues: [...request.queues, ...names] }, signal),
      })
    }),
  },
  { breaks: "pull: namespaces are apart, down to publish keys", breaker: namespacesMixed },
  {
    breaks: "order: tasks of one level come in the order in which they were published",
    breaker: batches((postings) => [...postings].reverse()),
  },
  {
    breaks: "order: higher priorities come first, in as many bands as declared",
    breaker: batches((postings) => postings.map((posting) => ({ ...posting, level: Math.min(posting.level, 8) }))),
  },
  {
    breaks: "order: a task for the front comes before priority 9",
    breaker: batches((postings) => postings.map((posting) => ({ ...posting, level: Math.min(posting.level, 9) }))),
  },
  {
    breaks: "order: priorities count across batches and connections",
    breaker: batches((postings) =>
      [...postings].sort((a, b) => b.level - a.level).map((posting) => ({ ...posting, level: 4 })),
    ),
  },
  {
    breaks: "order: a pull that begins when a higher task has been accepted brings that one first",
    breaker: hasty,
  },
  {
    breaks: "order: what is accepted while a pull is under way comes after what that pull brings, at the latest",
    breaker: remembering,
  },
  {
    breaks: "order: what was accepted before a lower task was published comes before it, by a pull that does not wait",
    breaker: believing,
  },
  {
    breaks: "order: what was accepted before a lower task was published comes before it, by a pull that waits",
    breaker: believing,
  },
  { breaks: "delay: a task is not early and not late, for a pull that waits", breaker: dueEarlier },
  { breaks: "delay: a task is not early for pulls that do not wait", breaker: dueEarlier },
  {
    breaks: "delay: a due time in the past is no delay",
    breaker: batches((postings) =>
      postings.map((posting) => ({ ...posting, due: Math.max(posting.due ?? 0, Date.now() + 1_500) })),
    ),
  },
  {
    breaks: "delay: a task that is due later holds nobody up",
    breaker: batches((postings) =>
      postings.map((posting) => ({ ...posting, due: Math.max(...postings.map(({ due }) => due ?? 0)) })),
    ),
  },
  {
    breaks: "delay: a task that is due in a year waits, and is found as scheduled",
    // As a timer of 32 bits does.
    breaker: batches((postings) =>
      postings.map((posting) => ({
        ...posting,
        due: (posting.due ?? 0) - Date.now() > 2 ** 31 ? 0 : (posting.due ?? 0),
      })),
    ),
  },
  {
    breaks: "delay: many tasks that are due at the same moment all come",
    breaker: batches((postings) => postings.slice(0, 50)),
  },
  { breaks: "delay: the same publish key is a duplicate while the task is scheduled", breaker: forgetful },
  {
    breaks: "lease: a delivery that is not settled comes again after its lease, not before, with a higher fence",
    breaker: queueBroken(() => (queue) => ({
      pull: async (request, signal) => {
        const found = await queue.pull(request, signal)
        for (const { token } of found) {
          setTimeout(() => {
            queue.settle([{ token, then: { kind: "release", delay: 0 } }]).catch(() => undefined)
          }, 500)
        }
        return found
      },
    })),
  },
  {
    breaks: "lease: a lease that is extended in time does not lapse",
    breaker: extending(async (_, tokens) => tokens.map(() => true)),
  },
  {
    breaks: "lease: an extension lasts one lease from then",
    breaker: extending(async (queue, tokens) => {
      for (const token of tokens) void cling(queue, token)
      return queue.extend(tokens)
    }),
  },
  {
    breaks: "lease: extending says for each token whether it is still ours",
    breaker: extending(async (queue, tokens) => (await queue.extend(tokens)).map(() => true)),
  },
  {
    breaks: "lease: what was never a token is not ours, and harms no other",
    breaker: extending(async (queue, tokens) => {
      const answers = await queue.extend(tokens)
      const first = answers.indexOf(false)
      return answers.map((answer, at) => answer && (first < 0 || at < first))
    }),
  },
  {
    breaks: "lease: a token works on another connection",
    breaker: queueBroken(() => (queue) => {
      const own = new Set<string>()
      return {
        pull: async (request, signal) => {
          const found = await queue.pull(request, signal)
          for (const { token } of found) own.add(token)
          return found
        },
        extend: (tokens) => queue.extend(tokens.map((token) => (own.has(token) ? token : ""))),
      }
    }),
  },
  { breaks: "lease: a lease lapses although nobody pulls", breaker: clinging },
  {
    breaks: "lease: fences rise over many deliveries, compared as text",
    breaker: deliveries((delivery) => ({ ...delivery, fence: String(delivery.deliveries) })),
  },
]
