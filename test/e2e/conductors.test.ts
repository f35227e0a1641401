/**
 * Conductors in processes of their own, which die, freeze or lose their transport while a flow runs: the flow is run once, and the
 * job of the board ends once.
 */
import { writeFileSync } from "node:fs"
import type { Client } from "callboard"
import { describe, expect, test } from "vitest"
import { eventually, type Spawned } from "../support/servers/process.ts"
import { type SharedBoard, sharedBoards } from "./boards.ts"
import { clientOf, DEADLINE, freeze, linesOf, startService } from "./processes.ts"

const BOARD = "flows"
/** Length of a lease in seconds, of the workers and of the claims. */
const LEASE = 1

/** Starts a process with a conductor. Its worker takes no flow, unless it is to serve the queue of the flows. */
const conductor = (board: SharedBoard, name: string, options: object = {}): Promise<Spawned> =>
  startService(board, LEASE, {
    queues: ["none"],
    conductors: [{ board: BOARD, name, lease: LEASE, maxSimultaneousJobs: 0 }],
    logLevels: { "callboard.conductor": "debug" },
    ...options,
  })

const filesOf = ({ folder }: SharedBoard) => ({
  started: `${folder}/started`,
  gate: `${folder}/gate`,
  ledger: `${folder}/ledger`,
})

/** How many of these events the conductors have logged. */
const told = (processes: ReadonlyArray<Spawned>, event: string): number =>
  processes.reduce((sum, { output }) => sum + output.split("\n").filter((line) => line.includes(event)).length, 0)

/** Resolves once so many jobs are consumed, none more: a job leaves the board shortly before its conductor logs that. */
const tellConsumed = async (processes: ReadonlyArray<Spawned>, count: number): Promise<void> => {
  await eventually(() => told(processes, "job_consumed") >= count, {
    deadline: DEADLINE,
    message: "each end is logged",
  })
  expect(told(processes, "job_consumed")).toBe(count)
}

const claimedBy = async (client: Client): Promise<ReadonlyArray<string | null>> =>
  (await client.board(BOARD).list()).jobs.map(({ owner }) => owner)

const becomesEmpty = (client: Client): Promise<unknown> =>
  eventually(async () => (await client.board(BOARD).count()) === 0, { deadline: DEADLINE, message: "all are consumed" })

describe.concurrent.each([...sharedBoards])("on $name", ({ open }) => {
  test("S075 conductor and worker are killed in the second step: the first does not run again", {
    timeout: 120_000,
  }, async () => {
    await using board = await open()
    const client = await clientOf(board, LEASE)
    const { ledger } = filesOf(board)
    const first = await conductor(board, "first", { queues: ["default"] })
    const store = { ownGate: `${board.folder}/gate`, ledger, fails: false }
    const job = await client.board(BOARD).post("a", { details: { flow: "e2e.saga", store } })
    await eventually(() => linesOf(ledger).length === 2, { deadline: DEADLINE, message: "the second step runs" })
    first.kill("SIGKILL")
    await first.closed
    const second = await conductor(board, "second", { queues: ["default"] })
    writeFileSync(`${board.folder}/gate${second.pid}`, "")
    await becomesEmpty(client)
    const of = (pid: number | undefined) => linesOf(ledger).filter((line) => line.endsWith(` ${pid}`))
    expect([of(first.pid), of(second.pid)].map((lines) => lines.map(([step]) => step))).toEqual([
      ["a", "b"],
      ["b", "c"],
    ])
    expect((await client.job(`board-${job.id}`).find()).state).toBe("succeeded")
    await tellConsumed([second], 1)
  })

  test("C2 a conductor is killed and one is frozen: each flow is run once, and each job is consumed once", {
    timeout: 120_000,
  }, async () => {
    await using board = await open()
    const client = await clientOf(board, LEASE)
    const { started, gate, ledger } = filesOf(board)
    await startService(board, LEASE, { concurrency: 4 })
    const details = { flow: "e2e.step", store: { started, gate, ledger } }
    for (const name of ["a", "b", "c"]) await client.board(BOARD).post(name, { details })
    const killed = await conductor(board, "killed")
    await eventually(() => linesOf(started).length === 3, { deadline: DEADLINE, message: "the flows start" })
    killed.kill("SIGKILL")
    await killed.closed
    const owned = (name: string) =>
      eventually(async () => (await claimedBy(client)).join() === [name, name, name].join(), {
        deadline: DEADLINE,
        message: `${name} takes the jobs over`,
      })
    const frozen = await conductor(board, "frozen")
    await owned("frozen")
    const last = await conductor(board, "last")
    await freeze(frozen, client)
    await owned("last")
    writeFileSync(gate, "")
    await becomesEmpty(client)
    frozen.kill("SIGCONT")
    // It finds out that its claims are lost, and takes the next job.
    last.kill("SIGTERM")
    await last.closed
    await client.board(BOARD).post("d", { details })
    await becomesEmpty(client)
    expect(linesOf(ledger)).toHaveLength(4)
    await tellConsumed([frozen], 1)
    await tellConsumed([killed, frozen, last], 4)
    expect(await client.board(BOARD).trashed()).toEqual([])
  })

  test("a worker is killed with a job that must not be delivered again: the conductor has it run again", {
    timeout: 120_000,
  }, async () => {
    await using board = await open()
    const client = await clientOf(board, LEASE)
    const { started, gate } = filesOf(board)
    const conducting = await conductor(board, "only")
    const worker = await startService(board, LEASE)
    const job = await client.board(BOARD).post("a", { details: { flow: "e2e.once", store: { started, gate } } })
    await eventually(() => linesOf(started).length === 1, { deadline: DEADLINE, message: "the flow starts" })
    worker.kill("SIGKILL")
    await worker.closed
    writeFileSync(gate, "")
    await startService(board, LEASE)
    await becomesEmpty(client)
    expect(linesOf(started)).toHaveLength(2)
    expect(await client.job(`board-${job.id}`).find()).toMatchObject({ state: "succeeded", run: 2 })
    await tellConsumed([conducting], 1)
    expect(["job_abandoned", "job_trashed"].map((event) => told([conducting], event))).toEqual([1, 0])
  })

  test("the transport is away for longer than the claims hold: each flow is run once, and each job is consumed once", {
    timeout: 120_000,
  }, async () => {
    await using board = await open()
    const client = await clientOf(board, LEASE)
    const { started, gate, ledger } = filesOf(board)
    await startService(board, 30, { concurrency: 4 })
    const conductors = [await conductor(board, "one"), await conductor(board, "two")]
    const details = { flow: "e2e.step", store: { started, gate, ledger } }
    for (const name of ["a", "b", "c"]) await client.board(BOARD).post(name, { details })
    await eventually(() => linesOf(started).length === 3, { deadline: DEADLINE, message: "the flows start" })
    await board.blackout?.(3 * LEASE * 1_000)
    writeFileSync(gate, "")
    await becomesEmpty(client)
    expect(linesOf(ledger)).toHaveLength(3)
    await tellConsumed(conductors, 3)
    expect(told(conductors, "job_trashed")).toBe(0)
  })
})
