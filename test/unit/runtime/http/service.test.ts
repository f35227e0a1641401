/** Queues, workers and limits over HTTP, with all that is known about them. */
import { actor } from "callboard"
import { afterEach, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { rateText } from "../../../../runtime/options/limit.ts"
import { started } from "../../../../runtime/protocol/record.ts"
import { SLOTS, slotName } from "../../../../runtime/statistics/entries.ts"
import { SLOT_MS } from "../../../../runtime/statistics/tally.ts"
import { start as startWorker } from "../../../support/services.ts"
import { start, stopAll, work } from "./harness.ts"

afterEach(stopAll)

test("a worker tells its version and load, and of each job how far it is and when it must end", async () => {
  const { ask, submit, release } = await start({ version: "2.14.3" })
  const { id } = (await submit({ task: "work.hold", timeLimit: 600 })).body
  const worker = async () => (await ask("GET", "/v1/workers")).body.workers[0]
  await expect.poll(async () => (await worker()).jobs[0]?.progress).toBe(0.25)
  const found = await worker()
  expect(found).toMatchObject({
    appVersion: "2.14.3",
    rss: expect.any(Number),
    cpu: expect.any(Number),
    loopLag: expect.any(Number),
    perMinute: expect.any(Number),
    jobs: [{ id, deadline: expect.any(String) }],
  })
  const [{ startedAt, deadline }] = found.jobs
  expect(Date.parse(deadline) - Date.parse(startedAt)).toBe(600_000)
  release()
})

test("a worker that is gone is told for as long as that is asked for", async () => {
  const transport = `memory://${generateId()}`
  const { ask } = await start({ transport, actors: [] })
  const worker = await startWorker([work(Promise.resolve())], { transport, name: "w1" })
  await worker.stop()
  expect((await ask("GET", "/v1/workers")).body.workers).toEqual([])
  expect((await ask("GET", "/v1/workers?lost=15m")).body.workers).toMatchObject([
    { name: "w1", state: "stopped", lost: { lastSeen: expect.any(String), goodbye: true } },
  ])
  for (const lost of ["2d", "soon", "1s"]) {
    const { status, body } = await ask("GET", `/v1/workers?lost=${lost}`)
    expect([lost, status, body.field]).toEqual([lost, 400, "lost"])
  }
})

test("a worker that was killed is told as lost as soon as its entry is over, with what it ran", async () => {
  const { ask, service, submit } = await start({ actors: [] })
  const { jobs, store } = service.client.connection
  const { id } = (await submit({ task: "work.hold" })).body
  const [delivery] = await jobs.take({ queues: ["default"], max: 1, wait: 0 }, AbortSignal.timeout(10_000))
  const record = (await jobs.find(id))?.record
  if (delivery === undefined || record === undefined) throw new Error("nothing was pulled")
  const { token, fence } = delivery
  const now = await store.now()
  await jobs.report([{ token, record: started(record, { fence, worker: "w1", at: now - 1_000 }) }])
  const startedAt = new Date(now - 60_000).toISOString()
  const seen = { worker: "w1", id: "1", host: "here", pid: 1, startedAt, queues: ["default"], concurrency: 1 }
  const slot = Math.floor(now / SLOT_MS)
  // It has written what it counted a moment before.
  await store.write([SLOTS.put(slotName(slot, "w1", "1"), { ...seen, since: now - 60_000, at: now - 100, cells: [] })])
  expect((await ask("GET", "/v1/workers?lost=15m")).body.workers).toMatchObject([
    {
      name: "w1",
      state: "lost",
      running: [id],
      jobs: [{ id, name: "work.hold", attempt: 1 }],
      lost: { goodbye: false },
    },
  ])
  // Whether it is to be worried about is not decided so soon: after an outage living workers are not there for a moment, too.
  expect((await ask("GET", "/v1/stats")).body).toMatchObject({ workers: { alive: 0, lost: 1 }, findings: [] })
})

test("a queue says who paused and limited it", async () => {
  const token = "0123456789abcdef"
  const { ask } = await start({ http: { port: 0, tokens: [{ token, scopes: ["admin"], name: "ann" }] } })
  await ask("POST", "/v1/queues/default/pause", { token })
  await ask("PATCH", "/v1/queues/default", { token, body: { maxInFlight: 5 } })
  await ask("POST", "/v1/jobs", { token, body: { task: "work.echo" } })
  const queues = async () => (await ask("GET", "/v1/queues", { token })).body.queues
  expect(await queues()).toMatchObject([
    { name: "default", paused: true, pausedBy: "ann", maxInFlight: 5, limitedBy: "ann", workers: 1 },
  ])
})

test("limits tell who holds permits, and what waits, by key", async () => {
  let end = (): void => undefined
  const held = new Promise<void>((resolve) => {
    end = resolve
  })
  const mailer = actor("mailer", {
    methods: {
      send: { limit: { concurrency: 1, key: "to", rate: "600/m" }, run: async (_: { to: string }) => held },
    },
  })
  const { ask, submit } = await start({ actors: [mailer], concurrency: 8 })
  for (const to of ["ann", "ann", "ann", "bob", "<b>\u202e/x"]) await submit({ task: "mailer.send", input: { to } })
  const keys = async () => (await ask("GET", "/v1/limits/mailer.send/keys")).body.keys
  await expect.poll(async () => (await keys()).length).toBe(3)
  await expect
    .poll(async () => (await keys()).map(({ running }: { readonly running: number }) => running))
    .toEqual([1, 1, 1])
  expect((await keys()).map(({ key }: { readonly key: string }) => key).sort()).toEqual(["<b>\u202e/x", "ann", "bob"])
  await expect
    .poll(async () => (await ask("GET", "/v1/limits")).body, { timeout: 5_000 })
    .toMatchObject({
      limits: [
        { task: "mailer.send", rate: "10/s", concurrency: 1, keyed: true, running: 3, held: 2, keys: { total: 3 } },
      ],
      more: false,
    })
  expect((await keys()).find(({ key }: { readonly key: string }) => key === "ann")).toMatchObject({ held: 2 })
  const page = await ask("GET", "/v1/limits/mailer.send/keys?limit=2")
  const rest = await ask("GET", `/v1/limits/mailer.send/keys?limit=2&cursor=${encodeURIComponent(page.body.next)}`)
  expect([page.body.keys.length, rest.body.keys.length, "next" in rest.body]).toEqual([2, 1, false])
  expect((await ask("GET", "/v1/limits/none/keys")).body.keys).toEqual([])
  end()
})

const byFunction = ({ to }: { readonly to: string }) => to
test.each([
  ["field", ["to"], "to"],
  ["function", ["to"], byFunction],
  ["field, of a method that hides all", true, "to"],
] as const)("a key that the method hides is shown to no token: a %s", async (_, redact, key) => {
  let end = (): void => undefined
  const held = new Promise<void>((resolve) => {
    end = resolve
  })
  const mailer = actor("mailer", {
    methods: { send: { redact, limit: { concurrency: 1, key }, run: async (_: { readonly to: string }) => held } },
  })
  const { ask, submit } = await start({ actors: [mailer], concurrency: 8 })
  const ids: Array<string> = []
  for (const to of ["s3cret", "s3cret", "other s3cret"]) {
    ids.push((await submit({ task: "mailer.send", input: { to } })).body.id)
  }
  const keys = async (query = "") => (await ask("GET", `/v1/limits/mailer.send/keys${query}`)).body
  await expect
    .poll(async () => (await keys()).keys, { timeout: 5_000 })
    .toMatchObject([
      { key: "***", running: 1, held: 0 },
      { key: "***", running: 1, held: 1 },
    ])
  expect(await keys("?limit=1")).toEqual({ keys: [expect.objectContaining({ key: "***" })] })
  for (const id of ids) {
    for (const path of [`/v1/jobs/${id}`, `/v1/jobs/${id}/why`]) {
      expect(JSON.stringify((await ask("GET", path)).body), path).not.toContain("s3cret")
    }
  }
  end()
})

test.each([
  [100, "10/s"],
  [6_000, "10/m"],
  [60_000, "1/m"],
  [1 / 3, "3000/s"],
  [86_400_000, "0.0416667/h"],
])("a rate of one in %s ms is %s", (intervalMs, text) => expect(rateText({ intervalMs })).toBe(text))
