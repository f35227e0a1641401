/** The postgres transport under the conformance kit, against a real server behind a proxy. */
import pg from "pg"
import { afterAll, beforeAll, test } from "vitest"
import { capabilities, plugin } from "../../../../plugins/postgres/mod.ts"
import { schemaOf } from "../../../../plugins/postgres/schema.ts"
import { registerPlugin } from "../../../kit/conformance.ts"
import type { Harness } from "../../../kit/mod.ts"
import { type PostgresServer, startPostgres } from "../../../support/servers/postgres.ts"
import { faultsOf, type Proxy, startProxy } from "../nats/proxy.ts"

let server: PostgresServer
let proxy: Proxy

beforeAll(async () => {
  server = await startPostgres()
  proxy = await startProxy(() => server.port)
})

afterAll(async () => {
  await proxy?.stop()
  await server?.stop()
})

/** Runs a statement in the server without the transport. */
const ask = async (text: string, values: ReadonlyArray<unknown> = []): Promise<void> => {
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  try {
    await client.query(text, [...values])
  } finally {
    await client.end()
  }
}

const harness: Harness = {
  name: "postgres",
  capabilities,
  connect: (options) => {
    const url = new URL(server.url)
    url.port = String(proxy.port)
    // The server forks a process for each connection, which takes seconds on a machine that is busy.
    return plugin.connect(url, { ...options, timeout: 2 * options.timeout })
  },
  intrude: (options, password) => {
    const url = new URL(server.url)
    url.password = password
    return plugin.connect(url, options)
  },
  parts: ["query", "count", "browse", "broadcast"],
  slack: 5_000,
  ...faultsOf(
    () => server,
    () => proxy,
  ),
  clean: async (namespace) => {
    await ask(`DROP SCHEMA IF EXISTS "${schemaOf(namespace)}" CASCADE`)
  },
  corrupt: async (queue, bytes, namespace) => {
    const schema = `"${schemaOf(namespace)}"`
    await ask(
      `WITH new AS (INSERT INTO ${schema}.task (sequence, id, queue, level, ready, until, at)
         VALUES (nextval('${schema}.counter'), '', $1, 4, true, 0, 0) RETURNING sequence)
       INSERT INTO ${schema}.posting (sequence, id, queue, posted, index, at, frame)
         SELECT sequence, '', $1, 0, '{}', 0, $2 FROM new`,
      [queue, Buffer.from(bytes)],
    )
  },
}

registerPlugin(test, harness, { spared: "omit" })
