import { expect, test } from "vitest"
import type { Client } from "../../../../../runtime/client/client.ts"
import { cancelJob } from "../../../../../runtime/jobs/commands/cancel.ts"
import { rerunJob, runJobNow } from "../../../../../runtime/jobs/commands/rerun.ts"
import { start, stored } from "./board.ts"

/** Calls a function between the reading of a list and the decisions about its jobs. */
const afterLists = ({ connection: { jobs } }: Client, work: () => Promise<unknown>): void => {
  const list = jobs.list.bind(jobs)
  Object.assign(jobs, {
    list: async (...given: Parameters<typeof list>) => {
      const page = await list(...given)
      await work()
      return page
    },
  })
}

test("a job that comes into another state after the list was read is left as it is", async () => {
  const client = await start()
  const { id } = await client.submit("echo", { delay: "1 hour" })
  afterLists(client, () => runJobNow(client.connection, id))
  const report = await client.cancelAll({ states: ["scheduled"] })
  expect(report).toMatchObject({ changed: 0, ids: [], refused: [{ id, code: "matches-differ" }] })
  expect(await stored(client, id)).toMatchObject({ state: "queued" })
})

test("a job that has ended anew after the list was read is not run again: `until` leaves it out", async () => {
  const client = await start()
  const { id } = await client.submit("echo")
  const cancelled = await cancelJob(client.connection, id)
  const until = new Date((cancelled.timeline.at(-1)?.at ?? 0) + 1)
  afterLists(client, async () => {
    await rerunJob(client.connection, id)
    while (new Date() < until) await Promise.resolve()
    await cancelJob(client.connection, id)
  })
  const report = await client.retryAll({ states: ["cancelled"], until })
  expect(report).toMatchObject({ changed: 0, refused: [{ id, code: "matches-differ" }] })
  expect(await stored(client, id)).toMatchObject({ state: "cancelled", run: 2 })
})
