/**
 * Queues of one transport and records of another under the conformance kit, both in memory. Where a case fails here, the
 * fault is in what joins the two; where it fails only with a real broker, the fault is in the transport of that broker.
 */
import { describe, test, vi } from "vitest"
import { plugin } from "../../plugins/memory/mod.ts"
import { split, splitCapabilities } from "../../runtime/transport/lift/split.ts"
import type { ConnectOptions } from "../../runtime/transport/mod.ts"
import { overRuntime } from "../kit/conformance.ts"
import { registerDriver } from "../kit/driver/run.ts"
import type { Harness } from "../kit/mod.ts"
import { registerLifted } from "../kit/run.ts"
import { capabilities } from "../support/memory.ts"
import { MemoryQueues, memoryQueue, queueCapabilities } from "../support/memory-queue.ts"

// Most of the time of a case is waiting.
vi.setConfig({ maxConcurrency: 24 })

const boards = new Map<string, MemoryQueues>()
const boardOf = (namespace: string): MemoryQueues => {
  const board = boards.get(namespace) ?? new MemoryQueues()
  boards.set(namespace, board)
  return board
}

const url = new URL("memory://split")

const connect = async (options: ConnectOptions) => {
  const home = await plugin.connect(url, options)
  return split(memoryQueue(boardOf(options.namespace), options), home)
}

const harness: Harness = {
  name: "split",
  slack: 2_500,
  capabilities: splitCapabilities(queueCapabilities, capabilities),
  parts: ["query", "count", "broadcast", "watch"],
  countsAborts: true,
  connect,
}

registerDriver(test, harness, { spared: "omit" })

describe("with the runtime", () => registerLifted(test, overRuntime(harness), { spared: "omit" }))
