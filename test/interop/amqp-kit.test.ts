/** The transport over AMQP, with records in an SQLite file, under the conformance kit against a real RabbitMQ. */
import { join } from "node:path"
import { afterAll, beforeAll, describe, test, vi } from "vitest"
import { capabilitiesOf, plugin, settingsOf } from "../../plugins/amqp/mod.ts"
import { plugin as sqlite } from "../../plugins/sqlite/mod.ts"
import { split, splitCapabilities } from "../../runtime/transport/lift/split.ts"
import type { Capabilities, ConnectOptions } from "../../runtime/transport/mod.ts"
import { registerPlugin } from "../kit/conformance.ts"
import type { Harness } from "../kit/mod.ts"
import { temporaryFolder } from "../support/servers/process.ts"
import { type RabbitmqServer, startRabbitmq } from "../support/servers/rabbitmq.ts"

// A case spends most of its time waiting, so many run at once.
vi.setConfig({ maxConcurrency: 12 })

let server: RabbitmqServer
const folder = temporaryFolder()

beforeAll(async () => {
  server = await startRabbitmq()
})

afterAll(async () => {
  await server?.stop()
  folder.remove()
})

const records: Capabilities = {
  durability: "fsync",
  reach: "host",
  atomic: true,
  waits: true,
  dedupeWindow: Number.POSITIVE_INFINITY,
  delay: Number.POSITIVE_INFINITY,
  bands: 10,
  front: true,
  maxTask: 4 * 1024 * 1024,
  maxRecord: 32 * 1024 * 1024,
  leaseResolution: 600,
  dueResolution: 600,
}

const kill = async (): Promise<void> => {
  await server.kill()
  await server.restart()
}

/** The harness of the kit for a kind of queue. `more`: what differs between the kinds. */
const harnessOf = (name: string, query: string, more: Partial<Harness> = {}): Harness => {
  const url = () => new URL(`${server.url}/?${query}`)
  const connect = async (options: ConnectOptions) => {
    const queues = await plugin.connect(url(), options)
    return split(queues, await sqlite.connect(new URL(`sqlite:${join(folder.path, `${name}.db`)}`), options))
  }
  const settings = settingsOf(new URL(`amqp://localhost/?${query}`), { namespace: "any" })
  return {
    name,
    slack: 5_000,
    capabilities: splitCapabilities(capabilitiesOf(settings), records),
    parts: ["query", "count", "broadcast", "watch"],
    countsAborts: true,
    connect,
    restart: () => server.restart(),
    kill,
    ...more,
  }
}

describe("classic queues", () => registerPlugin(test, harnessOf("classic", "max-priority=10"), { spared: "omit" }))
describe("quorum queues", () =>
  registerPlugin(test, harnessOf("quorum", "queue-type=quorum", { losesPlaces: true }), { spared: "omit" }))
