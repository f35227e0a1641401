/** Jobs of workers that are stopped softly, with real processes, on every transport that several processes can share. */
import { writeFileSync } from "node:fs"
import type { Client, SubmittedJob } from "callboard"
import { describe, expect, test } from "vitest"
import { eventually, type Spawned } from "../support/servers/process.ts"
import { type SharedBoard, sharedBoards } from "./boards.ts"
import { clientOf, DEADLINE, linesOf, startService } from "./processes.ts"

/** Length of a lease in seconds: so long that no task comes again because its lease lapsed. */
const LEASE = 30

interface StopReport {
  readonly finished: number
  readonly handedBack: number
  readonly stuck: number
  readonly lost: number
}

/** Stops a service by SIGTERM. Resolves with its report once the process has ended with code 0. */
const stop = async (service: Spawned): Promise<StopReport> => {
  service.kill("SIGTERM")
  expect(await service.closed).toEqual({ code: 0, signal: null })
  const [, report = ""] = await service.waitForLine(/^stopped (.*)$/)
  return JSON.parse(report)
}

/** Starts a worker with a running job for each gate, and then a worker that has nothing to do. */
const busyAndIdle = async (board: SharedBoard, gates: ReadonlyArray<string>) => {
  const client = await clientOf(board)
  const started = `${board.folder}/started`
  const busy = await startService(board, LEASE, { concurrency: 2, grace: "1 second" })
  const jobs: Array<SubmittedJob> = []
  for (const gate of gates) jobs.push(await client.submit("e2e.step", { input: { started, gate } }))
  await eventually(
    async () => (await Promise.all(jobs.map((job) => job.find()))).every(({ state }) => state === "started"),
    { deadline: DEADLINE, message: "all handlers run" },
  )
  const idle = await startService(board, LEASE, { concurrency: 2 })
  return { client, started, busy, idle, jobs }
}

/** Expects that a job was handed back uncounted, started on the other worker within a second, and ends in its first attempt. */
const expectGoesOn = async (job: SubmittedJob, started: string, idle: Spawned, gate: string, runs: number) => {
  await eventually(() => linesOf(started).length === runs, { deadline: DEADLINE, message: "it starts elsewhere" })
  const { transitions } = await eventually(
    async () => {
      const found = await job.find()
      return found.transitions.at(-1)?.state === "started" ? found : undefined
    },
    { message: "the record says that it started again" },
  )
  const back = transitions.find(({ reason }) => reason === "handed-back")
  expect(back).toMatchObject({ state: "queued" })
  const gap = Date.parse(transitions.at(-1)?.at ?? "") - Date.parse(back?.at ?? "")
  expect(gap).toBeLessThan(1_000)
  writeFileSync(gate, "")
  expect(await job.result({ timeout: 60 })).toEqual({ pid: idle.pid, attempt: 1 })
  expect(await job.find()).toMatchObject({ attempts: 1, retries: 0 })
}

describe.concurrent.each(sharedBoards)("on $name", (kind) => {
  test.sequential("one long job: handed back at the end of the grace, started elsewhere in less than a second, uncounted", async () => {
    await using board = await kind.open()
    const gate = `${board.folder}/gate`
    const { busy, idle, jobs, started } = await busyAndIdle(board, [gate])
    const [job] = jobs
    if (job === undefined) throw new Error("nothing was submitted")
    expect(await stop(busy)).toEqual({ finished: 0, handedBack: 1, stuck: 1, lost: 0 })
    expect(busy.output).toMatch(/Restoring 1 unacknowledged message\(s\)/)
    await expectGoesOn(job, started, idle, gate, 2)
  })

  test.sequential("one long job and no other worker: the job waits in its queue, uncounted", async () => {
    await using board = await kind.open()
    const gate = `${board.folder}/gate`
    const { busy, idle, jobs } = await busyAndIdle(board, [gate])
    expect(await stop(idle)).toEqual({ finished: 0, handedBack: 0, stuck: 0, lost: 0 })
    expect(idle.output).not.toMatch(/Restoring/)
    expect(await stop(busy)).toMatchObject({ handedBack: 1, lost: 0 })
    const found = await jobs[0]?.find()
    expect(found).toMatchObject({ state: "queued", attempts: 0, retries: 0 })
    expect(found?.transitions.at(-1)).toMatchObject({ reason: "handed-back" })
    writeFileSync(gate, "")
    const later = await startService(board, LEASE)
    expect(await jobs[0]?.result({ timeout: 60 })).toEqual({ pid: later.pid, attempt: 1 })
  })

  test.sequential("two jobs, one of which ends within the grace: it is finished, the other is handed back", async () => {
    await using board = await kind.open()
    const [short, long] = [`${board.folder}/short`, `${board.folder}/long`] as const
    const { busy, idle, jobs, started } = await busyAndIdle(board, [short, long])
    const [first, second] = jobs
    if (first === undefined || second === undefined) throw new Error("nothing was submitted")
    const stopped = stop(busy)
    await busy.waitForLine(/stopping/)
    writeFileSync(short, "")
    expect(await stopped).toEqual({ finished: 1, handedBack: 1, stuck: 1, lost: 0 })
    expect(busy.output).toMatch(/Restoring 1 unacknowledged message\(s\)/)
    expect(await first.find()).toMatchObject({ state: "succeeded", attempts: 1, result: { pid: busy.pid } })
    await expectGoesOn(second, started, idle, long, 3)
  })

  test.sequential("two jobs, none of which ends within the grace: both are handed back", async () => {
    await using board = await kind.open()
    const gates = [`${board.folder}/one`, `${board.folder}/two`]
    const { busy, idle, jobs, started } = await busyAndIdle(board, gates)
    expect(await stop(busy)).toEqual({ finished: 0, handedBack: 2, stuck: 2, lost: 0 })
    expect(busy.output).toMatch(/Restoring 2 unacknowledged message\(s\)/)
    for (const [at, job] of jobs.entries()) await expectGoesOn(job, started, idle, gates[at] ?? "", 4)
  })

  test.sequential("a rolling restart of four workers under load loses, doubles and delays nothing", async () => {
    await using board = await kind.open()
    const client = await clientOf(board)
    const ledger = `${board.folder}/ledger`
    const workers = await Promise.all(Array.from({ length: 4 }, () => startService(board, LEASE, { concurrency: 4 })))
    const pids = workers.map(({ pid }) => pid)
    const took = () => new Set(linesOf(ledger).map((line) => Number(line.split(" ")[2])))
    const allTake = () =>
      eventually(() => pids.every((pid) => took().has(pid)), { deadline: DEADLINE, every: 100, message: "all work" })
    let restarted = false
    const flowing = flow(client, ledger, () => restarted)
    await allTake()
    const reports: Array<StopReport> = []
    for (const worker of workers) {
      reports.push(await stop(worker))
      const replacement = await startService(board, LEASE, { concurrency: 4 })
      pids.push(replacement.pid)
      await allTake()
    }
    restarted = true
    const ids = await flowing
    const done = () => linesOf(ledger).filter((line) => line.startsWith("done"))
    await eventually(() => done().length >= ids.length, { deadline: 60_000, message: "all jobs have run" })
    // No job is lost and none begins twice, since running jobs finish within the grace.
    const began = linesOf(ledger).filter((line) => line.startsWith("began"))
    expect(began.map((line) => line.split(" ")[1]).toSorted()).toEqual(ids.toSorted())
    expect(done()).toHaveLength(ids.length)
    for (const report of reports) expect(report).toMatchObject({ stuck: 0, lost: 0 })
    let longest = 0
    for (const id of ids) {
      const job = await eventually(async () => {
        const found = await client.job(id).find()
        return found.state === "succeeded" ? found : undefined
      })
      expect(job).toMatchObject({ attempts: 1, retries: 0, result: 1 })
      expect(job.transitions.filter(({ state }) => state === "succeeded")).toHaveLength(1)
      longest = Math.max(longest, Date.parse(job.times.started ?? "") - Date.parse(job.times.submitted))
    }
    // A job that came again only after its lease would be 30 s late.
    expect(longest).toBeLessThan(10_000)
  }, 120_000)
})

test("a service whose handlers do not stop ends with the code that says so, after its grace", async () => {
  const [kind] = sharedBoards
  if (kind === undefined) throw new Error("there is no board")
  await using board = await kind.open()
  const client = await clientOf(board)
  const service = await startService(board, LEASE, { concurrency: 1, stuckGrace: "1 second" })
  const input = { ms: 600_000, ledger: `${board.folder}/ledger` }
  const job = await client.submit("e2e.nap", { input, timeLimit: 0.2 })
  expect(await service.closed).toEqual({ code: 5, signal: null })
  expect(service.output).toContain("handlers that do not stop occupy all its slots")
  expect(await job.find()).toMatchObject({ state: "failed", error: { reason: "timeout" } })
})

/** Least number of jobs that are submitted. */
const JOBS = 300
const BACKLOG = 60

/** Submits jobs, no faster than they are done, until `mayEnd` returns true and there are `JOBS` of them. Resolves with their ids. */
const flow = async (client: Client, ledger: string, mayEnd: () => boolean): Promise<ReadonlyArray<string>> => {
  const ids: Array<string> = []
  while (ids.length < JOBS || !mayEnd()) {
    const batch = Array.from({ length: 25 }, () => ({ task: "e2e.nap", input: { ms: 300, ledger } }))
    for (const receipt of await client.submitMany(batch)) {
      if (receipt instanceof Error) throw receipt
      ids.push(receipt.id)
    }
    const begun = () => linesOf(ledger).filter((line) => line.startsWith("began")).length
    await eventually(() => ids.length - begun() < BACKLOG, { deadline: 60_000, every: 100, message: "jobs begin" })
  }
  return ids
}
