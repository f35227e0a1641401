/** Queues over records that are not atomic (as those of nats are): a commit may end between two of its steps. */
import * as Result from "effect/Result"
import { expect, test } from "vitest"
import { startedNow } from "../../../../../runtime/jobs/outcome/run-now.ts"
import * as settlement from "../../../../../runtime/jobs/outcome/settlement.ts"
import { claimed, recordOfTask } from "../../../../../runtime/protocol/record.ts"
import { split } from "../../../../../runtime/transport/job-store/split.ts"
import type { JobDelivery } from "../../../../../runtime/transport/job-store/transport.ts"
import { withJobs } from "../../../../../runtime/transport/job-store/with-jobs.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { republishOrphans } from "../../../../../runtime/worker/maintenance/maintenance.ts"
import { parseDelivery } from "../../../../../runtime/worker/parsed-delivery.ts"
import { LeastBoard, leastDriver, type Step } from "../../../../kit/driver/least-driver.ts"
import { driverPosting } from "../../../../kit/driver/task.ts"
import { MemoryQueues, memoryQueue } from "../../../../support/memory-queue.ts"

const lease = { lease: 30_000 }
const keep = { resultMs: 60_000, failureMs: 60_000 }
const error = { name: "E", message: "m", reason: "handler" }

const opened = async () => {
  const [queues, board] = [new MemoryQueues(), new LeastBoard()]
  let fails: Step | undefined
  const step: Step = (...done) => fails?.(...done)
  const jobs = withJobs(await split(memoryQueue(queues, lease), leastDriver(board, lease, { step }), 200), lease).jobs
  const take = async (wait = 2_000) => {
    const [delivery] = await jobs.take({ queues: ["a"], max: 1, wait }, new AbortController().signal)
    return delivery
  }
  const begin = async (delivery: JobDelivery | undefined) => {
    if (delivery === undefined) throw new Error("nothing was delivered")
    const { task, posting } = Result.getOrThrow(parseDelivery(delivery))
    const { token, fence } = delivery
    const now = Date.now()
    const [answer] = await jobs.claim([
      { token, id: posting.id, run: 1, retries: posting.retries, worker: "w", at: now, posting },
    ])
    const before = answer?.status === "started" ? answer.record : undefined
    const record = claimed(before ?? recordOfTask(posting, task, now), { fence, worker: "w", at: now })
    return { status: answer?.status, attempt: { token, fence, posting, task, record, now, keep } }
  }
  const { message } = driverPosting({ id: "one", queue: "a" })
  await jobs.publish([{ id: "one", run: 1, retries: 0, queue: "a", level: 4, message }])
  /** Ends the next commit after its `nth` step of this kind. */
  const failAfter = (kind: Parameters<Step>[0], nth = 1) => {
    let left = nth
    fails = (name) => {
      if (name !== kind || --left > 0) return
      fails = undefined
      throw new TransportError("unavailable", "no answer", { outcome: "unknown" })
    }
  }
  return { queues, board, jobs, take, begin, failAfter }
}

test("a retry whose process died between its guard and its task is not lost when its first worker is", async () => {
  const { queues, jobs, take, begin, failAfter } = await opened()
  const [task] = queues.tasks
  const first = await begin(await take())
  // The broker delivers the message again, as after a lost connection.
  if (task !== undefined) queues.add(task)
  const again = await take()
  // The worker dies while it stores the next attempt: record and guard are stored.
  failAfter("post")
  await jobs.settle([settlement.retried(first.attempt, error, 0)])
  const retry = await begin(await take())
  expect(retry).toMatchObject({ status: "started", attempt: { posting: { retries: 1 } } })
  const over = await begin(again)
  expect(over.status).toBe("finished")
  await jobs.settle([{ token: again?.token ?? "", then: { kind: "ack" } }])
  // The worker of the retry dies too: its task is delivered again.
  await jobs.settle([{ token: retry.attempt.token, then: { kind: "hand-back", delay: 0 } }])
  expect((await begin(await take())).attempt.posting.retries).toBe(1)
})

test("no parked task is left where the answer to a retry was lost", async () => {
  const { board, jobs, take, begin, failAfter } = await opened()
  const first = await begin(await take())
  const retried = settlement.retried(first.attempt, error, 50)
  failAfter("post")
  expect((await jobs.settle([retried]))[0]?.status).toBe("failed")
  // As the settlement writer does.
  expect((await jobs.settle([retried]))[0]?.status).toBe("ended")
  const retry = await begin(await take())
  await jobs.settle([settlement.succeeded(retry.attempt, 1)])
  expect([...board.tasks].map(({ posting }) => posting.key)).toEqual([])
})

test("a job that waits in the broker is not taken for one without a task; one that was put forward and not posted is", async () => {
  const { queues, jobs, take, begin, failAfter } = await opened()
  const { attempt } = await begin(await take())
  await jobs.settle([settlement.handedBack(attempt, true, 0)])
  const orphans = () => jobs.orphans?.(Date.now() + 1_000, 10)
  expect((await jobs.find("one"))?.record.state).toBe("queued")
  expect(await orphans()).toEqual([])
  const due = Date.now() + 3_600_000
  const { message } = driverPosting({ id: "two", queue: "a", due })
  await jobs.publish([{ id: "two", run: 1, retries: 0, queue: "a", level: 4, due, message }])
  const found = await jobs.find("two")
  const forward = found && startedNow(found.record, Date.now())
  if (forward === undefined) throw new Error("the job is not scheduled")
  failAfter("record")
  expect(await jobs.decide([{ id: "two", expect: found?.revision ?? "", ...forward }])).toMatchObject([
    { status: "failed" },
  ])
  expect(await orphans()).toEqual(["two"])
  await republishOrphans({ jobs }, Date.now() + 1_000)
  expect(await orphans()).toEqual([])
  expect(queues.tasks.some((task) => JSON.stringify(task.message.headers).includes('"two"'))).toBe(true)
})
