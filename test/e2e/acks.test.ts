/** Jobs that are acked before they run, when their worker is killed, frozen or stopped: with real processes. */
import { writeFileSync } from "node:fs"
import { describe, expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { type SharedBoard, sharedBoards } from "./boards.ts"
import { clientOf, DEADLINE, freeze, linesOf, startService } from "./processes.ts"

/** Longest time until the jobs of a dead worker have failed, in seconds: it has missed two rounds of maintenance. */
const DEATH_SECONDS = 60
/** Length of a lease in seconds: so long that a living worker on a busy machine keeps it. */
const LEASE = 3

const begin = async (board: SharedBoard) => {
  const client = await clientOf(board, LEASE)
  const file = (name: string) => `${board.folder}/${name}`
  const heard = file("heard")
  const errbacks = [{ task: "e2e.heard", immutable: true, input: { ledger: heard } }]
  const begun = (name: string, count: number) =>
    eventually(() => linesOf(file(name)).length === count, { deadline: DEADLINE, message: `${count} × ${name}` })
  return { client, file, heard, errbacks, begun }
}

describe.concurrent.each(sharedBoards)("acked early, on $name", (kind) => {
  test("S182, S184 jobs whose worker is killed fail once each, with their errbacks, although two workers look and a failure handler throws", async () => {
    await using board = await kind.open()
    const { client, file, heard, errbacks, begun } = await begin(board)
    const [started, late, gate] = [file("started"), file("late"), file("gate")]
    const first = await startService(board, LEASE)
    const early = (meta: object = {}) =>
      client.submit("e2e.early", { input: { started, gate }, errbacks, meta: { ...meta } })
    const job = await early({ upset: true })
    const others = await Promise.all([early(), early()])
    await begun("started", 3)
    const redelivered = await client.submit("e2e.step", { input: { started: late, gate } })
    await begun("late", 1)
    first.kill("SIGKILL")
    await first.exited
    const [second, third] = await Promise.all([startService(board, LEASE), startService(board, LEASE)])
    // The job with a lease runs again once its lease has lapsed. The job that was acked early has no lease.
    await begun("late", 2)
    expect(await job.find()).toMatchObject({ state: "started" })
    writeFileSync(gate, "")
    await redelivered.result({ timeout: 60 })
    for (const lost of [job, ...others])
      expect(await lost.outcome({ timeout: DEATH_SECONDS })).toMatchObject({
        state: "failed",
        error: { name: "WorkerLost", reason: "worker-lost" },
      })
    await begun("heard", 3)
    const view = await job.find()
    expect(view).toMatchObject({ dead: "worker-lost", attempts: 1 })
    expect(view.transitions.map(({ state }) => state)).toEqual(["queued", "started", "failed"])
    const told = () => (second.output + third.output).match(/^failure .* WorkerLost/gm) ?? []
    await eventually(() => told().length === 3, { message: "all are told" })
    expect(new Set(told()).size).toBe(3)
    expect(linesOf(started)).toEqual(Array(3).fill(`${first.pid}`))
    expect(linesOf(heard)).toHaveLength(3)
    // The failed job runs when it is retried by hand.
    await job.retry()
    expect(await job.result({ timeout: 60 })).toMatchObject({ attempt: 2 })
  }, 120_000)

  test("a worker that is frozen for longer than a lease stores its outcome when it wakes", async () => {
    await using board = await kind.open()
    const { client, file, begun } = await begin(board)
    const [started, late, ownGate] = [file("started"), file("late"), file("gate-")]
    const first = await startService(board, LEASE)
    const job = await client.submit("e2e.early", { input: { started, ownGate } })
    const redelivered = await client.submit("e2e.step", { input: { started: late, ownGate } })
    await Promise.all([begun("started", 1), begun("late", 1)])
    await freeze(first, client)
    const second = await startService(board, LEASE)
    await begun("late", 2)
    first.kill("SIGCONT")
    for (const { pid } of [first, second]) writeFileSync(`${ownGate}${pid}`, "")
    expect(await job.result({ timeout: 60 })).toEqual({ pid: first.pid, attempt: 1 })
    expect(await redelivered.result({ timeout: 60 })).toMatchObject({ pid: second.pid })
    expect(linesOf(started)).toEqual([`${first.pid}`])
  }, 120_000)

  test("a stopped worker lets the job finish within its grace; a job that does not finish fails, or is retried", async () => {
    await using board = await kind.open()
    const { client, file, errbacks, begun } = await begin(board)
    const [started, gate, never] = [file("started"), file("gate"), file("never")]
    const first = await startService(board, LEASE, { grace: 2 })
    const finishes = await client.submit("e2e.early", { input: { started, gate } })
    const fails = await client.submit("e2e.early", { input: { started, gate: never }, errbacks })
    const again = await client.submit("e2e.early", { input: { started, gate: never }, retry: { max: 1, interval: 0 } })
    await begun("started", 3)
    first.kill("SIGTERM")
    await first.waitForLine(/stopping/, DEADLINE)
    writeFileSync(gate, "")
    expect(await finishes.result({ timeout: 60 })).toMatchObject({ attempt: 1 })
    await first.exited
    expect(await fails.outcome({ timeout: 60 })).toMatchObject({
      state: "failed",
      error: { name: "WorkerStopped", reason: "worker-lost" },
    })
    expect(await fails.find()).toMatchObject({ dead: "worker-lost" })
    writeFileSync(never, "")
    await startService(board, LEASE)
    expect(await again.result({ timeout: 60 })).toMatchObject({ attempt: 2 })
    await begun("heard", 1)
  }, 120_000)
})
