/** A worker whose thread a handler blocks: it is told as blocked, and a job that is terminated ends its process. With real processes. */
import { writeFileSync } from "node:fs"
import type { Client, WorkerDescription } from "callboard"
import { describe, expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { sharedBoards } from "./boards.ts"
import { clientOf, DEADLINE, linesOf, startService } from "./processes.ts"

/** The only worker, as others see it. */
const workerOf = async (client: Client): Promise<WorkerDescription | undefined> => (await client.workers())[0]

const isBlockedBy = async (client: Client, id: string): Promise<boolean> =>
  (await workerOf(client))?.blocked?.job === id

/** What holds a job up, the true cause first. */
const causeOf = async (client: Client, id: string) => (await client.why(id)).causes[0]

describe.concurrent.each(sharedBoards)("on $name", (kind) => {
  test.sequential("it stays known with the job that blocks it, until the terminated job ends its process; its neighbours run again, uncounted", async () => {
    await using board = await kind.open()
    const client = await clientOf(board)
    const [started, gate, ledger] = ["started", "gate", "ledger"].map((name) => `${board.folder}/${name}`)
    const service = await startService(board, 30, { concurrency: 2, lostCap: 1, name: "w" })
    const neighbour = await client.submit("e2e.step", { input: { started, gate } })
    await eventually(async () => (await neighbour.find()).state === "started", {
      deadline: DEADLINE,
      message: "the neighbour is told as running",
    })
    const blocker = await client.submit("e2e.block", { input: { ms: 120_000, ledger } })
    const behind = await client.submit("e2e.step", { input: {} })
    await eventually(() => isBlockedBy(client, blocker.id), { deadline: DEADLINE, message: "it is told as blocked" })
    expect(await workerOf(client)).toMatchObject({
      name: "w",
      state: "blocked",
      running: expect.arrayContaining([neighbour.id, blocker.id]),
      jobs: expect.arrayContaining([expect.objectContaining({ id: blocker.id, name: "e2e.block", attempt: 1 })]),
    })
    expect(await blocker.find()).toMatchObject({ state: "started" })
    expect(await causeOf(client, blocker.id)).toMatchObject({
      code: "running",
      message: expect.stringContaining(`callboard cancel ${blocker.id} --terminate`),
      workers: ["w"],
    })
    expect(await causeOf(client, behind.id)).toMatchObject({
      code: "workers-blocked",
      workers: ["w"],
      running: [{ id: blocker.id, worker: "w" }],
    })
    expect(service.stdout).toMatch(new RegExp(`a handler blocks this worker.*${blocker.id}`))

    // A job that is only cancelled goes on, and its worker with it.
    await blocker.cancel()
    expect(await causeOf(client, blocker.id)).toMatchObject({
      code: "ended",
      message: expect.stringContaining("has been blocking w"),
    })
    const seen: Array<WorkerDescription | undefined> = []
    const since = performance.now()
    await eventually(
      async () => {
        seen.push(await workerOf(client))
        return performance.now() - since > 8_000
      },
      { every: 500, message: "the life of an entry has passed" },
    )
    expect(seen.map((worker) => worker?.state)).toEqual(seen.map(() => "blocked"))
    await blocker.cancel({ terminate: true })
    expect(await service.exited).toMatchObject({ signal: "SIGKILL" })
    expect(service.stdout).toMatch(new RegExp(`was cancelled, but its handler blocks this worker.*${blocker.id}`))
    expect(await blocker.find()).toMatchObject({ state: "cancelled" })

    await startService(board, 30, { lostCap: 1 })
    writeFileSync(gate ?? "", "")
    expect(await neighbour.result({ timeout: 60 })).toMatchObject({ attempt: 1 })
    expect((await neighbour.find()).transitions.map(({ reason }) => reason)).toContain("handed-back")
    expect(await behind.result({ timeout: 60 })).toMatchObject({ attempt: 1 })
    expect(linesOf(ledger ?? "")).toEqual([`${service.pid}`])
  })

  test.sequential("one whose handler returns is as before", async () => {
    await using board = await kind.open()
    const client = await clientOf(board)
    const service = await startService(board, 30, { concurrency: 2 })
    // It gives way before it blocks, so that it is not the handler that was called last.
    const blocker = await client.submit("e2e.block", {
      input: { ms: 6_000, after: 1_000, ledger: `${board.folder}/ledger` },
    })
    await eventually(() => isBlockedBy(client, blocker.id), { deadline: DEADLINE, message: "it is told as blocked" })
    expect(await blocker.result({ timeout: 60 })).toBe(service.pid)
    await eventually(async () => (await workerOf(client))?.state === "idle", {
      deadline: DEADLINE,
      message: "it is idle",
    })
    expect((await workerOf(client))?.blocked).toBeUndefined()
    await service.waitForLine(new RegExp(`a handler blocked this worker.*${blocker.id}`), DEADLINE)
    const next = await client.submit("e2e.step", { input: {} })
    expect(await next.result({ timeout: 60 })).toMatchObject({ pid: service.pid, attempt: 1 })
  })
})
