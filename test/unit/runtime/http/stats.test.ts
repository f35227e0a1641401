/** The state of the board over HTTP: numbers, findings, tasks, and the pulse of the page. */
import { afterEach, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { start as startWorker } from "../../../support/services.ts"
import { finished, start, stopAll, work } from "./harness.ts"

afterEach(stopAll)

test("stats count jobs, and say what is wrong", async () => {
  const transport = `memory://${generateId()}`
  const running = await start({ transport, actors: [] })
  const { ask, submit } = running
  const worker = await startWorker([work(Promise.resolve())], { transport, name: "w1" })
  for (let n = 0; n < 5; n++) await finished(running, { task: "work.fail" })
  await finished(running, { task: "work.echo" })
  await submit({ task: "work.echo", delay: 3600 })
  await worker.stop()
  const { body } = await ask("GET", "/v1/stats?range=1h")
  expect(body).toMatchObject({
    counts: { scheduled: 1, succeeded: 1, failed: 5, queued: 0, dead: 0, retrying: 0 },
    more: [],
    ended: { succeeded: 1, failed: 5, cancelled: 0, expired: 0 },
    wait: { p50: expect.any(Number) },
    handlers: { busy: 0, all: 0 },
    workers: { alive: 0, lost: 0 },
    verdict: "work.fail fails. Everything else is fine.",
    findings: [{ code: "failing", severity: "bad", evidence: { task: "work.fail", failed: 5, attempts: 5 } }],
  })
  const tasks = await ask("GET", "/v1/tasks?sort=failed&limit=1")
  expect(tasks.body.tasks).toMatchObject([{ task: "work.fail", queue: "default", failed: 5, failRate: 1 }])
  const next = await ask("GET", `/v1/tasks?sort=failed&limit=1&cursor=${tasks.body.next}`)
  expect(next.body.tasks).toMatchObject([{ task: "work.echo", failed: 0 }])
  expect(next.body).not.toHaveProperty("next")
  expect((await ask("GET", "/v1/queues")).body.queues).toMatchObject([{ name: "default", workers: 0, handlers: 0 }])
})

test("the pulse tells of the jobs in sight, and is 304 while nothing changes", async () => {
  const running = await start()
  const { ask, submit, release } = running
  const { id } = (await submit({ task: "work.hold" })).body
  await expect.poll(async () => (await ask("GET", `/v1/jobs/${id}`)).body.progress?.fraction).toBe(0.25)
  const path = `/v1/pulse?ids=${id},gone`
  const settled = async () => {
    const one = await ask("GET", path)
    const other = await ask("GET", path, { headers: { "if-none-match": one.headers.get("etag") ?? "" } })
    return { one, other }
  }
  await expect.poll(async () => (await settled()).other.status).toBe(304)
  expect((await ask("GET", path)).body.jobs).toMatchObject([{ id, state: "started" }])
  release()
  await expect.poll(async () => (await ask("GET", path)).body.jobs[0].state).toBe("succeeded")
  expect((await ask("GET", "/v1/pulse")).body.jobs).toEqual([])
})

test("what cannot be asked for is refused by the name of the parameter", async () => {
  const { ask } = await start({ actors: [] })
  const refused: ReadonlyArray<readonly [path: string, field: string]> = [
    ["/v1/stats?range=-1h", "range"],
    ["/v1/tasks?range=30d", "range"],
    ["/v1/tasks?sort=name", "sort"],
    ["/v1/tasks?cursor=none", "cursor"],
    [`/v1/pulse?ids=${Array.from({ length: 101 }, (_, n) => n).join(",")}`, "ids"],
    ["/v1/pulse?ids=", "ids"],
    ["/v1/pulse?every=2s", "every"],
  ]
  for (const [path, field] of refused) {
    const { status, body } = await ask("GET", path)
    expect([path, status, body.field]).toEqual([path, 400, field])
  }
})

test.each([
  ["ahead of", 3_600_000],
  ["behind", -3_600_000],
])(
  "a board whose clock is an hour %s that of the process is told by its own, and nothing is wrong with it",
  async (_, ms) => {
    const running = await start({
      change: (transport) => {
        const now = async () => Date.now() + ms
        return { ...transport, store: Object.assign(Object.create(transport.store), { now }) }
      },
    })
    const { ask, submit, service } = running
    await finished(running, { task: "work.echo" })
    await service.client.pause("other")
    await submit({ task: "work.echo", queue: "other" })
    const { body } = await ask("GET", "/v1/stats")
    expect(Math.abs(Date.parse(body.at) - Date.now() - ms)).toBeLessThan(600_000)
    expect(body).toMatchObject({ counts: { succeeded: 1, queued: 1 }, workers: { alive: 1, lost: 0 }, findings: [] })
    const { queues } = (await ask("GET", "/v1/queues")).body
    for (const { oldestAge = 0 } of queues) expect(oldestAge).toBeGreaterThanOrEqual(0)
    expect((await ask("GET", "/v1/series?range=1h")).body.to > body.at.slice(0, 13)).toBe(true)
    expect((await ask("GET", "/v1/errors")).body.errors).toEqual([])
    expect((await ask("GET", "/v1/workers?lost=15m")).body.workers).toHaveLength(1)
  },
)
