/**
 * The transport that joins the queues of one transport with the records of another, both in memory, under the conformance kit. A
 * case that fails here shows a fault in the joining code; a case that fails only with a real broker, in that broker's transport.
 */
import { describe, test, vi } from "vitest"
import { plugin } from "../../plugins/memory/mod.ts"
import { split, splitCapabilities } from "../../runtime/transport/job-store/split.ts"
import type { ConnectOptions } from "../../runtime/transport/mod.ts"
import { overRuntime } from "../kit/conformance.ts"
import { registerDriver } from "../kit/driver/run.ts"
import type { Harness } from "../kit/mod.ts"
import { registerLifted } from "../kit/run.ts"
import { capabilities } from "../support/memory.ts"
import { MemoryQueues, memoryQueue, queueCapabilities } from "../support/memory-queue.ts"

// A case spends most of its time waiting, so many run at once.
vi.setConfig({ maxConcurrency: 24 })

const boards = new Map<string, MemoryQueues>()
const boardOf = (namespace: string): MemoryQueues => {
  const board = boards.get(namespace) ?? new MemoryQueues()
  boards.set(namespace, board)
  return board
}

const url = new URL("memory://split")

const connect = async (options: ConnectOptions) => {
  const records = await plugin.connect(url, options)
  return split(memoryQueue(boardOf(options.namespace), options), records)
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
