/** A worker whose handler blocks is ended by its limit, and never by that of a handler that has ended. */
import { actor } from "callboard"
import { expect, onTestFinished, test, vi } from "vitest"
import { SharedHeartbeat } from "../../../../../runtime/worker/leases/lease-protocol.ts"
import { temporaryFolder } from "../../../../support/servers/process.ts"
import { start } from "../../../../support/services.ts"

test("the limit of a handler that ends while another task is prepared is taken back at once", async () => {
  const folder = temporaryFolder()
  onTestFinished(() => folder.remove())
  const told = vi.spyOn(SharedHeartbeat.prototype, "deadline")
  onTestFinished(() => void told.mockRestore())
  let endFirst = (): void => undefined
  let toldWhilePrepared: number | undefined
  const input = {
    "~standard": {
      version: 1 as const,
      vendor: "test",
      validate: async (value: unknown) => {
        endFirst()
        // The first handler's promise is read in later steps of this turn.
        await new Promise((resolve) => setImmediate(resolve))
        toldWhilePrepared = told.mock.lastCall?.[0]
        return { value }
      },
    },
  }
  const tasks = actor("tasks", {
    methods: {
      first: () => new Promise<void>((resolve) => (endFirst = resolve)),
      second: { input, run: () => "ran" },
    },
  })
  const { client } = await start([tasks], { transport: `sqlite:${folder.path}/board.db`, concurrency: 2 })
  const first = await client.submit("tasks.first", { timeLimit: 30 })
  await vi.waitFor(() => expect(told.mock.lastCall?.[0]).toBeLessThan(Number.POSITIVE_INFINITY), { timeout: 30_000 })
  const second = await client.submit("tasks.second", { timeLimit: 60, input: {} })
  expect(await second.result({ timeout: 30 })).toBe("ran")
  await first.result({ timeout: 30 })
  expect(toldWhilePrepared).toBe(Number.POSITIVE_INFINITY)
})
