/** The short form of deaths around waits. `npm run chaos -- waits` runs longer, on every board. */
import { actor, type Client, connect, serve } from "callboard"
import { describe, expect, test } from "vitest"
import { builtin } from "../../runtime/connection/builtin.ts"
import { runJobNow } from "../../runtime/jobs/commands/rerun.ts"
import { overriding } from "../../runtime/testing/observed-transport.ts"
import type { Driver, Plugin } from "../../runtime/transport/driver.ts"
import { sharedBoards } from "../e2e/boards.ts"
import { startNats } from "../support/servers/nats.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { runWaitDeaths, sendFromThree, sleepThroughOutage } from "./waits.ts"

test.each(sharedBoards)(
  "workers that are killed while jobs sleep, wait and call lose nothing, on $name",
  async (kind) => {
    await using board = await kind.open()
    const { sent, killed, problems } = await runWaitDeaths(board, { jobs: 40, kills: 6 })
    expect(problems).toEqual([])
    expect([killed, sent >= 80]).toEqual([6, true])
  },
  300_000,
)

test.each(sharedBoards)(
  "signals of three processes at the same moment come once, also with the same keys, on $name",
  async (kind) => {
    await using board = await kind.open()
    const twenty = Array.from({ length: 20 }, (_, at) => at)
    const wanted = ["a", "b", "c", "shared"].flatMap((name) => twenty.map((at) => `${name} ${at}`))
    expect(await sendFromThree(board)).toEqual(wanted.toSorted())
  },
  120_000,
)

test.each(sharedBoards.filter(({ name }) => name === "nats"))(
  "jobs that sleep while the broker is dead continue once, on $name",
  async (kind) => {
    await using board = await kind.open()
    expect(await sleepThroughOutage(board, { jobs: 100, seconds: 8, outageMs: 5_000 })).toEqual([])
  },
  120_000,
)

describe("on nats, a process that wakes a job and dies before it has posted the task", () => {
  /** Stores the record of a commit that posts a task, and then does nothing any more. */
  const dying = (died: () => void): Plugin => ({
    schemes: ["dying"],
    connect: async (url, options) => {
      const plugin = await builtin.nats()
      const driver = (await plugin.connect(new URL(url.href.replace(/^dying/, "nats")), options)) as Driver
      return overriding(driver, {
        commit: async (commits) => {
          if (commits.every(({ post = [] }) => post.length === 0)) return driver.commit(commits)
          await driver.commit(commits.map(({ post: _post, task: _task, ...stored }) => stored))
          died()
          return new Promise(() => undefined)
        },
      })
    },
  })

  const wakes: Readonly<Record<string, (client: Client, id: string) => Promise<unknown>>> = {
    signal: (client, id) => client.job(id).signal("go", "came"),
    "run now": (client, id) => runJobNow(client.connection, id),
    cancel: (client, id) => client.job(id).cancel(),
  }

  test("the job continues within half a minute", { timeout: 120_000 }, async ({ onTestFinished }) => {
    const nats = await startNats()
    onTestFinished(() => nats.stop())
    const waits = actor("waits", {
      methods: {
        run: async (_input: unknown, job) => {
          await job.step("book", () => 1, { revert: () => undefined })
          return (await job.waitFor("go", { timeout: "1 hour" })) ?? "over"
        },
        call: (_input: unknown, job) => job.call("call", "child", { queue: "elsewhere" }),
      },
    })
    const service = await start([waits], { transport: `${nats.url}?lease=2` }, onTestFinished)
    const woken = Object.entries(wakes).map(async ([name, wake]) => {
      const job = await service.client.submit("waits", { id: name.replaceAll(" ", "-") })
      await eventually(async () => (await job.find()).waits !== undefined)
      const death = Promise.withResolvers<void>()
      const transports = { dying: dying(death.resolve) }
      const client = await connect(`${nats.url.replace(/^nats/, "dying")}?lease=2`, { transports })
      wake(client, job.id).catch(() => undefined)
      await death.promise
      const began = performance.now()
      const turns = async () => (await job.find()).transitions.filter(({ state }) => state === "started").length
      await eventually(async () => (await turns()) > 1, { deadline: 60_000, message: `${name}: it continues` })
      expect(performance.now() - began, name).toBeLessThan(30_000)
      if (name === "signal") expect(await job.result({ timeout: 10 })).toBe("came")
      if (name === "cancel") expect(await job.outcome({ timeout: 10 })).toMatchObject({ state: "cancelled" })
    })
    const called = async () => {
      const job = await service.client.submit("waits.call")
      await eventually(async () => (await job.find()).waits !== undefined)
      const death = Promise.withResolvers<void>()
      const transports = { dying: dying(death.resolve) }
      const child = actor("child", { methods: { run: () => "done" } })
      const transport = `${nats.url.replace(/^nats/, "dying")}?lease=2`
      // It runs the called job, and dies as it wakes the caller.
      await serve({ transport, transports, actors: [child], queues: ["elsewhere"], signals: false, logLevel: "none" })
      await death.promise
      const began = performance.now()
      expect(await job.result({ timeout: 60 })).toBe("done")
      expect(performance.now() - began).toBeLessThan(30_000)
    }
    await Promise.all([...woken, called()])
  })
})
