/** Mutants of records, lists, watches and orphans. */

import type { JobRecord } from "../../../runtime/protocol/record.ts"
import type { Decision, Found, RecordPage, RecordQuery } from "../../../runtime/transport/job-store/transport.ts"
import { jobsBroken, type Mutant } from "./mutant.ts"

const never = new AbortController().signal

/** Changes records before they are returned. */
const finding = (change: (found: Found | undefined, id: string) => Found | undefined): Mutant["breaker"] =>
  jobsBroken(() => (jobs) => ({ find: async (id) => change(await jobs.find(id), id) }))

const changing = (change: (one: Decision) => Decision): Mutant["breaker"] =>
  jobsBroken(() => (jobs) => ({ decide: (each) => jobs.decide(each.map(change)) }))

const querying = (
  before: (query: RecordQuery) => RecordQuery,
  after: (page: RecordPage) => RecordPage = (page) => page,
): Mutant["breaker"] => jobsBroken(() => (jobs) => ({ list: async (query) => after(await jobs.list(before(query))) }))

/** Stores decisions without comparing revisions. */
const carefree = jobsBroken(() => (jobs) => ({
  decide: (each) =>
    Promise.all(
      each.map(async (one) => {
        for (;;) {
          const found = await jobs.find(one.id)
          const [answer] = await jobs.decide([{ ...one, expect: found?.revision ?? "" }])
          if (answer !== undefined && answer.status !== "conflict") return answer
        }
      }),
    ),
}))

const withoutMessage = finding((found) => {
  if (found === undefined) return found
  const { message, ...record } = found.record
  return { ...found, record }
})

const withdrawingNothing = changing(({ withdraw, ...one }) => one)

const unknown = (id: string): JobRecord => ({
  id,
  task: "",
  meth: null,
  name: "",
  queue: "",
  priority: 4,
  state: "queued",
  run: 1,
  attempt: 0,
  retries: 0,
  fence: "",
  submittedAt: 0,
  timeline: [],
})

export const recordMutants: ReadonlyArray<Mutant> = [
  { breaks: "records: a job that waits is found as queued, with its task", breaker: withoutMessage },
  {
    breaks: "records: a job that is due later is found as scheduled, and as queued once it is due",
    breaker: finding((found) => found && { ...found, record: { ...found.record, state: "queued" } }),
  },
  { breaks: "records: a job that is in hand is found, with its task", breaker: withoutMessage },
  {
    breaks: "records: an id that nobody used is found nowhere",
    breaker: finding((found, id) => found ?? { record: unknown(id), revision: "" }),
  },
  {
    breaks: "records: a job in motion is never missing",
    breaker: jobsBroken(() => {
      let count = 0
      return (jobs) => ({ find: async (id) => (++count % 9 === 0 ? undefined : jobs.find(id)) })
    }),
  },
  { breaks: "records: a change with an outdated revision is a conflict and changes nothing", breaker: carefree },
  { breaks: "records: of two changes at the same time, one is a conflict", breaker: carefree },
  {
    breaks: "records: changes of one batch stand alone, in order",
    breaker: jobsBroken(() => (jobs) => ({
      decide: async (each) => {
        const answers = []
        for (const one of each) {
          const [answer] = await jobs.decide([one])
          if (answer?.status !== "decided") return each.map(() => ({ status: "conflict" }))
          answers.push(answer)
        }
        return answers
      },
    })),
  },
  {
    breaks: "records: a job that is cancelled while it waits is withdrawn and never comes",
    breaker: withdrawingNothing,
  },
  {
    breaks: "records: an older run whose task comes again is finished, the newer run is not",
    breaker: jobsBroken(() => (jobs) => ({
      claim: async (claims) =>
        (await jobs.claim(claims)).map((answer) => (answer.status === "finished" ? { status: "started" } : answer)),
    })),
  },
  {
    breaks: "records: a job that is run again begins its next run, and the run before is over",
    breaker: changing(({ post, ...one }) => one),
  },
  {
    breaks: "records: a record can be there before its task",
    breaker: jobsBroken(() => (jobs) => ({
      decide: async (each) => {
        const known = await Promise.all(each.map(({ id }) => jobs.find(id)))
        return known.includes(undefined) ? each.map(() => ({ status: "conflict" })) : jobs.decide(each)
      },
    })),
  },
  {
    breaks: "records: a record that was deleted leaves a tombstone, which refuses late workers",
    breaker: finding((found) => (found?.record.tombstone ? undefined : found)),
  },
  {
    breaks: "records: a record that was deleted still tells what follows, to the delivery that comes later",
    breaker: changing(({ record: { followUps, ...record }, ...one }) => ({ ...one, record })),
  },
  {
    breaks: "records: a record becomes a tombstone when it was kept long enough, and not before",
    breaker: jobsBroken(() => (jobs) => ({
      settle: (each) =>
        jobs.settle(
          each.map((one) => {
            const { record } = one
            const hasty = record?.keepMs !== undefined && record.keepMs > 0 && record.keepMs < 5_000
            return hasty ? { ...one, record: { ...record, keepMs: 1_000 } } : one
          }),
        ),
    })),
  },
  {
    breaks: "records: a change that is too large is refused and changes nothing",
    breaker: changing((one) => ({ ...one, record: { ...one.record, description: "" } })),
  },
  {
    breaks: "query: each filter finds what it says, and several find what all of them say",
    breaker: querying(({ dead, ...query }) => query),
  },
  {
    breaks: "query: the newest come first",
    breaker: querying(
      (query) => query,
      (page) => ({ ...page, records: [...page.records].reverse() }),
    ),
  },
  {
    breaks: "query: pages leave nothing out and repeat nothing",
    breaker: querying(
      (query) => query,
      (page) => (page.next === undefined ? page : { ...page, records: page.records.slice(0, -1) }),
    ),
  },
  {
    breaks: "query: a job that is due later is listed as scheduled",
    breaker: querying((query) =>
      query.states
        ? { ...query, states: query.states.map((state) => (state === "scheduled" ? "deferred" : state)) }
        : query,
    ),
  },
  {
    breaks: "query: a cursor that cannot be read is invalid",
    breaker: jobsBroken(() => (jobs) => ({
      list: ({ after, ...query }) =>
        jobs.list(after === undefined || Number.isNaN(Number(after)) ? query : { ...query, after }),
    })),
  },
  {
    breaks: "watch: the end of a job reaches those who watch it, and not those who watch another one",
    breaker: jobsBroken(() => (jobs) => ({
      watch: (_, listener, signal) => jobs.watch({}, listener, signal),
    })),
  },
  {
    breaks: "watch: claims, reports and changes reach those who watch",
    breaker: jobsBroken(() => (jobs) => ({
      watch: (filter, listener, signal) =>
        jobs.watch(filter, (record) => (record.endedAt === undefined ? undefined : listener(record)), signal),
    })),
  },
  {
    breaks: "watch: a watch ends with its signal",
    breaker: jobsBroken(() => (jobs) => ({
      watch: (filter, listener) => jobs.watch(filter, listener, never),
    })),
  },
]
