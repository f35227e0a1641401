/** Promises that hold when processes die, with real processes: the cases that run on each transport. */
import { writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import type { Client, ReceivedEvent } from "callboard"
import { describe, expect, test } from "vitest"
import { eventually, spawnScript } from "../support/servers/process.ts"
import { expectOneRun } from "./blocked-handlers.ts"
import type { BoardKind, SharedBoard } from "./boards.ts"
import { clientOf, DEADLINE, freeze, linesOf, startService } from "./processes.ts"

/** The events of workers whose outcome was refused because another worker has the job. The list grows as events arrive. */
export const refusalsOf = async (board: SharedBoard, client: Client): Promise<ReadonlyArray<ReceivedEvent>> => {
  const events: Array<ReceivedEvent> = []
  const stop = new AbortController()
  board.keep({ [Symbol.asyncDispose]: async () => stop.abort() })
  await client.listen((event) => {
    if (event.type === "task-superseded") events.push(event)
  }, stop.signal)
  return events
}

/** Length of a lease in seconds: so long that a worker on a busy machine keeps it. */
export const FROZEN_LEASE = 3

/** Starts two workers and one job: the first worker is frozen while it runs the job, and the second has started the job as well. */
export const frozenFirst = async (board: SharedBoard) => {
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

/** Registers the cases. The boards run side by side, since cases mostly wait; the cases of one board run one after the other. */
export const registerCrashes = (kinds: ReadonlyArray<BoardKind>): void => {
  describe.concurrent.each([...kinds])("on $name", (kind) => {
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

    test.sequential("the job of a killed worker is run by another worker after its lease, and ends once", async () => {
      await using board = await kind.open()
      const client = await clientOf(board, 1)
      const files = {
        started: `${board.folder}/started`,
        gate: `${board.folder}/gate`,
        ledger: `${board.folder}/ledger`,
      }
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

    test.sequential("the outcome of a frozen worker is refused when it wakes after another worker has the job, although it finishes first", async () => {
      await using board = await kind.open()
      const { job, first, second, ownGate, ledger, refusals } = await frozenFirst(board)
      writeFileSync(`${ownGate}${first.pid}`, "")
      first.kill("SIGCONT")
      await eventually(() => linesOf(ledger).length === 1, {
        deadline: DEADLINE,
        message: "the frozen worker finishes",
      })
      expect(linesOf(ledger)[0]).toContain(`${first.pid}`)
      await eventually(() => refusals.length > 0, { deadline: DEADLINE, message: "its outcome is refused" })
      expect(await job.find()).toMatchObject({ state: "started" })
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
      // The jobs take so long that one worker cannot run all of them before the other one has pulled.
      await client.submitMany(Array.from({ length: jobs }, () => ({ task: "e2e.nap", input: { ms: 50, ledger } })))
      const done = () => linesOf(ledger).filter((line) => line.startsWith("done"))
      await eventually(() => done().length >= jobs, { deadline: DEADLINE, message: "all jobs have run" })
      expect(new Set(done().map((line) => line.split(" ")[1])).size).toBe(jobs)
      expect(done()).toHaveLength(jobs)
      expect(new Set(done().map((line) => line.split(" ")[2])).size).toBe(2)
    })

    test.sequential("a handler that blocks its thread for three leases is not delivered again", async () => {
      await using board = await kind.open()
      await expectOneRun(board)
    })

    test.sequential("a handler that blocks its thread past its hard limit fails and ends its worker; its neighbours run elsewhere, uncounted", async () => {
      await using board = await kind.open()
      // The end of a worker does not wait for a lease, however long that is.
      const lease = 600
      const client = await clientOf(board, lease)
      const ledger = `${board.folder}/ledger`
      const blocked = await startService(board, lease, { concurrency: 2 })
      const gate = `${board.folder}/gate`
      const running = await client.submit("e2e.step", { input: { gate } })
      await eventually(async () => (await running.find()).state === "started", {
        deadline: DEADLINE,
        message: "a neighbour is told as running",
      })
      const blocker = await client.submit("e2e.block", { input: { ms: 60_000, ledger }, timeLimit: 1 })
      const neighbour = await client.submit("e2e.step")
      await blocked.exited
      const { transitions, ...failed } = await blocker.find()
      expect(failed).toMatchObject({ state: "failed", error: { name: "TimeLimitExceeded" } })
      const begun = transitions.filter(({ state }) => state === "started")
      expect(begun).toEqual([expect.objectContaining({ worker: expect.stringMatching(/./) })])
      expect(linesOf(ledger)).toEqual([`${blocked.pid}`])
      writeFileSync(gate, "")
      await startService(board, lease, { lostCap: 1 })
      expect(await running.result({ timeout: 60 })).toMatchObject({ attempt: 1 })
      expect(await neighbour.result({ timeout: 60 })).toMatchObject({ attempt: 1 })
    })

    test.sequential("at the first signal running jobs finish and the others are handed back; the exit code is 0", async () => {
      await using board = await kind.open()
      const files = { started: `${board.folder}/started`, gate: `${board.folder}/gate` }
      const client = await clientOf(board)
      const service = await startService(board, 30, { concurrency: 1 })
      const running = await client.submit("e2e.step", { input: files })
      await eventually(() => linesOf(files.started).length === 1, { deadline: DEADLINE, message: "the job starts" })
      const waiting = await client.submit("e2e.step")
      // The worker is asked, since a task that the broker has handed over may still be on its way.
      const prefetched = async () => {
        const [answer] = await client.control("reserved", {}, { timeout: 10 })
        return (
          JSON.stringify(answer?.value) === JSON.stringify([{ id: waiting.id, name: "e2e.step", queue: "default" }])
        )
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
}
