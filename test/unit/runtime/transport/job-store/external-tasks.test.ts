/** Messages of other programs, on a broker that keeps only queues, under the ids of jobs in another transport. */
import { test } from "vitest"
import type { QueuePlugin } from "../../../../../runtime/transport/mod.ts"
import { expectKeptApart } from "../../../../support/external-tasks.ts"
import { MemoryQueues, memoryQueue } from "../../../../support/memory-queue.ts"

test("what comes under the id of another job is a dead letter, and leaves the job as it is", async () => {
  const board = new MemoryQueues()
  const queues: QueuePlugin = { schemes: ["queues"], connect: async (_, options) => memoryQueue(board, options) }
  await expectKeptApart(
    { transport: "queues://a?records=memory://foreign-tasks", transports: { queues } },
    async (message) => board.add({ queue: "till", level: 0, message, sequence: 0 }),
  )
})
