/** Ended jobs that run again from one of their durable steps. */
import { actor, http, type Job, type JobHandle } from "callboard"
import { expect, test } from "vitest"
import { OWN_HEADER } from "../../runtime/protocol/headers.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 30 }

onEveryBoard((newBoard) => {
  const sceneWith = async (run: (input: never, job: Job) => unknown) => {
    const { client } = await start([actor("scene", { methods: { run } })], { transport: newBoard() })
    const job = await client.submit("scene.run")
    const ownOf = async ({ id }: JobHandle) => {
      const own = (await client.connection.jobs.find(id))?.record.message?.headers[OWN_HEADER]
      return { ...(typeof own === "object" ? own : {}) }
    }
    return { client, job, ownOf, ended: async () => (await job.outcome(WAIT)).state }
  }

  /** Notes each step that runs; the last one fails until it is mended. */
  const flow = () => {
    const ran: Array<string> = []
    const state = { broken: true }
    const note =
      (what: string, value: unknown = what) =>
      () => {
        ran.push(what)
        return value
      }
    const run = async (_input: never, job: Job) => {
      const a = await job.step("a", note("a"))
      const large = await job.step("large", note("large", "x".repeat(9_000)))
      const b = await job.step("b", note("b"))
      const go = await job.waitFor("go")
      await job.step("c", note("c"))
      if (state.broken) throw new Error("broken")
      return [a, String(large).length, b, go]
    }
    const mend = () => {
      state.broken = false
    }
    return { ran, run, mend }
  }

  test("keeps what had ended before the step, and runs it and the rest again", async () => {
    const { ran, run, mend } = flow()
    const { job, ended, ownOf } = await sceneWith(run)
    await job.signal("go", 1)
    expect(await ended()).toBe("failed")
    mend()
    ran.splice(0)
    await job.retry({ fromStep: "b" })
    expect(await ownOf(job)).toMatchObject({ must: ["fromStep"], fromStep: { run: 1, step: "b" } })
    await eventually(async () => (await job.find()).waits !== undefined)
    await job.signal("go", 2)
    expect(await job.result(WAIT)).toEqual(["a", 9_000, "b", 2])
    expect(ran).toEqual(["b", "c"])
  })

  test("begins with a wait as with a step, and a later retry keeps what the run has done", async () => {
    const { ran, run, mend } = flow()
    const { job, ended, ownOf } = await sceneWith(run)
    await job.signal("go", 1)
    await ended()
    ran.splice(0)
    await job.retry({ fromStep: "go" })
    await eventually(async () => (await job.find()).waits !== undefined)
    await job.signal("go", 2)
    await ended()
    expect(ran).toEqual(["c"])
    mend()
    await job.retry()
    expect(await job.result(WAIT)).toEqual(["a", 9_000, "b", 2])
    expect(ran).toEqual(["c"])
    expect(await ownOf(job)).toEqual({})
  })

  test("begins there also if no worker has begun the run before the next one", async () => {
    const { ran, run, mend } = flow()
    const { client, job, ended } = await sceneWith(run)
    await job.signal("go", 1)
    await ended()
    mend()
    ran.splice(0)
    await client.pause("default")
    await job.retry({ fromStep: "b" })
    await job.cancel()
    await expect(job.retry({ fromStep: "c" })).rejects.toMatchObject({
      message: expect.stringMatching(/not c: it has a, large$/),
    })
    await job.retry()
    await job.signal("go", 2)
    await client.resume("default")
    expect(await job.result(WAIT)).toEqual(["a", 9_000, "b", 2])
    expect(ran).toEqual(["b", "c"])
  })

  test("refuses a step that the job does not have, and names those that it has", async () => {
    const { run } = flow()
    const { client, job, ended } = await sceneWith(run)
    await job.signal("go", 1)
    await ended()
    const message = `fromStep: must be a step of job ${job.id}, not x: it has a, large, b, go, c`
    await expect(job.retry({ fromStep: "x" })).rejects.toMatchObject({ code: "invalid-input", message })
    const answer = await http(client, { open: true }).request(`/v1/jobs/${job.id}/retry?fromStep=x`, { method: "POST" })
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { code: "invalid-input", field: "fromStep", detail: message },
    ])
    await expect(job.retry({ from: "start", fromStep: "a" })).rejects.toMatchObject({ code: "invalid-input" })
    await expect(job.retry({ fromStep: "" })).rejects.toMatchObject({ code: "invalid-input" })
    expect((await job.find()).state).toBe("failed")
  })

  test("refuses jobs without steps, and jobs whose steps were reverted", async () => {
    const { client, job, ended } = await sceneWith(async (reverts: boolean, job) => {
      if (reverts === true) await job.step("a", () => 1, { revert: () => undefined })
      throw new Error("no")
    })
    await ended()
    await expect(job.retry({ fromStep: "a" })).rejects.toMatchObject({
      message: `fromStep: must be absent: job ${job.id} has no durable steps`,
    })
    const reverted = await client.submit("scene.run", { input: true })
    await reverted.outcome(WAIT)
    await expect(reverted.retry({ fromStep: "a" })).rejects.toMatchObject({
      code: "invalid-input",
      message: expect.stringContaining("has reverted steps"),
    })
  })
})
