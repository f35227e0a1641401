/** Waits for jobs that end in the process that waits. */
import { expect, test } from "vitest"
import type { JobPosting } from "../../../../../runtime/protocol/message.ts"
import { type JobRecord, recordOfPosting, step } from "../../../../../runtime/protocol/record.ts"
import { isTerminal } from "../../../../../runtime/protocol/state.ts"
import type { Driver, Interest } from "../../../../../runtime/transport/driver.ts"
import type { JobDelivery, Jobs } from "../../../../../runtime/transport/job-store/transport.ts"
import { withJobs } from "../../../../../runtime/transport/job-store/with-jobs.ts"
import { LeastBoard, leastDriver } from "../../../../kit/driver/least-driver.ts"
import { posting } from "./samples.ts"

const job = (id: string, run = 1) => posting(run, 0, 0, id)
const never = new AbortController().signal

const recordOf = (id: string, { fence }: Pick<JobDelivery, "fence">, result: string, run = 1): JobRecord => {
  const waiting = recordOfPosting(job(id, run), Date.now())
  if (waiting._tag === "Failure") throw new Error(waiting.failure.message)
  const ended = step(waiting.success, { at: Date.now(), state: "succeeded" })
  return { ...ended, endedAt: Date.now(), keepMs: 60_000, result, fence }
}

/** A process of a board, and what it has asked the driver about ends. */
const open = (board = new LeastBoard(), reach: Driver["capabilities"]["reach"] = "network") => {
  const driver = leastDriver(board, { lease: 60_000 })
  const asked: Array<Interest | "read"> = []
  const far: Driver = {
    ...driver,
    capabilities: { ...driver.capabilities, reach },
    listen: (interest, listener, signal) => {
      asked.push(interest)
      return driver.listen(interest, listener, signal)
    },
    read: (ids, what) => {
      asked.push("read")
      return driver.read(ids, what)
    },
  }
  const { jobs } = withJobs(far, { lease: 60_000 })
  return { board, asked, jobs }
}

const take = async (jobs: Jobs): Promise<JobDelivery> => {
  const [delivery] = await jobs.take({ queues: ["q"], max: 1, wait: 0 }, never)
  if (delivery === undefined) throw new Error("a delivery must come")
  return delivery
}

/** Claims a job that is not delivered for the first time. */
const begin = async (jobs: Jobs, { token }: JobDelivery, of: JobPosting) => {
  const { id, run, retries } = of
  const [answer] = await jobs.claim([{ token, id, run, retries, worker: "w", at: Date.now(), posting: of }])
  expect(answer?.status).toBe("started")
}

const end = async (jobs: Jobs, id: string, delivery: JobDelivery, result = id) => {
  const record = recordOf(id, delivery, result)
  const [answer] = await jobs.settle([{ token: delivery.token, record, then: { kind: "ack" } }])
  return answer?.status
}

/** Waits for the end of a job. `watching` resolves when the watch listens, or has told of the end. */
const waitFor = (jobs: Jobs, id: string) => {
  const stop = new AbortController()
  let watching: Promise<void> = Promise.resolve()
  const ended = new Promise<JobRecord>((resolve) => {
    const told = (record: JobRecord) => {
      if (!isTerminal(record.state)) return
      stop.abort()
      resolve(record)
    }
    watching = jobs.watch({ id, ends: true, isNew: true }, told, stop.signal)
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

const listens = (id: string): Interest => ({ kind: "job", id, ends: true })

test.each(["network", "host"] as const)(
  "a wait in the process that ends jobs hears of the next end without asking a driver that reaches a %s",
  async (reach) => {
    const here = open(undefined, reach)
    await endOne(here, "a")
    await here.jobs.publish([job("b")])
    const delivery = await take(here.jobs)
    const { ended } = waitFor(here.jobs, "b")
    expect(await end(here.jobs, "b", delivery)).toBe("ended")
    expect(await ended).toMatchObject({ id: "b", state: "succeeded", result: "b" })
    expect(here.asked).toEqual([])
  },
)

test("a driver within the process is asked at once", async () => {
  const here = open(undefined, "process")
  await endOne(here, "a")
  await here.jobs.publish([job("b")])
  const { ended, watching } = waitFor(here.jobs, "b")
  await watching
  expect(here.asked).toEqual([listens("b")])
  await end(here.jobs, "b", await take(here.jobs))
  expect(await ended).toMatchObject({ id: "b", state: "succeeded" })
})

test("a wait that begins after the end asks the driver at once: the job may be running again", async () => {
  const here = open()
  await endOne(here, "a")
  await here.jobs.publish([job("b")])
  await end(here.jobs, "b", await take(here.jobs))
  const { ended, watching, stop } = waitFor(here.jobs, "b")
  await watching
  expect(here.asked).toEqual([listens("b")])
  stop.abort()
  expect(await Promise.race([ended, Promise.resolve("waits")])).toBe("waits")
})

test("a job that is run again is waited for to the end of that run", async () => {
  const here = open()
  await endOne(here, "a")
  const found = await here.jobs.find("a")
  if (found === undefined) throw new Error("a record must be there")
  const again = { ...step(found.record, { at: Date.now(), state: "queued" }), run: 2, fence: "" }
  const [decided] = await here.jobs.decide([{ id: "a", expect: found.revision, record: again, post: [job("a", 2)] }])
  expect(decided?.status).toBe("decided")
  const { ended } = waitFor(here.jobs, "a")
  const delivery = await take(here.jobs)
  await begin(here.jobs, delivery, job("a", 2))
  const record = { ...recordOf("a", delivery, "second", 2), run: 2 }
  await here.jobs.settle([{ token: delivery.token, record, then: { kind: "ack" } }])
  expect(await ended).toMatchObject({ id: "a", run: 2, result: "second" })
})

test("what is stored of a job that is tried again is not told", async () => {
  const here = open()
  await endOne(here, "a")
  await here.jobs.publish([job("b")])
  const first = await take(here.jobs)
  const { ended, watching } = waitFor(here.jobs, "b")
  const { endedAt: _, ...record } = { ...recordOf("b", first, "none"), state: "queued" as const, retries: 1 }
  const followUps = [posting(1, 1, 0, "b")]
  const [answer] = await here.jobs.settle([{ token: first.token, record, followUps, then: { kind: "ack" } }])
  expect(answer?.status).toBe("ended")
  await watching
  expect(here.asked).toContainEqual(listens("b"))
  const second = await take(here.jobs)
  await begin(here.jobs, second, posting(1, 1, 0, "b"))
  expect(await end(here.jobs, "b", second, "second")).toBe("ended")
  expect(await ended).toMatchObject({ result: "second" })
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
    expect(here.asked).toContainEqual(listens(id))
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
  expect(here.asked).toContainEqual(listens("b"))
  expect(await Promise.race([ended, new Promise((resolve) => setImmediate(() => resolve("waits")))])).toBe("waits")
})
