/** The redis transport under the conformance kit, against a real server behind a proxy. */
import { createClient } from "redis"
import { afterAll, beforeAll, test } from "vitest"
import { capabilitiesOf, plugin } from "../../../../plugins/redis/mod.ts"
import { registerPlugin } from "../../../kit/conformance.ts"
import type { DriverHarness } from "../../../kit/driver/harness.ts"
import { type RedisServer, startRedis } from "../../../support/servers/redis.ts"
import { faultsOf, type Proxy, startProxy } from "../nats/proxy.ts"

let server: RedisServer
let proxy: Proxy

beforeAll(async () => {
  server = await startRedis()
  proxy = await startProxy(() => server.port)
})

afterAll(async () => {
  await proxy?.stop()
  await server?.stop()
})

/** Sends commands to the server without the transport. */
const ask = async (...commands: ReadonlyArray<ReadonlyArray<string | Buffer>>): Promise<void> => {
  const client = createClient({ url: server.url })
  await client.connect()
  try {
    for (const command of commands) await client.sendCommand([...command])
  } finally {
    client.destroy()
  }
}

const harness: DriverHarness = {
  name: "redis",
  capabilities: capabilitiesOf("fsync"),
  connect: (options) => plugin.connect(new URL(`redis://127.0.0.1:${proxy.port}`), options),
  parts: ["query", "count", "browse", "broadcast", "watch"],
  slack: 2_500,
  requeues: true,
  ...faultsOf(
    () => server,
    () => proxy,
  ),
  clean: async (namespace) => {
    const remove = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end"
    await ask(["EVAL", remove, "0", `${namespace}:*`])
  },
  corrupt: async (queue, bytes, namespace) => {
    await ask(["LPUSH", `${namespace}:${queue}`, Buffer.from(bytes)])
  },
}

registerPlugin(test, harness, { spared: "omit" })
