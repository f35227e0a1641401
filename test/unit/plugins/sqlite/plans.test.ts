/** Lists read rows by an index, in its order: a page that sorts all jobs first would cost more with every job. */
import { DatabaseSync } from "node:sqlite"
import { connect } from "callboard"
import { expect, test, vi } from "vitest"
import { STATES } from "../../../../runtime/protocol/state.ts"
import { temporaryFolder } from "../../../support/servers/process.ts"

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
