/** The clock of the machine is set, for the worker and its transport alike. */
import { actor, serve } from "callboard"
import { expect, onTestFinished, test, vi } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { eventually, temporaryFolder } from "../../../support/servers/process.ts"

const HOUR = 3_600_000

const systemNow = Date.now

test.each(["memory", "sqlite"])("%s: an hour back puts nothing off, and nothing expires by it", async (scheme) => {
  const folder = temporaryFolder()
  onTestFinished(() => folder.remove())
  let shift = 0
  vi.spyOn(Date, "now").mockImplementation(() => systemNow() + shift)
  onTestFinished(() => void vi.restoreAllMocks())
  const flaky = actor("flaky", {
    methods: {
      run: {
        run: (_input, job) => {
          if (job.attempt === 1) throw new Error("once more")
        },
        retry: { max: 1, interval: [1] },
      },
      plain: () => null,
    },
  })
  const service = await serve({
    actors: [flaky],
    transport: scheme === "memory" ? `memory://${generateId()}` : `sqlite:${folder.path}/board.db?lease=2`,
    logLevel: "none",
  })
  onTestFinished(async () => void (await service.stop({ now: true })))
  await service.ready()
  const { client } = service

  // It waits for its second attempt, which was stored by the clock as it was.
  const before = await client.submit("flaky")
  await eventually(async () => (await before.find()).retries === 1, { every: 5, message: "its retry is stored" })
  shift = -HOUR
  const after = [
    await client.submit("flaky"),
    await client.submit("flaky.plain", { expires: 30 }),
    await client.submit("flaky.plain", { delay: 1 }),
  ]
  // Due soon after the time that the clock showed before, and told so after that.
  const later = await client.submit("flaky.plain", { delay: 3_602 })
  for (const job of after) await job.result({ timeout: 5 })
  // Maintenance finds it within five seconds.
  await before.result({ timeout: 15 })
  expect((await later.find()).state).toBe("scheduled")
})
