/** Jobs that run while their broker is away for longer than a lease, with a real server that is frozen. */
import { writeFileSync } from "node:fs"
import { connect as dial } from "nats"
import { describe, expect, test } from "vitest"
import { Names } from "../../plugins/nats/mod.ts"
import { startNats } from "../support/servers/nats.ts"
import { eventually } from "../support/servers/process.ts"
import { scope } from "./boards.ts"
import { clientOf, DEADLINE, linesOf, startService } from "./processes.ts"

/** Length of a lease in seconds. */
const LEASE = 2

/** Starts a server that can be frozen. */
const frozenBoard = async () => {
  const own = scope()
  const server = own.keep(await startNats())
  const admin = await dial({ servers: server.url, maxReconnectAttempts: -1, reconnectTimeWait: 50 })
  own.keep({ [Symbol.asyncDispose]: () => admin.close() })
  const stream = new Names("callboard").queueStream
  const handedOver = async (): Promise<number> => {
    const answer: unknown = (await admin.request(`$JS.API.CONSUMER.LIST.${stream}`, "{}", { timeout: 10_000 })).json()
    return deliveriesIn(answer)
  }
  return {
    ...own,
    url: (lease = LEASE) => `${server.url}?lease=${lease}`,
    /** Freezes the server until all leases are over. Resolves once it has handed over `tasks` of the tasks again. */
    freeze: async (tasks: number, seconds = LEASE * 1.5) => {
      const before = await handedOver()
      server.pause()
      try {
        await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
      } finally {
        server.resume()
      }
      await eventually(async () => (await handedOver()) >= before + tasks, {
        deadline: DEADLINE,
        message: "the tasks are handed over again",
      })
    },
  }
}

/** Number of deliveries of all consumers in an answer of the API. */
const deliveriesIn = (answer: unknown): number => {
  if (typeof answer !== "object" || answer === null || !("consumers" in answer) || !Array.isArray(answer.consumers))
    throw new Error("the server does not list its consumers")
  return answer.consumers.reduce((sum: number, consumer: { readonly delivered: { readonly consumer_seq: number } }) => {
    return sum + consumer.delivered.consumer_seq
  }, 0)
}

/** Submits four jobs that run until the file `gate` exists. */
const fourJobs = async (board: Awaited<ReturnType<typeof frozenBoard>>) => {
  const client = await clientOf(board, LEASE)
  const files = {
    started: `${board.folder}/started`,
    gate: `${board.folder}/gate`,
    ledger: `${board.folder}/ledger`,
  }
  const jobs = await Promise.all([1, 2, 3, 4].map(() => client.submit("e2e.step", { input: files })))
  await eventually(() => linesOf(files.started).length === 4, { deadline: DEADLINE, message: "all jobs start" })
  return { client, jobs, ...files }
}

describe.concurrent("on nats, when the server is frozen for longer than a lease", () => {
  test("a single worker runs each of its jobs once: it adopts the tasks that come again", {
    timeout: 120_000,
  }, async () => {
    await using board = await frozenBoard()
    // The worker has more slots than jobs, since a worker fetches nothing while all its slots are taken by long jobs.
    await startService(board, LEASE, { concurrency: 8 })
    const { client, jobs, started, gate, ledger } = await fourJobs(board)
    for (let times = 0; times < 3; times++) await board.freeze(jobs.length)
    writeFileSync(gate, "")
    for (const job of jobs) expect(await job.result({ timeout: 60 })).toMatchObject({ attempt: 1 })
    await eventually(async () => (await client.queues()).every(({ depth, inFlight }) => depth + inFlight === 0), {
      deadline: DEADLINE,
      message: "nothing is left in the queue",
    })
    for (const job of jobs) {
      const { transitions, attempts } = await job.find()
      expect(transitions.map(({ state }) => state)).toEqual(["queued", "started", "succeeded"])
      expect(attempts).toBe(1)
    }
    expect(linesOf(started)).toHaveLength(4)
    expect(linesOf(ledger)).toHaveLength(4)
  })

  test("two living workers lose no job: none runs twice, and none is given up", { timeout: 120_000 }, async () => {
    await using board = await frozenBoard()
    await Promise.all([1, 2].map(() => startService(board, LEASE, { concurrency: 3, prefetch: 1, lostCap: 1 })))
    const { client, jobs, started, gate, ledger } = await fourJobs(board)
    // Each worker has slots for more jobs than it runs, but not for all four, so that tasks come again to both.
    expect(new Set(linesOf(started)).size).toBe(2)
    for (let times = 0; times < 3; times++) await board.freeze(jobs.length)
    writeFileSync(gate, "")
    for (const job of jobs) expect(await job.outcome({ timeout: 60 })).toMatchObject({ state: "succeeded" })
    await eventually(async () => (await client.queues()).every(({ depth, inFlight }) => depth + inFlight === 0), {
      deadline: DEADLINE,
      message: "nothing is left in the queue",
    })
    for (const job of jobs) {
      const { transitions } = await job.find()
      expect(transitions.map(({ state }) => state)).toEqual(["queued", "started", "succeeded"])
    }
    expect(linesOf(started)).toHaveLength(4)
    expect(linesOf(ledger)).toHaveLength(4)
  })

  test("the jobs of a worker that dies in the outage are run by another worker", { timeout: 120_000 }, async () => {
    await using board = await frozenBoard()
    const first = await startService(board, LEASE, { concurrency: 4 })
    const { jobs, started, gate } = await fourJobs(board)
    const second = await startService(board, LEASE, { concurrency: 4 })
    first.kill("SIGSTOP")
    await board.freeze(jobs.length)
    await eventually(() => linesOf(started).length === 8, { deadline: DEADLINE, message: "the lost jobs start" })
    writeFileSync(gate, "")
    for (const job of jobs) expect(await job.result({ timeout: 60 })).toMatchObject({ pid: second.pid })
  })
})
