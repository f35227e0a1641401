/** A nats-server whose store is full of tasks, and the bound of the backlog that leaves room to work them off. */
import { actor, type Client, connect } from "callboard"
import { expect, test } from "vitest"
import { keep } from "../support/servers/keep.ts"
import { startNats } from "../support/servers/nats.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"

const input = { text: "x".repeat(100_000) }

const slow = actor("backlog", {
  methods: {
    run: { retry: { max: 1, backoff: { base: 0.01, max: 0.01 } }, run: (_: unknown, job) => tried(job.retries) },
  },
})

/** Fails in the first attempt, so that each job has a follow-up, its next attempt. The bound does not refuse follow-ups. */
const tried = (retries: number): number => {
  if (retries === 0) throw new Error("once more")
  return retries
}

/** Submits jobs until one is refused. Resolves with the ids of the accepted jobs, and the refusal. */
const filled = async (client: Client, queue: string) => {
  const ids: Array<string> = []
  for (;;) {
    try {
      ids.push((await client.submit("backlog.run", { queue, input })).id)
    } catch (refusal) {
      return { ids, refusal }
    }
  }
}

test("a backlog at its bound is refused, and can be purged, cancelled and worked off", {
  timeout: 120_000,
}, async () => {
  const server = keep(await startNats({ limits: "max_file: 40MB" }))
  // The bound is stored with the streams, so it also holds for clients whose URL does not name it.
  keep(await connect(`${server.url}?maxBacklog=8MB`))
  const client = keep(await connect(server.url))
  const first = await filled(client, "first")
  expect(first.refusal).toMatchObject({
    code: "transport-unavailable",
    details: { outcome: "none" },
    message: expect.stringMatching(
      /the queues hold \d+ bytes of tasks, but \?maxBacklog allows 8000000: .*purge a queue/,
    ),
  })
  expect(first.ids.length).toBeGreaterThan(20)
  const [cancelled = "", ...others] = first.ids
  await client.job(cancelled).cancel()
  expect((await client.job(cancelled).find()).state).toBe("cancelled")
  expect(await client.purge("first")).toBe(others.length)
  const second = await eventually(
    async () => {
      const { ids } = await filled(client, "second")
      return ids.length > 20 && ids
    },
    { message: "there is room again", every: 200 },
  )
  const service = await start([slow], { transport: server.url, queues: ["second"], concurrency: 4 })
  expect(service.worker).toBeDefined()
  for (const id of second) expect(await client.job(id).result({ timeout: 60 })).toBe(1)
  // A client measures the backlog at most every half second.
  const last = await eventually(() => client.submit("backlog.run", { queue: "second", input }), { every: 100 })
  expect(last).toMatchObject({ receipt: { state: "queued" } })
})

test("without a bound, a store that is full is emptied once its limit is raised", { timeout: 120_000 }, async () => {
  let limits = "max_file: 10MB"
  const server = keep(
    await startNats({
      get limits() {
        return limits
      },
    }),
  )
  const client = keep(await connect(server.url))
  const { ids, refusal } = await filled(client, "first")
  expect(String(refusal)).toMatch(/insufficient resources .*raise its limits/)
  limits = "max_file: 40MB"
  await server.restart()
  const isPurged = async () => {
    await client.purge("first")
    return (await client.queues()).every(({ depth }) => depth === 0)
  }
  await eventually(isPurged, { message: "it is purged", every: 200 })
  const [id = ""] = ids
  expect((await client.job(id).find()).state).toBe("cancelled")
  expect(await client.submit("backlog.run", { queue: "first", input })).toMatchObject({ receipt: { state: "queued" } })
})
