/** Mutants of lists, depths, news and announcements. */
import { Buffer } from "node:buffer"
import type { Driver, News, Posting } from "../../../../runtime/transport/driver.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"
import type { FoundJobs, Query, QueueDepth } from "../../../../runtime/transport/optional.ts"
import { sleep } from "../../stage.ts"
import { firstIndex } from "./commit.ts"
import {
  batches,
  breaking,
  broadcastBroken,
  broken,
  commits,
  type DriverMutant,
  known,
  namespacesMixed,
} from "./mutant.ts"

type Count = NonNullable<Driver["count"]>

type Breaker = DriverMutant["breaker"]

const never = new AbortController().signal

const querying = (before: (query: Query) => Query, after: (page: FoundJobs) => FoundJobs = (page) => page): Breaker =>
  breaking(({ query }) => (query ? { query: async (each) => after(await query(before(each))) } : {}))

const depths = (change: (depth: QueueDepth) => QueueDepth): Breaker =>
  breaking(({ queues }) => (queues ? { queues: async () => (await queues()).map(change) } : {}))

const waitingReversed = breaking(({ waiting }) =>
  waiting ? { waiting: async (what, max) => [...(await waiting(what, max))].reverse() } : {},
)

/** Passes on only news that a filter accepts; `make` makes the filter of each listener. */
const hearing = (make: () => (news: News) => boolean): Breaker =>
  breaking(({ listen }) => ({
    listen: (interest, listener, signal) => {
      const isTold = make()
      return listen(interest, (news) => isTold(news) && listener(news), signal)
    },
  }))

/** Reports news before the change can be seen. */
const rash = broken(() => {
  const listeners = new Set<(news: News) => void>()
  const tell = (news: News): void => {
    for (const listener of listeners) listener(news)
  }
  const told = ({ queue, id }: Posting): void => {
    tell({ kind: "queue", queue })
    tell({ kind: "job", id })
  }
  return ({ listen, publish, commit }) => ({
    listen: async (interest, listener, signal) => {
      await listen(interest, listener, signal)
      listeners.add(listener)
    },
    publish: async (each) => {
      for (const posting of each) told(posting)
      await sleep(2)
      return publish(each)
    },
    commit: async (each) => {
      for (const { id, record } of each) if (record) tell({ kind: "job", id, record: record.bytes })
      await sleep(2)
      return commit(each)
    },
  })
})

const topics = (change: (topic: string) => string): Breaker =>
  broadcastBroken(({ send, listen }) => ({
    send: (topic, payload) => send(change(topic), payload),
    listen: (topic, listener, signal) => listen(change(topic), listener, signal),
  }))

const FOUND = "query: a found job has its record and revision, or its task, and hidden records are not found"

export const browseMutants: ReadonlyArray<DriverMutant> = [
  {
    breaks: "query: each filter finds all that it says, and several find all that fits all of them",
    breaker: querying(({ states, ...query }) => (states ? { ...query, states: states.slice(0, 1) } : query)),
  },
  {
    breaks: FOUND,
    breaker: querying(
      (query) => query,
      (page) => ({ ...page, jobs: page.jobs.map(({ record, ...job }) => job) }),
    ),
  },
  {
    breaks: FOUND,
    breaker: commits(({ record, ...rest }) => {
      if (record === undefined) return rest
      const { hidden, ...index } = record.index
      return { ...rest, record: { ...record, index } }
    }),
  },
  { breaks: "query: a job is found as it was stored last", breaker: firstIndex },
  {
    breaks: "query: the newest come first",
    breaker: querying(
      (query) => query,
      (page) => ({ ...page, jobs: [...page.jobs].reverse() }),
    ),
  },
  {
    breaks: "query: pages leave nothing out and repeat nothing",
    breaker: querying(
      (query) => query,
      (page) => (page.next === undefined ? page : { ...page, jobs: page.jobs.slice(0, -1) }),
    ),
  },
  {
    breaks: "query: a job that is due later is found as scheduled",
    // Lists records, and of the tasks without a record only those without a due time.
    breaker: querying(
      (query) => query,
      (page) => ({ ...page, jobs: page.jobs.filter(({ record, task }) => record || task?.due === undefined) }),
    ),
  },
  {
    breaks: "query: since includes its moment",
    breaker: querying(({ since, ...query }) => (since === undefined ? query : { ...query, since: since + 1 })),
  },
  {
    breaks: "query: a record whose time is over is not found, nor a task of a job whose record is hidden",
    // Lists tasks whatever the record of their job says.
    breaker: broken(() => {
      const posted: Array<string> = []
      return ({ publish, query }) => ({
        publish: (each) => {
          posted.push(...each.map(({ id }) => id))
          return publish(each)
        },
        ...(query && {
          query: async (each) => {
            const page = await query(each)
            return { ...page, jobs: [...page.jobs, ...posted.map((id) => ({ id, revision: "" }))] }
          },
        }),
      })
    }),
  },
  {
    breaks: "query: a cursor that cannot be read is invalid",
    breaker: breaking(({ query }) => (query ? { query: (each) => query(each).catch(() => ({ jobs: [] })) } : {})),
  },
  ...[
    // Counts hidden records as well, forgets the queue, and counts only a part.
    (count: Count, hidden: number): Count =>
      async (state, queue) =>
        ((await count(state, queue)) ?? 0) + hidden,
    (count: Count): Count =>
      (state) =>
        count(state),
    (count: Count): Count =>
      async (state, queue) =>
        Math.min((await count(state, queue)) ?? 0, 1),
  ].map(
    (change): DriverMutant => ({
      breaks: "count: jobs that ended are counted by state and queue, exactly or not at all, without hidden ones",
      breaker: breaking(({ count }) => (count ? { count: change(count, 1) } : {})),
    }),
  ),
  {
    breaks: "depth: what is ready, scheduled and in hand and the oldest age are told per queue",
    breaker: depths((depth) => ({ ...depth, ready: depth.ready + depth.held, held: 0 })),
  },
  {
    breaks:
      "depth: the oldest is the job that was submitted first, however late its task was posted, and only among those that are ready",
    breaker: depths((depth) => (depth.oldest === undefined ? depth : { ...depth, oldest: Date.now() })),
  },
  {
    breaks: "depth: a queue whose only task is scheduled is told",
    breaker: breaking(({ queues }) =>
      queues ? { queues: async () => (await queues()).filter(({ ready, held }) => ready + held > 0) } : {},
    ),
  },
  {
    breaks: "depth: a task whose lease is over is ready again",
    // Counts what was taken as in hand until it is ended or given back.
    breaker: broken(() => {
      const taken = new Set<string>()
      return ({ queues, take }) => ({
        take: async (request, signal) => {
          const found = await take(request, signal)
          for (const { queue } of found.deliveries) taken.add(queue)
          return found
        },
        ...(queues && {
          queues: async () =>
            (await queues()).map((each) =>
              taken.has(each.queue) ? { ...each, ready: 0, held: each.ready + each.held } : each,
            ),
        }),
      })
    }),
  },
  {
    breaks: "depth: a queue that was emptied holds nothing",
    breaker: broken(() => {
      const seen = new Map<string, QueueDepth>()
      return ({ queues, publish }) => ({
        publish: (each) => {
          for (const { queue } of each) seen.set(queue, { queue, ready: 1, scheduled: 0, held: 0 })
          return publish(each)
        },
        ...(queues && { queues: async () => [...(await queues()), ...seen.values()] }),
      })
    }),
  },
  {
    breaks: "depth: what waits in a queue is listed as it would come, scheduled ones last, and not what is in hand",
    breaker: waitingReversed,
  },
  {
    breaks: "expiry: a task past its expires is still there, and still comes",
    breaker: batches((each) => each.filter(({ expires = Number.POSITIVE_INFINITY }) => expires > Date.now())),
  },
  {
    breaks: "expiry: of a task past its expires that is in hand, or was, it is not said that none ever had it",
    breaker: known((each) =>
      each?.task === undefined ? each : { ...each, task: { ...each.task, held: false, deliveries: 0 } },
    ),
  },
  {
    breaks:
      "expiry: what waits past its expires is listed, oldest first, until it is withdrawn, and not what is in hand",
    breaker: waitingReversed,
  },
  ...(
    [
      ["a task that is published, alone or by a commit, is told to those who listen to its queue", 1],
      ["a task that is given back is told to those who listen to its queue", 0],
    ] as const
  ).map(
    ([name, max]): DriverMutant => ({
      breaks: `news: ${name}`,
      on: "least",
      // Passes on only so much news of queues: one, or none.
      breaker: hearing(() => {
        let told = 0
        return (news) => news.kind !== "queue" || told++ < max
      }),
    }),
  ),
  {
    breaks: "news: a record that is stored is told to those who listen to its job and to those who listen to all",
    breaker: hearing(() => (news) => news.kind !== "job" || news.record === undefined),
  },
  {
    breaks: "news: a task that is published is told to those who listen to its job",
    breaker: hearing(() => (news) => news.kind !== "job" || news.record !== undefined),
  },
  {
    breaks: "news: a large record is told like a small one",
    // Drops news with a large record, as a broker with small messages would.
    breaker: hearing(() => (news) => news.kind !== "job" || (news.record?.length ?? 0) <= 8_000),
  },
  { breaks: "news: a read or take that begins after the news sees what they are about", breaker: rash },
  {
    breaks: "news: listening ends with its signal, and a signal that has fired hears nothing",
    breaker: breaking(({ listen }) => ({ listen: (interest, listener) => listen(interest, listener, never) })),
  },
  {
    breaks: "broadcast: announcements reach everyone who listens, the sender included, byte for byte",
    breaker: broadcastBroken(({ send }) => ({
      send: (topic, payload) => send(topic, Buffer.from(Buffer.from(payload).toString("utf8"))),
    })),
  },
  {
    breaks: "broadcast: announcements of 66 KiB are carried",
    breaker: broadcastBroken(({ send }) => ({
      send: (topic, payload) =>
        payload.length > 8_000
          ? Promise.reject(new TransportError("too-large", "at most 8,000 bytes"))
          : send(topic, payload),
    })),
  },
  {
    breaks: "broadcast: topics are apart, and taken literally",
    breaker: topics((topic) => topic.replace(/\.+/g, ".")),
  },
  {
    breaks: "broadcast: a topic outside of its alphabet is refused as invalid",
    breaker: topics((topic) => (/^[a-z0-9.-]{1,128}$/.test(topic) ? topic : "other")),
  },
  {
    breaks: "broadcast: listening to announcements ends with its signal",
    breaker: broadcastBroken(({ listen }) => ({ listen: (topic, listener) => listen(topic, listener, never) })),
  },
  { breaks: "broadcast: namespaces are apart", breaker: namespacesMixed },
]
