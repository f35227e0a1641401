/** What is promised through the death of processes: with real processes, on every transport that several can share. */
import { writeFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import type { Client, ReceivedEvent } from "callboard"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { type PostgresServer, startPostgres } from "../support/servers/postgres.ts"
import { eventually, spawnScript } from "../support/servers/process.ts"
import { postgresBoards, type SharedBoard, sharedBoards } from "./boards.ts"
import { clientOf, DEADLINE, freeze, linesOf, serviceProgram, startService } from "./processes.ts"

/** The outcomes that were refused, as workers tell them. */
const refusalsOf = async (board: SharedBoard, client: Client): Promise<ReadonlyArray<ReceivedEvent>> => {
  const events: Array<ReceivedEvent> = []
  const stop = new AbortController()
  board.keep({ [Symbol.asyncDispose]: async () => stop.abort() })
  await client.listen((event) => {
    if (event.type === "task-superseded") events.push(event)
  }, stop.signal)
  return events
}

/** Seconds: long enough that a worker on a busy machine keeps its lease. */
const FROZEN_LEASE = 3

/** Two workers and one job: the first is frozen in the middle of it, and the second has started it. */
const frozenFirst = async (board: SharedBoard) => {
  const client = await clientOf(board, FROZEN_LEASE)
  const refusals = await refusalsOf(board, client)
  const started = `${board.folder}/started`
  const ownGate = `${board.folder}/gate-`
  const ledger = `${board.folder}/ledger`
  const first = await startService(board, FROZEN_LEASE)
  const job = await client.submit("e2e.step", { input: { started, ownGate, ledger } })
  await eventually(() => linesOf(started).length === 1, { deadline: DEADLINE, message: "the job starts" })
  await freeze(first, client)
  const second = await startService(board, FROZEN_LEASE)
  await eventually(() => linesOf(started).length === 2, {
    deadline: DEADLINE,
    message: "another worker starts the job",
  })
  return { job, first, second, ownGate, ledger, refusals }
}

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server?.stop())

// Postgres is tested only where workers die, since the runtime applies the same rules on all transports.
const kinds = [...sharedBoards, postgresBoards(() => server)]

// Cases wait for most of their time: the boards run side by side, and the cases of each board one after the other.
describe.concurrent.each(kinds)("on $name", (kind) => {
  test.sequential("a job that was accepted outlives the process that submitted it, and runs", async () => {
    await using board = await kind.open()
    const submitter = board.keep(
      spawnScript(fileURLToPath(new URL("submit.ts", import.meta.url)), [board.url(), "e2e.step"]),
    )
    const [, id = ""] = await submitter.waitForLine(/^accepted (.+)$/, DEADLINE)
    submitter.kill("SIGKILL")
    await submitter.exited
    const client = await clientOf(board)
    expect((await client.job(id).find()).state).toBe("queued")
    await startService(board, 30)
    expect(await client.job(id).result({ timeout: 60 })).toMatchObject({ attempt: 1 })
  })

  test.sequential("a worker killed in the middle of a job loses nothing: another runs it after its lease, and it ends once", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 1)
    const files = { started: `${board.folder}/started`, gate: `${board.folder}/gate`, ledger: `${board.folder}/ledger` }
    const first = await startService(board, 1)
    const job = await client.submit("e2e.step", { input: files })
    await eventually(() => linesOf(files.started).length === 1, { deadline: DEADLINE, message: "the job starts" })
    first.kill("SIGKILL")
    await first.exited
    const second = await startService(board, 1)
    await eventually(() => linesOf(files.started).length === 2, {
      deadline: DEADLINE,
      message: "another worker starts the job",
    })
    writeFileSync(files.gate, "")
    expect(await job.result({ timeout: 60 })).toMatchObject({ pid: second.pid })
    expect(linesOf(files.ledger)).toHaveLength(1)
  })

  test.sequential("a worker frozen in mid-job that wakes when another has the job, and finishes first, is refused", async () => {
    await using board = await kind.open()
    const { job, first, second, ownGate, ledger, refusals } = await frozenFirst(board)
    writeFileSync(`${ownGate}${first.pid}`, "")
    first.kill("SIGCONT")
    await eventually(() => linesOf(ledger).length === 1, { deadline: DEADLINE, message: "the frozen worker finishes" })
    expect(linesOf(ledger)[0]).toContain(`${first.pid}`)
    // A full second of its own: what it would write, it has tried to write.
    await expect(job.result({ timeout: 1 })).rejects.toMatchObject({ _tag: "WaitTimeout" })
    writeFileSync(`${ownGate}${second.pid}`, "")
    expect(await job.result({ timeout: 60 })).toMatchObject({ pid: second.pid })
    const view = await job.find()
    expect(view.transitions.filter((transition) => transition.state === "succeeded")).toHaveLength(1)
    expect(refusals).toMatchObject([{ uuid: job.id, name: "e2e.step", pid: first.pid }])
  })

  test.sequential("two workers share the work, and every job runs once", async () => {
    await using board = await kind.open()
    const ledger = `${board.folder}/ledger`
    const client = await clientOf(board)
    await Promise.all([startService(board, 30, { concurrency: 4 }), startService(board, 30, { concurrency: 4 })])
    const jobs = 200
    // Long enough that one of them cannot be done with all before the other has looked.
    await client.submitMany(Array.from({ length: jobs }, () => ({ task: "e2e.nap", input: { ms: 10, ledger } })))
    const done = () => linesOf(ledger).filter((line) => line.startsWith("done"))
    await eventually(() => done().length >= jobs, { deadline: DEADLINE, message: "all jobs have run" })
    expect(new Set(done().map((line) => line.split(" ")[1])).size).toBe(jobs)
    expect(done()).toHaveLength(jobs)
    expect(new Set(done().map((line) => line.split(" ")[2])).size).toBe(2)
  })

  test.sequential("a handler that blocks its thread for three leases is not delivered again", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 3)
    const ledger = `${board.folder}/ledger`
    const [first, second] = await Promise.all([startService(board, 3), startService(board, 3)])
    const job = await client.submit("e2e.block", { input: { ms: 9_500, ledger } })
    const pid = await job.result({ timeout: 60 })
    expect([first.pid, second.pid]).toContain(pid)
    expect(linesOf(ledger)).toEqual([`${pid}`])
    expect(await job.find()).toMatchObject({ attempts: 1 })
  })

  test.sequential("a handler that blocks its thread past its hard limit fails for it, ends its worker, and its neighbours run elsewhere, uncounted", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 1)
    const ledger = `${board.folder}/ledger`
    const blocked = await startService(board, 1, { concurrency: 1 })
    const blocker = await client.submit("e2e.block", { input: { ms: 60_000, ledger }, timeLimit: 1 })
    const neighbour = await client.submit("e2e.step")
    await blocked.exited
    expect(await blocker.outcome({ timeout: 1 })).toMatchObject({
      state: "failed",
      error: { name: "TimeLimitExceeded" },
    })
    expect(linesOf(ledger)).toEqual([`${blocked.pid}`])
    await startService(board, 1)
    expect(await neighbour.result({ timeout: 60 })).toMatchObject({ attempt: 1 })
  }, 30_000)

  test.sequential("the first signal lets what runs finish and hands back the rest; the exit code is 0", async () => {
    await using board = await kind.open()
    const files = { started: `${board.folder}/started`, gate: `${board.folder}/gate` }
    const client = await clientOf(board)
    const service = await startService(board, 30, { concurrency: 1 })
    const running = await client.submit("e2e.step", { input: files })
    await eventually(() => linesOf(files.started).length === 1, { deadline: DEADLINE, message: "the job starts" })
    const waiting = await client.submit("e2e.step")
    // Asked of the worker: what the broker has handed over may be on its way still.
    const prefetched = async () => {
      const [answer] = await client.control("reserved", {}, { timeout: 10 })
      return JSON.stringify(answer?.value) === JSON.stringify([{ id: waiting.id, queue: "default" }])
    }
    await eventually(prefetched, { deadline: DEADLINE, message: "the second job is prefetched" })
    service.kill("SIGTERM")
    await service.waitForLine(/Restoring 1 unacknowledged/, DEADLINE)
    writeFileSync(files.gate, "")
    expect(await service.exited).toMatchObject({ code: 0 })
    expect(await running.result({ timeout: 60 })).toMatchObject({ attempt: 1 })
    expect(await waiting.find()).toMatchObject({ state: "queued", attempts: 0 })
    await startService(board, 30)
    expect(await waiting.result({ timeout: 60 })).toMatchObject({ attempt: 1 })
  })
})

// What the runtime decides by records alone, once their commits and hand-backs are known to hold on each transport.
describe.concurrent.each(kinds.slice(0, 1))("by records, on $name", (kind) => {
  test.sequential("a worker frozen in mid-job that wakes when another has finished it is refused", async () => {
    await using board = await kind.open()
    const { job, first, second, ownGate, ledger, refusals } = await frozenFirst(board)
    writeFileSync(`${ownGate}${second.pid}`, "")
    const result = await job.result({ timeout: 60 })
    expect(result).toMatchObject({ pid: second.pid })
    writeFileSync(`${ownGate}${first.pid}`, "")
    first.kill("SIGCONT")
    await eventually(() => linesOf(ledger).length === 2, { deadline: DEADLINE, message: "the frozen worker finishes" })
    await eventually(() => refusals.length === 1, { deadline: DEADLINE, message: "the refusal is told" })
    expect(refusals).toMatchObject([{ uuid: job.id, name: "e2e.step", pid: first.pid }])
    first.kill("SIGTERM")
    await first.exited
    expect((await job.find()).result).toEqual(result)
  })

  test.sequential.each(["SIGKILL", "SIGSTOP"] as const)(
    "a job whose worker gets %s in a durable step goes on there, and what is done is undone once",
    async (signal) => {
      await using board = await kind.open()
      const client = await clientOf(board, FROZEN_LEASE)
      const [ledger, ownGate] = [`${board.folder}/ledger`, `${board.folder}/gate-`]
      const said = (count: number) =>
        eventually(() => linesOf(ledger).length === count, { deadline: DEADLINE, message: `${count} lines` })
      const first = await startService(board, FROZEN_LEASE)
      const job = await client.submit("e2e.saga", { input: { ledger, ownGate } })
      await said(2)
      if (signal === "SIGSTOP") await freeze(first, client)
      else first.kill(signal)
      const second = await startService(board, FROZEN_LEASE)
      await said(3)
      writeFileSync(`${ownGate}${second.pid}`, "")
      expect(await job.outcome({ timeout: 60 })).toMatchObject({ state: "failed", error: { message: "no" } })
      writeFileSync(`${ownGate}${first.pid}`, "")
      if (signal === "SIGSTOP") {
        first.kill("SIGCONT")
        // A full second of its own: what it would do, it has tried to do.
        await sleep(1_000)
      }
      expect(linesOf(ledger)).toEqual([
        ...["a", "b"].map((what) => `${what} ${first.pid}`),
        ...["b", "c", "-b", "-a"].map((what) => `${what} ${second.pid}`),
      ])
      expect(await job.find()).toMatchObject({ state: "failed", reverted: true })
    },
  )

  test.sequential("S175 worker and job process die: with onLost fail the job has failed for it, once, unless a retry is left", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 1)
    const files = { started: `${board.folder}/started`, gate: `${board.folder}/gate` }
    const ledger = `${board.folder}/ledger`
    const first = await startService(board, 1)
    const errbacks = [{ task: "e2e.heard", immutable: true, input: { ledger } }]
    const job = await client.submit("e2e.once", { input: files, errbacks })
    const retried = await client.submit("e2e.once", { input: files, retry: { max: 1, interval: 0 } })
    await eventually(() => linesOf(files.started).length === 2, { deadline: DEADLINE, message: "both jobs start" })
    first.kill("SIGKILL")
    await first.exited
    writeFileSync(files.gate, "")
    const second = await startService(board, 1)
    expect(await job.outcome({ timeout: 60 })).toMatchObject({
      state: "failed",
      error: { name: "WorkerLost", reason: "worker-lost", message: "its worker died while it ran" },
    })
    expect(await job.find()).toMatchObject({ dead: "worker-lost", attempts: 1 })
    expect(await retried.result({ timeout: 60 })).toBe(second.pid)
    expect(await retried.find()).toMatchObject({ attempts: 2, retries: 1 })
    await eventually(() => linesOf(ledger).length === 1, { deadline: DEADLINE, message: "the errback runs" })
    await second.waitForLine(new RegExp(`^failure ${job.id} WorkerLost`), DEADLINE)
    await second.waitForLine(new RegExp(`^failure ${retried.id} WorkerLost`), DEADLINE)
    expect(linesOf(files.started)).toHaveLength(3)
  })

  test.sequential("a job that kills its worker again and again ends among the dead letters, and its neighbours run", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 1)
    const killer = await client.submit("e2e.kill", { input: { ledger: `${board.folder}/ledger` }, priority: 9 })
    const neighbours = await Promise.all(Array.from({ length: 5 }, () => client.submit("e2e.step", { delay: 1.5 })))
    await eventually(
      async () => {
        const service = board.keep(
          spawnScript(serviceProgram(), [board.url(1), JSON.stringify({ lostCap: 2, concurrency: 1 })]),
        )
        await Promise.race([service.exited, killer.outcome({ timeout: 60 })])
        const { state } = await killer.find()
        if (state !== "failed") return undefined
        return service
      },
      { deadline: 60_000, message: "the killer is given up" },
    )
    expect(await killer.find()).toMatchObject({
      state: "failed",
      dead: "worker-lost",
      error: { reason: "worker-lost" },
    })
    for (const neighbour of neighbours) expect(await neighbour.result({ timeout: 20 })).toMatchObject({ attempt: 1 })
  }, 90_000)

  test.sequential("a job that kills its worker beside others ends alone: the others run one at a time after that, and succeed", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 1)
    const ledger = `${board.folder}/ledger`
    const deaths = `${board.folder}/deaths`
    const poison = await client.submit("e2e.kill", { input: { ledger: deaths, ms: 5_000 } })
    const innocents = await Promise.all(
      Array.from({ length: 3 }, () => client.submit("e2e.nap", { input: { ms: 1_500, ledger } })),
    )
    const over = new AbortController()
    // Before the board, so that no worker is started while it ends.
    using _ = { [Symbol.dispose]: () => over.abort() }
    /** Starts the worker again whenever it has died. */
    const supervise = async () => {
      while (!over.signal.aborted) {
        const service = board.keep(spawnScript(serviceProgram(), [board.url(1), JSON.stringify({ concurrency: 4 })]))
        await service.exited
      }
    }
    void supervise()
    for (const innocent of innocents)
      expect(await innocent.outcome({ timeout: 60 })).toMatchObject({ state: "succeeded" })
    expect(await poison.outcome({ timeout: 60 })).toMatchObject({ state: "failed", error: { reason: "worker-lost" } })
    expect(await poison.find()).toMatchObject({ dead: "worker-lost" })
    // Its first run lasted long enough to be noted, and counts.
    expect(linesOf(deaths)).toHaveLength(3)
    for (const innocent of innocents) expect((await innocent.find()).attempts).toBeLessThanOrEqual(2)
  }, 120_000)

  test.sequential("the second signal hands back what runs, uncounted", async () => {
    await using board = await kind.open()
    const files = { started: `${board.folder}/started`, gate: `${board.folder}/gate` }
    const client = await clientOf(board)
    const service = await startService(board, 30, { concurrency: 1 })
    const job = await client.submit("e2e.step", { input: files })
    await eventually(() => linesOf(files.started).length === 1, { deadline: DEADLINE, message: "the job starts" })
    service.kill("SIGTERM")
    await service.waitForLine(/stopping/, DEADLINE)
    // Signals within a second count as one: the second one is repeated until it is taken for one of its own.
    await eventually(
      () => {
        service.kill("SIGTERM")
        return service.output.includes("handing back now") ? true : undefined
      },
      { deadline: DEADLINE, every: 200, message: "the second signal is heard" },
    )
    await service.exited
    await eventually(async () => (await job.find()).state === "queued", {
      deadline: DEADLINE,
      message: "the job is handed back",
    })
    writeFileSync(files.gate, "")
    await startService(board, 30)
    expect(await job.result({ timeout: 60 })).toMatchObject({ attempt: 1 })
  })
})
