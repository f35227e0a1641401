/** A database that cannot grow: which calls are refused, with which message, and that they work again once there is room. */

import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { actor, serve } from "callboard"
import { afterAll, afterEach, expect, test } from "vitest"
import { plugin } from "../../../../plugins/sqlite/mod.ts"
import type { Driver } from "../../../../runtime/transport/driver.ts"
import { listingLog } from "../../../support/listing-log.ts"
import { eventually, temporaryFolder } from "../../../support/servers/process.ts"
import { find, posted, take } from "./helpers.ts"

const folder = temporaryFolder()
afterAll(() => folder.remove())

const opened: Array<() => unknown> = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

let files = 0

/** A database of the application, whose size can be limited to what it has now: SQLite then reports a full disk. */
const database = () => {
  const handle = new DatabaseSync(join(folder.path, `${++files}.db`))
  handle.exec("PRAGMA journal_mode = WAL")
  opened.push(() => handle.close())
  return {
    handle,
    fill: () => {
      handle.exec("PRAGMA max_page_count = 1")
      // Free pages inside the file would be room as well.
      handle.exec("VACUUM")
    },
    free: () => handle.exec("PRAGMA max_page_count = 1000000"),
  }
}

const adopt = async (handle: DatabaseSync): Promise<Driver> => {
  const driver = await plugin.adopt?.(handle, {
    namespace: "callboard",
    lease: 30_000,
    name: "test",
    timeout: 1_000,
  })
  if (driver === undefined) throw new Error("not adopted")
  opened.push(() => driver.close())
  return driver
}

const large = (id: string) => posted({ id, queue: "q", body: new Uint8Array(100_000) })

test("refuses what is published, with what to do, and can be read; takes it again by itself when there is room", async () => {
  const { handle, fill, free } = database()
  const driver = await adopt(handle)
  const told: Array<string> = []
  driver.onStatus((status, why) => told.push(why === undefined ? status : `${status}: ${why.message}`))
  expect(await driver.publish([large("before")])).toEqual([{ status: "stored" }])
  fill()
  const full = {
    reason: "unavailable",
    outcome: "none",
    message: expect.stringMatching(/the disk is full: free some space/),
  }
  for (const id of ["a", "b", "c"])
    expect(await driver.publish([large(id)])).toEqual([{ status: "failed", error: expect.objectContaining(full) }])
  await expect(take(driver)).rejects.toMatchObject(full)
  expect((await find(driver, "before"))?.task).toBeDefined()
  expect(await find(driver, "a")).toBeUndefined()
  await eventually(() => told.length >= 1)
  expect(told[0]).toMatch(/^disconnected: .*the disk is full/)
  free()
  await eventually(() => told.at(-1) === "connected", { message: "it is within reach again" })
  expect(await driver.publish([large("a")])).toEqual([{ status: "stored" }])
  expect(await take(driver)).toHaveLength(2)
})

test("a worker on it lives on, tells of it now and then, however often it is asked, and loses nothing", {
  timeout: 240_000,
}, async () => {
  const { handle, fill, free } = database()
  const { lines, log } = listingLog()
  const ran: Array<string> = []
  const gate = Promise.withResolvers<void>()
  const steps = actor("steps", {
    methods: {
      run: (_input: unknown, job) => {
        ran.push(job.id)
        return gate.promise
      },
    },
  })
  const service = await serve({ transport: handle, actors: [steps], signals: false, log, concurrency: 2, prefetch: 1 })
  opened.push(() => service.stop({ now: true }))
  await service.ready()
  const { client } = service
  const jobs = await Promise.all(Array.from({ length: 6 }, () => client.submit("steps.run")))
  await eventually(() => ran.length === 2, { message: "two run" })
  fill()
  let refused = 0
  const insist = () =>
    client.submit("steps.run", { input: "x".repeat(100_000) }).then(
      () => undefined,
      () => {
        refused++
      },
    )
  await eventually(
    async () => {
      await insist()
      // A small write that succeeds in between, such as a heartbeat, makes the next refusal a new outage: their number
      // depends on chance, and on how many refusals a busy machine has in the meantime.
      const isSeldom = lines.length < refused / 10
      return refused > 200 && isSeldom && lines.some((line) => /the disk is full.*Trying again in [3-9]\./.test(line))
    },
    { deadline: 120_000, every: 5, message: "it is tried more and more seldom, and few lines tell of it" },
  )
  console.log(`${refused} submissions were refused, and ${lines.length} lines tell of it`)
  gate.resolve()
  free()
  for (const job of jobs) expect(await job.outcome({ timeout: 60 })).toMatchObject({ state: "succeeded" })
  expect(ran.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted())
  expect(await (await client.submit("steps.run")).outcome({ timeout: 60 })).toMatchObject({ state: "succeeded" })
})
