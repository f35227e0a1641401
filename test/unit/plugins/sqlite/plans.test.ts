/** Lists read rows by an index, in its order: a page that sorts all jobs first would cost more with every job. */
import { constants, DatabaseSync } from "node:sqlite"
import { connect } from "callboard"
import { expect, onTestFinished, test, vi } from "vitest"
import { plugin } from "../../../../plugins/sqlite/mod.ts"
import { STATES } from "../../../../runtime/protocol/state.ts"
import { temporaryFolder } from "../../../support/servers/process.ts"
import { growing, readsOf } from "../bounded-lists.ts"
import { find, outcome, posted, publish, take } from "./helpers.ts"

test("no list and no count sorts what it reads", async () => {
  using folder = temporaryFolder()
  const file = `${folder.path}/board.db`
  const prepare = vi.spyOn(DatabaseSync.prototype, "prepare")
  await using client = await connect(`sqlite:${file}`)
  await client.submit("work.fine", { rootId: "root", parentId: "parent", group: "group", queue: "q" })
  prepare.mockClear()
  const filters = [
    {},
    { task: "work.fine" },
    { queue: "q" },
    { rootId: "root" },
    { parentId: "parent" },
    { group: "group" },
    { error: "f3a91c07" },
    { states: ["failed"] as const, task: "work.fine" },
    { since: new Date(0), until: new Date() },
    { idEnds: "f3a91c07" },
    ...STATES.flatMap((state) => [{ states: [state] }, { states: [state], queue: "q" }]),
  ]
  for (const filter of filters) {
    await client.jobs(filter)
    await client.count(filter)
  }
  const asked = [...new Set(prepare.mock.calls.map(([sql]) => sql))].filter((sql) => sql.includes("callboard_job"))
  prepare.mockRestore()
  expect(asked.length).toBeGreaterThan(10)
  using database = new DatabaseSync(file)
  const sorting = asked.filter((sql) =>
    database
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all()
      .some(({ detail }) => /TEMP B-TREE|^SCAN callboard/.test(String(detail))),
  )
  expect(sorting).toEqual([])
})

test("a statement is prepared once, and not again for the values of each call", async () => {
  using database = new DatabaseSync(":memory:")
  const asked: Array<string | null> = []
  // SQLite asks for each thing that a statement does while it prepares the statement.
  database.setAuthorizer((action, what) => {
    // How long a lock is waited for is set by a statement of its own, and more often on a busy machine.
    if (action !== constants.SQLITE_PRAGMA) asked.push(what)
    return constants.SQLITE_OK
  })
  const driver = await plugin.adopt?.(database, { namespace: "test", lease: 30_000, name: "test", timeout: 5_000 })
  if (driver === undefined) throw new Error("not adopted")
  onTestFinished(() => driver.close())
  const { store } = driver
  const round = async (id: string): Promise<void> => {
    await publish(driver, id, `${id}-later`)
    await driver.commit((await take(driver)).map((delivery) => outcome(delivery)))
    await find(driver, id)
    await driver.read([id], "record")
    await driver.waiting?.({ queue: "q" }, 10)
    await driver.queues?.()
    await store.write([{ key: id, value: new Uint8Array(1), ttl: 60_000 }])
    await store.get([id])
    await store.list({ prefix: "", limit: 10 })
    await driver.query?.({ states: ["queued"], limit: 10 })
  }
  await round("first")
  expect(asked.length).toBeGreaterThan(0)
  asked.length = 0
  await round("second")
  expect(asked).toEqual([])
})

test("few jobs that wait are found behind many that have ended, page by page, and so are many", async () => {
  using folder = temporaryFolder()
  const driver = await plugin.connect(new URL(`sqlite:${folder.path}/board.db`), {
    namespace: "test",
    lease: 30_000,
    name: "test",
    timeout: 5_000,
  })
  onTestFinished(() => driver.close())
  const idsOf = (prefix: string, count: number) => Array.from({ length: count }, (_, at) => `${prefix}${at}`)
  const page = async (after?: string) =>
    driver.query?.({ states: ["queued", "scheduled"], queue: "q", limit: 2, ...(after === undefined ? {} : { after }) })
  await publish(driver, ...idsOf("few", 3))
  await driver.publish([posted({ id: "later", queue: "q", due: Date.now() + 60_000 })])
  await driver.publish([posted({ id: "elsewhere", queue: "other" })])
  const first = await page()
  expect(first?.jobs.map(({ id }) => id)).toEqual(["later", "few2"])
  expect((await page(first?.next))?.jobs.map(({ id }) => id)).toEqual(["few1", "few0"])
  await publish(driver, ...idsOf("many", 600))
  const top = await page()
  expect(top?.jobs.map(({ id }) => id)).toEqual(["many599", "many598"])
  expect((await page(top?.next))?.jobs.map(({ id }) => id)).toEqual(["many597", "many596"])
})

test("a list reads as much with 20,000 jobs as with 1,000", async () => {
  using folder = temporaryFolder()
  const connecting = (namespace: string) =>
    plugin.connect(new URL(`sqlite:${folder.path}/board.db?sync=normal`), {
      namespace,
      lease: 30_000,
      name: "test",
      timeout: 5_000,
    })
  expect(growing(await readsOf(connecting))).toEqual([])
  // Counting ends where there are more than are asked for.
  const driver = await connecting("lists-20000")
  expect(await driver.count?.("cancelled", undefined, 10)).toBe(11)
  expect(await driver.count?.("failed", "rare", 100)).toBe(50)
  await driver.close()
})
