/** What workers write about the tasks that their limits hold up. */
import { expect, test } from "vitest"
import { HeldTasksReport, readHeldTasks } from "../../../../runtime/cluster/held-tasks.ts"
import { makeLog } from "../../../../runtime/log/log.ts"
import { eventually } from "../../../support/servers/process.ts"
import { newStore } from "../worker/limits/stores.ts"

test("the numbers of all workers are summed up, change in time, and go with their worker", async () => {
  const store = await newStore()
  const report = (name: string) => new HeldTasksReport(store, makeLog({ level: "none" }), name, 60_000)
  const [first, second] = [report("1"), report("2")]
  const read = async () => Object.fromEntries(await readHeldTasks(store, 10))
  first.report(() => new Map([["limit/a/", 3]]))
  second.report(() => new Map(Object.entries({ "limit/a/": 4, "limit/b/": 1 })))
  await eventually(async () => (await read())["limit/a/"] === 7, { message: "both are written" })
  await first.end()
  expect(await read()).toEqual({ "limit/a/": 4, "limit/b/": 1 })
  await eventually(
    async () => {
      second.report(() => new Map())
      return Object.keys(await read()).length === 0
    },
    { message: "nothing waits any more" },
  )
})

test("of very many tenants, those with the most tasks are written", async () => {
  const store = await newStore()
  const report = new HeldTasksReport(store, makeLog({ level: "none" }), "1", 60_000)
  report.report(() => new Map(Array.from({ length: 1_500 }, (_, at) => [`limit/a/${at}`, at])))
  await eventually(async () => (await readHeldTasks(store, 10)).size === 1_000, { message: "it is written" })
  expect((await readHeldTasks(store, 10)).get("limit/a/1499")).toBe(1_499)
})
