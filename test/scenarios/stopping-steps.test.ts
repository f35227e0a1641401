/** A worker that stops hands jobs back between two of their durable steps. */
import { readFileSync } from "node:fs"
import { actor, type Job } from "callboard"
import { expect, test } from "vitest"
import { eventually, temporaryFolder } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { isolated } from "../unit/runtime/steps/isolated.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 30 }

onEveryBoard((newBoard) => {
  /** A handler on two workers, of which the first has the job and is stopped at its gate. */
  const twoWorkers = async (
    run: (job: Job, at: (what: string) => () => Promise<string>) => Promise<unknown>,
    options: { readonly onLost?: "fail"; readonly retry?: { readonly max: number } } = {},
  ) => {
    const ran: Array<string> = []
    const gates = new Map([["gate", Promise.withResolvers<void>()]])
    const served = (worker: string) =>
      actor("scene", {
        methods: {
          run: {
            ...options,
            run: (_input: unknown, job) =>
              run(job, (what) => async () => {
                ran.push(`${worker} ${what}`)
                await gates.get(what.split(" ")[0] ?? "")?.promise
                return what
              }),
          },
        },
      })
    const transport = newBoard()
    const first = await start([served("first")], { transport, grace: 20 })
    const job = await first.client.submit("scene.run")
    return {
      job: first.client.job(job.id),
      ran,
      gates,
      reaches: (what: string) => eventually(() => ran.includes(what), { message: what }),
      stop: async () => {
        const began = performance.now()
        const stopping = first.stop()
        gates.get("gate")?.resolve()
        await stopping
        const second = await start([served("second")], { transport })
        return { took: performance.now() - began, job: second.client.job(job.id) }
      },
    }
  }

  test("the step that runs ends there, and the next one begins on another worker", async () => {
    const { reaches, stop, ran } = await twoWorkers(async (job, at) => {
      await job.step("gate", at("gate"))
      await job.step("next", at("next"))
      return job.attempt
    })
    await reaches("first gate")
    const { took, job } = await stop()
    expect(await job.result(WAIT)).toBe(1)
    expect(ran).toEqual(["first gate", "second next"])
    expect(took).toBeLessThan(15_000)
    expect((await job.find()).attempts).toBe(1)
  })

  test("all steps that run at the same time end there", async () => {
    const late = Promise.withResolvers<void>()
    const { reaches, stop, ran, gates } = await twoWorkers(async (job, at) => {
      const both = [job.step("gate", at("gate")), job.step("late", at("late"))]
      await both[0]
      await job.step("next", at("next"))
      return Promise.all(both)
    })
    gates.set("late", late)
    await reaches("first gate")
    setTimeout(late.resolve, 500)
    const { job } = await stop()
    expect(await job.result(WAIT)).toEqual(["gate", "late"])
    expect(ran).toEqual(["first gate", "first late", "second next"])
  })

  test("the revert that runs ends there, and the next one begins on another worker", async () => {
    const { reaches, stop, ran } = await twoWorkers(async (job, at) => {
      await job.step("a", at("a"), { revert: at("revert a") })
      await job.step("b", at("b"), { revert: at("gate") })
      throw new Error("no")
    })
    await reaches("first gate")
    const { job } = await stop()
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed" })
    expect(ran).toEqual(["first a", "first b", "first gate", "second revert a"])
    expect(await job.find()).toMatchObject({ reverted: true, attempts: 1 })
  })

  test("a job that must not begin twice continues where it is", async () => {
    const { reaches, stop, ran, job } = await twoWorkers(
      async (job, at) => {
        await job.step("gate", at("gate"))
        await job.step("next", at("next"))
        return "whole"
      },
      { onLost: "fail" },
    )
    await reaches("first gate")
    const stopped = await stop()
    expect(await stopped.job.result(WAIT)).toBe("whole")
    expect(ran).toEqual(["first gate", "first next"])
    expect(job.id).toBe(stopped.job.id)
  })
})

test("a handler in a process of its own is handed back between two steps as well", async () => {
  using folder = temporaryFolder()
  const log = `${folder.path}/log`
  const transport = `sqlite:${folder.path}/board.db`
  const first = await start([isolated], { transport, grace: 20 })
  const { id } = await first.client.submit("isolated.steps", { input: { log } })
  const lines = (): ReadonlyArray<string> => {
    try {
      return readFileSync(log, "utf8").trim().split("\n")
    } catch {
      return []
    }
  }
  await eventually(() => lines().length === 1, { message: "the first step runs" })
  await first.stop()
  expect(lines()).toHaveLength(2)
  const second = await start([isolated], { transport })
  expect(await second.client.job(id).result(WAIT)).toBe(1)
  const [begun = "", ended = "", next = ""] = lines()
  expect([begun, ended, next].map((line) => line.split(" ")[0])).toEqual(["begins", "ends", "next"])
  expect(next.split(" ")[1]).not.toBe(begun.split(" ")[1])
})
