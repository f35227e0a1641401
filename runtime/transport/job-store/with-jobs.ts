/** Makes the interface of client and worker out of a driver, and adds the rules about which delivery may write a record. */
import type { JobPosting } from "../../protocol/message.ts"
import type { ConnectOptions, Driver, Receipt } from "../driver.ts"
import { TransportError } from "../mod.ts"
import { answerTogether, tooFewAnswers } from "../plain-driver.ts"
import { readToken } from "./attempt.ts"
import { BatchedDriver } from "./batching.ts"
import { claim } from "./claim.ts"
import { toPosting } from "./codec.ts"
import { decide } from "./decide.ts"
import { Finder } from "./find.ts"
import { Notes } from "./notes.ts"
import { OwnEnds } from "./own-ends.ts"
import { QueueRegistry } from "./queue-registry.ts"
import { Revisions } from "./revisions.ts"
import { Settler } from "./settle.ts"
import { take } from "./take.ts"
import type { Jobs, Transport } from "./transport.ts"
import { watchEnd, watchJobs } from "./watch-jobs.ts"

export const withJobs = (driver: Driver, { lease }: Pick<ConnectOptions, "lease">): Transport => {
  const closing = new AbortController()
  const batched = new BatchedDriver(driver)
  const revisions = new Revisions()
  const notes = new Notes(driver, batched, revisions, lease)
  const ownEnds = new OwnEnds()
  // A transport within this process tells of an end as soon as this process does, and needs no read for it.
  const isOutside = driver.capabilities.reach !== "process"
  const ender = new Settler(driver, batched, revisions, ownEnds)
  const finder = new Finder(driver, batched, notes)
  const registry = new QueueRegistry(driver.store)
  const { capabilities, broadcast } = driver

  /** A call that is answered without the driver fails on a closed transport like one that asks it. */
  const guarded =
    <A extends ReadonlyArray<unknown>, R>(run: (...args: A) => R | Promise<R>) =>
    async (...args: A): Promise<R> => {
      if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
      return await run(...args)
    }

  const { orphans, queues, waiting } = driver
  const jobs: Jobs = {
    publish: guarded((postings) => {
      for (const { queue } of postings) void registry.note(queue)
      return publish(driver, postings)
    }),
    publishTogether: guarded((postings) => {
      for (const { queue } of postings) void registry.note(queue)
      return publishTogether(driver, postings)
    }),
    take: guarded((request, signal) => take(driver, request, signal, closing.signal)),
    claim: guarded((starts) => Promise.all(starts.map((start) => claim(batched, revisions, notes, start)))),
    report: guarded((reports) => notes.report(reports)),
    settle: guarded((ends) => {
      for (const { token, followUps } of ends) {
        notes.end(token)
        if (followUps !== undefined) for (const { queue } of followUps) void registry.note(queue)
      }
      return ender.settle(ends)
    }),
    extend: (tokens) => extend(driver, tokens),
    find: (id) => finder.find(id),
    ended: (id) => finder.ended(id),
    decide: guarded(async (decisions) => {
      for (const { post = [] } of decisions) for (const { queue } of post) void registry.note(queue)
      const [answers] = await Promise.all([
        Promise.all(decisions.map((decision) => decide(batched, decision))),
        // Of a job that waits for others no task is in its queue, which would show that the queue exists.
        ...decisions.map(({ record: { state, queue } }) => (state === "deferred" ? registry.note(queue) : undefined)),
      ])
      return answers
    }),
    ...(queues === undefined ? {} : { queues: () => queues.call(driver) }),
    queueNames: guarded(() => registry.names()),
    forgetQueue: guarded((queue) => registry.remove(queue)),
    ...(waiting === undefined ? {} : { waiting: (what, max) => waiting.call(driver, what, max) }),
    ...(orphans === undefined ? {} : { orphans: (before, max) => orphans.call(driver, before, max) }),
    list: guarded((query) => finder.query(query)),
    count: guarded((query, max, states) => finder.count(query, max, states)),
    watch: guarded(({ id, ends, isNew }, listener, signal) =>
      ends && id !== undefined
        ? watchEnd({ driver, finder, ...(isNew && isOutside && { ownEnds }) }, id, listener, signal, closing.signal)
        : watchJobs(driver, finder, id, listener, AbortSignal.any([signal, closing.signal])),
    ),
  }

  return {
    name: driver.name,
    capabilities,
    jobs,
    store: driver.store,
    ...(broadcast === undefined ? {} : { broadcast }),
    onStatus: (listener) => driver.onStatus(listener),
    close: async () => {
      closing.abort()
      notes.close()
      await registry.settled()
      return driver.close()
    },
  }
}

const publish = (driver: Driver, postings: ReadonlyArray<JobPosting>): Promise<ReadonlyArray<Receipt>> => {
  const now = Date.now()
  const prepare = (posting: JobPosting) => toPosting(posting, now)
  return answerTogether(postings, prepare, (prepared) => driver.publish(prepared))
}

const publishTogether = async (driver: Driver, postings: ReadonlyArray<JobPosting>): Promise<ReadonlyArray<string>> => {
  const [first] = postings
  if (first === undefined) return []
  if (!driver.capabilities.atomic) {
    const why = `${driver.name} cannot store several tasks atomically: submit them without \`atomic\``
    throw new TransportError("unsupported", why)
  }
  const now = Date.now()
  const post = postings.map((posting) => toPosting(posting, now))
  const [answer] = await driver.commit([{ id: first.id, post, unique: true }])
  if (answer?.status === "committed") return []
  if (answer?.status === "conflict" && answer.known !== undefined) return answer.known
  throw answer?.status === "failed" ? answer.error : tooFewAnswers()
}

/** A text that is not a token has no lease to extend: its answer is `false`, and the driver is not asked about it. */
const extend = async (driver: Driver, tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> => {
  const held = tokens.map((token) => {
    try {
      return readToken(token).token
    } catch {
      return undefined
    }
  })
  const asked = held.filter((token) => token !== undefined)
  const answers = (await driver.extend(asked)).values()
  return held.map((token) => token !== undefined && answers.next().value === true)
}
