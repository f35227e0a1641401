/** Mutants of how tasks are taken: waiting, order, due times and leases. */

import type { JobPosting } from "../../../runtime/protocol/message.ts"
import type { JobDelivery, Jobs, TakeOptions } from "../../../runtime/transport/job-store/transport.ts"
import { sleep } from "../context.ts"
import { jobsBroken, type Mutant } from "./mutant.ts"

const never = new AbortController().signal

/** Changes each request before it is sent. */
const requests = (change: (request: TakeOptions) => TakeOptions): Mutant["breaker"] =>
  jobsBroken(() => (jobs) => ({ take: (request, signal) => jobs.take(change(request), signal) }))

const deliveries = (change: (delivery: JobDelivery) => JobDelivery): Mutant["breaker"] =>
  jobsBroken(() => (jobs) => ({
    take: async (request, signal) => (await jobs.take(request, signal)).map(change),
  }))

const batches = (change: (postings: ReadonlyArray<JobPosting>) => ReadonlyArray<JobPosting>): Mutant["breaker"] =>
  jobsBroken(() => (jobs) => ({
    publish: async (postings) => {
      await jobs.publish(change(postings))
      return postings.map(() => ({ status: "stored" }))
    },
  }))

const extending = (answer: (jobs: Jobs, tokens: ReadonlyArray<string>) => Promise<ReadonlyArray<boolean>>) =>
  jobsBroken(() => (jobs) => ({ extend: (tokens) => answer(jobs, tokens) }))

const dueEarlier = batches((postings) =>
  postings.map((posting) => (posting.due === undefined ? posting : { ...posting, due: posting.due - 250 })),
)

export const takeMutants: ReadonlyArray<Mutant> = [
  {
    breaks: "take: an empty queue is waited for about as long as asked, then there is nothing",
    breaker: requests((request) => ({ ...request, wait: 0 })),
  },
  {
    breaks: "take: without a wait there is an answer at once",
    breaker: requests((request) => ({ ...request, wait: Math.max(request.wait, 1_500) })),
  },
  {
    breaks: "take: tasks that are there come without waiting for max",
    breaker: jobsBroken(() => (jobs) => ({
      take: async (request, signal) => {
        const found = await jobs.take(request, signal)
        if (found.length < request.max) await sleep(request.wait / 2)
        return found
      },
    })),
  },
  {
    breaks: "take: a waiting take is woken by a task from another connection",
    breaker: jobsBroken(() => (jobs) => ({
      take: async (request, signal) => {
        const found = await jobs.take({ ...request, wait: 0 }, signal)
        if (found.length > 0 || request.wait === 0) return found
        await sleep(Math.min(request.wait, 2_500))
        return jobs.take({ ...request, wait: 0 }, signal)
      },
    })),
  },
  {
    breaks: "take: an aborted take ends soon and loses no task",
    breaker: jobsBroken(() => (jobs) => ({
      take: (request, signal) =>
        jobs.take({ ...request, wait: Math.min(request.wait, 4_000) }, signal.aborted ? signal : never),
    })),
  },
  {
    breaks: "take: a take that is aborted while tasks arrive loses none of them",
    breaker: jobsBroken(() => (jobs) => ({
      take: (request, signal) =>
        Promise.race([
          jobs.take({ ...request, wait: Math.min(request.wait, 4_000) }, never),
          new Promise<ReadonlyArray<JobDelivery>>((resolve) => signal.addEventListener("abort", () => resolve([]))),
        ]),
    })),
  },
  {
    breaks: "take: a take whose signal has fired takes nothing",
    breaker: jobsBroken(() => (jobs) => ({
      take: (request, signal) => jobs.take(request, signal.aborted ? never : signal),
    })),
  },
  { breaks: "delay: a task is not early and not late, for a take that waits", breaker: dueEarlier },
  {
    breaks: "delay: a task that is due in a year waits, and is found as scheduled",
    // A due time beyond 31 bits of milliseconds is due at once, as with a timer that overflows.
    breaker: batches((postings) =>
      postings.map((posting) => ({
        ...posting,
        due: (posting.due ?? 0) - Date.now() > 2 ** 31 ? 0 : (posting.due ?? 0),
      })),
    ),
  },
  {
    breaks: "lease: a task whose attempt does not end comes again after its lease, not before, with a higher fence",
    breaker: jobsBroken(() => (jobs) => ({
      take: async (request, signal) => {
        const found = await jobs.take(request, signal)
        for (const { token } of found) {
          setTimeout(() => {
            jobs.settle([{ token, then: { kind: "hand-back", delay: 0 } }]).catch(() => undefined)
          }, 500)
        }
        return found
      },
    })),
  },
  {
    breaks: "lease: extending says for each token whether it is still ours",
    breaker: extending(async (jobs, tokens) => (await jobs.extend(tokens)).map(() => true)),
  },
  {
    breaks: "lease: what was never a token is not ours, and harms no other",
    breaker: extending(async (jobs, tokens) => {
      const answers = await jobs.extend(tokens)
      const first = answers.indexOf(false)
      return answers.map((answer, at) => answer && (first < 0 || at < first))
    }),
  },
  {
    breaks: "lease: a token works on another connection",
    breaker: jobsBroken(() => (jobs) => {
      const own = new Set<string>()
      return {
        take: async (request, signal) => {
          const found = await jobs.take(request, signal)
          for (const { token } of found) own.add(token)
          return found
        },
        extend: (tokens) => jobs.extend(tokens.map((token) => (own.has(token) ? token : ""))),
      }
    }),
  },
  {
    breaks: "lease: fences rise over many deliveries, compared as text",
    breaker: deliveries((delivery) => ({ ...delivery, fence: String(delivery.deliveries) })),
  },
]
