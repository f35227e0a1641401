/** Over a broker that keeps only queues, no worker starts a job that another living worker runs. */
import { actor, connect } from "callboard"
import { describe, expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import type { QueuePlugin } from "../../../../../runtime/transport/mod.ts"
import { MemoryQueues, memoryQueue } from "../../../../support/memory-queue.ts"
import { start } from "../../../../support/services.ts"

const open = async () => {
  const queues = new MemoryQueues()
  const plugin: QueuePlugin = { schemes: ["queues"], connect: async (_url, options) => memoryQueue(queues, options) }
  const transports = { queues: plugin }
  const transport = `queues://broker?records=memory:${generateId()}`
  const client = await connect(transport, { transports })
  onTestFinished(() => client.close())
  return { queues, transport, transports, client }
}

describe.each(["redeliver", "fail"] as const)("with onLost: %s", (onLost) => {
  test("a second copy of a task waits until the worker that runs the first one has ended it", async () => {
    const { queues, transport, transports, client } = await open()
    let runs = 0
    const slow = actor("slow", {
      methods: {
        run: {
          onLost,
          run: async () => {
            runs++
            await new Promise((resolve) => setTimeout(resolve, 6_000))
          },
        },
      },
    })
    const job = await client.submit("slow.run")
    const [task] = queues.tasks
    if (task === undefined) throw new Error("the broker has no task")
    const options = { transport, transports, concurrency: 1, prefetch: 1 }
    await start([slow], { ...options, name: "one" })
    await expect.poll(() => runs).toBe(1)
    await start([slow], { ...options, name: "two" })
    queues.add(task)
    expect(await job.outcome({ timeout: 15 })).toMatchObject({ state: "succeeded" })
    expect(runs).toBe(1)
    expect(await job.find()).toMatchObject({ attempts: 1 })
  }, 30_000)
})
