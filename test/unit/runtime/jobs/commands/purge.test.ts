import { expect, test } from "vitest"
import type { Connection } from "../../../../../runtime/connection/connection.ts"
import { deleteQueue, purgeQueue } from "../../../../../runtime/jobs/commands/purge.ts"
import { start } from "./board.ts"

/** A connection to a transport that cannot list the tasks that wait. */
const withoutList = (connection: Connection): Connection => {
  const { waiting: _waiting, ...jobs } = connection.jobs
  return { ...connection, jobs }
}

test("a queue is not left paused where it cannot be emptied", async () => {
  const client = await start()
  await client.submit("echo", { queue: "kept" })
  const connection = withoutList(client.connection)
  for (const empty of [deleteQueue, purgeQueue])
    await expect(empty(connection, "kept")).rejects.toMatchObject({ code: "unsupported" })
  expect(await client.paused()).toEqual([])
})
