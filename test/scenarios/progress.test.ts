/** What a handler says beside its progress never decides what becomes of its job, on every transport. */
import { actor } from "callboard"
import { expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 60 } as const

onEveryBoard((newBoard) => {
  test("a detail that no transport takes is cut, and says so; the job runs once and succeeds", async () => {
    const ending = Promise.withResolvers<void>()
    let runs = 0
    const large = actor("large", {
      methods: {
        run: async (_input: unknown, job) => {
          runs++
          job.progress(0.5, { rows: "r".repeat(40 * 1024 * 1024) })
          await ending.promise
          return "done"
        },
      },
    })
    const { client } = await start([large], { transport: newBoard() })
    const job = await client.submit("large")
    const detail = await eventually(async () => (await job.find()).progress?.detail, { message: "progress is told" })
    expect(detail).toMatch(/^\{"rows":"r+… \(cut: a detail can have 16384 characters, this one had 41943051\)$/)
    ending.resolve()
    expect(await job.outcome(WAIT)).toEqual({ state: "succeeded", result: "done" })
    expect(await job.find()).toMatchObject({ attempts: 1, progress: { fraction: 0.5, detail } })
    expect(runs).toBe(1)
  })

  test("a result that fits without the detail beside it is kept without it", async () => {
    let runs = 0
    let room = 0
    const full = actor("full", {
      methods: {
        run: (_input: unknown, job) => {
          runs++
          job.progress(1, "d".repeat(16_000))
          return "x".repeat(room)
        },
      },
    })
    const { client } = await start([full], { transport: newBoard() })
    room = client.connection.transport.capabilities.maxRecord - 8_000
    const job = await client.submit("full")
    expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect((await job.find()).progress).toEqual({ fraction: 1, at: expect.any(String) })
    expect(runs).toBe(1)
  })
})
