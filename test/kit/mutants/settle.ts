/** Mutants of how attempts begin and end: ends, fences, claims and reports. */
import { Buffer } from "node:buffer"
import { postingOf } from "../../../runtime/protocol/headers.ts"
import type { JobPosting } from "../../../runtime/protocol/message.ts"
import type { JobRecord } from "../../../runtime/protocol/record.ts"
import { claimed } from "../../../runtime/protocol/record.ts"
import type { SettleAnswer, Settlement, Transport } from "../../../runtime/transport/job-store/transport.ts"
import { encodedSize } from "../task.ts"
import { jobsBroken, type Mutant } from "./mutant.ts"

/** Changes each end before it is sent. */
const ends = (change: (end: Settlement) => Settlement): Mutant["breaker"] =>
  jobsBroken(() => (jobs) => ({ settle: (each) => jobs.settle(each.map(change)) }))

/** Changes the record of each end. */
const recorded = (change: (record: JobRecord, transport: Transport) => Partial<JobRecord>): Mutant["breaker"] =>
  jobsBroken(() => (jobs, transport) => ({
    settle: (each) =>
      jobs.settle(
        each.map((one) => (one.record ? { ...one, record: { ...one.record, ...change(one.record, transport) } } : one)),
      ),
  }))

let copies = 0

const followUps = (
  change: (posting: JobPosting, transport: Transport) => ReadonlyArray<JobPosting>,
): Mutant["breaker"] =>
  jobsBroken(() => (jobs, transport) => ({
    settle: (each) =>
      jobs.settle(
        each.map((one) => ({
          ...one,
          followUps: (one.followUps ?? []).flatMap((posting) => change(posting, transport)),
        })),
      ),
  }))

/** Stores a record without comparing revisions. */
export const overwrite = async ({ jobs }: Transport, record: JobRecord, post: ReadonlyArray<JobPosting> = []) => {
  const found = await jobs.find(record.id)
  await jobs.decide([{ id: record.id, expect: found?.revision ?? "", record, post }])
}

/** Stores and publishes although the answer is superseded. */
const fenceless = jobsBroken(() => (jobs, transport) => ({
  settle: async (each) => {
    const answers = [...(await jobs.settle(each))]
    for (const [at, { record, followUps = [] }] of each.entries()) {
      if (answers[at]?.status !== "superseded" || record === undefined) continue
      await overwrite(transport, record, followUps)
      answers[at] = { status: "ended" }
    }
    return answers
  },
}))

/** Leaves out the follow-ups of a finished job. */
const forgetful = jobsBroken(() => (jobs) => ({
  claim: async (each) =>
    (await jobs.claim(each)).map((answer) => {
      if (answer.status !== "finished") return answer
      const { followUps, ...record } = answer.record
      return record.keepMs === 0 ? { status: "finished", record } : answer
    }),
}))

const claims = (change: (status: string, id: string) => "started" | "finished" | undefined): Mutant["breaker"] =>
  jobsBroken(() => (jobs) => ({
    claim: async (each) =>
      (await jobs.claim(each)).map((answer, at) => {
        const record = "record" in answer ? answer.record : undefined
        const changed = change(answer.status, each[at]?.id ?? "")
        if (changed === "started") return { status: "started", ...(record ? { record } : {}) }
        return changed === "finished" && record ? { status: "finished", record } : answer
      }),
  }))

/** Stores reports as decisions. */
const reportsDecide = jobsBroken(() => (_, transport) => ({
  report: async (each) => {
    for (const { record } of each) await overwrite(transport, record)
  },
}))

const reportsLost = jobsBroken(() => () => ({ report: async () => undefined }))

export const settleMutants: ReadonlyArray<Mutant> = [
  {
    breaks: "settle: a task that is handed back with a delay waits so long",
    breaker: ends((one) => (one.then.kind === "ack" ? one : { ...one, then: { kind: "hand-back", delay: 0 } })),
  },
  {
    breaks: "settle: attempts of one batch end alone, in order",
    breaker: jobsBroken(() => (jobs) => ({
      settle: async (each) => {
        const answers: Array<SettleAnswer> = []
        for (const one of each) {
          const [answer] = await jobs.settle([one])
          answers.push(answer ?? { status: "gone" })
          if (answer?.status !== "ended") break
        }
        return each.map((_, at) => answers[at] ?? { status: "gone" })
      },
    })),
  },
  {
    breaks: "settle: an outcome that comes after an early ack is stored",
    breaker: jobsBroken(() => {
      const acked = new Set<string>()
      return (jobs) => ({
        settle: async (each) => {
          const first = each.filter(({ token }) => !acked.has(token))
          for (const { token } of each) acked.add(token)
          const answers = await jobs.settle(first)
          return each.map((one) => answers[first.indexOf(one)] ?? { status: "gone" })
        },
      })
    }),
  },
  {
    breaks: "settle: an outcome that comes after an early ack publishes what follows",
    breaker: followUps(() => []),
  },
  {
    breaks: "settle: an outcome that comes after an early ack is refused where the job was cancelled meanwhile",
    breaker: fenceless,
  },
  {
    breaks: "settle: many attempts that end in one batch are all stored",
    breaker: jobsBroken(() => (jobs) => ({
      settle: async (each) => {
        const answers = await jobs.settle(each.slice(0, 256))
        return each.map((_, at) => answers[at] ?? { status: "ended" })
      },
    })),
  },
  { breaks: "settle: a record is read as it was stored", breaker: recorded(() => ({ timeline: [] })) },
  { breaks: "settle: follow-ups are published", breaker: followUps(() => []) },
  {
    breaks: "settle: a follow-up keeps its due time",
    breaker: followUps(({ due, ...posting }) => [posting]),
  },
  {
    breaks: "settle: an end that is sent again after a lost acknowledgement succeeds, and doubles no follow-up",
    // Posts the follow-ups as new jobs each time, so that neither key nor record shows that they were posted before.
    breaker: followUps((posting) => [{ ...posting, id: `${posting.id}-${++copies}` }]),
  },
  {
    breaks: "settle: a record over maxRecord is refused as too-large, and a smaller one is stored",
    breaker: recorded(({ result }) => (typeof result === "string" ? { result: result.slice(0, 1_000) } : {})),
  },
  {
    breaks: "settle: a record that is not JSON is refused as invalid, and another one is stored",
    breaker: recorded(({ result }) => (typeof result === "bigint" ? { result: String(result) } : {})),
  },
  {
    breaks: "settle: a follow-up that is too large fails the end of its attempt, which ends without it",
    breaker: followUps((posting, { capabilities }) => (encodedSize(posting) > capabilities.maxTask ? [] : [posting])),
  },
  {
    breaks: "settle: a terminal record ends the job for deliveries that come later",
    breaker: claims((status) => (status === "finished" ? "started" : undefined)),
  },
  {
    breaks: "settle: what follows a job is not lost with its record, as long as its task may come again",
    breaker: forgetful,
  },
  {
    breaks: "settle: a record that names a successor ends older postings, not the successor",
    breaker: recorded(() => ({ successor: "" })),
  },
  {
    breaks: "fence: a worker that wakes after another has begun is refused, also when it finishes first",
    breaker: fenceless,
  },
  { breaks: "fence: a worker that wakes after another has finished is refused", breaker: fenceless },
  {
    breaks: "fence: a refused outcome takes nothing out of the other worker's hands",
    breaker: jobsBroken(() => (jobs) => ({
      settle: async (each) => {
        const answers = await jobs.settle(each)
        for (const [at, { record }] of each.entries()) {
          const found = answers[at]?.status === "superseded" && record ? await jobs.find(record.id) : undefined
          if (found === undefined) continue
          const { record: same, revision: expect } = found
          await jobs.decide([{ id: same.id, expect, record: same, withdraw: true }])
        }
        return answers
      },
    })),
  },
  { breaks: "fence: a hand-back by a worker that was overtaken is refused", breaker: fenceless },
  {
    breaks: "fence: a claim by a worker that was overtaken is refused",
    breaker: claims((status) => (status === "superseded" ? "started" : undefined)),
  },
  {
    breaks: "fence: a claim by a worker that wakes after another has finished is told so, and what follows",
    // Compares the fence before anything else.
    breaker: jobsBroken(() => (jobs) => ({
      claim: async (each) =>
        (await jobs.claim(each)).map((answer, at) =>
          answer.status === "finished" && !each[at]?.token.includes(answer.record.fence)
            ? { status: "superseded" }
            : answer,
        ),
    })),
  },
  {
    breaks: "fence: a report by a worker that was overtaken changes nothing and fails nothing",
    breaker: reportsDecide,
  },
  { breaks: "fence: a job that was cancelled while it ran refuses the worker's outcome", breaker: fenceless },
  {
    breaks: "fence: a job that was cancelled while a claimed delivery ran refuses its outcome",
    breaker: fenceless,
  },
  {
    breaks: "next run: an attempt may end one run and begin the next",
    breaker: followUps(() => []),
  },
  { breaks: "next run: a worker that was overtaken cannot begin the next run", breaker: fenceless },
  { breaks: "next run: a job that was cancelled while it ran does not begin its next run", breaker: fenceless },
  {
    breaks: "fence: a worker whose lease lapsed may still finish while nobody else has begun",
    breaker: jobsBroken(() => {
      const takenAt = new Map<string, number>()
      return (jobs) => ({
        take: async (...request) => {
          const deliveries = await jobs.take(...request)
          for (const { token } of deliveries) takenAt.set(token, performance.now())
          return deliveries
        },
        settle: async (each) => {
          const ours = each.map(
            ({ token }) => performance.now() - (takenAt.get(token) ?? Number.NEGATIVE_INFINITY) < 1_000,
          )
          const answers = await jobs.settle(each.filter((_, at) => ours[at]))
          let next = 0
          return each.map((_, at) => (ours[at] ? answers[next++] : undefined) ?? { status: "superseded" })
        },
      })
    }),
  },
  {
    breaks: "claim: a claim makes the record of a job that has none",
    breaker: jobsBroken(() => () => ({ claim: async (each) => each.map(() => ({ status: "started" })) })),
  },
  {
    breaks: "claim: claims without an outcome are counted, and the next claim gets their number",
    breaker: jobsBroken(() => (jobs) => ({
      claim: async (each) =>
        (await jobs.claim(each)).map((answer) =>
          answer.status === "started" && answer.record
            ? { ...answer, record: { ...answer.record, claims: 1 } }
            : answer,
        ),
    })),
  },
  {
    breaks: "claim: a task that was delivered beside another and never claimed has no claims",
    breaker: jobsBroken(() => (jobs) => ({
      take: async (request, signal) => {
        const found = await jobs.take(request, signal)
        for (const { token, message, queue: name } of found) {
          const posting = "headers" in message ? postingOf(message, name) : undefined
          if (posting?._tag !== "Success") continue
          const { id, run, retries } = posting.success
          await jobs.claim([{ token, id, run, retries, worker: "", at: Date.now(), posting: posting.success }])
        }
        return found
      },
    })),
  },
  {
    breaks: "claim: a release that takes its claim back leaves none",
    breaker: recorded(() => ({ claims: 1 })),
  },
  {
    breaks: "claim: a task that left its queue before it started, and comes again all the same, is finished",
    breaker: recorded(() => ({ acked: false })),
  },
  {
    breaks: "claim: claims of one batch stand alone, in order",
    breaker: jobsBroken(() => (jobs) => ({ claim: async (each) => [...(await jobs.claim(each))].reverse() })),
  },
  {
    breaks: "claim: a first delivery needs no claim",
    breaker: jobsBroken(() => (jobs) => ({
      take: async (request, signal) =>
        (await jobs.take(request, signal)).map((delivery) => ({ ...delivery, fresh: false })),
    })),
  },
  {
    breaks: "claim: a first delivery may be claimed all the same",
    breaker: jobsBroken(() => {
      const first = new Set<string>()
      return (jobs) => ({
        take: async (request, signal) => {
          const found = await jobs.take(request, signal)
          for (const { fresh, token } of found) if (fresh) first.add(token)
          return found
        },
        claim: async (each) =>
          (await jobs.claim(each.filter(({ token }) => !first.has(token)))).concat(
            each.filter(({ token }) => first.has(token)).map(() => ({ status: "started" })),
          ),
      })
    }),
  },
  {
    breaks: "claim: a claim that is sent again counts once, and gets the record before the first one",
    breaker: jobsBroken(() => (jobs, transport) => ({
      claim: async (each) => {
        const before = await Promise.all(each.map(({ id }) => transport.jobs.find(id)))
        const answers = await jobs.claim(each)
        for (const [at, { token, worker, at: time }] of each.entries()) {
          const record = before[at]?.record
          if (record?.state !== "started" || !token.includes(record.fence)) continue
          await overwrite(transport, claimed(record, { fence: record.fence, worker, at: time }))
        }
        return answers
      },
    })),
  },
  { breaks: "report: a report is seen by others, and the last one wins", breaker: reportsLost },
  { breaks: "report: a report after a claim is seen, and leaves the claim alone", breaker: reportsLost },
  { breaks: "report: a report that comes late does not bring an ended job back", breaker: reportsDecide },
  {
    breaks: "hostile: what is no message can be kept as a dead letter, byte for byte",
    breaker: recorded(({ raw }) => (raw ? { raw: Buffer.from(Buffer.from(raw).toString("utf8")) } : {})),
  },
]
