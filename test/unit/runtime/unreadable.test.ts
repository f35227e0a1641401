/** A job whose stored record cannot be read: it says so, and can be deleted. On real servers, and over HTTP. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { connect, serve } from "callboard"
import { afterAll, beforeAll, expect, test } from "vitest"
import { plugin as memory } from "../../../plugins/memory/mod.ts"
import { plugin as nats } from "../../../plugins/nats/mod.ts"
import { plugin as postgres } from "../../../plugins/postgres/mod.ts"
import { plugin as sqlite } from "../../../plugins/sqlite/mod.ts"
import { generateId } from "../../../runtime/id.ts"
import type { Plugin } from "../../../runtime/transport/mod.ts"
import { keep } from "../../support/servers/keep.ts"
import { startNats } from "../../support/servers/nats.ts"
import { startPostgres } from "../../support/servers/postgres.ts"

const stops: Array<() => Promise<unknown>> = []
const urls: Record<string, string> = { memory: `memory://${generateId()}` }
const plugins: Readonly<Record<string, Plugin>> = { memory, sqlite, nats, postgres }

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), "callboard-unreadable-"))
  stops.push(() => rm(folder, { recursive: true, force: true }))
  urls["sqlite"] = `sqlite:${join(folder, "board.db")}`
  const [one, two] = await Promise.all([startNats(), startPostgres()])
  Object.assign(urls, { nats: one.url, postgres: two.url })
  stops.push(
    () => one.stop(),
    () => two.stop(),
  )
}, 60_000)
afterAll(() => Promise.all(stops.map((stop) => stop())))

/** Stores a record that nothing can read, in place of that of a job that waits or over nothing. */
const garble = async (
  name: string,
  url: string,
  namespace: string,
  id: string,
  text = '{"v":2,"id":',
): Promise<void> => {
  const driver = await plugins[name]?.connect(new URL(url), { namespace, lease: 30_000, name: "test", timeout: 5_000 })
  if (driver === undefined) throw new Error(`there is no plugin ${name}`)
  try {
    const [known] = await driver.read([id], "all")
    const index = { state: "failed", queue: "default", task: "text", at: Date.now() } as const
    const bytes = new TextEncoder().encode(text)
    expect(await driver.commit([{ id, record: { expect: known?.revision ?? "", bytes, index } }])).toMatchObject([
      { status: "committed" },
    ])
  } finally {
    await driver.close()
  }
}

test.each(Object.keys(plugins))(
  "on %s it says what is wrong, is deleted, and its id can be used again",
  async (name) => {
    const url = urls[name] ?? ""
    const namespace = `u${generateId().slice(-8)}`
    const client = keep(await connect(url, { namespace }))
    const waiting = await client.submit("text.count")
    for (const id of [waiting.id, "nothing-before"]) {
      await garble(name, url, namespace, id)
      const unreadable = { reason: "internal", message: expect.stringMatching(`${id} cannot be read: delete the job`) }
      await expect(client.job(id).find()).rejects.toMatchObject(unreadable)
      await expect(client.job(id).cancel()).rejects.toMatchObject(unreadable)
      await client.job(id).delete()
      await expect(client.job(id).find()).rejects.toMatchObject({ code: "gone" })
    }
    // Its task is gone as well.
    expect(await client.queues()).toMatchObject([{ name: "default", depth: 0 }])
    const again = await client.submit("text.count", { id: "nothing-before" })
    expect(await again.find()).toMatchObject({ state: "queued", run: 2 })
  },
)

test("with its dependents it is deleted, too; of many jobs it holds up none", async () => {
  const [url = "", namespace] = [urls["memory"], `u${generateId().slice(-8)}`]
  const client = keep(await connect(url, { namespace }))
  const parent = await client.submit("text.count")
  const child = await client.submit("text.count", { after: parent.id })
  const other = await client.submit("text.count")
  await garble("memory", url, namespace, parent.id)
  expect(await client.cancelAll({ ids: [parent.id, other.id] })).toMatchObject({
    changed: 1,
    ids: [other.id],
    refused: [{ id: parent.id, code: "internal", detail: expect.stringContaining("cannot be read") }],
  })
  await parent.delete({ dependents: true })
  for (const job of [parent, child]) await expect(job.find()).rejects.toMatchObject({ code: "gone" })
})

test("one of a newer version stays, since another Callboard can read it", async () => {
  const [url = "", namespace] = [urls["memory"], `u${generateId().slice(-8)}`]
  const client = keep(await connect(url, { namespace }))
  await garble("memory", url, namespace, "newer", '{"v":99,"id":"newer"}')
  await expect(client.job("newer").delete()).rejects.toMatchObject({ reason: "unsupported" })
})

test("over HTTP it says what is wrong, and is deleted", async () => {
  const [transport = "", namespace] = [urls["memory"], `u${generateId().slice(-8)}`]
  const http = { port: 0 }
  const service = keep(await serve({ transport, namespace, actors: [], http, signals: false, logLevel: "none" }))
  await garble("memory", transport, namespace, "garbled")
  const at = `${service.url}/v1/jobs/garbled`
  const told = await fetch(at)
  expect([told.status, await told.json()]).toMatchObject([
    500,
    { code: "internal", id: "garbled", detail: expect.stringContaining("cannot be read: delete the job") },
  ])
  expect((await fetch(at, { method: "DELETE" })).status).toBe(204)
  expect((await fetch(at)).status).toBe(410)
})
