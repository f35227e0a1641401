/** The conformance kit over AMQP with a real RabbitMQ, for one kind of queue, with records in an SQLite file. */
import { join } from "node:path"
import { afterAll, beforeAll, describe, test, vi } from "vitest"
import { capabilitiesOf, plugin, settingsOf } from "../../plugins/amqp/mod.ts"
import { plugin as sqlite } from "../../plugins/sqlite/mod.ts"
import { split, splitCapabilities } from "../../runtime/transport/job-store/split.ts"
import type { Capabilities, ConnectOptions } from "../../runtime/transport/mod.ts"
import { overRuntime } from "../kit/conformance.ts"
import { registerDriver } from "../kit/driver/run.ts"
import type { Harness } from "../kit/mod.ts"
import { registerSmoke } from "../kit/run.ts"
import { temporaryFolder } from "../support/servers/process.ts"
import { type RabbitmqServer, startRabbitmq } from "../support/servers/rabbitmq.ts"

/** Waits between two tries to connect, in milliseconds. The growing waits of the default would add seconds to each restart. */
const RECONNECT_MS = 100

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

export interface Kind {
  readonly name: string
  /** Options of the URL with which the queues are declared. */
  readonly query: string
  readonly losesPlaces?: true
  /**
   * Whether the server is also restarted in order, and killed under the runtime. Only the server does something else then for another
   * kind of queue, and each start of it takes seconds of a processor: so one kind is enough. It is always killed under the driver.
   */
  readonly restarts: boolean
}

/** Registers the kit for a kind of queue. */
export const registerAmqp = ({ name, query, restarts, ...more }: Kind): void => {
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

  const connect = async (given: ConnectOptions) => {
    const options = { reconnectDelay: () => RECONNECT_MS, ...given }
    const queues = await plugin.connect(new URL(`${server.url}/?${query}`), options)
    return split(queues, await sqlite.connect(new URL(`sqlite:${join(folder.path, "records.db")}`), options))
  }
  const settings = settingsOf(new URL(`amqp://localhost/?${query}`), { namespace: "any" })
  const harness: Harness = {
    name,
    slack: 5_000,
    capabilities: splitCapabilities(capabilitiesOf(settings), records),
    parts: ["query", "count", "broadcast", "watch"],
    countsAborts: true,
    connect,
    ...more,
  }
  const restart = () => server.restart()
  const kill = async (): Promise<void> => {
    await server.kill()
    await server.restart()
  }
  registerDriver(test, { ...harness, kill, ...(restarts ? { restart } : {}) }, { spared: "omit" })
  const lifted = overRuntime({ ...harness, ...(restarts ? { kill } : {}) })
  describe("with the runtime", () => registerSmoke(test, lifted, { spared: "omit" }))
}
