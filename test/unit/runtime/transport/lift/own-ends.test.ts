/** Waits for jobs that end in the process that waits. */
import { expect, test } from "vitest"
import { type JobRecord, recordOfPosting, step } from "../../../../../runtime/protocol/record.ts"
import type { Driver, Interest } from "../../../../../runtime/transport/driver.ts"
import { lift } from "../../../../../runtime/transport/lift/lift.ts"
import type { JobDelivery, Jobs } from "../../../../../runtime/transport/lift/transport.ts"
import { LeastBoard, leastDriver } from "../../../../kit/driver/least-driver.ts"
import { posting } from "./samples.ts"

const job = (id: string) => posting(1, 0, 0, id)
const never = new AbortController().signal

const recordOf = (id: string, { fence }: JobDelivery, result: string): JobRecord => {
  const waiting = recordOfPosting(job(id), Date.now())
  if (waiting._tag === "Failure") throw new Error(waiting.failure.message)
  const ended = step(waiting.success, { at: Date.now(), state: "succeeded" })
  return { ...ended, endedAt: Date.now(), keepMs: 60_000, result, fence }
}

/** A process of a board, and what it has asked the driver about ends. */
const open = (board = new LeastBoard(), during: { publish?: () => Promise<unknown> } = {}) => {
  const driver = leastDriver(board, { lease: 60_000 })
  const asked: Array<Interest | "read"> = []
  const counting: Driver = {
    ...driver,
    publish: async (postings) => {
      const receipts = await driver.publish(postings)
      await during.publish?.()
      return receipts
    },
    listen: (interest, listener, signal) => {
      asked.push(interest)
      return driver.listen(interest, listener, signal)
    },
    read: (ids, what) => {
      asked.push("read")
      return driver.read(ids, what)
    },
  }
  const { jobs } = lift(counting, { lease: 60_000 })
  return { board, asked, jobs }
}

const take = async (jobs: Jobs): Promise<JobDelivery> => {
  const [delivery] = await jobs.take({ queues: ["q"], max: 1, wait: 0 }, never)
  if (delivery === undefined) throw new Error("a delivery must come")
  return delivery
}

const end = async (jobs: Jobs, id: string, delivery: JobDelivery, result = id) => {
  const [answer] = await jobs.end([
    { token: delivery.token, record: recordOf(id, delivery, result), then: { kind: "ack" } },
  ])
  return answer?.status
}

/** Waits for the end of a job. `watching` resolves when the watch listens, or has told of the end. */
const waitFor = (jobs: Jobs, id: string) => {
  const stop = new AbortController()
  let watching: Promise<void> = Promise.resolve()
  const ended = new Promise<JobRecord>((resolve) => {
    const told = (record: JobRecord) => {
      stop.abort()
      resolve(record)
    }
    watching = jobs.watch({ id, ends: true }, told, stop.signal)
  })
  return { ended, watching, stop }
}

/** Has one job submitted, waited for and ended by this process, so that the next wait relies on that. */
const endOne = async ({ jobs, asked }: ReturnType<typeof open>, id: string) => {
  await jobs.publish([job(id)])
  const { ended, watching } = waitFor(jobs, id)
  await watching
  await end(jobs, id, await take(jobs))
  await ended
  asked.length = 0
}

test("a wait in the process that ends jobs hears of the next end without asking the driver", async () => {
  const here = open()
  await endOne(here, "a")
  await here.jobs.publish([job("b")])
  const delivery = await take(here.jobs)
  const { ended } = waitFor(here.jobs, "b")
  expect(await end(here.jobs, "b", delivery)).toBe("ended")
  expect(await ended).toMatchObject({ id: "b", state: "succeeded", result: "b" })
  expect(here.asked).toEqual([])
})

test("a job that ends before its submission is answered is known to a wait that begins then, and later the driver is asked", async () => {
  const board = new LeastBoard()
  const during = { publish: async () => void (await end(here.jobs, "a", await take(here.jobs))) }
  const here = open(board, during)
  await here.jobs.publish([job("a")])
  expect(await waitFor(here.jobs, "a").ended).toMatchObject({ id: "a", result: "a" })
  expect(here.asked).toEqual([])
  await new Promise((resolve) => setImmediate(resolve))
  const { watching, stop } = waitFor(here.jobs, "a")
  await watching
  expect(here.asked).toEqual([{ kind: "job", id: "a", ends: true }])
  stop.abort()
})

test("a job that another process ends is told by the driver, also where the last one ended here", async () => {
  const here = open()
  const there = open(here.board)
  await endOne(here, "a")
  for (const id of ["b", "c"]) {
    await here.jobs.publish([job(id)])
    const { ended, watching } = waitFor(here.jobs, id)
    await watching
    await end(there.jobs, id, await take(there.jobs))
    expect(await ended).toMatchObject({ id, result: id })
    expect(here.asked).toContainEqual({ kind: "job", id, ends: true })
  }
})

test("an end that is refused is not told", async () => {
  const here = open()
  const there = open(here.board)
  await endOne(here, "a")
  await here.jobs.publish([job("b")])
  const late = await take(here.jobs)
  // Another process cancels the job while it runs here.
  const cancelled = { ...recordOf("b", late, "cancelled"), state: "cancelled" as const, fence: "" }
  const [decided] = await there.jobs.decide([{ id: "b", expect: "", record: cancelled }])
  expect(decided?.status).toBe("decided")
  const { ended, watching } = waitFor(here.jobs, "b")
  expect(await end(here.jobs, "b", late)).toBe("superseded")
  await watching
  expect(here.asked).toContainEqual({ kind: "job", id: "b", ends: true })
  expect(await Promise.race([ended, new Promise((resolve) => setImmediate(() => resolve("waits")))])).toBe("waits")
})
