/** A worker among those of Celery, on a server of Redis that refuses something. */
import { actor, serve } from "callboard"
import { createClient } from "redis"
import { afterAll, beforeAll, expect, test } from "vitest"
import { keep } from "../../../support/servers/keep.ts"
import { eventually } from "../../../support/servers/process.ts"
import { type RedisServer, startRedis } from "../../../support/servers/redis.ts"

let server: RedisServer

beforeAll(async () => {
  server = await startRedis()
}, 300_000)

afterAll(() => server?.stop())

test("a worker that may not listen to Celery's others does not start, and leaves no connection behind", async () => {
  const client = createClient({ url: server.url })
  await client.connect()
  keep({ [Symbol.asyncDispose]: async () => void (await client.close()) })
  await client.sendCommand(["ACL", "SETUSER", "deaf", "on", ">secret", "~*", "&*", "+@all", "-psubscribe"])
  const transport = server.url.replace("//", "//deaf:secret@")
  const options = { actors: [actor("quick", { methods: { run: () => 1 } })], signals: false, logLevel: "none" } as const
  const starting = serve({ ...options, transport, resultBackend: server.url })
  await expect(starting).rejects.toThrow("psubscribe")
  await eventually(async () => (await client.clientList()).length === 1, { deadline: 10_000 })
})
