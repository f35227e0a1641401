/**
 * Cases in which the runtime decides by records when processes die. They run on one transport; `crash.test.ts` shows that commits
 * and hand-backs hold on the others.
 */
import { writeFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { describe, expect, test } from "vitest"
import { sharedBoards } from "../e2e/boards.ts"
import { FROZEN_LEASE, frozenFirst } from "../e2e/crash-cases.ts"
import { clientOf, DEADLINE, freeze, linesOf, serviceProgram, startService } from "../e2e/processes.ts"
import { eventually, spawnScript } from "../support/servers/process.ts"

const kinds = sharedBoards.slice(0, 1)

describe.concurrent.each(kinds)("on $name", (kind) => {
  test.sequential("the outcome of a frozen worker is refused when it wakes after another worker has finished the job", async () => {
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
    "a job whose worker gets %s in a durable step goes on there, and what is done is reverted once",
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
        // Within a second the worker that was frozen has tried all that it would do.
        await sleep(1_000)
      }
      expect(linesOf(ledger)).toEqual([
        ...["a", "b"].map((what) => `${what} ${first.pid}`),
        ...["b", "c", "-b", "-a"].map((what) => `${what} ${second.pid}`),
      ])
      expect(await job.find()).toMatchObject({ state: "failed", reverted: true })
    },
  )

  test.sequential("S175 when worker and job process die a job with `onLost: fail` fails once, unless it has a retry left", async () => {
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
    const client = await clientOf(board, 3)
    const ledger = `${board.folder}/ledger`
    const deaths = `${board.folder}/deaths`
    const poison = await client.submit("e2e.kill", { input: { ledger: deaths, ms: 5_000 } })
    const innocents = await Promise.all(
      Array.from({ length: 3 }, () => client.submit("e2e.nap", { input: { ms: 1_500, ledger } })),
    )
    const over = new AbortController()
    // This is disposed of before the board, so that no worker is started while the board ends.
    using _ = { [Symbol.dispose]: () => over.abort() }
    /** Starts the worker again whenever it has died. */
    const supervise = async () => {
      while (!over.signal.aborted) {
        const service = board.keep(spawnScript(serviceProgram(), [board.url(3), JSON.stringify({ concurrency: 4 })]))
        await service.exited
      }
    }
    void supervise()
    for (const innocent of innocents)
      expect(await innocent.outcome({ timeout: 60 })).toMatchObject({ state: "succeeded" })
    expect(await poison.outcome({ timeout: 60 })).toMatchObject({ state: "failed", error: { reason: "worker-lost" } })
    expect(await poison.find()).toMatchObject({ dead: "worker-lost" })
    // The first run lasted long enough to be noted as started. The note lives for three leases, in which the next worker starts.
    expect(linesOf(deaths)).toHaveLength(3)
    for (const innocent of innocents) expect((await innocent.find()).attempts).toBeLessThanOrEqual(2)
  }, 120_000)

  test.sequential("at the second signal running jobs are handed back, uncounted", async () => {
    await using board = await kind.open()
    const files = { started: `${board.folder}/started`, gate: `${board.folder}/gate` }
    const client = await clientOf(board)
    const service = await startService(board, 30, { concurrency: 1 })
    const job = await client.submit("e2e.step", { input: files })
    await eventually(() => linesOf(files.started).length === 1, { deadline: DEADLINE, message: "the job starts" })
    service.kill("SIGTERM")
    await service.waitForLine(/stopping/, DEADLINE)
    // The worker takes signals within a second for one, so the second signal is repeated until it counts as the second.
    await eventually(
      () => {
        service.kill("SIGTERM")
        return service.output.includes("handing running jobs back now") ? true : undefined
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
