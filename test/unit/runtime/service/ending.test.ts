/** How a worker ends that was to end by itself, and what its last line says. */
import { type ActorDefinition, actor, type ServeOptions } from "callboard"
import { expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { listingLog } from "../../../support/listing-log.ts"
import { start } from "../../../support/services.ts"

const quick = actor("quick", { methods: { run: () => 1 } })

/** Runs a worker `w1` to its end on a board that was prepared. Returns its last line before it stops. */
const endOf = async (
  prepare: (client: Awaited<ReturnType<typeof start>>["client"]) => Promise<unknown>,
  options: ServeOptions,
  actors: ReadonlyArray<ActorDefinition> = [quick],
): Promise<{ readonly said: string | undefined; readonly waiting: number }> => {
  const transport = `memory://${generateId()}`
  const { client } = await start([], { transport })
  await prepare(client)
  const { lines, log } = listingLog()
  await (await start(actors, { transport, name: "w1", log, ...options })).stopped
  const waiting = (await client.jobs({ states: ["queued"] })).jobs.length
  return { said: lines.find((line) => line.startsWith("w1 ")), waiting }
}

test.each([
  { burst: true, reason: "burst" },
  { maxIdle: 0.1, reason: "max-idle" },
])("a worker that ends by $reason names the queues that it has left out, and why", async ({ reason, ...options }) => {
  expect(
    await endOf(
      async (client) => {
        await client.submit("quick", { queue: "mail" })
        await client.suspend("w1")
      },
      { ...options, queues: ["mail"] },
    ),
  ).toEqual({ said: `w1 is stopping (${reason}), but tasks may remain in mail (the worker is suspended)`, waiting: 1 })
  expect(
    await endOf(
      async (client) => {
        await client.submitMany([
          { task: "quick", queue: "mail" },
          { task: "quick", queue: "news" },
        ])
        await client.pause("news")
      },
      { ...options, queues: ["mail", "news"] },
    ),
  ).toEqual({ said: `w1 is stopping (${reason}), but tasks may remain in news (paused)`, waiting: 1 })
  expect(await endOf((client) => client.submit("quick"), options)).toEqual({
    said: `w1 has no more work (${reason})`,
    waiting: 0,
  })
})
