import { expect, test } from "vitest"
import { CANCEL_TOPIC, type Connection } from "../../../../../runtime/connection/connection.ts"
import { deleteQueue, purgeQueue } from "../../../../../runtime/jobs/commands/purge.ts"
import { eventually } from "../../../../support/servers/process.ts"
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

test("a worker that has just begun a purged job is told to let its handler heed the signal", async () => {
  const client = await start()
  const { id } = await client.submit("echo", { queue: "purged" })
  const news: Array<unknown> = []
  const listener = (payload: Uint8Array) => news.push(JSON.parse(new TextDecoder().decode(payload)))
  await client.connection.broadcast.listen(CANCEL_TOPIC, listener, new AbortController().signal)
  await purgeQueue(client.connection, "purged")
  await eventually(() => news.length > 0, { message: "the workers are told" })
  expect(news).toEqual([{ id, run: 1, terminate: false }])
})
