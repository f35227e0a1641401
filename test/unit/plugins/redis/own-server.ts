/** A Redis of a test file's own, and commands that go past the transport. */
import { createClient } from "redis"
import { afterAll, beforeAll } from "vitest"
import { type RedisServer, startRedis } from "../../../support/servers/redis.ts"

/** Starts a server before the tests of the file that calls this, and ends it after them. */
export const ownServer = () => {
  let server: RedisServer
  let client: ReturnType<typeof clientOf>
  const clientOf = () => createClient({ url: server.url })
  beforeAll(async () => {
    server = await startRedis()
    client = clientOf()
    await client.connect()
  })
  afterAll(async () => {
    client?.destroy()
    await server?.stop()
  })
  const ask = (...command: ReadonlyArray<string>): Promise<unknown> => client.sendCommand([...command])
  return {
    get server() {
      return server
    },
    ask,
    texts: async (...command: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
      const found = await ask(...command)
      return Array.isArray(found) ? found.map(String) : []
    },
  }
}
