/** Series over HTTP: what workers kept while they ran jobs. */

import { afterEach, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { start as startWorker } from "../../../support/services.ts"
import { finished, start, stopAll, work } from "./harness.ts"

afterEach(stopAll)

/** Jobs that have run at a worker which has stopped since, and a service that tells of them. */
const told = async () => {
  const transport = `memory://${generateId()}`
  const running = await start({ transport, actors: [] })
  const worker = await startWorker([work(Promise.resolve())], { transport, version: "2.14.3", name: "w1" })
  for (const task of ["work.echo", "work.echo", "work.fail"]) await finished(running, { task })
  await worker.stop()
  return running
}

const last = (points: ReadonlyArray<number | null>): number | null | undefined =>
  points.findLast((point) => point !== null)

test("tell how jobs ended, by outcome, task, queue and version", async () => {
  const { ask } = await told()
  const totals = async (query: string) => {
    const { status, body } = await ask("GET", `/v1/series?${query}`)
    expect(status).toBe(200)
    const all: ReadonlyArray<{ readonly key: string; readonly points: ReadonlyArray<number | null> }> = body.series
    return Object.fromEntries(all.map(({ key, points }) => [key, points.reduce<number>((sum, n) => sum + (n ?? 0), 0)]))
  }
  expect(await totals("of=ended&by=outcome")).toEqual({ ok: 2, failed: 1, other: 0 })
  expect(await totals("of=ended&by=task")).toEqual({ "work.echo": 2, "work.fail": 1 })
  expect(await totals("of=started&by=queue")).toEqual({ default: 3 })
  expect(await totals("of=ended&by=version")).toEqual({ "2.14.3": 3 })
  expect(await totals("of=submitted&task=work.echo")).toEqual({ submitted: 2 })
  expect(await totals("of=ended&task=work")).toEqual({ ended: 3 })
  expect(await totals("of=ended&queue=elsewhere")).toEqual({})
})

test("tell percentiles in seconds, and when a version was first seen", async () => {
  const { ask } = await told()
  const { body } = await ask("GET", "/v1/series?of=run")
  expect(body.step).toBe(60)
  expect(body.series[0].points.p95.length).toBeLessThanOrEqual(120)
  expect(last(body.series[0].points.p95)).toBeLessThan(5)
  expect(body.marks).toEqual([{ at: expect.any(String), kind: "version", text: "2.14.3" }])
  expect((await ask("GET", "/v1/series?range=24h")).body.step).toBe(1_200)
  const day = await ask("GET", `/v1/series?of=wait&from=${new Date(Date.now() - 86_400_000).toISOString()}`)
  expect(day.body.step).toBe(1_200)
  expect(day.body.series[0].points.p50.length).toBeLessThanOrEqual(120)
})

test("refuse what they cannot tell, by the name of the parameter", async () => {
  const { ask } = await start({ actors: [] })
  const refused: ReadonlyArray<readonly [query: string, field: string]> = [
    ["of=nothing", "of"],
    ["by=tenant", "by"],
    ["of=wait&by=outcome", "by"],
    ["of=waiting&by=task", "by"],
    ["from=yesterday", "from"],
    ["from=2020-01-01T00:00:00Z", "from"],
    ["to=1970-01-01T00:00:00Z", "from"],
    ["range=2d", "range"],
    ["range=1h&from=2026-01-01T00:00:00Z", "range"],
    ["step=1", "step"],
    ["step=soon", "step"],
    ["step=36500d", "step"],
    ["task=", "task"],
    ["tenant=a", "tenant"],
  ]
  for (const [query, field] of refused) {
    const { status, body } = await ask("GET", `/v1/series?${query}`)
    expect([query, status, body.field]).toEqual([query, 400, field])
  }
})
