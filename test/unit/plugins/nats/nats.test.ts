/** The driver of nats under the conformance kit, against a real server behind a proxy. */
import { connect } from "nats"
import { afterAll, beforeAll, test } from "vitest"
import { capabilitiesOf, Names, plugin } from "../../../../plugins/nats/mod.ts"
import { Bands } from "../../../../plugins/nats/streams/names.ts"
import { registerPlugin } from "../../../kit/conformance.ts"
import type { Harness } from "../../../kit/mod.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { faultsOf, type Proxy, startProxy } from "./proxy.ts"

let server: NatsServer
let proxy: Proxy

beforeAll(async () => {
  server = await startNats()
  proxy = await startProxy(() => server.port)
})

afterAll(async () => {
  await proxy?.stop()
  await server?.stop()
})

const harness: Harness = {
  name: "nats",
  slack: 5_000,
  capabilities: capabilitiesOf({ replicas: 1, storage: "file", bands: new Bands(3) }, 1024 * 1024),
  connect: (options) => plugin.connect(new URL(`nats://127.0.0.1:${proxy.port}`), options),
  lanewise: true,
  blindTokens: true,
  countsAborts: true,
  ...faultsOf(
    () => server,
    () => proxy,
  ),
  corrupt: async (queue, bytes, namespace) => {
    const client = await connect({ servers: server.url })
    const id = Math.random().toString(36).slice(2)
    await client.request(new Names(namespace).task("j", queue, 4, id, { task: "a" }), bytes)
    await client.close()
  },
  clean: async (namespace) => {
    const client = await connect({ servers: server.url })
    const names = new Names(namespace)
    const streams = [names.queueStream, names.stateStream, names.indexStream, names.storeStream]
    await Promise.all(streams.map((stream) => client.request(`$JS.API.STREAM.DELETE.${stream}`).catch(() => undefined)))
    await client.close()
  },
}

registerPlugin(test, harness, { spared: "omit" })
